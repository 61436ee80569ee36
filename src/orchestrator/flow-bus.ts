import { latest } from '../bus/dedupe.ts'
import type { Delivery, Transport } from '../bus/transport.ts'
import type { Clock } from '../protocol/clock.ts'
import { slept, unlessAborted } from '../protocol/waiting.ts'
import type { Backend, Holder } from '../vsl/backend.ts'
import { type Serially, serially } from '../vsl/serially.ts'
import { promised, relay } from './relay.ts'

/** How long the end of a flow waits for its buses. */
const FLUSH_MS = 5_000

/** Feeds the buses from the journal until it is called; then it sees to it that they have everything, if they answer. */
export function flowBus(
  bus: Transport | readonly Transport[],
  options: { store: Backend; holder: Holder; clock: Clock; onError: (error: unknown) => void; over: AbortSignal },
): () => Promise<void> {
  const { over, ...given } = options
  const gone = new AbortController()
  const relays = [bus].flat().map((transport, i) => {
    const name = `flow-${i}`
    if (isOutside(transport)) return relay({ ...given, transport, name, exclusive: true })
    return relay({ ...given, transport: shared(transport, name, gone.signal), name, exclusive: false })
  })
  return async () => {
    const [tooLong, done] = [new AbortController(), new AbortController()]
    void slept(given.clock, FLUSH_MS, done.signal).then(() => tooLong.abort())
    const enough = AbortSignal.any([tooLong.signal, over])
    try {
      await Promise.all(relays.map((one) => one.flush(enough)))
    } finally {
      done.abort()
      await Promise.all(relays.map((one) => one.close()))
      gone.abort()
    }
  }
}

/** One that only publishes is the call's own: what another call feeds would not reach it. */
const isOutside = ({ traits }: Partial<Transport>): boolean => traits !== undefined && !traits.within

/** What was told to each bus of this process, by all the calls that it was given to. */
const sharing = new WeakMap<Transport, { readonly inTurn: Serially; readonly told: ReturnType<typeof latest> }>()

/** So many events may a call be behind another one. */
const MOST_TOLD = 10_000

/** A bus as one of several calls feeds it: each of them reads all events, and whoever comes first publishes. */
function shared(transport: Transport, name: string, gone: AbortSignal): Transport {
  const { inTurn, told } = sharing.get(transport) ?? { inTurn: serially(), told: latest(MOST_TOLD) }
  sharing.set(transport, { inTurn, told })
  const publish = (deliveries: readonly Delivery[]) =>
    inTurn(async () => {
      const fresh = deliveries.filter(({ event }) => !told.has(event.event_id))
      if (fresh.length === 0 || gone.aborted) return
      const published = promised(transport.publish(fresh), name).then(() => fresh)
      const confirmed = (await unlessAborted(published, gone)) ?? [] // who has given up waiting keeps nobody else waiting
      for (const { event } of confirmed) told.add(event.event_id)
    })
  return { ...transport, publish }
}
