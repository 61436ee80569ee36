import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed, InvalidInput } from '../protocol/errors.ts'
import { wholeFrom } from '../protocol/fields.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import type { Backend, Entry, Lease } from './backend.ts'
import { certainly } from './certainly.ts'
import { aheadOfStore, textOf } from './check-input.ts'
import { checkOpening } from './check-options.ts'
import { checkWrite } from './check-write.ts'
import { checked } from './checked.ts'
import { followers } from './followers.ts'
import { isFree, shortened } from './holder.ts'
import { refuseIfStale } from './judge.ts'
import { type BareStore, type Cells, cellsOf, type Sets } from './lifted-cells.ts'
import { directory, isRoot } from './lifted-directory.ts'
import {
  blobCell,
  claimStore,
  entryCell,
  entryCells,
  FEED,
  FORGOTTEN,
  forgottenBlobCells,
  forgottenCells,
  headCell,
  lost,
  placeCell,
  putAtCell,
  type StoredHead,
  storedValue,
  valueCell,
} from './lifted-layout.ts'
import { ownKeys } from './lifted-own.ts'
import { sequenceOf, sequencePosition } from './position.ts'
import { type Serially, serially } from './serially.ts'

export interface LiftedOptions {
  readonly clock?: Clock
  /** Does what the bare store has acknowledged survive the loss of power? It cannot be asked. Default false. */
  readonly durable?: boolean
  /** Keys are listed in pages of at most so many; a new key costs its page. Default 256. */
  readonly pageKeys?: number
}

/**
 * Any `{ get, set }` made whole. The caller's own keys stay under their own names; everything else lies in cells that begin with `mplp/`. A commit
 * changes several cells: a redo record tells them before the first is touched, so that it lands whole wherever the process may die. Nobody can
 * compare and set in such a store, so only one process may use it at a time.
 */
export async function liftedBackend(bare: BareStore, options: LiftedOptions = {}): Promise<Backend> {
  checkOpening('the options of a bare store', options, 'clock', 'durable', { pageKeys: wholeFrom(1) })
  const { clock = systemClock, durable = false, pageKeys = 256 } = options
  if (!isBareStore(bare)) throw new InvalidInput('store', [{ path: '', rule: 'store', message: 'has no get and set' }])
  const core = coreOf(bare, clock)
  const { one, cells, news } = core
  const directoryOf = (name: string) => directory(cells, name, pageKeys)
  const [values, ownDirectory, blobs] = [directoryOf('values'), directoryOf('own'), directoryOf('blobs')]
  const own = ownKeys(cells, ownDirectory)
  const following = followers(WHAT, async () => {})
  const wake = (stream: string) => following.wake([stream])
  news.add(wake)
  let closing: Promise<void> | undefined
  const open = () => {
    if (closing !== undefined) throw new Closed(WHAT)
  }

  const leave = () => {
    news.delete(wake)
    leaveCore(bare, core)
  }
  await one(() => certainly(claimStore(cells))).catch((error) => {
    leave()
    throw error
  })

  const headOf = async (stream: string): Promise<StoredHead> =>
    ((await cells.get(headCell(stream))) as StoredHead | undefined) ?? { revision: 0, token: 0 }
  const isHeld = (lease: Lease, { token, held }: StoredHead) =>
    held?.holder.id === lease.holder.id && token === lease.token
  const setHead = (stream: string, head: StoredHead) =>
    certainly(cells.set([[headCell(stream), head as unknown as Json]]))
  const lastPlace = async () => ((await cells.get(FEED)) as number | undefined) ?? 0
  const kept = async (cell: string): Promise<Json> => {
    const found = await cells.get(cell)
    if (found === undefined) throw lost(cell)
    return found
  }
  const entryAt = async (place: number): Promise<Entry | undefined> => {
    const entry = await kept(entryCell(place))
    if (entry === FORGOTTEN) return undefined
    return { ...(entry as unknown as Omit<Entry, 'position'>), position: sequencePosition(place) }
  }
  const newestStream = async (): Promise<string | undefined> => {
    const last = await lastPlace()
    return last === 0 ? undefined : (await entryAt(last))?.stream
  }
  const placeOf = async (stream: string, revision: number) => (await kept(placeCell(stream, revision))) as number
  const placesOf = async (stream: string, { revision }: StoredHead): Promise<number[]> => {
    const places: number[] = []
    for (let at = 1; at <= revision; at++) places.push(await placeOf(stream, at))
    return places
  }
  const putAt = async (digest: Digest) => ((await cells.get(putAtCell(digest))) as number | undefined) ?? 0

  return checked(open, {
    traits: { durable, processes: 'one', grouped: false },

    get: (key) => one(() => own.get(key)),
    async set(key, value) {
      const copy: Json = JSON.parse(textOf('value', value))
      await one(() => own.set(key, copy))
    },
    delete: (key) => one(() => own.delete(key)),

    async commit(write) {
      open()
      const texts = checkWrite(write)
      const { stream, expected, fence, forget } = write
      const deletes = [...write.deletes]
      await one(async () => {
        const isThere = async (key: string) => (await cells.get(valueCell(key))) !== undefined
        const head = await headOf(stream)
        const inserted = texts.inserts.map(([key]) => key)
        const taken = new Set(await filtered(inserted, isThere))
        const newest = forget && (await newestStream())
        refuseIfStale({ stream, expected, fence, inserts: texts.inserts, forget }, head, {
          exists: (key) => taken.has(key),
          newest: () => newest,
        })

        const puts = [...texts.inserts, ...texts.puts]
        const gone = await filtered(deletes, isThere)
        const keys = puts.map(([key]) => key)
        const sets = [
          ...puts.map(([key, text]) => [valueCell(key), [JSON.parse(text)]] as const),
          ...gone.map((key) => [valueCell(key), null] as const),
          ...(await values.changed(keys, gone)),
          ...(forget && head.revision > 0 ? forgottenCells(stream, head, await placesOf(stream, head)) : []),
        ]
        if (texts.entry === undefined) return cells.set(sets)
        const entry = entryCells(stream, head, (await lastPlace()) + 1, JSON.parse(texts.entry))
        try {
          await cells.set([...sets, ...entry])
        } finally {
          for (const tell of news) tell(stream) // also in doubt: who wakes and reads finishes what was begun
        }
      })
    },

    getMany: (keys) => one(async () => new Map(await pairs(keys, (key) => storedValue(cells, key)))),
    async *scan(prefix, from = {}) {
      const source = from.own ? ownDirectory : values
      const read = from.own ? own.get : async (key: string) => ((await kept(valueCell(key))) as [Json])[0]
      let left = from.limit ?? Number.POSITIVE_INFINITY
      for (let after = from.after; left > 0; ) {
        const page = await one(async () => {
          open()
          const keys = await source.page(prefix, after, Math.min(left, PAGE))
          return { last: keys.at(-1), found: await pairs(keys, read) }
        })
        if (page.last === undefined) return
        for (const pair of page.found) {
          open()
          left--
          yield pair
        }
        after = page.last
      }
    },

    async head(stream) {
      const { revision, token } = await one(() => headOf(stream))
      return { revision, token }
    },
    read(stream, from = {}) {
      let at = from.after ?? 0
      const nextPage = () =>
        one(async () => {
          const { revision } = await headOf(stream)
          const entries: Entry[] = []
          for (; at < revision && entries.length < PAGE; at++) {
            const place = await placeOf(stream, at + 1)
            const entry = await entryAt(place)
            if (!entry) throw lost(entryCell(place))
            entries.push(entry)
          }
          return entries
        })
      return following.entries(stream, nextPage, from)
    },
    feed(from = {}) {
      let at = from.after === undefined ? 0 : sequenceOf(from.after)
      const somePlaces = async () => {
        open()
        const last = await lastPlace()
        if (at > last) throw aheadOfStore(sequencePosition(at))
        const entries: Entry[] = []
        for (const end = Math.min(last, at + PAGE); at < end; at++) {
          const entry = await entryAt(at + 1)
          if (entry) entries.push(entry)
        }
        return { entries, isEnd: at === last }
      }
      const nextPage = async () => {
        // However many were forgotten in a row, others have their turn in between.
        for (;;) {
          const { entries, isEnd } = await one(somePlaces)
          if (entries.length > 0 || isEnd) return entries
        }
      }
      return following.entries(undefined, nextPage, from)
    },

    async acquire(stream, holder, ttlMs) {
      return one(async () => {
        const head = await headOf(stream)
        const now = clock.now()
        if (head.held && !isFree(head.held, holder, now)) {
          const until = shortened(head.held, now)
          if (until !== undefined) await setHead(stream, { ...head, held: { ...head.held, until } })
          return undefined
        }
        const token = head.token + 1
        await setHead(stream, { ...head, token, held: { holder, ttlMs, until: now + ttlMs } })
        return { stream, holder, token, ttlMs, revision: head.revision }
      })
    },
    async renew(lease) {
      return one(async () => {
        const head = await headOf(lease.stream)
        if (!isHeld(lease, head)) return false
        const { holder, ttlMs } = lease
        await setHead(lease.stream, { ...head, held: { holder, ttlMs, until: clock.now() + ttlMs } })
        return true
      })
    },
    async release(lease) {
      await one(async () => {
        const head = await headOf(lease.stream)
        if (!isHeld(lease, head)) return
        await setHead(lease.stream, { revision: head.revision, token: head.token })
      })
    },

    async putBlob(bytes) {
      const digest = digestOf(bytes)
      const text = Buffer.from(bytes).toString('base64')
      await one(async () => {
        const isThere = await blobs.has(digest)
        const blob: Sets = isThere ? [] : [[blobCell(digest), text], ...(await blobs.changed([digest], []))]
        await certainly(cells.set([[putAtCell(digest), clock.now()], ...blob]))
      })
      return digest
    },
    async getBlob(digest) {
      const text = await one(() => cells.get(blobCell(digest)))
      return text === undefined ? undefined : new Uint8Array(Buffer.from(text as string, 'base64'))
    },
    async *blobs() {
      open()
      for (let after: string | undefined; ; ) {
        const digests = await one(() => blobs.page('', after, PAGE))
        if (digests.length === 0) return
        for (const digest of digests) {
          open()
          yield digest as Digest
        }
        after = digests.at(-1)
      }
    },

    async forgetBlobs(digests, unputMs) {
      const asked = [...new Set(digests)]
      const isUnput = async (digest: Digest) =>
        (await blobs.has(digest)) && (await putAt(digest)) + unputMs <= clock.now()
      return one(async () => {
        const gone = await filtered(asked, isUnput)
        await certainly(cells.set([...forgottenBlobCells(gone), ...(await blobs.changed([], gone))]))
        return gone
      })
    },

    close() {
      closing ??= (async () => {
        following.end()
        await one(async () => {})
        leave()
      })()
      return closing
    },
  })
}

export const isBareStore = (store: unknown): store is BareStore =>
  typeof store === 'object' &&
  store !== null &&
  typeof (store as Partial<BareStore>).get === 'function' &&
  typeof (store as Partial<BareStore>).set === 'function'

const WHAT = 'the lifted store'
const PAGE = 128

/** What everybody shares who lifts the same object in this process: they must not overtake each other. */
interface Core {
  readonly one: Serially
  readonly cells: Cells
  readonly news: Set<(stream: string) => void>
  openings: number
}
const cores = new WeakMap<BareStore, Core>()

function coreOf(bare: BareStore, clock: Clock): Core {
  const core = cores.get(bare) ?? { one: serially(), cells: cellsOf(bare, clock, isRoot), news: new Set(), openings: 0 }
  core.openings++
  cores.set(bare, core)
  return core
}

/** What nobody has open another process may change, so nothing of it is remembered. */
function leaveCore(bare: BareStore, core: Core): void {
  if (--core.openings === 0) cores.delete(bare)
}

async function filtered<K extends string>(keys: readonly K[], isWanted: (key: K) => Promise<boolean>): Promise<K[]> {
  const found: K[] = []
  for (const key of keys) if (await isWanted(key)) found.push(key)
  return found
}

async function pairs(
  keys: readonly string[],
  read: (key: string) => Promise<Json | undefined>,
): Promise<[string, Json][]> {
  const found: [string, Json][] = []
  for (const key of keys) {
    const value = await read(key)
    if (value !== undefined) found.push([key, value])
  }
  return found
}
