import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed } from '../protocol/errors.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import type { Backend, Entry, Lease } from './backend.ts'
import { aheadOfStore, textOf } from './check-input.ts'
import { checkOpening } from './check-options.ts'
import { checkWrite } from './check-write.ts'
import { checked } from './checked.ts'
import { type Held, isFree, shortened } from './holder.ts'
import { refuseIfStale } from './judge.ts'
import { sequenceOf, sequencePosition } from './position.ts'
import { type SortedKeys, shelvedKeys } from './sorted-keys.ts'
import { wakeable } from './wakeable.ts'

interface Stream {
  revision: number
  token: number
  lease: Held | undefined
  /** Where in the log each revision stands. */
  places: number[]
}

interface Logged {
  readonly stream: string
  readonly revision: number
  readonly body: string
}

/** Everything in Maps, as JSON text: what goes in cannot be changed from outside, and what comes out is a copy. */
export function memoryBackend(options: { clock?: Clock } = {}): Backend {
  checkOpening('the options of a memory store', options, 'clock')
  const clock = options.clock ?? systemClock
  const values = texts()
  const own = texts()
  const blobStore = new Map<Digest, { readonly bytes: Uint8Array; putAt: number }>()
  const streams = new Map<string, Stream>()
  /** What was forgotten leaves its place. */
  const log: (Logged | undefined)[] = []
  const appended = wakeable()
  let closed = false

  const open = () => {
    if (closed) throw new Closed('the memory store')
  }
  const streamOf = (name: string): Stream => {
    const known = streams.get(name)
    if (known) return known
    const stream: Stream = { revision: 0, token: 0, lease: undefined, places: [] }
    streams.set(name, stream)
    return stream
  }
  const heldBy = (lease: Lease): Stream | undefined => {
    const stream = streams.get(lease.stream)
    const isHis = stream?.lease?.holder.id === lease.holder.id && stream.token === lease.token
    return isHis ? stream : undefined
  }
  /** A follower is sent home when the store closes; whoever wanted a whole answer must not take half of one for it. */
  const ended = (from: { follow?: boolean; signal?: AbortSignal }): boolean => {
    if (closed && !from.follow) open()
    return closed || from.signal?.aborted === true
  }
  const entryAt = (place: number): Entry | undefined => {
    const logged = log[place]
    if (!logged) return undefined
    const { stream, revision, body } = logged
    return { stream, revision, position: sequencePosition(place + 1), body: JSON.parse(body) }
  }
  const known = { exists: values.has, newest: () => log.at(-1)?.stream }

  return checked(open, {
    traits: { durable: false, processes: 'one', grouped: false },

    async get(key) {
      return parsed(own.get(key))
    },
    async set(key, value) {
      own.set(key, textOf('value', value))
    },
    async delete(key) {
      own.delete(key)
    },

    async commit(write) {
      open()
      const texts = checkWrite(write)
      const stream = streamOf(write.stream)
      refuseIfStale(write, stream, known) // every condition before the first change
      for (const [key, text] of texts.inserts) values.set(key, text)
      for (const [key, text] of texts.puts) values.set(key, text)
      for (const key of write.deletes) values.delete(key)
      if (write.forget) {
        for (const place of stream.places) log[place] = undefined
        Object.assign(stream, { revision: 0, places: [] })
      }
      if (texts.entry === undefined) return
      stream.revision++
      stream.places.push(log.length)
      log.push({ stream: write.stream, revision: stream.revision, body: inOnePiece(texts.entry) })
      appended.wake()
    },

    async getMany(keys) {
      const found = new Map<string, Json>()
      for (const key of keys) {
        const text = values.get(key)
        if (text !== undefined) found.set(key, JSON.parse(text))
      }
      return found
    },

    async *scan(prefix, from = {}) {
      const source = from.own ? own : values
      let left = from.limit ?? Number.POSITIVE_INFINITY
      for (let after = from.after; left > 0; ) {
        const keys = source.keys.page(prefix, after, Math.min(left, SCAN_PAGE))
        if (keys.length === 0) return
        for (const key of keys) {
          open()
          const text = source.get(key)
          if (text === undefined) continue // deleted since
          left--
          yield [key, JSON.parse(text)]
        }
        after = keys.at(-1)
      }
    },

    async head(name) {
      const stream = streams.get(name)
      return { revision: stream?.revision ?? 0, token: stream?.token ?? 0 }
    },

    async *read(name, from = {}) {
      for (let at = from.after ?? 0; ; ) {
        for (; at < (streams.get(name)?.places.length ?? 0); at++) {
          if (ended(from)) return
          yield entryAt(streams.get(name)!.places[at]!)!
        }
        if (!from.follow || !(await appended.wait(from.signal))) return
      }
    },

    async *feed(from = {}) {
      let at = from.after === undefined ? 0 : sequenceOf(from.after)
      if (at > log.length) throw aheadOfStore(from.after!)
      for (;;) {
        for (; at < log.length; at++) {
          if (ended(from)) return
          const entry = entryAt(at)
          if (entry) yield entry
        }
        if (!from.follow || !(await appended.wait(from.signal))) return
      }
    },

    async acquire(name, holder, ttlMs) {
      const stream = streamOf(name)
      const now = clock.now()
      if (stream.lease && !isFree(stream.lease, holder, now)) {
        const until = shortened(stream.lease, now)
        if (until !== undefined) stream.lease = { ...stream.lease, until }
        return undefined
      }
      stream.token++
      stream.lease = { holder, ttlMs, until: now + ttlMs }
      return { stream: name, holder, token: stream.token, ttlMs, revision: stream.revision }
    },
    async renew(lease) {
      const stream = heldBy(lease)
      if (stream) stream.lease = { holder: lease.holder, ttlMs: lease.ttlMs, until: clock.now() + lease.ttlMs }
      return stream !== undefined
    },
    async release(lease) {
      const stream = heldBy(lease)
      if (stream) stream.lease = undefined
    },

    async putBlob(bytes) {
      const digest = digestOf(bytes)
      const known = blobStore.get(digest)
      if (known) known.putAt = clock.now()
      else blobStore.set(digest, { bytes: new Uint8Array(bytes), putAt: clock.now() })
      return digest
    },
    async getBlob(digest) {
      return blobStore.get(digest)?.bytes.slice()
    },
    async *blobs() {
      open()
      for (const digest of blobStore.keys()) {
        open()
        yield digest
      }
    },
    async forgetBlobs(digests, unputMs) {
      const isUnput = (digest: Digest) => {
        const putAt = blobStore.get(digest)?.putAt
        return putAt !== undefined && putAt + unputMs <= clock.now()
      }
      return [...new Set(digests)].filter((digest) => isUnput(digest) && blobStore.delete(digest))
    },

    async close() {
      closed = true
      appended.end()
    },
  })
}

const SCAN_PAGE = 256

/** Texts by key, and the keys in order. */
function texts() {
  const byKey = new Map<string, string>()
  const keys: SortedKeys = shelvedKeys()
  return {
    keys,
    has: (key: string) => byKey.has(key),
    get: (key: string) => byKey.get(key),
    set(key: string, text: string) {
      if (!byKey.has(key)) keys.add(key)
      byKey.set(key, text)
    },
    delete(key: string) {
      if (byKey.delete(key)) keys.delete(key)
    },
  }
}

/** The engine leaves the text of JSON in pieces, each of which is an object to its garbage collector. */
function inOnePiece(text: string): string {
  Number(text) // has to put them together
  return text
}

const parsed = (text: string | undefined): Json | undefined => (text === undefined ? undefined : JSON.parse(text))
