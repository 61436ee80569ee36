import { type Clock, isoNow } from '../protocol/clock.ts'
import type { Digest, Json } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import { digestsIn, keptAside } from './named-blobs.ts'
import { paced } from './reading-pace.ts'

/** Blobs that wait for being taken away: a context named them that was. */
type Due = {
  readonly blobs: readonly Digest[]
  /** Somebody had put one of them again: it is not looked for sooner. */
  readonly not_before?: string
}
const DUE = 'trim-blobs/'

/** A row of its own each time: a context may be begun anew, and taken away again. */
export const dueBlobs = (graph: string, blobs: readonly Digest[], clock: Clock): readonly [string, Json] => [
  `${DUE}${graph}/${clock.uuid()}`,
  { blobs } satisfies Due,
]

/** Whoever has put a blob has this long for the commit that names it, also when the store was away between the two. */
const UNPUT_MS = 24 * 3_600_000

/** Takes away what waits and nothing mentions any more; answers with how many these were. What somebody has just put again waits on. */
export async function sweepBlobs(store: Backend, clock: Clock, signal: AbortSignal | undefined): Promise<number> {
  const now = isoNow(clock)
  const due = new Map<string, readonly Digest[]>()
  for await (const [key, row] of store.scan(DUE)) {
    const { blobs, not_before = '' } = row as unknown as Due
    if (not_before <= now) due.set(key, blobs)
  }
  if (due.size === 0) return 0
  const named = new Set([...due.values()].flat())
  const left = new Set<Digest>()
  for await (const digest of store.blobs()) {
    signal?.throwIfAborted()
    if (named.delete(digest)) left.add(digest) // not every digest is a blob's
  }
  for await (const value of allIn(store)) {
    signal?.throwIfAborted()
    for (const digest of digestsIn(value)) left.delete(digest)
  }
  const gone = await store.forgetBlobs([...left], UNPUT_MS)
  for (const digest of gone) left.delete(digest)
  await settle(store, due, left, isoNow({ now: () => clock.now() + UNPUT_MS }))
  return gone.length
}

/** What is left waits on, and the rest no longer. */
async function settle(
  store: Backend,
  due: ReadonlyMap<string, readonly Digest[]>,
  left: ReadonlySet<Digest>,
  not_before: string,
): Promise<void> {
  const puts: [string, Json][] = []
  const deletes: string[] = []
  for (const [key, digests] of due) {
    const blobs = digests.filter((digest) => left.has(digest))
    if (blobs.length === 0) deletes.push(key)
    else puts.push([key, { blobs, not_before } satisfies Due])
  }
  await store.commit({ stream: ASIDE, expected: 0, inserts: [], puts, deletes })
}

/** All that may mention a blob. */
async function* allIn(store: Backend): AsyncIterable<Json> {
  for await (const { body } of paced(store.feed())) yield body
  yield* keptAside(store)
}

/** A stream without entries, for writes that are no graph's. */
const ASIDE = 'trim-aside'

export async function takeOut(store: Backend, keys: readonly string[]): Promise<void> {
  if (keys.length > 0) await store.commit({ stream: ASIDE, expected: 0, inserts: [], puts: [], deletes: keys })
}
