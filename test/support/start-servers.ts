import { randomBytes } from 'node:crypto'
import { binary, ProgramMissing } from './install.ts'
import { askKafka, forgetTopics, prepareKafka, startKafka, startMockKafka } from './kafka-server.ts'
import { askPostgres, forgetSchemas, startPostgres } from './postgres-server.ts'
import { ownFolder, releaseAll } from './processes.ts'
import { askRedis, forgetKeys, startRedis } from './redis-server.ts'

export type ServerName = 'redis' | 'postgres' | 'kafka'

/** A server that answered. */
export interface Met {
  readonly server: ServerName
  /** For Kafka, its brokers as `host:port,host:port`. */
  readonly url: string
  readonly version: string
  /** Ours, or one that the environment named. */
  readonly from: 'private' | 'given'
  /** False for Kafka's mock cluster; a given broker is taken for a real one. */
  readonly real: boolean
}
/** A server that this machine does not have; `missing` says why and what to run. */
export interface Missing {
  readonly server: ServerName
  readonly missing: string
}
export type Meeting = Met | Missing

/** Servers that start when they are first needed. */
export interface Servers {
  /** Begins every name a test gives to a schema, key or topic, so that they can be found and removed. */
  readonly run: string
  /** The same answer every time; rejects when a server should answer and does not, or when `CI` is set and Redis or Postgres is missing. */
  need(server: ServerName): Promise<Meeting>
  /** What was needed so far, for people. */
  report(): Promise<string>
  /** Removes what this run left on given servers, and ends everything that this process owns. */
  stop(): Promise<void>
}

export function servers(): Servers {
  const run = `mplp_test_${randomBytes(4).toString('hex')}`
  const folder = ownFolder('servers')
  const meetings = new Map<ServerName, Promise<Meeting>>()

  return {
    run,
    need(server) {
      const meeting = meetings.get(server) ?? meet(server, folder)
      meetings.set(server, meeting)
      return meeting
    },
    async report() {
      const all = await Promise.allSettled(meetings.values())
      const lines = all.map((m) => (m.status === 'fulfilled' ? described(m.value) : (m.reason as Error).message))
      return `met: ${lines.length > 0 ? lines.sort().join(', ') : 'no server was needed'}`
    },
    async stop() {
      for (const meeting of await Promise.allSettled(meetings.values())) {
        if (meeting.status === 'fulfilled' && 'url' in meeting.value && meeting.value.from === 'given') {
          await SERVERS[meeting.value.server].forget(meeting.value.url, run)
        }
      }
      await releaseAll()
    },
  }
}

/** For scripts that know what they need: starts it side by side, and fails if any of it is missing. */
export async function startServers(
  wanted: Partial<Record<ServerName, boolean>>,
): Promise<{ redis?: Met; postgres?: Met; kafka?: Met; run: string; stop(): Promise<void> }> {
  const set = servers()
  const names = (Object.keys(wanted) as ServerName[]).filter((name) => wanted[name])
  try {
    const meetings = await Promise.all(names.map((name) => set.need(name)))
    const met = meetings.map((meeting) => {
      if ('missing' in meeting) throw new Error(meeting.missing)
      return [meeting.server, meeting] as const
    })
    return { ...Object.fromEntries(met), run: set.run, stop: set.stop }
  } catch (error) {
    await set.stop()
    throw error
  }
}

/** Installs and fetches what is missing, if that is allowed; starts nothing. What stays missing is told by the tests that need it. */
export async function prepareServers(): Promise<void> {
  for (const { variable, prepare } of Object.values(SERVERS)) {
    if (!process.env[variable]) await prepare().catch((error: Error) => process.stderr.write(`${error.message}\n`))
  }
  await releaseAll()
}

interface Kind {
  readonly variable: string
  /** Sees to it that the program is there. */
  prepare(): Promise<unknown>
  /** Connects to a given server and tells its version. */
  ask(url: string): Promise<string>
  start(folder: string): Promise<Started>
  /** Removes what begins so. */
  forget(url: string, prefix: string): Promise<void>
}

type Started = Pick<Met, 'url' | 'version' | 'real'>

const SERVERS: Readonly<Record<ServerName, Kind>> = {
  redis: {
    variable: 'REDIS_URL',
    prepare: () => binary('redis'),
    ask: askRedis,
    start: async (folder) => ({ ...(await startRedis(folder)), real: true }),
    forget: forgetKeys,
  },
  postgres: {
    variable: 'DATABASE_URL',
    prepare: () => binary('postgres'),
    ask: askPostgres,
    start: async (folder) => ({ ...(await startPostgres(folder)), real: true }),
    forget: forgetSchemas,
  },
  kafka: {
    variable: 'KAFKA_BROKERS',
    prepare: () => realKafkaOr<unknown>(prepareKafka, () => binary('kcat')),
    ask: async (brokers) => {
      await askKafka(brokers)
      return 'of a version that the protocol does not tell'
    },
    start: (folder) =>
      realKafkaOr<Started>(
        async () => ({ ...(await startKafka(folder)), real: true }),
        async () => ({ ...(await startMockKafka()), real: false }),
      ),
    forget: forgetTopics,
  },
}

async function meet(server: ServerName, folder: string): Promise<Meeting> {
  const kind = SERVERS[server]
  const given = process.env[kind.variable]
  if (given) {
    try {
      return { server, url: given, version: await kind.ask(given), from: 'given', real: true }
    } catch (cause) {
      throw new Error(`${kind.variable} names a ${server} server that does not answer`, { cause })
    }
  }
  try {
    const { url, version, real } = await kind.start(folder)
    return { server, url, version, from: 'private', real }
  } catch (error) {
    if (!(error instanceof ProgramMissing)) throw error
    if (process.env.CI && server !== 'kafka') throw error
    process.stderr.write(`tests that need ${server} are skipped: ${error.message}\n`)
    return { server, missing: error.message }
  }
}

async function realKafkaOr<T>(real: () => Promise<T>, mock: () => Promise<T>): Promise<T> {
  try {
    return await real()
  } catch (error) {
    process.stderr.write(`the real Kafka does not run here: ${(error as Error).message}\n`)
    return mock()
  }
}

function described(meeting: Meeting): string {
  if ('missing' in meeting) return `no ${meeting.server}`
  const { server, version, from, real } = meeting
  if (server !== 'kafka' || from === 'given') return `${server} ${version} (${from})`
  return `kafka ${version} (private, ${real ? 'real' : 'a mock cluster, not the real broker'})`
}
