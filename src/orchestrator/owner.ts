import { setMaxListeners } from 'node:events'
import { type Clock, timer } from '../protocol/clock.ts'
import type { Backend, Holder, Lease } from '../vsl/backend.ts'

/** A context that is ours to run. */
export interface Ownership {
  /** What run state is committed under. */
  readonly fence: number
  /** The context's, when it became ours. */
  readonly revision: number
  /** Aborted once the lease may no longer be ours: dispatch nothing more, end what runs. */
  readonly lost: AbortSignal
  /** Asked before anything begins: a process that was stopped hears replies before its timers wake. When it is not, `lost` is aborted too. */
  isOurs(): boolean
  /** Acts as if it were lost: what is under way is left to the next owner. */
  abandon(reason: Error): void
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

/** How long an owner may be silent before others take over, unless it is said otherwise. */
export const TTL_MS = 10_000

/** Leases that this process could not give back, by stream: as the same holder, the next one here takes such a lease over at once instead of waiting for its end. */
const unreturned = new Map<string, { readonly holder: Holder; readonly until: number }>()
let takings = 0

/** Takes a context over; `undefined` while somebody else has it. */
export async function own(context: string, options: OwnerOptions): Promise<Ownership | undefined> {
  const { store, clock, ttlMs = TTL_MS } = options
  const holder = unreturned.get(context)?.holder ?? { ...options.holder, id: `${options.holder.id}-${++takings}` }
  unreturned.delete(context) // for one only: of two with the same holder neither would keep the other out
  const asked = clock.now()
  const lease = await orUnreturned(() => store.acquire(context, holder, ttlMs))
  if (!lease) return undefined
  const lost = new AbortController()
  setMaxListeners(0, lost.signal) // every run of the context sleeps by it while the store is away
  let released = false
  let rouse = () => {}
  // By our own clock, counted from before the call: the store's may only be later, so we stop no later than it lets others in.
  let since = asked
  const left = () => {
    since = Math.min(since, clock.now()) // a clock that was set back makes no lease last longer
    return Math.max(0, since + ttlMs * (2 / 3) - clock.now())
  }
  const loses = () => lost.abort(new Error(`the lease on ${context} was lost`))
  /** Over when the time is, or somebody rouses it. */
  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const cancel = timer(clock, ms, resolve)
      rouse = () => {
        cancel()
        resolve()
      }
    })
  const renewing = renew(lease)

  async function renew(lease: Lease): Promise<void> {
    let rest = ttlMs * 0.3
    while (!released) {
      await pause(Math.min(rest, left()))
      if (released) return
      const asking = clock.now()
      const still = await inTime(store.renew(lease), left()) // the store is away or silent: try again until time is up
      if (still === false || (!still && left() === 0)) return loses()
      if (still) since = asking
      rest = still ? Math.max(0, asking + ttlMs * 0.3 - clock.now()) : ttlMs * 0.05
    }
  }

  /** The answer, or nothing when it fails, takes longer, or is no longer wanted. */
  async function inTime<T>(answer: Promise<T>, ms: number): Promise<T | undefined> {
    try {
      return await Promise.race([answer, pause(ms).then(() => undefined)])
    } catch {
      return undefined
    } finally {
      rouse()
    }
  }

  /** Nobody knows whether it is still ours at the store; here it is nobody's. */
  async function orUnreturned<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      const now = clock.now()
      for (const [stream, { until }] of unreturned) if (until <= now) unreturned.delete(stream)
      unreturned.set(context, { holder, until: now + ttlMs })
      throw error
    }
  }

  return {
    fence: lease.token,
    revision: lease.revision,
    lost: lost.signal,
    isOurs() {
      if (!released && left() === 0) loses()
      return !lost.signal.aborted
    },
    abandon: (reason) => lost.abort(reason),
    async release() {
      if (released) return
      released = true
      rouse()
      await renewing
      await orUnreturned(() => store.release(lease))
    },
  }
}
