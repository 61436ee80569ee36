import { type Digest, digestOf, type Json } from '../../src/protocol/json.ts'
import type { Write } from '../../src/vsl/backend.ts'
import type { StoreOptions } from '../../src/vsl/vsl.ts'

/** What a child is told. */
export interface Life {
  readonly url: string
  readonly options: Pick<StoreOptions, 'prefix' | 'schema'>
  readonly seed: number
  readonly streams: readonly string[]
}

/** A line of a child: this is acknowledged. */
export type Acknowledged = readonly [what: 'commit' | 'cursor' | 'own' | 'token', stream: string, count: number]

/** Every so many revisions a write without an entry, and an own key. */
export const CURSOR_EVERY = 3

/**
 * The write that makes a revision of a stream: a few values put, one inserted, an older one deleted, and a blob that the entry names. Nothing in it
 * but comes from seed, stream and revision, so that whoever knows these knows what must be there.
 */
export function writeOf(seed: number, stream: string, revision: number): { write: Write; blob: Uint8Array } {
  const random = luck(`${seed} ${stream} ${revision}`)
  const text = () => 'x'.repeat(Math.floor(random() * (random() < 0.1 ? 20_000 : 200)))
  const blob = new TextEncoder().encode(`${stream} ${revision} ${text()}`)
  const puts = new Map<string, Json>()
  for (let i = 0; i < 4; i++) puts.set(`${stream}/put/${Math.floor(random() * 8)}`, { revision, text: text() })
  const entry = { commit_id: `${stream} ${revision}`, blob: digestOf(blob), text: text() }
  const gone = `${stream}/put/${8 + (revision % 4)}`
  return {
    blob,
    write: {
      stream,
      expected: revision - 1,
      entry,
      inserts: [[`${stream}/new/${revision}`, { revision }]],
      puts: [...puts, [`${stream}/put/${8 + ((revision + 1) % 4)}`, revision]],
      deletes: [...(revision > 3 ? [`${stream}/new/${revision - 3}`] : []), gone],
    },
  }
}

/** The values of a stream at a revision. */
export function valuesAt(seed: number, stream: string, revision: number): Map<string, Json> {
  const values = new Map<string, Json>()
  for (let r = 1; r <= revision; r++) {
    const { write } = writeOf(seed, stream, r)
    for (const [key, value] of [...write.inserts, ...write.puts]) values.set(key, value)
    for (const key of write.deletes) values.delete(key)
  }
  return values
}

export const blobIn = (entry: Json): Digest => (entry as { blob: Digest }).blob
export const cursorKey = (stream: string): string => `cursor/${stream}`

/** The same luck for the same text: FNV-1a, then steps of a linear generator. */
function luck(text: string): () => number {
  let state = 2166136261
  for (const character of text) state = Math.imul(state ^ character.charCodeAt(0), 16777619)
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 4294967296
  }
}
