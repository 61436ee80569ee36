import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput, Refused, TooLarge } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import type { BareStore } from '../../src/vsl/lifted-cells.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { commitOnce, copyStore, fromBare, openStore, type StoreOptions, withEncryption } from '../../src/vsl/vsl.ts'
import { append, collect } from '../contracts/backend/given.ts'
import { freshPrefix, freshSchema, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const itOnRedis = itNeeds('redis')
const itOnPostgres = itNeeds('postgres')
const key = { id: 'k', key: randomBytes(32) }

async function keeps(url: string, options: StoreOptions = {}): Promise<void> {
  const store = await openStore(url, options)
  await store.commit(append('g', 0))
  await store.close()
  const again = await openStore(url, options)
  expect(await collect(again.read('g'))).toHaveLength(1)
  await again.close()
}

describe('openStore', () => {
  it('opens what a URL names', async () => {
    const folder = tempFolder()
    expect((await openStore('memory:')).traits.durable).toBe(false)
    expect((await openStore('memory://')).traits.durable).toBe(false)
    await keeps(`file:${folder}/a`)
    await keeps(`file://${folder}/b`)
    await keeps(`sqlite:${folder}/c.db`, { synchronous: 'NORMAL', timeoutMs: 1000, blockingMs: 0 })
    await keeps(`sqlite://${folder}/d.db`)
    for (const path of ['a/mplp-store.json', 'b/mplp-store.json', 'c.db', 'd.db'])
      expect(existsSync(join(folder, path))).toBe(true)
  })

  itOnRedis('opens Redis under a prefix', async (url) => {
    const prefix = freshPrefix()
    await keeps(url, { prefix, timeoutMs: 4000 })
    const other = await openStore(url, { prefix: freshPrefix(), maxBlobBytes: 10, trustConfig: true })
    expect(await collect(other.feed())).toEqual([])
    await expect(other.putBlob(new Uint8Array(11))).rejects.toThrow(TooLarge)
    await other.close()
  })

  itOnPostgres('opens Postgres in a schema, by either name', async (url) => {
    const schema = freshSchema()
    await keeps(url, { schema, poolSize: 3 })
    await keeps(url.replace(/^postgres(ql)?:/, 'postgresql:'), { schema: freshSchema() })
  })

  it('hands the clock on', async () => {
    const clock = manualClock()
    for (const url of ['memory:', `file:${tempFolder()}/s`, `sqlite:${tempFolder()}/s.db`]) {
      const store = await openStore(url, { clock })
      const holder = { id: 'far', boot: 'another machine', pid: 1, started: '1' }
      await store.acquire('g', holder, 1000)
      expect(await store.acquire('g', { ...holder, id: 'second' }, 1000)).toBeUndefined()
      await clock.advance(1000)
      expect(await store.acquire('g', { ...holder, id: 'second' }, 1000)).toBeDefined()
      await store.close()
    }
  })

  it('takes a Backend as it is, and makes a bare store whole', async () => {
    const memory = memoryBackend()
    expect(await openStore(memory)).toBe(memory)
    const map = new Map<string, Json>()
    const store = await openStore(map, { durable: true })
    await store.commit(append('g', 0))
    expect(store.traits).toMatchObject({ processes: 'one', durable: true })
    expect(map.size).toBeGreaterThan(3)
    expect(await (await fromBare(map)).head('g')).toMatchObject({ revision: 1 })
  })

  it('encrypts on top of any of them, and leaves nothing open when the key is wrong', async () => {
    const url = `file:${tempFolder()}/s`
    await keeps(url, { encryption: [key] })
    await expect(openStore(url, { encryption: [{ id: 'k', key: randomBytes(32) }] })).rejects.toThrow(Refused)
    const again = await openStore(url, { encryption: [key] }) // the folder is not locked
    expect(await collect(again.read('g'))).toHaveLength(1)
    await again.close()
  })

  it.each([
    '',
    'state',
    './state',
    'mysql://root:secret@host/db',
    'http://x',
    'FILE:./x',
    'constructor:x',
    '__proto__:x',
    'toString:',
  ])('refuses %j and names the schemes it knows, not what may be a password', async (url) => {
    const error: InvalidInput = await openStore(url).catch((error) => error)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems).toMatchObject([{ path: 'url', rule: 'scheme' }])
    for (const scheme of ['memory:', 'file:', 'sqlite:', 'redis:', 'rediss:', 'postgres:', 'postgresql:'])
      expect(error.message).toContain(scheme)
    expect(JSON.stringify(error.problems) + error.message).not.toContain('secret')
  })

  it.each(['memory:x', 'file:', 'file://host/x', 'sqlite:', 'sqlite:./x.db?mode=ro', 'sqlite://x.db'])(
    'refuses %j',
    async (url) => {
      await expect(openStore(url)).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path: 'url', rule: 'url' }],
      })
    },
  )

  it.each([
    ['memory:', { prefix: 'x' }, 'prefix'],
    ['file:./x', { schema: 'x' }, 'schema'],
    ['sqlite:./x.db', { poolSize: 2 }, 'poolSize'],
    ['sqlite:./x.db', { onError: () => undefined }, 'onError'],
    ['redis://127.0.0.1:1', { synchronous: 'FULL' }, 'synchronous'],
    ['postgres://127.0.0.1:1/x', { prefix: 'x' }, 'prefix'],
    ['memory:', { durable: true }, 'durable'],
  ] as const)('refuses an option that means nothing to %s', async (url, options, path) => {
    await expect(openStore(url, options)).rejects.toMatchObject({ problems: [{ path, rule: 'option' }] })
  })

  it('refuses what is no store', async () => {
    for (const bad of [undefined, null, 7, {}, []])
      await expect(openStore(bad as unknown as BareStore)).rejects.toThrow(InvalidInput)
    await expect(openStore(memoryBackend(), { clock: manualClock() })).rejects.toThrow(InvalidInput)
  })

  it('refuses options that are none, or that it could not work with, and makes nothing', async () => {
    const folder = tempFolder()
    const refused = (path: string) => ({ code: 'invalid_input', problems: [{ path }] })
    await expect(openStore('memory:', null as never)).rejects.toMatchObject(refused(''))
    for (const url of ['memory:', `file:${folder}/f`, `sqlite:${folder}/s.db`, 'postgres://127.0.0.1:1/x'])
      await expect(openStore(url, { clock: {} as never }), url).rejects.toMatchObject(refused('clock'))
    await expect(openStore('redis://127.0.0.1:1', { onWarning: 'me' as never })).rejects.toMatchObject(
      refused('onWarning'),
    )
    await expect(openStore(`file:${folder}/f`, { onError: 'me' as never })).rejects.toMatchObject(refused('onError'))
    for (const open of [fileBackend, sqliteBackend, redisBackend, postgresBackend])
      await expect(open(undefined as never)).rejects.toMatchObject(refused(''))
    await expect(fromBare({ get: async () => undefined, set: async () => {} }, null as never)).rejects.toThrow(
      InvalidInput,
    )
    expect(readdirSync(folder)).toEqual([])
  })

  it('refuses to copy, to encrypt or to settle what is no store, and without a clock', async () => {
    const store = memoryBackend()
    await expect(copyStore(store, undefined as never)).rejects.toMatchObject({ problems: [{ path: 'to' }] })
    await expect(copyStore({} as never, store)).rejects.toMatchObject({ problems: [{ path: 'from' }] })
    await expect(copyStore(store, store, { verify: 'no' as never })).rejects.toMatchObject({
      problems: [{ path: 'verify' }],
    })
    await expect(withEncryption(7 as never, [])).rejects.toMatchObject({ problems: [{ path: 'store' }] })
    await expect(commitOnce(store, append('g', 0), {} as never)).rejects.toMatchObject({
      problems: [{ path: 'clock' }],
    })
    await expect(commitOnce(store, undefined as never, { clock: manualClock() })).rejects.toThrow(InvalidInput)
    expect(await collect(store.feed())).toEqual([])
  })

  it('loads no client for a store that needs none', () => {
    const script = `
      import { openStore } from ${JSON.stringify(new URL('../../src/vsl/vsl.ts', import.meta.url).href)}
      await (await openStore('memory:')).close()
      await (await openStore('file:' + process.argv[1])).close()
      const { createRequire } = await import('node:module')
      console.log(JSON.stringify(Object.keys(createRequire(import.meta.url).cache).concat(process.moduleLoadList ?? [])))
    `
    const tsx = createRequire(import.meta.url).resolve('tsx')
    const args = ['--import', tsx, '--input-type=module', '-e', script, join(tempFolder(), 's')]
    const loaded = execFileSync(process.execPath, args, { encoding: 'utf8', cwd: new URL('../..', import.meta.url) })
    expect(loaded).not.toMatch(/node_modules\/(pg|ioredis|libsql|kysely)\//)
    expect(loaded.length).toBeGreaterThan(2)
  })
})
