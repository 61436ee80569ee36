import type { Digest } from '../protocol/json.ts'
import type { PostgresConnection } from './postgres-connection.ts'

/** The client reads bytes as hex text; in parts, so that no text grows too long. */
const PART_BYTES = 8 * 1024 * 1024
const PAGE_ROWS = 1000

export function postgresBlobs(connection: PostgresConnection, schema: string) {
  const table = `"${schema}".blobs`
  const has = { name: `${schema}.has`, text: `select from ${table} where digest = $1` }
  const put = { name: `${schema}.put`, text: `insert into ${table} values ($1, $2) on conflict do nothing` }
  const part = {
    name: `${schema}.part`,
    text: `select length(bytes) as length, substring(bytes from $2 for ${PART_BYTES}) as part from ${table} where digest = $1`,
  }
  const page = {
    name: `${schema}.blobs`,
    text: `select digest from ${table} where digest > $1 order by digest limit ${PAGE_ROWS}`,
  }

  return {
    /** What is there already is not sent again. */
    async put(digest: Digest, bytes: Buffer): Promise<void> {
      if ((await connection.ask(has, [digest])).length === 0) await connection.ask(put, [digest, bytes])
    },
    async get(digest: Digest): Promise<Uint8Array | undefined> {
      const partAt = async (at: number) =>
        (await connection.ask<{ length: number; part: Buffer }>(part, [digest, at + 1]))[0]
      const first = await partAt(0)
      if (first === undefined) return undefined
      const bytes = new Uint8Array(first.length)
      bytes.set(first.part)
      for (let at = PART_BYTES; at < bytes.length; at += PART_BYTES) bytes.set((await partAt(at))!.part, at) // blobs are never removed
      return bytes
    },
    async *all(): AsyncIterable<Digest> {
      for (let after = ''; ; ) {
        const rows = await connection.ask<{ digest: Digest }>(page, [after])
        for (const { digest } of rows) yield digest
        const last = rows.at(-1)
        if (last === undefined) return
        after = last.digest
      }
    },
  }
}
