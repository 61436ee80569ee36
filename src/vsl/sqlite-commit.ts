import type { Head } from './backend.ts'
import type { PreparedWrite, Verdict } from './grouped.ts'
import { judge } from './judge.ts'
import type { Database } from './sqlite-open.ts'
import { type Bound, rowStatement } from './sqlite-rows.ts'

/** Writes what may be written of a batch, inside the caller's transaction; one verdict per write. */
export function batchWriter(db: Database): (writes: readonly PreparedWrite[]) => Verdict[] {
  const heads = rowStatement(
    db,
    '(?)',
    (rows) =>
      `SELECT column1, (SELECT max(revision) FROM journal WHERE stream = number), token
       FROM (VALUES ${rows}) LEFT JOIN streams ON name = column1`,
  )
  const existing = rowStatement(db, '?', (rows) => `SELECT key FROM "values" WHERE key IN (${rows})`)
  const put = rowStatement(
    db,
    '(?, ?)',
    (rows) => `INSERT INTO "values" VALUES ${rows} ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
  )
  const remove = rowStatement(db, '?', (rows) => `DELETE FROM "values" WHERE key IN (${rows})`)
  const begin = rowStatement(db, '(?)', (rows) => `INSERT INTO streams (name) VALUES ${rows} ON CONFLICT DO NOTHING`)
  const append = rowStatement(
    db,
    '((SELECT number FROM streams WHERE name = ?), ?, ?)',
    (rows) => `INSERT INTO journal (stream, revision, body) VALUES ${rows}`,
  )

  const newest = db
    .prepare('SELECT name FROM streams WHERE number = (SELECT stream FROM journal ORDER BY seq DESC LIMIT 1)')
    .raw()
  const forget = db.prepare('DELETE FROM journal WHERE stream = (SELECT number FROM streams WHERE name = ?)')

  return (writes) => {
    const found = new Map<string, Head>()
    for (const [stream, revision, token] of heads.all(writes.map((write) => write.stream)) as HeadRow[])
      found.set(stream, { revision: revision ?? 0, token: token ?? 0 })
    const inserts = writes.flatMap((write) => write.inserts.map(([key]) => key))
    const taken = new Set((existing.all(inserts) as [string][]).map(([key]) => key))

    const known = {
      exists: (key: string) => taken.has(key),
      newest: () => (newest.get([]) as [string] | undefined)?.[0],
    }
    const [values, deletes, begun, entries]: [Bound[], Bound[], Bound[], Bound[]] = [[], [], [], []]
    const verdicts = writes.map((write) => {
      // No stream and no key occurs twice in a batch, so no write changes the verdict on another.
      const verdict = judge(write, found.get(write.stream)!, known)
      if (verdict.kind !== 'landed') return verdict
      for (const [key, text] of write.inserts) values.push(key, text)
      for (const [key, text] of write.puts) values.push(key, text)
      for (const key of write.deletes) deletes.push(key)
      if (write.forget) forget.run([write.stream])
      if (write.entry === undefined) return verdict
      if (write.expected === 0) begun.push(write.stream)
      entries.push(write.stream, write.expected + 1, write.entry)
      return verdict
    })
    put.run(values)
    remove.run(deletes)
    begin.run(begun)
    append.run(entries)
    return verdicts
  }
}

type HeadRow = readonly [stream: string, revision: number | null, token: number | null]
