import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import Database from 'libsql'
import type { Backend, Write } from '../src/vsl/backend.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { redisBackend } from '../src/vsl/redis.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'
import { startServers } from '../test/support/start-servers.ts'
import { tell } from './report.ts'

// What the stores inside the process, and Redis, add to their bare clients: commits of five small values and one entry, and opening a full store.
// The sides take turns in short rounds. Rates are the median round's; ratios the median of each round's own, so that a busy disk hits both alike.
// npx tsx bench/stores-embedded.ts

const ROUNDS = 60
const COMMITTERS = 32
const VALUES = 100_000

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'mplp-bench-'))
  const servers = await startServers({ redis: true })
  try {
    const { url, version } = servers.redis!
    const results = [await onSqlite(folder), await onRedis(url, servers.run), await onMemory()]
    tell('Stores beside their bare clients', Object.assign({}, ...results), `redis ${version} with appendfsync always`)
  } finally {
    await servers.stop()
    rmSync(folder, { recursive: true })
  }
}

async function onSqlite(folder: string) {
  const backend = await sqliteBackend({ path: join(folder, 'ours.db') })
  const raw = new Database(join(folder, 'raw.db'), { timeout: 20 })
  raw.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE r (key TEXT PRIMARY KEY, value TEXT)')
  const insert = raw.prepare(
    `INSERT INTO r VALUES ${Array(6).fill('(?, ?)').join(', ')} ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
  )
  const commits = await compared({
    raw: { calls: 150, call: (n) => insert.run(sixRows(n).flat()) },
    ours: { calls: 150, call: sequential(backend, 'one') },
    together: { calls: 15, commits: COMMITTERS, call: many(backend) },
  })
  await backend.close()
  raw.close()

  const path = join(folder, 'full.db')
  await fill(await sqliteBackend({ path }))
  const opening = await opened({
    async raw() {
      const db = new Database(path, { timeout: 20 })
      db.prepare('SELECT value FROM own WHERE key = ?').get(['k'])
      db.close()
      return undefined
    },
    async ours() {
      const full = await sqliteBackend({ path })
      await full.get('k')
      return () => full.close()
    },
  })
  return rows('sqlite', 'a six-row statement', commits, opening)
}

async function onRedis(url: string, run: string) {
  const backend = await redisBackend({ url, prefix: `${run}:ours` })
  const raw = new Redis(url)
  const sha = (await raw.script(
    'LOAD',
    `redis.call('HSET', KEYS[1], unpack(ARGV, 1, 10)) return redis.call('XADD', KEYS[2], '*', 'body', ARGV[12])`,
  )) as string
  const keys = ['values', 'journal'].map((name) => `{${run}:raw}:${name}`)
  const commits = await compared({
    raw: { calls: 150, call: (n) => raw.call('evalsha', [sha, 2, ...keys, ...sixRows(n).flat()]) },
    ours: { calls: 150, call: sequential(backend, 'one') },
    together: { calls: 15, commits: COMMITTERS, call: many(backend) },
  })
  await backend.close()
  raw.disconnect()

  const prefix = `${run}:full`
  await fill(await redisBackend({ url, prefix }))
  const opening = await opened({
    async raw() {
      const redis = new Redis(url)
      await redis.hget(`{${prefix}}:own`, 'k')
      redis.disconnect()
      return undefined
    },
    async ours() {
      const full = await redisBackend({ url, prefix })
      await full.get('k')
      return () => full.close()
    },
  })
  return rows('redis', 'a script', commits, opening)
}

async function onMemory() {
  const backend = memoryBackend()
  const { ours = [] } = await compared({ ours: { calls: 2000, call: sequential(backend, 'one') } })
  return { 'memory: commits one after another': { ours: Math.round(median(ours)), goal: 'at least 40,000' } }
}

function rows(name: string, rawName: string, commits: Rounds, opening: Rounds) {
  const { raw = [], ours = [], together = [] } = commits
  return {
    [`${name}: commits one after another, beside ${rawName}`]: {
      raw: Math.round(median(raw)),
      ours: Math.round(median(ours)),
      ratio: hundredths(median(ours.map((rate, i) => rate / raw[i]!))),
      goal: 'ratio at least 0.6',
    },
    [`${name}: commits of ${COMMITTERS} at once, beside one after another`]: {
      raw: Math.round(median(ours)),
      ours: Math.round(median(together)),
      ratio: hundredths(median(together.map((rate, i) => rate / ours[i]!))),
      goal: name === 'sqlite' ? 'ratio at least 3' : '',
    },
    [`${name}: ms to open ${VALUES} values and answer a get`]: {
      raw: hundredths(median(opening.raw ?? [])),
      ours: hundredths(median(opening.ours ?? [])),
      goal: 'at most 40 more',
    },
  }
}

/** What each side came to in each round. */
type Rounds = Record<string, number[]>
type Call = (n: number) => unknown

interface Side {
  readonly calls: number
  /** Commits in each call. */
  readonly commits?: number
  readonly call: Call
}

/** Commits a second. */
async function compared(sides: Readonly<Record<string, Side>>): Promise<Rounds> {
  const rounds: Rounds = Object.fromEntries(Object.keys(sides).map((name) => [name, []]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, { calls, commits = 1, call }] of Object.entries(sides)) {
      const start = performance.now()
      for (let n = 0; n < calls; n++) await call(round * calls + n)
      const rate = (calls * commits) / ((performance.now() - start) / 1000)
      if (round > 0) rounds[name]?.push(rate) // the first round is for warming up
    }
  }
  return rounds
}

/** Milliseconds until the first answer. Closing is not counted. */
async function opened(
  sides: Readonly<Record<string, () => Promise<undefined | (() => Promise<void>)>>>,
): Promise<Rounds> {
  const rounds: Rounds = Object.fromEntries(Object.keys(sides).map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, open] of Object.entries(sides)) {
      const start = performance.now()
      const close = await open()
      rounds[name]?.push(performance.now() - start)
      await close?.()
    }
  }
  return rounds
}

function sequential(backend: Backend, stream: string): Call {
  let revision = 0
  return () => backend.commit(writeOf(stream, revision++))
}

/** One commit on each of many streams; what each waits for is only its own. */
function many(backend: Backend): Call {
  const committers = Array.from({ length: COMMITTERS }, (_, i) => sequential(backend, `many/${i}`))
  return () => Promise.all(committers.map((commit, n) => commit(n)))
}

const value = (n: number, i: number) => ({ status: 'completed', order_index: i, note: `what step ${n} came to` })
/** A graph of 500 values, of which each commit changes five. */
const keyOf = (stream: string, n: number, i: number) => `${stream}/steps/${n % 100}/${i}`
const entryOf = (n: number) => ({
  commit_id: `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
  at: '2026-01-01T00:00:00.000000Z',
  actor: 'bench',
  reason: 'a step was completed',
})

const writeOf = (stream: string, n: number): Write => ({
  stream,
  expected: n,
  entry: entryOf(n),
  inserts: [],
  puts: [0, 1, 2, 3, 4].map((i) => [keyOf(stream, n, i), value(n, i)] as const),
  deletes: [],
})

/** The same for a bare client: five values and the entry, as text. */
const sixRows = (n: number): string[][] => [
  ...[0, 1, 2, 3, 4].map((i) => [keyOf('raw', n, i), JSON.stringify(value(n, i))]),
  [`journal/${n}`, JSON.stringify(entryOf(n))],
]

async function fill(backend: Backend): Promise<void> {
  for (let n = 0; n < VALUES / 1000; n++) {
    const puts = Array.from({ length: 1000 }, (_, i) => [`full/${n}/${i}`, value(n, i)] as const)
    await backend.commit({ stream: 'full', expected: n, entry: entryOf(n), inserts: [], puts, deletes: [] })
  }
  await backend.close()
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
const hundredths = (value: number): number => Math.round(value * 100) / 100

await main()
