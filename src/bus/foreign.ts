import { causeOf } from '../protocol/cause.ts'
import { MplpError, Unavailable } from '../protocol/errors.ts'

/** What somebody's bus or log threw. An error that is none of ours does not say where it came from, and there may be several. */
export function foreign(by: string, what: string, error: unknown): MplpError {
  if (error instanceof MplpError) return error
  const cause = causeOf(error)
  return new Unavailable(by, `${what} failed with ${cause.message}`, { cause })
}

/** To ask again would be answered alike. */
export const isForGood = (error: unknown): error is MplpError => error instanceof MplpError && !error.retryable
