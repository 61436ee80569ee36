import type { Pool } from 'pg'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed } from '../protocol/errors.ts'
import { type Fields, having, timeout, wholeFrom } from '../protocol/fields.ts'
import { digestOf, type Json } from '../protocol/json.ts'
import { eitherOf } from '../protocol/on-abort.ts'
import type { Backend, Entry } from './backend.ts'
import { textOf } from './check-input.ts'
import { checkEither, checkOpening } from './check-options.ts'
import { checked } from './checked.ts'
import { type Followers, followers } from './followers.ts'
import { grouped } from './grouped.ts'
import { textArray } from './postgres-arrays.ts'
import { postgresBlobs } from './postgres-blobs.ts'
import { batchSender } from './postgres-commit.ts'
import { postgresConnection } from './postgres-connection.ts'
import { postgresLeases } from './postgres-leases.ts'
import { postgresNews } from './postgres-news.ts'
import { entryOf, followed, journalPages, type NextPage, unhurried, waited, walk } from './postgres-pages.ts'
import { openSchema, refuseIfNewer, VERSION } from './postgres-schema.ts'
import { parsedValue } from './stored-json.ts'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with `sslmode`, `sslrootcert` and the like for TLS. Either this or a pool. */
  readonly url?: string
  /** Yours: it keeps its own settings, also its `statement_timeout`, and is not ended. It must lend at least two connections. */
  readonly pool?: Pool
  /** Made if it is not there: true when absent. With false NotFound is thrown instead, and nothing is left behind. */
  readonly create?: boolean
  /** Holds the store's tables, and nothing else. Default mplp. */
  readonly schema?: string
  /** Connections at most, of which one listens while somebody follows. Default 10. */
  readonly poolSize?: number
  /** How long a call waits for a connection, and for its answer. Default 10,000. */
  readonly timeoutMs?: number
  /** Told once when the server may forget what it has acknowledged. Default: a warning of the process. */
  readonly onWarning?: (message: string) => void
  /** Paces what is done again and again; leases go by the server's clock. */
  readonly clock?: Clock
}

const OPTIONS = 'the options of a Postgres store'
const OWN: Fields = {
  url: {
    says: 'postgres://user:password@host:port/database',
    rule: 'format',
    fits: (value) =>
      typeof value === 'string' && URL.canParse(value) && /^postgres(ql)?:$/.test(new URL(value).protocol),
    secret: true, // it may hold a password
  },
  pool: having('a pool, as pg makes them', 'connect'),
  schema: {
    says: 'a name of at most 48 lower-case letters, digits and underscores',
    rule: 'pattern',
    fits: (value) => typeof value === 'string' && /^(?!pg_)[a-z_][a-z0-9_]{0,47}$/.test(value),
  },
  poolSize: wholeFrom(2),
  timeoutMs: timeout,
}

/** A schema of tables in a database, for any number of processes. A batch of commits is one statement and one round trip. */
export async function postgresBackend(options: PostgresOptions): Promise<Backend> {
  checkOpening(OPTIONS, options, 'create', 'onWarning', 'clock', OWN)
  checkEither(OPTIONS, options, 'url', 'pool')
  const { create = true, schema = 'mplp', poolSize = 10, timeoutMs = 10_000, clock = systemClock } = options
  const { onWarning = (message: string) => process.emitWarning(message) } = options
  const target = options.pool ? { pool: options.pool } : { url: options.url ?? '', poolSize }
  const connection = postgresConnection(target, timeoutMs)
  const what = `the store ${schema} in ${connection.what}`
  const { base, durable } = await openSchema(connection, schema, create).catch(async (error) => {
    await connection.close()
    throw error
  })
  connection.stands()
  if (!durable) onWarning(`${what} may lose acknowledged commits: set fsync and synchronous_commit to on`)

  const closing = new AbortController()
  const open = () => {
    if (closing.signal.aborted) throw new Closed(what)
  }
  const following: Followers = followers(what, () => news.listen())
  const news = postgresNews(connection, `mplp:${schema}`, following, clock)
  const commits = grouped({ commitBatch: batchSender(connection, schema, base) }, { what, lanes: 2, tell: news.tell })
  const { idle: leasesIdle, ...leases } = postgresLeases(connection, schema)
  const journal = journalPages(connection, schema, base)
  const blobs = postgresBlobs(connection, schema)
  const getOwn = { name: `${schema}.get`, text: `select value from "${schema}".own where key = $1` }
  const deleteOwn = { name: `${schema}.delete`, text: `delete from "${schema}".own where key = $1` }
  const setOwn = {
    name: `${schema}.set`,
    text: `insert into "${schema}".own values ($1, $2) on conflict (key) do update set value = excluded.value`,
  }
  const askFacts = {
    name: `${schema}.facts`,
    text: `select extract(epoch from clock_timestamp()) * 1000 as now, sum(pg_total_relation_size(oid)) as bytes,
             (select version from "${schema}".meta) as version
           from pg_class where relnamespace = '"${schema}"'::regnamespace and relkind = 'r'`,
  }
  const getMany = { name: `${schema}.many`, text: `select key, value from "${schema}"."values" where key = any ($1)` }

  async function* entries(
    stream: string | undefined,
    next: NextPage,
    from: { follow?: boolean; signal?: AbortSignal },
  ): AsyncIterable<Entry> {
    const { signal, unlink } = eitherOf(closing.signal, from.signal)
    const page = from.follow && stream === undefined ? unhurried(next, signal) : next
    const nextPage = () => (from.follow ? followed(page, clock, signal) : waited(page, clock, signal, timeoutMs, what))
    try {
      for await (const row of following.entries(stream, nextPage, from)) yield entryOf(row)
    } finally {
      unlink()
    }
  }

  return checked(open, {
    traits: { durable, processes: 'many', grouped: true },
    async facts() {
      const [row] = await connection.ask<{ now: string; bytes: string; version: number }>(askFacts, [])
      refuseIfNewer(connection, schema, row!.version)
      return { layout: VERSION, bytes: Number(row!.bytes), now: Number(row!.now) }
    },

    async get(key) {
      const [row] = await connection.ask<{ value: string }>(getOwn, [key])
      return row && parsedValue(key, row.value)
    },
    async set(key, value) {
      await connection.once(key, setOwn, [key, textOf('value', value)])
    },
    async delete(key) {
      await connection.once(key, deleteOwn, [key])
    },

    commit: commits.commit,

    async getMany(keys) {
      if (keys.length === 0) return new Map()
      const rows = await connection.ask<{ key: string; value: string }>(getMany, [textArray(keys)])
      return new Map(rows.map(({ key, value }): [string, Json] => [key, parsedValue(key, value)]))
    },
    async *scan(prefix, from = {}) {
      for await (const [key, text] of walk(connection, schema, prefix, from)) {
        open()
        yield [key, parsedValue(key, text)]
      }
    },

    read: (stream, from = {}) => entries(stream, journal.ofStream(stream, from.after ?? 0), from),
    feed: (from = {}) => entries(undefined, journal.ofAll(from.after, from.follow === true), from),

    ...leases,

    async putBlob(bytes) {
      const copy = Buffer.from(bytes)
      const digest = digestOf(copy)
      await blobs.put(digest, copy)
      return digest
    },
    getBlob: blobs.get,
    forgetBlobs: blobs.forget,
    async *blobs() {
      open()
      for await (const digest of blobs.all()) {
        open()
        yield digest
      }
    },

    async close() {
      closing.abort()
      following.end()
      await Promise.all([commits.close(), leasesIdle()])
      await news.close()
      await connection.close()
    },
  })
}
