import type { Pool, PoolClient, QueryConfig } from 'pg'
import { InvalidInput, type MplpError, OutcomeUnknown } from '../protocol/errors.ts'
import { required } from '../protocol/required.ts'
import { isLost, isMisled, isRolledBack, isTimeUp, postgresError, TIME_UP } from './postgres-errors.ts'
import { wakeable } from './wakeable.ts'

/** Prepared once per connection, under its name. */
export interface Statement {
  readonly name: string
  readonly text: string
}

export interface Answer<Row> {
  readonly rows: Row[]
  /** How many rows were written. */
  readonly rowCount: number | null
}

/** Single statements, each in a transaction of its own, over as many connections as it takes. */
export interface PostgresConnection {
  /** The server in error messages; no credentials. */
  readonly what: string
  /** Takes effect at most once: throws OutcomeUnknown, for the stream or key `of`, when the reply is lost. */
  once<Row>(of: string, statement: Statement, values: unknown[]): Promise<Answer<Row>>
  /** For what may be done twice: sent again if its connection breaks, then Unavailable. */
  ask<Row>(statement: Statement, values?: unknown[]): Promise<Row[]>
  /** A connection for oneself, to be released. */
  take(): Promise<PoolClient>
  /** What is said on it; throws what the client throws, or TIME_UP. */
  answer<Row>(client: PoolClient, query: QueryConfig): Promise<Answer<Row>>
  /** From here on, what the server no longer allows may pass: Unavailable, where it was Refused before. */
  stands(): void
  /** An error of the client or the server as ours. */
  failed(error: unknown): MplpError
  /** Waits for statements in hand. Ends a pool of our own, not a lent one. */
  close(): Promise<void>
}

/** How often a statement is sent that the server rolls back for the sake of others. */
const TRIES = 20

/** Nothing is connected yet when this returns. The server gives a statement up a little earlier than we do, so that its end is certain. */
export function postgresConnection(
  target: { readonly url: string; readonly poolSize: number } | { readonly pool: Pool },
  timeoutMs: number,
): PostgresConnection {
  const pool = 'pool' in target ? target.pool : ownPool(target, timeoutMs)
  const what = 'pool' in target ? 'Postgres' : `Postgres at ${addressOf(target.url)}`
  const guarded = new Set<PoolClient>()
  const idle = wakeable()
  let inHand = 0
  let stood = false
  let ended: Promise<void> | undefined

  const failed = (error: unknown) => postgresError(what, error, stood)

  /** At once, and not when a promise is settled: what its server says last may come in the packet in which it says that it is ready. */
  const take = () =>
    new Promise<PoolClient>((resolve, reject) =>
      pool.connect((error, client) => {
        if (error || !client) return reject(failed(error))
        // The call in hand rejects with it; unheard, it would end the process.
        if (!guarded.has(client)) client.on('error', () => undefined).once('end', () => guarded.delete(client))
        guarded.add(client)
        resolve(client)
      }),
    )

  // The client's own promise and timeout keep what was read alive beyond its use, just long enough to grow old: collecting it costs more than reading it.
  const answer = <Row>(client: PoolClient, query: QueryConfig) =>
    new Promise<Answer<Row>>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(TIME_UP)), timeoutMs)
      client.query(query, (error: Error | null, result) => {
        clearTimeout(timer)
        if (error) reject(error)
        else resolve(result as Answer<Row>)
      })
    })

  /** Throws when certain that nothing was done; without an answer, says so. */
  async function send<Row>({ name, text }: Statement, values: unknown[]): Promise<Answer<Row> | Lost> {
    inHand++
    try {
      for (let attempt = 1; ; attempt++) {
        const client = await take()
        try {
          const answered = await answer<Row>(client, { name, text, values })
          client.release()
          return answered
        } catch (error) {
          client.release(isLost(error) || isMisled(error))
          if (isLost(error)) return { lost: error }
          if (!isRolledBack(error) || attempt === TRIES) throw failed(error)
        }
      }
    } finally {
      if (--inHand === 0) idle.wake()
    }
  }

  return {
    what,
    async once<Row>(of: string, statement: Statement, values: unknown[]) {
      const answer = await send<Row>(statement, values)
      if ('lost' in answer) throw new OutcomeUnknown(of, { cause: answer.lost })
      return answer
    },
    async ask<Row>(statement: Statement, values: unknown[] = []) {
      let answer = await send<Row>(statement, values)
      if ('lost' in answer && !isTimeUp(answer.lost)) answer = await send<Row>(statement, values)
      if ('lost' in answer) throw failed(answer.lost)
      return answer.rows
    },
    take,
    answer,
    failed,
    stands() {
      stood = true
    },
    async close() {
      while (inHand > 0) await idle.wait()
      if ('pool' in target) return
      ended ??= pool.end()
      await ended
      // A server that has fallen silent never says goodbye, and the process would wait for it.
      for (const client of guarded) (client as PoolClient & { unref(): void }).unref()
    },
  }
}

interface Lost {
  readonly lost: unknown
}

function ownPool({ url, poolSize }: { url: string; poolSize: number }, timeoutMs: number): Pool {
  const pg = required('pg') as typeof import('pg')
  try {
    new pg.Client({ connectionString: url }) // the pool would read the URL with its first connection only
  } catch (cause) {
    throw new InvalidInput('the options of a Postgres store', [
      { path: 'url', rule: 'option', message: `cannot be used: ${(cause as Error).message}` },
    ])
  }
  const pool = new pg.Pool({
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: timeoutMs,
    statement_timeout: Math.ceil(timeoutMs * 0.8),
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    fallback_application_name: 'mplp-runtime',
  })
  return pool.on('error', () => undefined) // an idle connection broke: the pool has dropped it and will make a new one
}

/** Host and database, without the credentials. */
function addressOf(url: string): string {
  const { host, pathname, searchParams } = new URL(url)
  return `${host || searchParams.get('host') || 'localhost'}${pathname}`
}
