import { join, resolve } from 'node:path'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { inParts } from '../protocol/each.ts'
import { Closed, OutcomeUnknown, Unavailable } from '../protocol/errors.ts'
import { method, needed, wholeFrom } from '../protocol/fields.ts'
import type { Digest, Json } from '../protocol/json.ts'
import { reporter, sparing, TOLD_AGAIN_MS } from '../protocol/reporter.ts'
import type { Backend } from './backend.ts'
import { textOf } from './check-input.ts'
import { checkOpening, path as pathField } from './check-options.ts'
import { checked } from './checked.ts'
import { blobFiles } from './file-blobs.ts'
import { entryPages } from './file-entries.ts'
import { fileError } from './file-errors.ts'
import { commitText, deleteText, type LeaseLine, leaseText, setText } from './file-lines.ts'
import { openFolder } from './file-open.ts'
import { followers } from './followers.ts'
import { grouped } from './grouped.ts'
import { isFree, shortened } from './holder.ts'
import { judge } from './judge.ts'
import { serially } from './serially.ts'

export interface FileOptions {
  /** A folder of the store's own; made when it is not there. */
  readonly path: string
  /** Made if it is not there: true when absent. With false NotFound is thrown instead, and nothing is left behind. */
  readonly create?: boolean
  readonly clock?: Clock
  /** Journal files are closed at this size. Default 4 MiB. */
  readonly segmentBytes?: number
  /** Told, of the same once a minute, when an object file cannot be written, room not be given back, or a lock not be taken away. Nothing is lost, the journal has it; a later write or opening tries again. Default: a warning of the process. */
  readonly onError?: (error: unknown) => void
}

/** What all its files lack together: which of them met it first is nothing to tell. */
const SHARED: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE'])

const OWN = { path: needed(pathField), segmentBytes: wholeFrom(1), onError: method }

/**
 * A folder that a person can read and put into git. The journal line is the commit; the files of single values are written after it. One process
 * at a time may have it open.
 */
export async function fileBackend(options: FileOptions): Promise<Backend> {
  checkOpening('the options of a file store', options, 'create', 'clock', OWN)
  const { create = true, clock = systemClock, segmentBytes = 4 * 1024 * 1024 } = options
  const path = resolve(options.path)
  const what = `the file store ${path}`
  const told = sparing(reporter(options.onError), TOLD_AGAIN_MS, clock) // a disk that is full meets every write anew
  const onError = (error: unknown) => {
    const { path: file = path, code = '' } = error as NodeJS.ErrnoException
    told(fileError(SHARED.has(code) ? path : file, error, true))
  }
  const folder = await openFolder(path, { create, clock, segmentBytes, onError })
  const { journal, state, values, own } = folder
  const pages = entryPages(journal, state.streams)
  const blobs = blobFiles(join(path, 'blobs'), clock)
  const following = followers(what, async () => {})
  const one = serially()
  let closing: Promise<void> | undefined

  const open = () => {
    if (closing !== undefined) throw new Closed(what)
  }
  /** A read that is under way when the store is closed finds its files closed. */
  async function reading<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      open()
      throw fileError(path, error, true)
    }
  }

  const known = { exists: (key: string) => values.lines.has(key), newest: state.newest }
  const commits = grouped(
    {
      commitBatch: (writes) =>
        one(async () => {
          const verdicts = writes.map((write) => judge(write, state.headOf(write.stream), known))
          const landing = writes.filter((_, i) => verdicts[i]?.kind === 'landed')
          if (landing.length === 0) return verdicts
          const texts = landing.map((write) => commitText(write, state.streams.get(write.stream)?.last ?? 0))
          await folder.append(texts, (seq, i) => state.land(seq, landing[i]!))
          return verdicts
        }),
    },
    { what, tell: following.wake },
  )
  /** Of a lease it does no harm not to know: whoever asks again is told. */
  async function appendLease(line: LeaseLine, apply: () => void): Promise<void> {
    try {
      await folder.append([leaseText(line)], apply)
    } catch (error) {
      if (!(error instanceof OutcomeUnknown)) throw error
      throw new Unavailable(path, 'the disk failed, open the store again', { cause: error })
    }
  }

  async function pick(keys: readonly string[], from = values): Promise<[string, Json][]> {
    const found: [string, Json][] = []
    for (const some of inParts(keys, READERS)) {
      open()
      const several = await reading(() => Promise.all(some.map((key) => from.get(key))))
      for (const [i, value] of several.entries()) if (value !== undefined) found.push([some[i]!, value])
    }
    return found
  }

  return checked(open, {
    traits: { durable: true, processes: 'one', grouped: true, legible: true },

    get: (key) => reading(() => own.get(key)),
    async set(key, value) {
      const text = textOf('value', value)
      await one(() => folder.append([setText(key, text)], (seq) => own.put(key, seq, text)))
    },
    async delete(key) {
      await one(async () => {
        if (own.lines.has(key)) await folder.append([deleteText(key)], () => own.delete(key))
        else journal.check() // or it may be there without our knowing
      })
    },

    commit: commits.commit,

    getMany: async (keys) => new Map(await pick(keys)),
    async *scan(prefix, from = {}) {
      const source = from.own ? own : values
      let left = from.limit ?? Number.POSITIVE_INFINITY
      for (let after = from.after; left > 0; ) {
        const keys = source.keys.page(prefix, after, Math.min(left, SCAN_PAGE))
        if (keys.length === 0) return
        for (const pair of await pick(keys, source)) {
          open()
          left--
          yield pair
        }
        after = keys.at(-1)
      }
    },

    head: async (stream) => state.headOf(stream),
    read(stream, from = {}) {
      const nextPage = pages.ofStream(stream, from.after ?? 0)
      return following.entries(stream, () => reading(nextPage), from)
    },
    feed(from = {}) {
      const nextPage = pages.ofAll(from.after)
      return following.entries(undefined, () => reading(nextPage), from)
    },

    async acquire(stream, holder, ttlMs) {
      return one(async () => {
        const { lease: held } = state.streams.get(stream) ?? {}
        const now = clock.now()
        if (held && !isFree(held, holder, now)) {
          if (shortened(held, now) !== undefined) state.renewed({ ...held, stream })
          return undefined
        }
        const { revision, token } = state.headOf(stream)
        const lease = { stream, holder, token: token + 1, ttlMs }
        await appendLease({ kind: 'acquire', ...lease }, () => state.acquired(lease))
        return { ...lease, revision }
      })
    },
    async renew(lease) {
      if (!state.isHeld(lease)) return false
      state.renewed(lease)
      return true
    },
    async release(lease) {
      await one(async () => {
        if (!state.isHeld(lease)) return
        const { stream, token } = lease
        await appendLease({ kind: 'release', stream, token }, () => state.released(lease))
      })
    },

    putBlob: (bytes) => reading(() => blobs.put(new Uint8Array(bytes))),
    getBlob: (digest) => reading(() => blobs.get(digest)),
    async *blobs() {
      open()
      const digests = blobs.list()[Symbol.asyncIterator]()
      for (;;) {
        const { done, value } = await reading(() => digests.next())
        if (done) return
        open()
        yield value
      }
    },

    async forgetBlobs(digests, unputMs) {
      const gone: Digest[] = []
      for (const digest of new Set(digests)) {
        // Each in its turn: commits need not wait for all of them, and a store that is closed takes no more away.
        const isGone = await one(async () => {
          open()
          await folder.check()
          return reading(() => blobs.forget(digest, unputMs))
        })
        if (isGone) gone.push(digest)
      }
      return gone
    },

    close() {
      closing ??= (async () => {
        following.end()
        await commits.close()
        await one(folder.close)
      })()
      return closing
    },
  })
}

const READERS = 16
const SCAN_PAGE = 256
