import type { Backend, Head } from './backend.ts'
import { holderIsGone } from './holder.ts'
import type { PostgresConnection } from './postgres-connection.ts'

/** Leases in the head record, by the server's clock; each step is one statement. */
export function postgresLeases(
  connection: PostgresConnection,
  schema: string,
): Pick<Backend, 'head' | 'acquire' | 'renew' | 'release'> {
  const heads = `"${schema}".heads`
  const head = { name: `${schema}.head`, text: `select revision, token, holder from ${heads} where stream = $1` }
  // The clock is read after any wait for the row. $5 is the token of a holder that is known to be gone.
  const acquire = {
    name: `${schema}.acquire`,
    text: `
      insert into ${heads} as h (stream, token, holder_id, holder, until)
      values ($1, 1, $2, $3, clock_timestamp() + $4 * interval '1 millisecond')
      on conflict (stream) do update
      set token = h.token + 1, holder_id = excluded.holder_id, holder = excluded.holder,
          until = clock_timestamp() + $4 * interval '1 millisecond'
      where h.until is null or h.until <= clock_timestamp() or h.holder_id = excluded.holder_id or h.token = $5
      returning token, revision`,
  }
  const renew = {
    name: `${schema}.renew`,
    text: `
      update ${heads} set until = clock_timestamp() + $3 * interval '1 millisecond'
      where stream = $1 and token = $2 and until is not null returning token`,
  }
  const release = {
    name: `${schema}.release`,
    text: `update ${heads} set holder_id = null, holder = null, until = null where stream = $1 and token = $2`,
  }

  const headOf = async (stream: string): Promise<Head & { holder: string | null }> => {
    const [row] = await connection.ask<{ revision: string; token: string; holder: string | null }>(head, [stream])
    return { revision: Number(row?.revision ?? 0), token: Number(row?.token ?? 0), holder: row?.holder ?? null }
  }

  return {
    async head(stream) {
      const { revision, token } = await headOf(stream)
      return { revision, token }
    },
    async acquire(stream, holder, ttlMs) {
      const attempt = async (gone: number) => {
        const values = [stream, holder.id, JSON.stringify(holder), ttlMs, gone]
        const [row] = await connection.ask<{ token: string; revision: string }>(acquire, values)
        return row && { stream, holder, token: Number(row.token), ttlMs, revision: Number(row.revision) }
      }
      for (let gone = -1; ; ) {
        const lease = await attempt(gone)
        if (lease) return lease
        // It may have been taken over in between by one that is gone by now, too.
        const now = await headOf(stream)
        if (now.holder !== null && !holderIsGone(JSON.parse(now.holder))) return undefined
        gone = now.token
      }
    },
    async renew({ stream, token, ttlMs }) {
      return (await connection.ask(renew, [stream, token, ttlMs])).length > 0
    },
    async release({ stream, token }) {
      await connection.ask(release, [stream, token])
    },
  }
}
