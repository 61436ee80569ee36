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
export type Acknowledged = readonly [
  what: 'commit' | 'cursor' | 'own' | 'token' | 'passed' | 'swept',
  stream: string,
  count: number,
]

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

/** A stream beside another that has some entries, each with a value, and is forgotten with these, round by round. */
export const PASSING = 4
export const passingOf = (stream: string): string => `${stream}/passing`
export const passedKey = (stream: string): string => `passed/${stream}`
export const passingValue = (stream: string, revision: number): string => `${stream}/passes/${revision}`
export const passingBlob = (stream: string, round: number): Uint8Array =>
  new TextEncoder().encode(`${stream} passes ${round}`)

/** The commits of a round, the last of which forgets the others. */
export const passingWrites = (stream: string, round: number): readonly Write[] =>
  Array.from({ length: PASSING + 1 }, (_, revision): Write => {
    const base = { stream: passingOf(stream), expected: revision, inserts: [], deletes: [] }
    if (revision < PASSING)
      return { ...base, entry: { round, revision }, puts: [[passingValue(stream, revision + 1), round]] }
    const deletes = Array.from({ length: PASSING }, (_, i) => passingValue(stream, i + 1))
    return { ...base, forget: true, puts: [[passedKey(stream), round]], deletes }
  })

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
