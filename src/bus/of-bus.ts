import { causeOf } from '../protocol/cause.ts'
import { MplpError, Unavailable } from '../protocol/errors.ts'

/** What a call to a bus threw. An error that is none of ours does not say where it came from, and there may be several buses. */
export function ofBus(name: string, call: 'publish' | 'close', error: unknown): unknown {
  if (error instanceof MplpError) return error
  const cause = causeOf(error)
  return new Unavailable(`the bus ${name}`, `its ${call} failed with ${cause.message}`, { cause })
}
