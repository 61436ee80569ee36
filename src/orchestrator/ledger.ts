import type { LedgerLimits } from '../ael/ledger.ts'

export { type Ledger, ledger } from '../ael/ledger.ts'

/** What a run may use up. */
export interface Limits extends LedgerLimits {
  /** Of time since the run has started, waiting included: when it is over, the run is ended. No warning is told of it. */
  readonly wall_ms?: number
}
