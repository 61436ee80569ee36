import type { Clock } from '../protocol/clock.ts'
import { MplpError, OutcomeUnknown, Refused, Unavailable } from '../protocol/errors.ts'
import type { Backend } from './backend.ts'

/** A store, and what whoever writes to it has found. */
export interface WritesWatched {
  readonly store: Backend
  /** Throws why nothing can be written. Asks the store only once a write has failed, by one that leaves nothing behind; else it says nothing and costs nothing. */
  checkWriting(): Promise<void>
}

/** On a full disk something small may find room where no commit does. */
const AS_LARGE_AS_USUAL = ' '.repeat(16_384)

/** What answers may take nothing all the same, such as a store on a full disk, and only writing shows it. */
export function withWritesWatched(store: Backend, clock: Clock): WritesWatched {
  let key: string | undefined
  let isDoubtful = false
  let trying: Promise<void> | undefined

  async function heeded<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write()
    } catch (error) {
      if (!isVerdict(error)) isDoubtful = true
      throw error
    }
  }

  async function tried(): Promise<void> {
    isDoubtful = false
    key ??= `ready/${clock.uuid()}` // the same one each time: should it stay, it is one
    await watched.set(key, AS_LARGE_AS_USUAL)
    await watched.delete(key)
  }

  const watched: Backend = {
    traits: store.traits,
    ...(store.facts && { facts: () => store.facts!() }),
    get: (key) => store.get(key),
    set: (key, value) => heeded(() => store.set(key, value)),
    delete: (key) => heeded(() => store.delete(key)),
    commit: (write) => heeded(() => store.commit(write)),
    getMany: (keys) => store.getMany(keys),
    scan: (prefix, from) => store.scan(prefix, from),
    head: (stream) => store.head(stream),
    read: (stream, from) => store.read(stream, from),
    feed: (from) => store.feed(from),
    acquire: (stream, holder, ttlMs) => heeded(() => store.acquire(stream, holder, ttlMs)),
    renew: (lease) => heeded(() => store.renew(lease)),
    release: (lease) => heeded(() => store.release(lease)),
    putBlob: (bytes) => heeded(() => store.putBlob(bytes)),
    getBlob: (digest) => store.getBlob(digest),
    blobs: () => store.blobs(),
    forgetBlobs: (digests, unputMs) => heeded(() => store.forgetBlobs(digests, unputMs)),
    close: () => store.close(),
  }
  return {
    store: watched,
    async checkWriting() {
      if (isDoubtful)
        trying ??= tried().finally(() => {
          trying = undefined
        })
      await trying
    },
  }
}

/** Is it what was written that does not fit, and not the store that fails? */
const isVerdict = (error: unknown): boolean =>
  error instanceof MplpError &&
  !(error instanceof Unavailable || error instanceof OutcomeUnknown || error instanceof Refused)
