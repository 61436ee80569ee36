import type { Entry, Position, ScanFrom } from './backend.ts'
import { aheadOfStore } from './check-input.ts'
import { sequenceOf, sequencePosition } from './position.ts'
import { byBytes } from './sorted-keys.ts'
import type { Database } from './sqlite-open.ts'
import { parsedEntry } from './stored-json.ts'

/** A page blocks the process while it is read and stays in memory while it is walked: so many rows at most, and only small ones. */
const PAGE_ROWS = 256
/** So many at first, of one stream: who asks for a few entries is given no more. */
const FIRST_ROWS = 16
/** Texts above this are read one at a time. */
const SMALL_BYTES = 16 * 1024
/** By so many characters an entry is known again: every entry of a graph has its id among them, sealed or not. */
const PRINTED = 1000

/** The journal, by pages that go on where the last one ended and are empty at the end. */
export function journalPages(db: Database) {
  const small = `CASE WHEN octet_length(body) <= ${SMALL_BYTES} THEN body END`
  const rows = `SELECT seq, name, revision, ${small} FROM journal JOIN streams ON number = stream`
  // The first row is the last one shown: a file that was set back to a backup gives its place, and those after it, to something else.
  const all = db
    .prepare(
      `SELECT seq, name, revision, CASE WHEN seq = ?1 THEN substr(body, 1, ${PRINTED}) ELSE ${small} END
       FROM journal JOIN streams ON number = stream WHERE seq >= ?1 ORDER BY seq LIMIT ${PAGE_ROWS + 1}`,
    )
    .raw()
  const some = db.prepare(`${rows} WHERE name = ? AND revision > ? ORDER BY revision LIMIT ?`).raw()
  const body = db.prepare('SELECT body FROM journal WHERE seq = ?').raw()
  const lastSeq = db.prepare('SELECT coalesce(max(seq), 0) FROM journal').raw()
  const streamsAbove = db
    .prepare('SELECT name, max(seq) FROM journal JOIN streams ON number = stream WHERE seq > ? GROUP BY stream')
    .raw()
  const dataVersion = db.prepare('PRAGMA data_version').raw()

  const newest = () => (lastSeq.get() as [number])[0]
  const bodyOf = ([seq]: JournalRow) => (body.get([seq]) as [string] | undefined)?.[0]
  const entries = (read: readonly (readonly [JournalRow, string])[]): Entry[] =>
    read.map(([[seq, stream, revision], text]) => ({
      stream,
      revision,
      position: sequencePosition(seq),
      body: parsedEntry(stream, revision, text),
    }))

  return {
    ofAll(after: Position | undefined): () => Entry[] {
      let seq = after === undefined ? 0 : sequenceOf(after)
      let isKnown = after === undefined
      let last: string | undefined
      return () => {
        const found = all.all([seq]) as JournalRow[]
        const reached = found[0]?.[0] === seq ? found[0][3]! : undefined
        // Unless it was forgotten; then there is a newer one.
        if (last !== undefined && (reached === undefined ? newest() < seq : !last.startsWith(reached)))
          throw aheadOfStore(sequencePosition(seq))
        if (!isKnown && found.length === 0 && seq > newest()) throw aheadOfStore(after!)
        isKnown = true
        last ??= reached
        const page = fitting(reached === undefined ? found : found.slice(1), bodyOf)
        const latest = page.at(-1)
        if (latest) {
          seq = latest[0][0]
          last = Buffer.from(latest[1].slice(0, 2 * PRINTED)).toString() // a slice alone would keep all of it
        }
        return entries(page)
      }
    },
    ofStream(stream: string, after: number): () => Entry[] {
      let revision = after
      let rows = FIRST_ROWS
      return () => {
        const page = entries(fitting(some.all([stream, revision, rows]) as JournalRow[], bodyOf))
        rows = PAGE_ROWS
        revision = page.at(-1)?.revision ?? revision
        return page
      }
    },
    /** The streams to which another connection has appended since the last call; cheap while there is nothing. Throws when it has set the file back. */
    news(): () => string[] {
      const versionNow = () => (dataVersion.get() as [number])[0]
      let version = versionNow()
      let seq = newest()
      return () => {
        const now = versionNow()
        if (now === version) return []
        version = now
        if (newest() < seq) {
          seq = newest()
          throw aheadOfStore(sequencePosition(seq)) // those who follow are told which of their places is
        }
        const rows = streamsAbove.all([seq]) as [string, number][]
        seq = Math.max(seq, ...rows.map(([, last]) => last))
        return rows.map(([stream]) => stream)
      }
    },
  }
}

/** A table of keys and values, by pages in key order. */
export function keyPages(db: Database, table: string) {
  const range = db
    .prepare(
      `SELECT key, CASE WHEN octet_length(value) <= ${SMALL_BYTES} THEN value END FROM ${table}
       WHERE key >= ? AND key < CAST(? AS TEXT) ORDER BY key LIMIT ?`,
    )
    .raw()
  const value = db.prepare(`SELECT value FROM ${table} WHERE key = ?`).raw()
  const textOf = ([key]: KeyRow) => (value.get([key]) as [string] | undefined)?.[0]

  return {
    /** Undefined at the end; a page may be empty before that. */
    from(prefix: string, { after, limit = Number.POSITIVE_INFINITY }: ScanFrom): () => [string, string][] | undefined {
      const end = Buffer.concat([Buffer.from(prefix), Buffer.of(0xff)]) // a byte that no text contains
      let start = after !== undefined && byBytes(after, prefix) >= 0 ? following(after) : prefix
      let left = limit
      return () => {
        const rows = left > 0 ? (range.all([start, end, Math.min(left, PAGE_ROWS)]) as KeyRow[]) : []
        if (rows.length === 0) return undefined
        const page = fitting(rows, textOf).map(([[key], text]) => [key, text] as [string, string])
        const last = page.at(-1)?.[0] ?? rows[0]![0]
        start = following(last)
        left -= page.length
        return page
      }
    },
  }
}

type JournalRow = readonly [seq: number, stream: string, revision: number, body: string | null]
type KeyRow = readonly [key: string, value: string | null]

/** The least text above this one. */
const following = (text: string): string => `${text}\0`

/** The rows before the first whose text was too large to come along, or that one alone; none if it is gone since. */
function fitting<R extends readonly (string | number | null)[]>(
  rows: readonly R[],
  large: (row: R) => string | undefined,
): (readonly [R, string])[] {
  const first = rows[0]
  if (first === undefined) return []
  const end = rows.findIndex((row) => row.at(-1) === null)
  if (end !== 0) return rows.slice(0, end === -1 ? undefined : end).map((row) => [row, row.at(-1) as string] as const)
  const text = large(first)
  return text === undefined ? [] : [[first, text]]
}
