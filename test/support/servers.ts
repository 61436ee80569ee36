import { get } from 'node:http'
import { text } from 'node:stream/consumers'
import { beforeAll, inject, it } from 'vitest'
import { ProgramMissing } from './install.ts'
import { startPostgres } from './postgres-server.ts'
import type { PrivateServer } from './private-server.ts'
import { ownFolder } from './processes.ts'
import { type RedisOptions, startRedis } from './redis-server.ts'
import type { Meeting, Met, ServerName } from './start-servers.ts'

/** Where the run's Redis is; `undefined` if this machine has none, which is then printed. */
export const redisUrl = async (): Promise<string | undefined> => urlOf(await meet('redis'))
/** Where the run's Postgres is, likewise. */
export const postgresUrl = async (): Promise<string | undefined> => urlOf(await meet('postgres'))
/** The run's Kafka brokers, likewise. `itNeeds('real kafka')` if a mock cluster is not enough. */
export const kafkaBrokers = async (): Promise<string[] | undefined> => urlOf(await meet('kafka'))?.split(',')

/** A server of the file's own that it may kill, pause and restart; it ends with the file. */
export const privateRedis = (options?: RedisOptions): Promise<PrivateServer> =>
  startRedis(ownFolder('private'), options)
export const privatePostgres = (): Promise<PrivateServer> => startPostgres(ownFolder('private'))

/** `real kafka` is not met by the mock cluster. */
export type Need = ServerName | 'real kafka'

/**
 * `it` for tests that need a server: `const itOnRedis = itNeeds('redis')`, then `itOnRedis('keeps …', async (url) => …)`.
 * Without the server the test is skipped and the run prints why.
 */
export function itNeeds(need: Need): (title: string, test: (url: string) => Promise<void>, timeout?: number) => void {
  let meeting: Met | { missing: string }
  beforeAll(async () => {
    meeting = await look(need)
  }, FIRST_START_MS)
  return (title, test, timeout) =>
    it(title, { ...(timeout && { timeout }) }, async (context) => {
      if ('missing' in meeting) return context.skip(meeting.missing)
      await test(meeting.url)
    })
}

/**
 * Registers a suite if the server is there, else one skipped test that says why. At the top of a file:
 * `await suiteNeeds('redis', (url) => backendContract('redis', () => redisBackend({ url, prefix: freshPrefix() })))`
 */
export async function suiteNeeds(need: Need, suite: (url: string) => void): Promise<void> {
  const meeting = await look(need)
  if ('missing' in meeting) it(`meets ${need}`, (context) => context.skip(meeting.missing))
  else suite(meeting.url)
}

/**
 * `it` for tests that treat a server badly: `itOwns(() => privateRedis({ cluster: true }))('opens …', async (redis) => …)`.
 * Each test has a new server, which is stopped after it; without the program it is skipped, or fails if `CI` is set.
 */
export function itOwns(
  start: () => Promise<PrivateServer>,
): (title: string, test: (server: PrivateServer) => Promise<void>) => void {
  return (title, test) =>
    it(title, { timeout: PRIVATE_TEST_MS }, async (context) => {
      const server = await start().catch((error) => {
        if (error instanceof ProgramMissing && !process.env.CI) return context.skip(error.message)
        throw error
      })
      try {
        await test(server)
      } finally {
        await server.stop()
      }
    })
}

/** Names that no other test uses, of this run or another. What they name is removed at the end, also on a given server. */
export const freshSchema = (): string => `${inject('run')}_${unique()}`
export const freshPrefix = (): string => `${inject('run')}:${unique()}`
export const freshTopic = (): string => `${inject('run')}-${unique()}`

const FIRST_START_MS = 600_000 // a first fetch of Kafka, and of Java if need be
const PRIVATE_TEST_MS = 60_000 // initdb, on a busy machine
const urlOf = (meeting: Meeting) => ('url' in meeting ? meeting.url : undefined)

let count = 0
const unique = () => `${process.pid.toString(36)}_${++count}`

async function look(need: Need): Promise<Met | { missing: string }> {
  const meeting = await meet(need === 'real kafka' ? 'kafka' : need)
  if (need === 'real kafka' && 'real' in meeting && !meeting.real) {
    return {
      missing:
        'the mock cluster has no idempotent producer, no second group member and no disk: this needs the real Kafka',
    }
  }
  return meeting
}

/** Asks the main process. Not `fetch`, which gives up after five minutes. */
function meet(server: ServerName): Promise<Meeting> {
  return new Promise((resolve, reject) => {
    const request = get(`${inject('servers')}/${server}`, { agent: false }, async (response) => {
      const answer = await text(response)
      if (response.statusCode === 200) resolve(JSON.parse(answer))
      else reject(new Error(answer))
    })
    request.once('error', reject)
  })
}
