import type { Clock } from '../protocol/clock.ts'
import { Unavailable } from '../protocol/errors.ts'
import { atMost } from '../protocol/waiting.ts'
import type { Bus } from './bus-spec.ts'
import { foreign } from './foreign.ts'

/** A carrier bounds its own close; one that does not keeps nobody from closing the rest. Ours takes ten seconds where a client reads nothing. */
const CLOSE_MS = 12_000

/** All are closed, whatever becomes of one; then throws what the first of them threw. */
export async function closeBuses(buses: readonly Bus[], clock: Clock): Promise<void> {
  const closings = await Promise.allSettled(buses.map((bus) => closed(bus, clock)))
  for (const closing of closings) if (closing.status === 'rejected') throw closing.reason
}

async function closed({ name, transport }: Bus, clock: Clock): Promise<void> {
  const by = `the bus ${name}`
  try {
    const isClosed = await atMost(CLOSE_MS, Promise.resolve(transport.close()), clock)
    if (!isClosed) throw new Unavailable(by, `closing it took over ${CLOSE_MS} ms`)
  } catch (error) {
    throw foreign(by, 'its close', error)
  }
}
