import type { Digest, Json } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import { digestsIn, keptAside } from './named-blobs.ts'
import { paced } from './reading-pace.ts'

/** Under which the blobs wait that a context named which was taken away. */
const DUE = 'trim-blobs/'
export const dueKey = (graph: string): string => `${DUE}${graph}`

/** Whoever has put a blob has this long for the commit that names it, also when the store was away between the two. */
const UNPUT_MS = 24 * 3_600_000

/** Takes away what waits and nothing mentions any more; answers with how many these were. What somebody has just put again waits on. */
export async function sweepBlobs(store: Backend, signal: AbortSignal | undefined): Promise<number> {
  const due = new Map<string, readonly Digest[]>()
  for await (const [key, digests] of store.scan(DUE)) due.set(key, digests as unknown as readonly Digest[])
  if (due.size === 0) return 0
  const named = new Set([...due.values()].flat())
  const left = new Set<Digest>()
  for await (const digest of store.blobs()) if (named.delete(digest)) left.add(digest) // not every digest is a blob's
  for await (const value of allIn(store)) {
    signal?.throwIfAborted()
    for (const digest of digestsIn(value)) left.delete(digest)
  }
  const gone = await store.forgetBlobs([...left], UNPUT_MS)
  for (const digest of gone) left.delete(digest)
  const isOver = ([, digests]: readonly [string, readonly Digest[]]) => !digests.some((digest) => left.has(digest))
  await takeOut(
    store,
    [...due].filter(isOver).map(([key]) => key),
  )
  return gone.length
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
