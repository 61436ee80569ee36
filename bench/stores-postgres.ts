import pg from 'pg'
import type { Backend } from '../src/vsl/backend.ts'
import { postgresBackend } from '../src/vsl/postgres.ts'
import { startServers } from '../test/support/start-servers.ts'
import { tell } from './report.ts'

// What the Postgres store adds to the bare client: commits of five small values and one entry, and opening a full store.
// Both sides take turns in one run, and the least disturbed round of each counts.
// npm run bench -- stores-postgres

const ROUNDS = 60
const COMMITTERS = 32
const VALUES = 100_000
const VALUE = { status: 'in_progress', title: 'a step of some plan', order: 12_345, depends_on: ['a', 'b'] }
const ENTRY = {
  commit_id: '9a4c9d5e-3b77-4c1c-8f0e-2f1f8a6f5f10',
  at: '2026-01-01T00:00:00.000000Z',
  changes: Array.from({ length: 5 }, (_, i) => ({ key: `step/${i}`, after: VALUE })),
}

async function main(): Promise<void> {
  const servers = await startServers({ postgres: true })
  try {
    const { url, version } = servers.postgres!
    const results = { ...(await committing(url, `${servers.run}_a`)), ...(await opening(url, `${servers.run}_b`)) }
    tell('Postgres beside its bare client', results, `Postgres ${version}, fsync on; the least disturbed of 60 rounds`)
  } finally {
    await servers.stop()
  }
}

async function committing(url: string, schema: string) {
  const store = await postgresBackend({ url, schema })
  const raw = new pg.Client(url)
  await raw.connect()
  await raw.query(`create table "${schema}".raw (key text collate "C" primary key, value text not null)`)
  const six = `insert into "${schema}".raw values ($1, $2), ($3, $4), ($5, $6), ($7, $8), ($9, $10), ($11, $12)
    on conflict (key) do update set value = excluded.value`
  const rawRows = (n: number) => [...keysOf('raw', n).flatMap((key) => [key, JSON.stringify(VALUE)]), `entry/${n}`]

  const best = await inTurns({
    raw: {
      calls: 50,
      call: (n) => raw.query({ name: 'six', text: six, values: [...rawRows(n), JSON.stringify(ENTRY)] }),
    },
    ours: { calls: 50, call: (n) => commit(store, 'one', n) },
    together: {
      calls: 10,
      call: (n) => Promise.all(Array.from({ length: COMMITTERS }, (_, i) => commit(store, `many/${i}`, n))),
    },
  })
  await raw.end()
  await store.close()

  const rate = (ms: number, commits = 1) => Math.round((commits * 1000) / ms)
  return {
    'commits/s one after another, beside a six-row statement': {
      raw: rate(best.raw),
      ours: rate(best.ours),
      ratio: rounded(best.raw / best.ours),
      goal: 'ratio at least 0.6',
    },
    [`commits/s of ${COMMITTERS} streams at once, beside one after another`]: {
      raw: rate(best.ours),
      ours: rate(best.together, COMMITTERS),
      ratio: rounded((best.ours / best.together) * COMMITTERS),
      goal: 'ratio at least 2.5',
    },
  }
}

async function opening(url: string, schema: string) {
  const full = await postgresBackend({ url, schema })
  const keys = Array.from({ length: VALUES }, (_, i) => `step/${i}`)
  for (let at = 0; at < VALUES; at += 5000)
    await full.commit({
      stream: 's',
      expected: 0,
      inserts: [],
      deletes: [],
      puts: keys.slice(at, at + 5000).map((key) => [key, VALUE]),
    })
  await full.set('k', 1)
  await full.close()

  let client: pg.Client
  let store: Backend
  const best = await inTurns({
    raw: {
      calls: 1,
      async call() {
        client = new pg.Client(url)
        await client.connect()
        await client.query(`select value from "${schema}".own where key = $1`, ['k'])
      },
      after: () => client.end(),
    },
    ours: {
      calls: 1,
      async call() {
        store = await postgresBackend({ url, schema })
        await store.get('k')
      },
      after: () => store.close(),
    },
  })
  return {
    [`ms to open ${VALUES} values and answer a get`]: {
      raw: rounded(best.raw),
      ours: rounded(best.ours),
      goal: 'at most 40 more',
    },
  }
}

interface Side {
  /** In each round. */
  readonly calls: number
  call(n: number): Promise<unknown>
  /** Not counted. */
  after?(): Promise<void>
}

/** Milliseconds a call, in the best round of each. */
async function inTurns<Name extends string>(sides: Readonly<Record<Name, Side>>): Promise<Record<Name, number>> {
  const best = {} as Record<Name, number>
  for (let round = 0; round <= ROUNDS; round++)
    for (const [name, { calls, call, after }] of Object.entries(sides) as [Name, Side][]) {
      const start = performance.now()
      for (let n = 0; n < calls; n++) await call(round * calls + n)
      const ms = (performance.now() - start) / calls
      await after?.()
      if (round > 0) best[name] = Math.min(best[name] ?? Number.POSITIVE_INFINITY, ms) // the first is for warming up
    }
  return best
}

const commit = (store: Backend, stream: string, expected: number): Promise<void> =>
  store.commit({
    stream,
    expected,
    entry: ENTRY,
    inserts: [],
    deletes: [],
    puts: keysOf(stream, expected).map((key) => [key, VALUE] as const),
  })

/** Five of a hundred steps, the next ones each time. */
const keysOf = (stream: string, n: number): string[] =>
  Array.from({ length: 5 }, (_, i) => `${stream}/step/${(n * 5 + i) % 100}`)

const rounded = (n: number): number => Math.round(n * 100) / 100

await main()
