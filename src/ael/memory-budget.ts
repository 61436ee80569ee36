import { InvalidInput } from '../protocol/errors.ts'
import { given } from '../protocol/given.ts'
import type { Spend } from './adapter.ts'
import { checkBudgetOptions } from './check-options.ts'
import type { Budget } from './layer.ts'
import { ledger } from './ledger.ts'

export interface MemoryBudgetOptions extends Spend {
  /** The share of a limit at which a warning is due: 0.8 when absent. */
  readonly warnAt?: number
}

/** A budget for people who use the layer alone; a run keeps its own in the graph. */
export function memoryBudget(options: MemoryBudgetOptions): Budget & { remaining(): Spend } {
  checkBudgetOptions(options)
  const { warnAt: warn_at, ...limits } = given(options)
  if (Object.keys(limits).length === 0)
    throw new InvalidInput('budget', [{ path: '', rule: 'required', message: 'must limit something' }])
  const { reserve, settle, release, remaining } = ledger({ ...limits, ...given({ warn_at }) })
  return { reserve, settle, release, remaining }
}
