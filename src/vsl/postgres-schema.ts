import type { DatabaseIntrospector } from 'kysely'
import type { PoolClient } from 'pg'
import { MplpError, NotFound, Refused } from '../protocol/errors.ts'
import type { Answer, PostgresConnection } from './postgres-connection.ts'
import { isMissing, postgresError } from './postgres-errors.ts'
import { commitFunction, forgetFunction, forgettingTables, tables } from './postgres-tables.ts'

/** Raised by each migration; a database that is ahead of it was written by a newer runtime. */
export const VERSION = 2
const MIGRATIONS = 'mplp_migrations'

export interface OpenedSchema {
  /** Added to every transaction id: see `rebased`. */
  readonly base: string
  /** Does the server sync before it acknowledges? */
  readonly durable: boolean
}

/** Makes the schema what this runtime needs, or refuses it; throws NotFound where there is none, unless it may `create`. Any number of processes may do this at once. */
export async function openSchema(
  connection: PostgresConnection,
  schema: string,
  create: boolean,
): Promise<OpenedSchema> {
  const found = await look(connection, schema)
  if (found === undefined && !create && !(await isBegun(connection, schema)))
    throw new NotFound('store', `${schema} in ${connection.what}`)
  if (found === undefined || found.version < VERSION) await migrate(connection, schema)
  const now = found?.version === VERSION ? found : await look(connection, schema)
  if (now === undefined)
    throw new Refused(`${placeOf(connection, schema)} has lost tables of the store`, 'restore them from a backup')
  refuseIfNewer(connection, schema, now.version)
  if (now.standby) throw new Refused(`${connection.what} is a standby`, 'connect to the primary')
  return { base: now.foreign ? await rebased(connection, schema) : now.base, durable: now.durable }
}

const placeOf = ({ what }: PostgresConnection, schema: string): string => `the schema ${schema} in ${what}`

export function refuseIfNewer(connection: PostgresConnection, schema: string, version: number): void {
  if (version <= VERSION) return
  throw new Refused(
    `${placeOf(connection, schema)} was written by a newer mplp-runtime (version ${version}, this one knows ${VERSION})`,
    'update mplp-runtime, or name another schema',
  )
}

interface Found {
  readonly version: number
  readonly base: string
  readonly foreign: boolean
  readonly standby: boolean
  readonly durable: boolean
}

/** What is there, in one query; undefined if nothing is. */
async function look(connection: PostgresConnection, schema: string): Promise<Found | undefined> {
  const text = `
    select version, base::text, pg_is_in_recovery() as standby,
      coalesce((select max(xid) from "${schema}".journal) >= base + pg_snapshot_xmax(pg_current_snapshot())::text::bigint, false) as foreign,
      current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off' as durable
    from "${schema}".meta`
  try {
    const [row] = await connection.ask<Found>({ name: `${schema}.look`, text })
    return row
  } catch (error) {
    if (error instanceof MplpError && isMissing(error.cause)) return undefined
    throw error
  }
}

/** Has a store ever been made there? One that has lost its tables is no store that is missing. */
async function isBegun(connection: PostgresConnection, schema: string): Promise<boolean> {
  const text = `select to_regclass('"${schema}".${MIGRATIONS}') is not null as begun`
  const [row] = await connection.ask<{ begun: boolean }>({ name: `${schema}.begun`, text })
  return row?.begun === true
}

/**
 * A dump restored into a younger server brings entries whose transaction ids that server has yet to reach; new entries would sort before them. So
 * from then on every transaction id counts from above the highest one that came along.
 */
async function rebased(connection: PostgresConnection, schema: string): Promise<string> {
  await connection.ask({
    name: `${schema}.rebase`,
    text: `
      update "${schema}".meta set base = (select max(xid) from "${schema}".journal)
      where (select max(xid) from "${schema}".journal) >= base + pg_snapshot_xmax(pg_current_snapshot())::text::bigint`,
  })
  const [row] = await connection.ask<{ base: string }>({
    name: `${schema}.base`,
    text: `select base::text from "${schema}".meta`,
  })
  return row?.base ?? '0'
}

async function migrate(connection: PostgresConnection, schema: string): Promise<void> {
  const client = await connection.take()
  try {
    const ask: Ask = (text, values = []) => connection.answer(client, { text, values: [...values] })
    await refuseUnfit(ask, connection.what, schema)
    await runMigrations(ask, schema)
  } catch (error) {
    throw error instanceof MplpError ? error : postgresError(connection.what, error)
  } finally {
    client.release(true) // whatever state it is in, nobody else shall meet it
  }
}

/** On the one connection that migrates. */
type Ask = (text: string, values?: readonly unknown[]) => Promise<Answer<unknown>>

async function refuseUnfit(ask: Ask, what: string, schema: string): Promise<void> {
  const text = `
    select current_setting('server_version_num')::int as number, current_setting('server_encoding') as encoding,
      array(select relname::text from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r') as tables`
  const { rows } = await ask(text, [schema])
  const { number, encoding, tables } = rows[0] as { number: number; encoding: string; tables: string[] }
  if (number < 130_000) throw new Refused(`${what} is older than Postgres 13`, 'update it')
  if (encoding !== 'UTF8')
    throw new Refused(`the database of ${what} is encoded in ${encoding}`, 'create one with the encoding UTF8')
  if (tables.length > 0 && !tables.includes(MIGRATIONS))
    throw new Refused(
      `the schema ${schema} in ${what} holds tables that are not a store`,
      'give the store a schema of its own',
    )
}

/** Kysely keeps the list of migrations and holds an advisory lock meanwhile; all of them land, or none. */
async function runMigrations(ask: Ask, schema: string): Promise<void> {
  const { Kysely, Migrator, PostgresDialect, sql } = await import('kysely')
  const statement = (text: string) => ({ up: async (db: unknown) => void (await sql.raw(text).execute(db as never)) })
  const lent = { query: ask as PoolClient['query'], release: () => undefined }
  const dialect = new PostgresDialect({ pool: { connect: async () => lent, end: async () => undefined } })
  const db = new Kysely<unknown>({ dialect: Object.assign(dialect, { createIntrospector: () => within(ask, schema) }) })
  const migrator = new Migrator({
    db,
    provider: {
      getMigrations: async () => ({
        '0001-tables': statement(tables(schema) + commitFunction(schema)),
        '0002-forgetting': statement(forgettingTables(schema) + forgetFunction(schema)),
      }),
    },
    migrationTableSchema: schema,
    migrationTableName: MIGRATIONS,
    migrationLockTableName: `${MIGRATIONS}_lock`,
  })
  const { error } = await migrator.migrateToLatest()
  if (error !== undefined) throw error
}

/** Its own would look at every table of the database, and fail over a schema that somebody drops meanwhile. */
function within(ask: Ask, schema: string): DatabaseIntrospector {
  const getTables = async () => {
    const text = `select relname as name from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r'`
    const { rows } = await ask(text, [schema])
    return (rows as { name: string }[]).map(({ name }) => ({ name, schema, isView: false, columns: [] }))
  }
  return {
    getTables,
    getMetadata: async () => ({ tables: await getTables() }),
    async getSchemas() {
      const { rows } = await ask('select nspname as name from pg_namespace where nspname = $1', [schema])
      return rows as { name: string }[]
    },
  }
}
