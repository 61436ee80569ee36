import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed, FencedOut, KeyExists, RevisionConflict } from '../protocol/errors.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import type { Backend, Entry, Holder, Lease, Write } from './backend.ts'
import { checkWrite } from './check-write.ts'
import { holderIsGone } from './holder.ts'
import { sequencePosition } from './position.ts'
import { wakeable } from './wakeable.ts'

interface Stream {
  revision: number
  token: number
  lease: { holder: Holder; until: number } | undefined
  /** Where in the log each revision stands. */
  readonly places: number[]
}

/** Everything in Maps, as JSON text: what goes in cannot be changed from outside, and what comes out is a copy. */
export function memoryBackend(options: { clock?: Clock } = {}): Backend {
  const clock = options.clock ?? systemClock
  const values = new Map<string, string>()
  const own = new Map<string, string>()
  const blobStore = new Map<Digest, Uint8Array>()
  const streams = new Map<string, Stream>()
  const log: { stream: string; revision: number; body: string }[] = []
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
  const entryAt = (place: number): Entry => {
    const { stream, revision, body } = log[place]!
    return { stream, revision, position: sequencePosition(place + 1), body: JSON.parse(body) }
  }

  return {
    traits: { durable: false, processes: 'one', grouped: false },

    async get(key) {
      open()
      return parsed(own.get(key))
    },
    async set(key, value) {
      open()
      own.set(key, JSON.stringify(value))
    },

    async commit(write) {
      open()
      const texts = checkWrite(write)
      const stream = streamOf(write.stream)
      refuseIfStale(stream, write, values) // every condition before the first change
      for (const [key, text] of texts.inserts) values.set(key, text)
      for (const [key, text] of texts.puts) values.set(key, text)
      for (const key of write.deletes) values.delete(key)
      if (texts.entry === undefined) return
      stream.revision++
      stream.places.push(log.length)
      log.push({ stream: write.stream, revision: stream.revision, body: texts.entry })
      appended.wake()
    },

    async getMany(keys) {
      open()
      const found = new Map<string, Json>()
      for (const key of keys) {
        const text = values.get(key)
        if (text !== undefined) found.set(key, JSON.parse(text))
      }
      return found
    },

    async *scan(prefix, from = {}) {
      open()
      const source = from.own ? own : values
      const after = from.after
      const keys = [...source.keys()].filter((key) => key.startsWith(prefix)).sort(byBytes)
      let left = from.limit ?? Number.POSITIVE_INFINITY
      for (const key of keys) {
        if (left <= 0) return
        if (after !== undefined && byBytes(key, after) <= 0) continue
        const text = source.get(key)
        if (text === undefined) continue // deleted since
        left--
        yield [key, JSON.parse(text)]
        open()
      }
    },

    async head(name) {
      open()
      const stream = streams.get(name)
      return { revision: stream?.revision ?? 0, token: stream?.token ?? 0 }
    },

    async *read(name, from = {}) {
      open()
      for (let at = from.after ?? 0; ; ) {
        const places = streams.get(name)?.places ?? []
        for (; at < places.length; at++) {
          if (from.signal?.aborted || closed) return
          yield entryAt(places[at]!)
        }
        if (!from.follow || closed || !(await appended.wait(from.signal))) return
      }
    },

    async *feed(from = {}) {
      open()
      for (let at = from.after === undefined ? 0 : Number(from.after); ; ) {
        for (; at < log.length; at++) {
          if (from.signal?.aborted || closed) return
          yield entryAt(at)
        }
        if (!from.follow || closed || !(await appended.wait(from.signal))) return
      }
    },

    async acquire(name, holder, ttlMs) {
      open()
      const stream = streamOf(name)
      const held = stream.lease
      if (held && held.until > clock.now() && held.holder.id !== holder.id && !holderIsGone(held.holder))
        return undefined
      stream.token++
      stream.lease = { holder, until: clock.now() + ttlMs }
      return { stream: name, holder, token: stream.token, ttlMs }
    },
    async renew(lease) {
      open()
      const held = heldBy(streams, lease)
      if (held) held.until = clock.now() + lease.ttlMs
      return held !== undefined
    },
    async release(lease) {
      open()
      if (heldBy(streams, lease)) streamOf(lease.stream).lease = undefined
    },

    async putBlob(bytes) {
      open()
      const digest = digestOf(bytes)
      if (!blobStore.has(digest)) blobStore.set(digest, bytes.slice())
      return digest
    },
    async getBlob(digest) {
      open()
      return blobStore.get(digest)?.slice()
    },
    async *blobs() {
      open()
      yield* [...blobStore.keys()]
    },

    async close() {
      closed = true
      appended.end()
    },
  }
}

const parsed = (text: string | undefined): Json | undefined => (text === undefined ? undefined : JSON.parse(text))

function refuseIfStale(stream: Stream, write: Write, values: ReadonlyMap<string, string>): void {
  if (write.fence !== undefined && write.fence !== stream.token)
    throw new FencedOut(write.stream, write.fence, stream.token)
  if (write.expected !== stream.revision) throw new RevisionConflict(write.stream, write.expected, stream.revision)
  for (const [key] of write.inserts) if (values.has(key)) throw new KeyExists(key)
}

const heldBy = (streams: ReadonlyMap<string, Stream>, lease: Lease) => {
  const stream = streams.get(lease.stream)
  return stream?.token === lease.token ? stream.lease : undefined
}

/** UTF-8 byte order: code points, where UTF-16 would put those beyond the BMP before U+E000. */
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))
