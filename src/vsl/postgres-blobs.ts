import { inParts } from '../protocol/each.ts'
import type { Digest } from '../protocol/json.ts'
import { textArray } from './postgres-arrays.ts'
import type { PostgresConnection } from './postgres-connection.ts'

/** The client reads bytes as hex text; in parts, so that no text grows too long. */
const PART_BYTES = 8 * 1024 * 1024
const PAGE_ROWS = 1000

export function postgresBlobs(connection: PostgresConnection, schema: string) {
  const table = `"${schema}".blobs`
  const touch = {
    name: `${schema}.touch`,
    text: `update ${table} set put_at = clock_timestamp() where digest = $1 returning digest`,
  }
  const put = {
    name: `${schema}.put`,
    text: `insert into ${table} values ($1, $2, clock_timestamp()) on conflict (digest) do update set put_at = excluded.put_at`,
  }
  const forget = {
    name: `${schema}.forget-blobs`,
    text: `delete from ${table} where digest = any ($1::text[]) and put_at <= clock_timestamp() - $2 * interval '1 millisecond' returning digest`,
  }
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
      if ((await connection.ask(touch, [digest])).length === 0) await connection.ask(put, [digest, bytes])
    },
    async get(digest: Digest): Promise<Uint8Array | undefined> {
      const partAt = async (at: number) =>
        (await connection.ask<{ length: number; part: Buffer }>(part, [digest, at + 1]))[0]
      const first = await partAt(0)
      if (first === undefined) return undefined
      const bytes = new Uint8Array(first.length)
      bytes.set(first.part)
      for (let at = PART_BYTES; at < bytes.length; at += PART_BYTES) {
        const next = await partAt(at)
        if (next === undefined) return undefined // taken away meanwhile
        bytes.set(next.part, at)
      }
      return bytes
    },
    async forget(digests: readonly Digest[], unputMs: number): Promise<Digest[]> {
      const gone: Digest[] = []
      for (const some of inParts(digests, PAGE_ROWS)) {
        const rows = await connection.ask<{ digest: Digest }>(forget, [textArray(some), unputMs])
        gone.push(...rows.map(({ digest }) => digest))
      }
      return gone
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
