import type { Spend } from './adapter.ts'
import type { Budget, BudgetState } from './layer.ts'
import { exact } from './spend.ts'

/** What was used up and set apart, against its limits. */
export interface Ledger extends Budget {
  readonly spent: Required<Spend>
  reserve(request: Parameters<Budget['reserve']>[0]): BudgetState
  /** Of each limit, what is neither used up nor set apart. */
  remaining(): Spend
  /** Counts as spent what was spent before, and what an attempt had set apart when it was cut off. */
  forfeit(spend: Spend): void
  /** The lines whose crossing was said. */
  readonly crossed: ReadonlySet<string>
  /** Those were said before, and are not said again. */
  know(lines: Iterable<string>): void
}

const UNITS = ['actions', 'tokens', 'cost'] as const

export interface LedgerLimits extends Spend {
  /** A share of any limit, 0 to 1, at which a warning is told: 0.8 when absent. */
  readonly warn_at?: number
}

export function ledger(limits: LedgerLimits = {}): Ledger {
  const spent = { actions: 0, tokens: 0, cost: 0 }
  const reserved = new Map<string, Spend>()
  const told = new Set<string>()
  const limited = UNITS.filter((unit) => limits[unit] !== undefined)
  const limitOf = (unit: (typeof UNITS)[number]): number => exact(limits[unit]!)

  const taken = (unit: (typeof UNITS)[number]): number => {
    let sum = spent[unit]
    for (const spend of reserved.values()) sum = exact(sum + (spend[unit] ?? 0))
    return sum
  }
  const left = (unit: (typeof UNITS)[number]): number => exact(limitOf(unit) - taken(unit))
  const remaining = (): Spend => Object.fromEntries(limited.map((unit) => [unit, Math.max(0, left(unit))]))
  const add = (spend: Spend) => {
    for (const unit of UNITS) spent[unit] = exact(spent[unit] + (spend[unit] ?? 0))
  }

  function state(): BudgetState {
    for (const unit of limited) {
      if (taken(unit) <= limitOf(unit) || !isNews(`${unit} exceeded`)) continue
      told.add(`${unit} near`) // who has crossed the line is not warned of it
      return { state: 'exceeded', remaining: remaining(), message: usedUp(unit) }
    }
    for (const unit of limited) {
      if (taken(unit) < exact(limitOf(unit) * (limits.warn_at ?? 0.8)) || !isNews(`${unit} near`)) continue
      return {
        state: 'warning',
        remaining: remaining(),
        message: `${taken(unit)} of ${limitOf(unit)} ${unit} are used`,
      }
    }
    return { state: 'ok' }
  }
  const usedUp = (unit: (typeof UNITS)[number]) => `the budget of ${limitOf(unit)} ${unit} is used up`
  /** Somebody who reads that a budget is used up of which nothing was spent would look for who spent it. */
  const tooMuch = (unit: (typeof UNITS)[number], spend: Spend) => {
    const more = left(unit)
    return more > 0
      ? `the budget of ${limitOf(unit)} ${unit} has ${more} left, and this may take ${spend[unit]}`
      : usedUp(unit)
  }
  /** What an attempt has used up on its way is spent, whether or not it may go on: whoever comes next finds that much less. */
  function goesOn(execution_id: string, spend: Spend): BudgetState {
    reserved.set(execution_id, spend)
    const over = limited.find((unit) => taken(unit) > limitOf(unit))
    if (over === undefined) return state()
    for (const line of ['near', 'exceeded']) told.add(`${over} ${line}`)
    return { state: 'exceeded', remaining: remaining(), message: usedUp(over) }
  }
  /** Each line is told once, when it is crossed. */
  function isNews(line: string): boolean {
    if (told.has(line)) return false
    told.add(line)
    return true
  }

  return {
    spent,
    remaining,
    reserve({ execution_id, spend }) {
      if (reserved.has(execution_id)) return goesOn(execution_id, spend)
      const over = limited.find((unit) => exact(taken(unit) + (spend[unit] ?? 0)) > limitOf(unit))
      if (over !== undefined) return { state: 'exceeded', remaining: remaining(), message: tooMuch(over, spend) }
      if (limited.length > 0) reserved.set(execution_id, spend)
      return state()
    },
    settle(execution_id, used) {
      reserved.delete(execution_id)
      add(used)
      return state()
    },
    release(execution_id) {
      reserved.delete(execution_id)
    },
    forfeit: add,
    crossed: told,
    know(lines) {
      for (const line of lines) told.add(line)
    },
  }
}
