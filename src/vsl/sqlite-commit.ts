import type { Head } from './backend.ts'
import type { PreparedWrite, Verdict } from './grouped.ts'
import type { Database } from './sqlite-open.ts'
import { rowStatement } from './sqlite-rows.ts'

/** Writes what may be written of a batch, inside the caller's transaction; one verdict per write. */
export function batchWriter(db: Database): (writes: readonly PreparedWrite[]) => Verdict[] {
  const heads = rowStatement(db, '?', (rows) => `SELECT stream, revision, token FROM heads WHERE stream IN (${rows})`)
  const existing = rowStatement(db, '?', (rows) => `SELECT key FROM "values" WHERE key IN (${rows})`)
  const put = rowStatement(
    db,
    '(?, ?)',
    (rows) => `INSERT INTO "values" VALUES ${rows} ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
  )
  const remove = rowStatement(db, '?', (rows) => `DELETE FROM "values" WHERE key IN (${rows})`)
  const append = rowStatement(db, '(?, ?, ?)', (rows) => `INSERT INTO journal (stream, revision, body) VALUES ${rows}`)
  const advance = rowStatement(
    db,
    '(?, ?, 0)',
    (rows) =>
      `INSERT INTO heads (stream, revision, token) VALUES ${rows}
       ON CONFLICT (stream) DO UPDATE SET revision = excluded.revision`,
  )

  return (writes) => {
    const found = new Map((heads.all(writes.map((w) => w.stream)) as HeadRow[]).map((row) => [row[0], row]))
    const inserts = writes.flatMap((w) => w.inserts.map(([key]) => key))
    const taken = new Set((existing.all(inserts) as [string][]).map(([key]) => key))
    const verdicts = writes.map((write) => {
      const [, revision, token] = found.get(write.stream) ?? [write.stream, 0, 0]
      return judge(write, { revision, token }, taken)
    })

    const landing = writes.filter((_, i) => verdicts[i]?.kind === 'landed')
    put.run(landing.flatMap((w) => [...w.inserts, ...w.puts].flat()))
    remove.run(landing.flatMap((w) => w.deletes))
    const entries = landing.flatMap((w) =>
      w.entry === undefined ? [] : [{ stream: w.stream, revision: w.expected + 1, body: w.entry }],
    )
    append.run(entries.flatMap(({ stream, revision, body }) => [stream, revision, body]))
    advance.run(entries.flatMap(({ stream, revision }) => [stream, revision]))
    return verdicts
  }
}

type HeadRow = readonly [stream: string, revision: number, token: number]

/** No stream and no key occurs twice in a batch, so none of its writes can change the verdict on another. */
function judge(write: PreparedWrite, head: Head, taken: ReadonlySet<string>): Verdict {
  if (write.fence !== undefined && write.fence !== head.token) return { kind: 'fenced', token: head.token }
  if (write.expected !== head.revision) return { kind: 'conflict', actual: head.revision }
  const key = write.inserts.find(([k]) => taken.has(k))?.[0]
  return key === undefined ? { kind: 'landed' } : { kind: 'exists', key }
}
