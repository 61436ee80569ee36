import { Corrupt, Refused } from '../protocol/errors.ts'
import { type Digest, isObject, type Json } from '../protocol/json.ts'
import type { Head } from './backend.ts'
import type { Held } from './holder.ts'
import type { Cells, Sets } from './lifted-cells.ts'

/** What a stream's cell holds. */
export interface StoredHead extends Head {
  readonly held?: Held
}

export const FEED = 'mplp/feed'
export const headCell = (stream: string) => `mplp/head/${stream}`
export const valueCell = (key: string) => `mplp/value/${key}`
export const entryCell = (place: number) => `mplp/entry/${place}`
export const placeCell = (stream: string, revision: number) => `mplp/place/${revision}/${stream}`
export const blobCell = (digest: Digest) => `mplp/blob/${digest}`
/** When it was put last; not there if no release has put it that writes it. */
export const putAtCell = (digest: Digest) => `mplp/put-at/${digest}`
/** The caller's own keys stay where he looks for them; only those that would meet our cells move. */
export const ownCell = (key: string) => (key.startsWith('mplp/') ? `mplp/own/${key}` : key)

/** The cells of one more entry: the stream's head, the entry, its place, and the last place of all. */
export const entryCells = (stream: string, head: StoredHead, place: number, body: Json): Sets => [
  [headCell(stream), { ...head, revision: head.revision + 1 } as unknown as Json],
  [entryCell(place), { stream, revision: head.revision + 1, body }],
  [placeCell(stream, head.revision + 1), place],
  [FEED, place],
]

/** In place of an entry that was taken away: if nothing lay there, it would be one that the bare store has lost. */
export const FORGOTTEN = 'forgotten'

/** The cells of a stream without its entries, which had these places. */
export const forgottenCells = (stream: string, head: StoredHead, places: readonly number[]): Sets => [
  [headCell(stream), { ...head, revision: 0 } as unknown as Json],
  ...places.flatMap(
    (place, i): Sets => [
      [entryCell(place), FORGOTTEN],
      [placeCell(stream, i + 1), null],
    ],
  ),
]

export const forgottenBlobCells = (digests: readonly Digest[]): Sets =>
  digests.flatMap(
    (digest): Sets => [
      [blobCell(digest), null],
      [putAtCell(digest), null],
    ],
  )

/** A value lies in a list of its own, so that `null` is not taken for nothing. */
export async function storedValue(cells: Cells, key: string): Promise<Json | undefined> {
  const cell = await cells.get(valueCell(key))
  return Array.isArray(cell) ? cell[0] : undefined
}

/** What another cell tells of is not there: the bare store did not keep what it had acknowledged. */
export const lost = (cell: string): Corrupt =>
  new Corrupt(`the bare store, which has lost ${cell},`, 'restore a backup of it')

const STORE = 'mplp/store'
const VERSION = 1

/** Makes the store ours if it is new; throws Refused if a later release wrote it. */
export async function claimStore(cells: Cells): Promise<void> {
  const mark = await cells.get(STORE)
  if (mark === undefined) await cells.set([[STORE, { format: 'mplp-runtime lifted store', version: VERSION }]])
  else if (!isObject(mark) || mark.version !== VERSION)
    throw new Refused(
      `the store holds ${STORE} of another version than ${VERSION}`,
      'use the release that wrote it, or copy the store with copyStore',
    )
}
