import { join } from 'node:path'
import { VERSIONS } from './client-versions.ts'
import type { Contestant, Open, Place } from './contestant.ts'

/** The bare client: one small row per step, each in a commit of its own, and nothing else. */
export const open: Open = async (place) => {
  const { commit, close, ...about } = await clientOf(place)
  const work = place.extra === 'paced' ? busy : idle
  return {
    ...about,
    async chain(steps) {
      for (let n = 0; n < steps; n++) {
        await commit(VALUE)
        work()
      }
    },
    async fan(width) {
      await commit(VALUE)
      await Promise.all(Array.from({ length: width }, () => commit(VALUE)))
      await commit(VALUE)
    },
    close,
  }
}

/** About what a step of ours takes in memory. */
const STEP_MS = 0.1

/** Keeps the thread as a step does. */
function busy(): void {
  const over = performance.now() + STEP_MS
  while (performance.now() < over);
}
const idle = (): void => undefined

const VALUE = JSON.stringify({ step: 'of some plan', status: 'completed', output: null })

interface Client extends Pick<Contestant, 'version' | 'durability' | 'close'> {
  commit(value: string): unknown
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
      throw new Error(`there is no bare client of ${place.store}`)
  }
}

async function sqlite({ folder }: Place): Promise<Client> {
  const { default: Database } = await import('libsql')
  const db = new Database(join(folder, 'raw.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE r (key INTEGER PRIMARY KEY, value TEXT)')
  const insert = db.prepare('INSERT INTO r (value) VALUES (?)')
  return {
    version: VERSIONS.libsql,
    durability: 'each row fsynced (WAL, synchronous FULL)',
    commit: (value) => insert.run([value]),
    close: async () => db.close(),
  }
}

async function postgres({ url, name }: Place): Promise<Client> {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  await pool.query(`create table ${name} (key bigserial primary key, value text not null)`)
  const text = `insert into ${name} (value) values ($1)`
  return {
    version: VERSIONS.pg,
    durability: 'each row fsynced (synchronous_commit on)',
    commit: (value) => pool.query({ name: 'raw', text, values: [value] }),
    close: () => pool.end(),
  }
}

async function redis({ url, name }: Place): Promise<Client> {
  const { Redis } = await import('ioredis')
  const client = new Redis(url)
  const script = `redis.call('SET', KEYS[1], ARGV[1]) return redis.call('XADD', KEYS[2], '*', 'v', ARGV[1])`
  const sha = (await client.script('LOAD', script)) as string
  let n = 0
  return {
    version: VERSIONS.ioredis,
    durability: 'each script (one SET, one XADD) fsynced (appendfsync always)',
    commit: (value) => client.evalsha(sha, 2, `{${name}}:${n++}`, `{${name}}:log`, value),
    close: () => client.quit(),
  }
}
