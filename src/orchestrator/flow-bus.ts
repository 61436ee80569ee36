import type { Transport } from '../bus/transport.ts'
import { slept } from '../bus/waiting.ts'
import type { Clock } from '../protocol/clock.ts'
import type { Backend, Holder } from '../vsl/backend.ts'
import { relay } from './relay.ts'

/** How long the end of a flow waits for its buses. */
const FLUSH_MS = 5_000

/** Feeds the buses from the journal until it is called; then it sees to it that they have everything, if they answer. */
export function flowBus(
  bus: Transport | readonly Transport[],
  options: { store: Backend; holder: Holder; clock: Clock; onError: (error: unknown) => void; over: AbortSignal },
): () => Promise<void> {
  const { over, ...given } = options
  const relays = [bus]
    .flat()
    .map((transport, i) => relay({ ...given, transport, name: `flow-${i}`, exclusive: isOutside(transport) }))
  return async () => {
    const [tooLong, done] = [new AbortController(), new AbortController()]
    void slept(given.clock, FLUSH_MS, done.signal).then(() => tooLong.abort())
    const enough = AbortSignal.any([tooLong.signal, over])
    try {
      await Promise.all(relays.map((one) => one.flush(enough)))
    } finally {
      done.abort()
      await Promise.all(relays.map((one) => one.close()))
    }
  }
}

/** One that only publishes is the call's own: what another call feeds would not reach it. */
const isOutside = ({ traits }: Partial<Transport>): boolean => traits !== undefined && !traits.within
