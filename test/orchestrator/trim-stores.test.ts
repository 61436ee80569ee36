import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { trim } from '../../src/orchestrator/trim.ts'
import { withoutEnded } from '../../src/orchestrator/without-ended.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { copyStore } from '../../src/vsl/copy.ts'
import { withEncryption } from '../../src/vsl/encrypted.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { liftedBackend } from '../../src/vsl/lifted.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { collect } from '../contracts/backend/given.ts'
import { lasting } from '../psg/given.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { freshPrefix, freshSchema, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { LARGE, ran, SOON } from './ended-contexts.ts'

const itOnRedis = itNeeds('redis')
const itOnPostgres = itNeeds('postgres')

/** What has ended goes, what goes on does so, and what is left is what a copy without it would have. */
async function expectTrimmed(store: Backend): Promise<void> {
  onTestFinished(() => store.close())
  const wait = { binding: { action_type: 'wait', params: { signal: 'go' } } }
  const runtime = await runtimeOf({}, { store: lasting(store), patrolMs: 20 })
  onTestFinished(() => runtime.close())
  const waiting = await runtime.submit(flowOf({ wait }))
  await waiting.rest()
  const old = [await ran(store, `${LARGE} one`), await ran(store, 'another')]
  const long = await runtime.submit(chainOf(30))
  await long.result()
  const copy = memoryBackend()
  await copyStore(await withoutEnded(store, SOON), copy)

  const { contexts } = await trim(store, SOON)
  expect([...contexts].sort()).toEqual([...old, long.context_id].sort())
  const keysOf = async (held: Backend) => (await collect(held.scan(''))).map(([key]) => key)
  expect((await keysOf(store)).filter((key) => !key.startsWith('trim'))).toEqual(await keysOf(copy))
  const streams = async (held: Backend) => new Set((await collect(held.feed())).map(({ stream }) => stream))
  expect(await streams(store)).toEqual((await streams(copy)).add('trim'))
  expect((await (await openProject(store)).verify()).findings).toEqual([])

  await runtime.signal(waiting.plan_id, 'go')
  expect((await waiting.result()).status).toBe('completed')
  expect((await (await runtime.submit(chainOf(3))).result()).status).toBe('completed')
  expect((await runtime.project.verify()).findings).toEqual([])
}

describe('what has ended is taken away', () => {
  it('in memory', () => expectTrimmed(memoryBackend()))
  it('in a folder', async () =>
    expectTrimmed(await fileBackend({ path: join(tempFolder(), 'state'), segmentBytes: 8192 })))
  it('in SQLite', async () => expectTrimmed(await sqliteBackend({ path: join(tempFolder(), 'state.db') })))
  it('in SQLite that is encrypted', async () => {
    const inner = await sqliteBackend({ path: join(tempFolder(), 'state.db') })
    await expectTrimmed(await withEncryption(inner, [{ id: 'one', key: randomBytes(32) }]))
  })
  it('in any store that gets and sets', async () =>
    expectTrimmed(await liftedBackend(new Map<string, never>() as never)))
  itOnRedis('in Redis', async (url) => expectTrimmed(await redisBackend({ url, prefix: freshPrefix() })), 60_000)
  itOnPostgres(
    'in Postgres',
    async (url) => expectTrimmed(await postgresBackend({ url, schema: freshSchema() })),
    60_000,
  )
})
