import { InvalidInput } from '../protocol/errors.ts'
import type { Spend } from './adapter.ts'
import { checkBudgetOptions } from './check-options.ts'
import type { Budget, BudgetState } from './layer.ts'

export interface MemoryBudgetOptions extends Spend {
  /** The share of a limit at which a warning is due: 0.8 when absent. */
  readonly warnAt?: number
}

/** A budget for people who use the layer alone; a run keeps its own in the graph. */
export function memoryBudget(options: MemoryBudgetOptions): Budget & { remaining(): Spend } {
  checkBudgetOptions(options)
  const { warnAt = 0.8, ...limits } = options
  const kinds = Object.keys(limits) as (keyof Spend)[]
  if (kinds.length === 0)
    throw new InvalidInput('budget', [{ path: '', rule: 'required', message: 'must limit something' }])
  const spent: Record<string, number> = {}
  const reserved = new Map<string, Spend>()
  let warned = false

  const limitOf = (kind: keyof Spend) => limits[kind] ?? 0
  const held = (kind: keyof Spend) => [...reserved.values()].reduce((sum, spend) => sum + (spend[kind] ?? 0), 0)
  const left = (): Spend => Object.fromEntries(kinds.map((kind) => [kind, limitOf(kind) - (spent[kind] ?? 0)]))
  const state = (): BudgetState => {
    const remaining = left()
    if (kinds.some((kind) => (remaining[kind] ?? 0) < 0)) return { state: 'exceeded', remaining }
    const close = kinds.some((kind) => (spent[kind] ?? 0) >= limitOf(kind) * warnAt)
    if (!close || warned) return { state: 'ok', remaining }
    warned = true
    return { state: 'warning', remaining }
  }

  return {
    reserve({ execution_id, spend }) {
      const short = kinds.find((kind) => (spent[kind] ?? 0) + held(kind) + (spend[kind] ?? 0) > limitOf(kind))
      if (short !== undefined)
        return { state: 'exceeded', remaining: left(), message: `the budget of ${short} is used up` }
      reserved.set(execution_id, spend)
      return { state: 'ok', remaining: left() }
    },
    settle(execution_id, actual) {
      reserved.delete(execution_id)
      for (const kind of kinds) spent[kind] = (spent[kind] ?? 0) + (actual[kind] ?? 0)
      return state()
    },
    release: (execution_id) => void reserved.delete(execution_id),
    remaining: left,
  }
}
