import { type Clock, timer } from '../protocol/clock.ts'
import { Unavailable } from '../protocol/errors.ts'
import type { Bus } from './bus-spec.ts'
import { ofBus } from './of-bus.ts'

/** A carrier bounds its own close; one that does not keeps nobody from closing the rest. Ours takes ten seconds where a client reads nothing. */
const CLOSE_MS = 30_000

/** All are closed, whatever becomes of one; then throws what the first of them threw. */
export async function closeBuses(buses: readonly Bus[], clock: Clock): Promise<void> {
  const closings = await Promise.allSettled(buses.map((bus) => closed(bus, clock)))
  for (const closing of closings) if (closing.status === 'rejected') throw closing.reason
}

async function closed({ name, transport }: Bus, clock: Clock): Promise<void> {
  let forget: (() => void) | undefined
  const late = new Promise<never>((_, reject) => {
    forget = timer(clock, CLOSE_MS, () =>
      reject(new Unavailable(`the bus ${name}`, `closing it took over ${CLOSE_MS} ms`)),
    )
  })
  try {
    await Promise.race([transport.close(), late])
  } catch (error) {
    throw ofBus(name, 'close', error)
  } finally {
    forget?.()
  }
}
