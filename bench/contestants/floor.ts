import { join } from 'node:path'
import { VERSIONS } from './client-versions.ts'
import type { Contestant, Open, Place } from './contestant.ts'

/**
 * What the store permits: a tick loop that commits once per tick (the rows of the steps that changed and one journal row, in one statement, script
 * or transaction) and does nothing else. No checks, no schema, no fence, no events, no traces, no recovery.
 */
export const open: Open = async (place, work) => {
  const { commit, close, ...about } = await clientOf(place)
  let plans = 0

  async function run(waitsFor: readonly (readonly number[])[]): Promise<void> {
    const plan = plans++
    const left = waitsFor.map((on) => on.length)
    const dependants = waitsFor.map((): number[] => [])
    for (const [step, on] of waitsFor.entries()) for (const other of on) dependants[other]!.push(step)
    const ready = left.flatMap((count, step) => (count === 0 ? [step] : []))
    await commit(
      plan,
      waitsFor.map((_, step) => row(plan, step, 'pending')),
    )
    for (let done: readonly number[] = []; ; ) {
      for (const step of done)
        for (const dependant of dependants[step]!) if (--left[dependant]! === 0) ready.push(dependant)
      const starting = ready.splice(0, CONCURRENCY)
      await commit(plan, [
        ...done.map((step) => row(plan, step, 'completed')),
        ...starting.map((step) => row(plan, step, 'in_progress')),
      ])
      if (starting.length === 0) return
      await Promise.all(starting.map(async (step) => work(`${plan}/${step}`)))
      done = starting
    }
  }

  return {
    ...about,
    chain: (steps) => run(Array.from({ length: steps }, (_, step) => (step === 0 ? [] : [step - 1]))),
    fan: (width) => {
      const middle = Array.from({ length: width }, (_, i) => i + 1)
      return run([[], ...middle.map(() => [0]), middle])
    },
    close,
  }
}

const CONCURRENCY = 256
type Row = readonly [key: string, value: string]
const row = (plan: number, step: number, status: string): Row => [
  `${plan}/${step}`,
  JSON.stringify({ step, status, output: null }),
]

interface Client extends Pick<Contestant, 'version' | 'durability' | 'close'> {
  commit(plan: number, rows: readonly Row[]): Promise<unknown>
}

async function clientOf(place: Place): Promise<Client> {
  switch (place.store) {
    case 'sqlite':
      return sqlite(place)
    case 'postgres':
      return postgres(place)
    case 'redis':
      return redis(place)
    default:
      throw new Error(`there is no floor on ${place.store}`)
  }
}

async function sqlite({ folder }: Place): Promise<Client> {
  const { default: Database } = await import('libsql')
  const db = new Database(join(folder, 'floor.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec('CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID')
  db.exec('CREATE TABLE journal (revision INTEGER PRIMARY KEY, plan INTEGER, body TEXT)')
  const put = db.prepare('INSERT INTO state VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value')
  const append = db.prepare('INSERT INTO journal (plan, body) VALUES (?, ?)')
  const write = db.transaction((plan: number, rows: readonly Row[]) => {
    for (const [key, value] of rows) put.run([key, value])
    append.run([plan, JSON.stringify(rows)])
  })
  return {
    version: VERSIONS.libsql,
    durability: 'each tick fsynced (WAL, synchronous FULL)',
    commit: async (plan, rows) => write(plan, rows),
    close: async () => db.close(),
  }
}

async function postgres({ url, name }: Place): Promise<Client> {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  await pool.query(`create schema ${name}`)
  await pool.query(`create table ${name}.state (key text collate "C" primary key, value text not null)`)
  await pool.query(
    `create table ${name}.journal (revision bigserial primary key, plan int not null, body text not null)`,
  )
  const text = `with j as (insert into ${name}.journal (plan, body) values ($1, $2))
    insert into ${name}.state select * from unnest($3::text[], $4::text[])
    on conflict (key) do update set value = excluded.value`
  return {
    version: VERSIONS.pg,
    durability: 'each tick fsynced (synchronous_commit on)',
    commit: (plan, rows) => {
      const values = [plan, JSON.stringify(rows), rows.map(([key]) => key), rows.map(([, value]) => value)]
      return pool.query({ name: 'tick', text, values })
    },
    close: () => pool.end(),
  }
}

async function redis({ url, name }: Place): Promise<Client> {
  const { Redis } = await import('ioredis')
  const client = new Redis(url)
  const script = `for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
    return redis.call('XADD', KEYS[2], '*', 'body', ARGV[1])`
  const sha = (await client.script('LOAD', script)) as string
  return {
    version: VERSIONS.ioredis,
    durability: 'each tick fsynced (appendfsync always)',
    commit: (plan, rows) =>
      client.evalsha(sha, 2, `{${name}}:${plan}`, `{${name}}:log`, JSON.stringify(rows), ...rows.flat()),
    close: () => client.quit(),
  }
}
