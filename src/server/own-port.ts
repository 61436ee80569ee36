import { type BusSpec, servedAt } from '../bus/bus-spec.ts'
import { Refused } from '../protocol/errors.ts'

/** For a port that the server cannot have: the same error, unless it is a bus of the runtime's own that has it. */
export function unlessOwn(error: unknown, port: number, buses: readonly BusSpec[]): unknown {
  if (!(error instanceof Refused) || (error.cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') return error
  const i = buses.findIndex((spec) => servedAt(spec)?.port === port)
  return i < 0 ? error : ownPort(i, servedAt(buses[i]!)!, error)
}

export const ownPort = (i: number, { host, port }: { readonly host: string; readonly port: number }, cause: unknown) =>
  new Refused(
    `bus[${i}] is to be served on port ${port} of ${host}, the server's own`,
    'give one of them another port, or leave the bus out: the server tells events itself, on /events',
    { cause },
  )
