/**
 * Whole plans of no-op steps on each store, beside the bare client's commits: a chain of 1,000, a fan-out of 1 -> 1,000 -> 1, and 200 plans of five
 * steps, 50 at a time. Rounds take turns; medians are told. npx tsx bench/plans.ts
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import Database from 'libsql'
import pg from 'pg'
import { actionLayer } from '../src/ael/ael.ts'
import { functionAdapter } from '../src/ael/function.ts'
import { createRuntime } from '../src/orchestrator/runtime.ts'
import type { Flow } from '../src/orchestrator/submit.ts'
import { openStore } from '../src/vsl/vsl.ts'
import { flowOf, type StepSpec } from '../test/support/flows.ts'
import { startServers } from '../test/support/start-servers.ts'

const ROUNDS = 5
const STEPS = 1_000
const noop = (steps: { readonly [name: string]: StepSpec }, concurrency = 256): Flow =>
  flowOf(steps, { options: { concurrency } })
const chain = (length: number) =>
  noop(
    Object.fromEntries(
      Array.from({ length }, (_, i) => [`s${i}`, { call: 'noop', ...(i > 0 && { after: [`s${i - 1}`] }) }]),
    ),
  )
const fanOut = (width: number) => {
  const middle = Array.from({ length: width }, (_, i) => `m${i}`)
  return noop({
    first: { call: 'noop' },
    ...Object.fromEntries(middle.map((name) => [name, { call: 'noop', after: ['first'] }])),
    last: { call: 'noop', after: middle },
  })
}

const servers = await startServers({ redis: true, postgres: true })
const folder = mkdtempSync(join(tmpdir(), 'mplp-bench-'))
const stores: {
  [name: string]: { url: string; raw?: () => Promise<{ commit: (n: number) => unknown; close: () => unknown }> }
} = {
  memory: { url: 'memory:' },
  sqlite: { url: `sqlite:${join(folder, 'ours.db')}`, raw: async () => rawSqlite() },
  redis: { url: servers.redis!.url, raw: rawRedis },
  postgres: { url: servers.postgres!.url, raw: rawPostgres },
}
const rows: { [row: string]: { [column: string]: string } } = {}
try {
  for (const [name, { url, raw }] of Object.entries(stores)) {
    const store = await openStore(url)
    const runtime = await createRuntime({
      store,
      layer: actionLayer({ adapters: [functionAdapter({ noop: () => null })] }),
    })
    const bare = await raw?.()
    const run = async (flow: Flow) => void (await (await runtime.submit(flow)).result())
    await run(chain(100))
    const rates: { [what: string]: number[] } = { chain: [], fan: [], plans: [], raw: [] }
    const cpu: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const before = process.cpuUsage()
      rates.chain!.push(await rate(STEPS, () => run(chain(STEPS))))
      const used = process.cpuUsage(before)
      cpu.push((used.user + used.system) / STEPS)
      rates.fan!.push(await rate(STEPS + 2, () => run(fanOut(STEPS))))
      rates.plans!.push(await rate(200, () => pool(200, 50, () => run(chain(5)))))
      if (bare)
        rates.raw!.push(
          await rate(500, async () => {
            for (let n = 0; n < 500; n++) await bare.commit(round * 500 + n)
          }),
        )
    }
    await bare?.close()
    await runtime.close()
    await store.close()
    const told = (what: string) => Math.round(median(rates[what]!))
    rows[name] = {
      'chain steps/s': String(told('chain')),
      'CPU µs/step': String(Math.round(median(cpu))),
      'fan-out steps/s': String(told('fan')),
      'plans/s': String(told('plans')),
      'raw single-row commits/s': bare ? String(told('raw')) : '',
      'chain : raw': bare ? (told('chain') / told('raw')).toFixed(2) : '',
    }
  }
  console.log(`Node ${process.version}, ${process.arch}, ${ROUNDS} rounds, medians`)
  console.table(rows)
} finally {
  await servers.stop()
  rmSync(folder, { recursive: true })
}

async function rate(count: number, work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (count / (performance.now() - began)) * 1_000
}

async function pool(count: number, wide: number, work: () => Promise<void>): Promise<void> {
  let left = count
  const worker = async () => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: wide }, worker))
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

function rawSqlite() {
  const db = new Database(join(folder, 'raw.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE r (key TEXT PRIMARY KEY, value TEXT)')
  const insert = db.prepare('INSERT INTO r VALUES (?, ?)')
  return { commit: (n: number) => insert.run([`k${n}`, 'a step of some plan']), close: () => db.close() }
}

async function rawRedis() {
  const redis = new Redis(servers.redis!.url)
  const script = "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('XADD', KEYS[2], '*', 'v', ARGV[1])"
  return {
    commit: (n: number) => redis.eval(script, 2, `{raw}:${n}`, '{raw}:log', 'a step of some plan'),
    close: () => redis.quit(),
  }
}

async function rawPostgres() {
  const client = new pg.Client({ connectionString: servers.postgres!.url })
  await client.connect()
  await client.query('create table if not exists raw_bench (key bigserial primary key, value text)')
  return {
    commit: () =>
      client.query({ name: 'raw', text: 'insert into raw_bench (value) values ($1)', values: ['a step of some plan'] }),
    close: () => client.end(),
  }
}
