import type { Clock } from '../protocol/clock.ts'
import type { Acquired, Backend, Lease } from '../vsl/backend.ts'

/** A store and a clock as one process has them that may be held up, and may die. */
export interface Mortal {
  readonly store: Backend
  readonly clock: Clock
  /** Aborted by its death. */
  readonly dead: AbortSignal
  /** From now on nothing is answered and nobody is woken, until it is let go; by then its leases have run out. */
  hold(): Promise<void>
  letGo(): void
  /** When it was held up and is let go. */
  wentOn(): Promise<void>
  /** As SIGKILL: nothing is answered ever again, no timer stays behind, and its leases are free, as those of a process that is gone are. */
  kill(): Promise<void>
}

export function mortal(store: Backend, clock: Clock): Mortal {
  const death = new AbortController()
  const leases = new Map<string, Lease>()
  const leaseKey = ({ stream, token }: Lease) => `${token} ${stream}`
  const acquiring = new Set<Promise<void>>()
  async function acquire(...asked: Parameters<Backend['acquire']>): Promise<Acquired | undefined> {
    const lease = await store.acquire(...asked)
    if (lease) leases.set(leaseKey(lease), lease)
    return lease
  }
  const release = async () => {
    await Promise.all(acquiring) // one that is on its way would be held by nobody
    for (const lease of leases.values()) await store.release(lease)
  }
  const went = new EventTarget()
  let held: { readonly over: Promise<void>; readonly end: () => void } | undefined

  /** What arrives while it is held up waits; what arrives after its death is never heard of. */
  async function alive(): Promise<void> {
    while (held && !death.signal.aborted) await held.over
    if (death.signal.aborted) await new Promise<never>(() => undefined)
  }
  async function answered<T>(ask: () => Promise<T>): Promise<T> {
    await alive()
    try {
      return await ask()
    } finally {
      await alive()
    }
  }
  async function* told<T>(ask: () => AsyncIterable<T>): AsyncIterable<T> {
    await alive()
    for await (const item of ask()) {
      await alive()
      yield item
    }
    await alive()
  }
  /** A follower must let go of the store when its process dies. */
  const withDeath = <From extends { readonly follow?: boolean; readonly signal?: AbortSignal }>(from: From): From =>
    from.follow ? { ...from, signal: from.signal ? AbortSignal.any([from.signal, death.signal]) : death.signal } : from

  return {
    dead: death.signal,
    clock: {
      now: () => clock.now(),
      uuid: () => clock.uuid(),
      random: () => clock.random(),
      async sleep(ms, signal) {
        const ends = signal ? AbortSignal.any([signal, death.signal]) : death.signal
        return answered(() => clock.sleep(ms, ends))
      },
    },
    store: {
      traits: store.traits,
      get: (key) => answered(() => store.get(key)),
      set: (key, value) => answered(() => store.set(key, value)),
      delete: (key) => answered(() => store.delete(key)),
      commit: (write) => answered(() => store.commit(write)),
      getMany: (keys) => answered(() => store.getMany(keys)),
      scan: (prefix, from) => told(() => store.scan(prefix, from)),
      head: (stream) => answered(() => store.head(stream)),
      read: (stream, from = {}) => told(() => store.read(stream, withDeath(from))),
      feed: (from = {}) => told(() => store.feed(withDeath(from))),
      acquire: (stream, holder, ttlMs) =>
        answered(() => {
          const lease = acquire(stream, holder, ttlMs)
          const over = () => void acquiring.delete(settled)
          const settled: Promise<void> = lease.then(over, over)
          acquiring.add(settled)
          return lease
        }),
      renew: (lease) => answered(() => store.renew(lease)),
      release: (lease) =>
        answered(async () => {
          leases.delete(leaseKey(lease))
          await store.release(lease)
        }),
      putBlob: (bytes) => answered(() => store.putBlob(bytes)),
      getBlob: (digest) => answered(() => store.getBlob(digest)),
      forgetBlobs: (digests, unputMs) => answered(() => store.forgetBlobs(digests, unputMs)),
      blobs: () => told(() => store.blobs()),
      close: () => answered(() => store.close()),
    },
    async hold() {
      let end: () => void = () => undefined
      const over = new Promise<void>((resolve) => {
        end = resolve
      })
      held ??= { over, end }
      await release()
    },
    letGo() {
      held?.end()
      held = undefined
      went.dispatchEvent(new Event('on'))
    },
    wentOn: () => new Promise((resolve) => went.addEventListener('on', () => resolve(), { once: true })),
    async kill() {
      death.abort(new Error('the process was killed'))
      await release()
    },
  }
}
