import type { Clock } from '../protocol/clock.ts'
import type { Backend, Holder, Lease } from '../vsl/backend.ts'

/** A context that is ours to run. */
export interface Ownership {
  /** What run state is committed under. */
  readonly fence: number
  /** Aborted once the lease may no longer be ours: dispatch nothing more, end what runs. */
  readonly lost: AbortSignal
  /** Gives the context back. Safe to call twice. */
  release(): Promise<void>
}

export interface OwnerOptions {
  readonly store: Backend
  readonly clock: Clock
  readonly holder: Holder
  /** 10 s when absent; renewed after three tenths of it. */
  readonly ttlMs?: number
}

const TTL_MS = 10_000
const RELEASED = new Error('the context was given back')

/** Takes a context over; `undefined` while somebody else has it. */
export async function own(context: string, options: OwnerOptions): Promise<Ownership | undefined> {
  const ttlMs = options.ttlMs ?? TTL_MS
  const { store, clock, holder } = options
  const asked = clock.now()
  const lease = await store.acquire(context, holder, ttlMs)
  if (!lease) return undefined
  const lost = new AbortController()
  const stop = new AbortController()
  const renewing = renew(lease, asked)

  async function renew(lease: Lease, renewed: number): Promise<void> {
    // By our own clock, counted from before the call: the store's may only be later, so we stop no later than it lets others in.
    let since = renewed
    while (!stop.signal.aborted) {
      await clock.sleep(ttlMs * 0.3, stop.signal).catch(() => undefined) // stopped: the loop's condition says so
      if (stop.signal.aborted) return
      const asking = clock.now()
      const still = await store.renew(lease).catch(() => undefined) // the store is away: try again until time is up
      if (still) since = asking
      else if (still === false || clock.now() - since >= ttlMs * (2 / 3))
        return lost.abort(new Error(`the lease on ${context} was lost`))
    }
  }

  return {
    fence: lease.token,
    lost: lost.signal,
    async release() {
      if (stop.signal.aborted) return
      stop.abort(RELEASED)
      await renewing
      await store.release(lease)
    },
  }
}
