import { Closed } from '../protocol/errors.ts'
import type { Backend } from './backend.ts'
import { textOf } from './check-input.ts'
import { checkStores } from './check-options.ts'
import { checkWrite } from './check-write.ts'
import { checked } from './checked.ts'

/**
 * A store of your own of whose calls none is made that no store may take: keys, values, writes, leases, digests and bytes are looked at here, with the
 * errors that every store has for them, and after `close` every call throws Closed. What was read half by then is the store's own to end.
 */
export function withChecks(store: Backend): Backend {
  checkStores({ store })
  let closed = false
  const open = () => {
    if (closed) throw new Closed('the store')
  }
  const { facts } = store
  return checked(open, {
    traits: store.traits,
    get: (key) => store.get(key),
    async set(key, value) {
      textOf('value', value)
      await store.set(key, value)
    },
    delete: (key) => store.delete(key),
    async commit(write) {
      open()
      checkWrite(write)
      await store.commit(write)
    },
    getMany: (keys) => store.getMany(keys),
    scan: (prefix, from) => store.scan(prefix, from),
    head: (stream) => store.head(stream),
    read: (stream, from) => store.read(stream, from),
    feed: (from) => store.feed(from),
    acquire: (stream, holder, ttlMs) => store.acquire(stream, holder, ttlMs),
    renew: (lease) => store.renew(lease),
    release: (lease) => store.release(lease),
    putBlob: (bytes) => store.putBlob(bytes),
    getBlob: (digest) => store.getBlob(digest),
    async *blobs() {
      open()
      yield* store.blobs()
    },
    forgetBlobs: (digests, unputMs) => store.forgetBlobs(digests, unputMs),
    ...(facts && { facts: () => facts.call(store) }),
    async close() {
      closed = true
      await store.close()
    },
  })
}
