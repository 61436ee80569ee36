import type { Backend } from '../vsl/backend.ts'
import type { SnapshotStore } from './flow-events.ts'
import type { Patience } from './patience.ts'

/** A store that is asked as long as there is patience; then every call, also one that has had no answer, throws the flow's failure. */
export function withPatience(store: Backend, { ask, unlessOver }: Patience): Backend {
  /** Whoever follows may wait for the next one as long as there is none. */
  async function* each<T>(what: string, items: AsyncIterable<T>, follow = false): AsyncGenerator<T> {
    const walk = items[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await (follow ? unlessOver(walk.next()) : ask(what, () => walk.next()))
        if (next.done) return
        yield next.value
      }
    } finally {
      if (walk.return) await unlessOver(walk.return())
    }
  }

  return {
    traits: store.traits,
    ...(store.facts && { facts: () => ask('facts', () => store.facts!()) }),
    get: (key) => ask('get', () => store.get(key)),
    set: (key, value) => ask('set', () => store.set(key, value)),
    delete: (key) => ask('delete', () => store.delete(key)),
    commit: (write) => ask(`commit ${write.stream}`, () => store.commit(write)),
    getMany: (keys) => ask('getMany', () => store.getMany(keys)),
    scan: (prefix, from) => each('scan', store.scan(prefix, from)),
    head: (stream) => ask('head', () => store.head(stream)),
    read: (stream, from) => each('read', store.read(stream, from), from?.follow),
    feed: (from) => each('feed', store.feed(from), from?.follow),
    acquire: (stream, holder, ttlMs) => ask('acquire', () => store.acquire(stream, holder, ttlMs)),
    renew: (lease) => ask('renew', () => store.renew(lease)),
    release: (lease) => ask('release', () => store.release(lease)),
    putBlob: (bytes) => ask('putBlob', () => store.putBlob(bytes)),
    getBlob: (digest) => ask('getBlob', () => store.getBlob(digest)),
    blobs: () => each('blobs', store.blobs()),
    forgetBlobs: (digests, unputMs) => ask('forgetBlobs', () => store.forgetBlobs(digests, unputMs)),
    close: () => unlessOver(store.close()),
  }
}

export const patientSnapshots = (store: SnapshotStore, { ask }: Patience): SnapshotStore => ({
  saveSnapshot: (runId, context) => ask('saveSnapshot', () => store.saveSnapshot(runId, context)),
  appendEvents: (runId, events) => ask('appendEvents', () => store.appendEvents(runId, events)),
  getEvents: (runId) => ask('getEvents', () => store.getEvents(runId)),
})
