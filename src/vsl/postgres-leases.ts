import type { Acquired, Backend, Head, Holder } from './backend.ts'
import { holderIsGone } from './holder.ts'
import { numberArray, textArray } from './postgres-arrays.ts'
import type { PostgresConnection } from './postgres-connection.ts'
import { together } from './together.ts'

/** What is asked for or given back by one of many that do so at the same time. */
interface Asked {
  readonly stream: string
  readonly holder: Holder
  readonly ttlMs: number
  lease: Acquired | undefined
}
interface Returned {
  readonly stream: string
  readonly token: number
  readonly holder: string
}

/** The server's clock, from which tokens are taken: one that was given out and then lost, as by a failover, is not given out again. */
const MICROS = '(extract(epoch from clock_timestamp()) * 1000000)::bigint'

/** As many as fifty small plans take and leave at about the same time; a statement for each would be more than all their commits. */
const BATCHES = { most: 512 }

/** Leases in the head record, by the server's clock; each step is one statement, shared by those that wait together. */
export function postgresLeases(
  connection: PostgresConnection,
  schema: string,
): Pick<Backend, 'head' | 'acquire' | 'renew' | 'release'> & { idle(): Promise<void> } {
  const heads = `"${schema}".heads`
  const head = { name: `${schema}.head`, text: `select revision, token, holder from ${heads} where stream = $1` }
  // The clock is read after any wait for the row, and rows are locked in the order of their streams, as commits do. $5 is the token of a holder
  // that is known to be gone.
  const acquire = {
    name: `${schema}.acquire`,
    text: `
      insert into ${heads} as h (stream, token, holder_id, holder, until)
      select stream, ${MICROS}, id, holder, statement_timestamp() + ttl * interval '1 millisecond'
      from unnest($1::text[], $2::text[], $3::text[], $4::float8[]) as asked (stream, id, holder, ttl)
      order by stream collate "C"
      on conflict (stream) do update
      set token = greatest(h.token + 1, ${MICROS}), holder_id = excluded.holder_id, holder = excluded.holder,
          until = clock_timestamp() + (excluded.until - statement_timestamp())
      where h.until is null or h.until <= clock_timestamp() or h.holder_id = excluded.holder_id or h.token = $5
      returning stream, token, revision`,
  }
  const renew = {
    name: `${schema}.renew`,
    text: `
      update ${heads} set until = clock_timestamp() + $3 * interval '1 millisecond'
      where stream = $1 and token = $2 and holder_id = $4 returning token`,
  }
  const release = {
    name: `${schema}.release`,
    text: `
      update ${heads} as h set holder_id = null, holder = null, until = null
      from (
        select stream from ${heads}
        join unnest($1::text[], $2::bigint[], $3::text[]) as mine (stream, token, holder_id) using (stream, token, holder_id)
        order by stream for update of heads
      ) as held
      where h.stream = held.stream`,
  }

  const headOf = async (stream: string): Promise<Head & { holder: string | null }> => {
    const [row] = await connection.ask<{ revision: string; token: string; holder: string | null }>(head, [stream])
    return { revision: Number(row?.revision ?? 0), token: Number(row?.token ?? 0), holder: row?.holder ?? null }
  }

  /** Of several that ask for one stream the first is heard; the others ask again. */
  async function acquireAll(asked: readonly Asked[], gone: number): Promise<void> {
    const firsts = new Map<string, Asked>()
    for (const one of asked) if (!firsts.has(one.stream)) firsts.set(one.stream, one)
    const each = [...firsts.values()]
    const rows = await connection.ask<{ stream: string; token: string; revision: string }>(acquire, [
      textArray(each.map(({ stream }) => stream)),
      textArray(each.map(({ holder }) => holder.id)),
      textArray(each.map(({ holder }) => JSON.stringify(holder))),
      numberArray(each.map(({ ttlMs }) => ttlMs)),
      gone,
    ])
    for (const { stream, token, revision } of rows) {
      const one = firsts.get(stream)!
      const { holder, ttlMs } = one
      one.lease = { stream, holder, token: Number(token), ttlMs, revision: Number(revision) }
    }
  }
  const acquiring = together<Asked>((asked) => acquireAll(asked, -1), BATCHES)
  const releasing = together<Returned>(
    (each) =>
      connection
        .ask(release, [
          textArray(each.map(({ stream }) => stream)),
          numberArray(each.map(({ token }) => token)),
          textArray(each.map(({ holder }) => holder)),
        ])
        .then(() => undefined),
    BATCHES,
  )

  return {
    async head(stream) {
      const { revision, token } = await headOf(stream)
      return { revision, token }
    },
    async acquire(stream, holder, ttlMs) {
      const asked: Asked = { stream, holder, ttlMs, lease: undefined }
      for (let ask = acquiring.add(asked); ; ) {
        await ask
        if (asked.lease) return asked.lease
        // It may have been taken over in between by one that is gone by now, too.
        const now = await headOf(stream)
        const other: Holder | null = now.holder === null ? null : JSON.parse(now.holder)
        if (other && other.id !== holder.id && !holderIsGone(other)) return undefined
        ask = acquireAll([asked], now.token)
      }
    },
    async renew({ stream, token, ttlMs, holder }) {
      return (await connection.ask(renew, [stream, token, ttlMs, holder.id])).length > 0
    },
    release: ({ stream, token, holder }) => releasing.add({ stream, token, holder: holder.id }),
    async idle() {
      await Promise.all([acquiring.idle(), releasing.idle()])
    },
  }
}
