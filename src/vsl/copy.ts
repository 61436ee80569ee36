import { createHash } from 'node:crypto'
import { Corrupt, Refused } from '../protocol/errors.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import { type Backend, POSITIONS, type Position, UNFINISHED } from './backend.ts'
import { checkCopy } from './check-options.ts'

export interface CopyOptions {
  /** Read both stores again afterwards and compare what they say. */
  readonly verify?: boolean
  readonly onProgress?: (progress: CopyCounts) => void
  /** Ends the copy between two steps, with the signal's reason; the target is then unfinished and to be thrown away. */
  readonly signal?: AbortSignal
}

/** What a copy is made from: a store, or a part of one. */
export type Source = Pick<Backend, 'getMany' | 'scan' | 'feed' | 'blobs' | 'getBlob'>

export interface CopyCounts {
  readonly blobs: number
  readonly entries: number
  readonly values: number
  readonly own: number
}

/**
 * Everything in one store to another, empty one: blobs, entries in the order of the feed, values, own keys. Positions that are kept as values are
 * translated. Leases and tokens stay behind: nobody owns anything in the copy. Nobody may write to either store meanwhile. Throws Refused if the
 * target is not empty, Corrupt if `verify` finds a difference. What was cut off is marked, and refused as a project.
 */
export async function copyStore(from: Source, to: Backend, options: CopyOptions = {}): Promise<CopyCounts> {
  checkCopy({ from, to }, options)
  const counts = { blobs: 0, entries: 0, values: 0, own: 0 }
  const step = (kind: keyof CopyCounts, by = 1) => {
    options.signal?.throwIfAborted()
    counts[kind] += by
    options.onProgress?.({ ...counts })
  }
  options.signal?.throwIfAborted()
  if ((await from.getMany([UNFINISHED])).size > 0)
    throw new Refused(
      'the source of the copy is itself a copy that was cut off',
      'copy from the store that it was made of',
    )
  if (!(await isEmpty(to)))
    throw new Refused(
      'the target of the copy is not empty',
      'name a new one, or throw away what an interrupted copy left',
    )

  await to.commit({ stream: COPY, expected: 0, inserts: [[UNFINISHED, true]], puts: [], deletes: [] })
  for await (const digest of from.blobs()) {
    await to.putBlob(await blobOf(from, digest))
    step('blobs')
  }
  for await (const { stream, revision, body } of from.feed()) {
    await to.commit({ stream, expected: revision - 1, entry: body, inserts: [], puts: [], deletes: [] })
    step('entries')
  }
  const positions = await translatedPositions(from, to)
  const { revision: expected } = await to.head(COPY)
  for await (const batch of batches(from.scan(''))) {
    const inserts = batch.map((pair) => translated(pair, positions))
    await to.commit({ stream: COPY, expected, inserts, puts: [], deletes: [] })
    step('values', inserts.length)
  }
  for await (const [key, value] of from.scan('', { own: true })) {
    await to.set(key, value)
    step('own')
  }
  if (options.verify) await compare(from, to, positions, options.signal)
  await to.commit({ stream: COPY, expected, inserts: [], puts: [], deletes: [UNFINISHED] })
  return counts
}

/** Neither values nor own keys nor entries nor blobs. */
export async function isEmpty(store: Backend): Promise<boolean> {
  for await (const _ of store.scan('', { limit: 1 })) return false
  for await (const _ of store.scan('', { limit: 1, own: true })) return false
  for await (const _ of store.feed()) return false
  for await (const _ of store.blobs()) return false
  return true
}

/** Values belong to no stream; a write without an entry leaves no trace in the one it names. */
const COPY = 'copy'
const BATCH_VALUES = 200
const BATCH_CHARACTERS = 1024 * 1024

type Pair = readonly [key: string, value: Json]

async function* batches(pairs: AsyncIterable<Pair>): AsyncIterable<Pair[]> {
  let batch: Pair[] = []
  let characters = 0
  for await (const pair of pairs) {
    batch.push(pair)
    characters += JSON.stringify(pair[1]).length
    if (batch.length < BATCH_VALUES && characters < BATCH_CHARACTERS) continue
    yield batch
    batch = []
    characters = 0
  }
  if (batch.length > 0) yield batch
}

async function blobOf(store: Source, digest: Digest): Promise<Uint8Array> {
  const bytes = await store.getBlob(digest)
  if (bytes === undefined || digestOf(bytes) !== digest)
    throw new Corrupt(`blob ${digest}`, 'restore it, or the store, from a backup')
  return bytes
}

/**
 * For every value that is a position in the one store, the position in the other that has passed the same entries; empty where nothing was passed yet:
 * whoever stands there must stay known, or what it was not told of would be taken away.
 */
async function translatedPositions(from: Source, to: Backend): Promise<Map<string, Position>> {
  const cursors: [key: string, position: Position][] = []
  for await (const [key, position] of from.scan(POSITIONS)) {
    if (typeof position !== 'string')
      throw new Refused(`${key} holds no position`, 'open the store with its keys if it is encrypted')
    cursors.push([key, position])
  }
  const found = new Map<string, Position>(cursors.map(([key]) => [key, '']))
  if (cursors.length === 0) return found
  const copies = to.feed()[Symbol.asyncIterator]()
  for await (const entry of from.feed()) {
    const copy = await copies.next()
    if (copy.done) break
    for (const [key, position] of cursors) if (entry.position <= position) found.set(key, copy.value.position)
  }
  await copies.return?.()
  return found
}

const translated = ([key, value]: Pair, positions: ReadonlyMap<string, Position>): Pair => [
  key,
  positions.get(key) ?? value,
]

async function compare(
  from: Source,
  to: Backend,
  positions: ReadonlyMap<string, Position>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const digestAll = async <T>(items: AsyncIterable<T>, tell: (item: T) => readonly unknown[]) => {
    const hash = createHash('sha256')
    for await (const item of items) {
      signal?.throwIfAborted()
      for (const told of tell(item)) hash.update(`${JSON.stringify(told)}\n`)
    }
    return hash.digest('hex')
  }
  /** Of the source `told` says what must stand in the copy. Both are waited for: whoever fails alone would fail unheard. */
  const isAlike = async <T>(
    walk: (store: Source) => AsyncIterable<T>,
    tell: (item: T) => readonly unknown[],
    told = tell,
  ) => {
    const [ours, theirs] = await Promise.all([digestAll(walk(from), told), digestAll(walk(to), tell)])
    return ours === theirs
  }
  const pairs = (pair: Pair) => (pair[0] === UNFINISHED ? [] : [pair])
  const isSame = {
    entries: () =>
      isAlike(
        (store) => store.feed(),
        ({ stream, revision, body }) => [[stream, revision, body]],
      ),
    values: () =>
      isAlike(
        (store) => store.scan(''),
        pairs,
        (pair) => [translated(pair, positions)],
      ),
    'own keys': () => isAlike((store) => store.scan('', { own: true }), pairs),
    blobs: async () => {
      let balance = 0
      for await (const digest of from.blobs()) {
        signal?.throwIfAborted()
        await blobOf(to, digest)
        balance++
      }
      for await (const _ of to.blobs()) balance--
      return balance === 0
    },
  }
  for (const [what, same] of Object.entries(isSame))
    if (!(await same()))
      throw new Corrupt(
        `the copy, whose ${what} differ,`,
        'throw it away and copy again while nobody writes to the source',
      )
}
