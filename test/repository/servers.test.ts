import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import { child } from '../support/child.ts'
import { type CuttingProxy, cuttingProxy } from '../support/cutting-proxy.ts'
import { binary, ProgramMissing } from '../support/install.ts'
import {
  freshPrefix,
  freshSchema,
  freshTopic,
  itNeeds,
  itOwns,
  kafkaBrokers,
  postgresUrl,
  privatePostgres,
  privateRedis,
  redisUrl,
} from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const itOnRedis = itNeeds('redis')
const SLEEPERS = "select from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'"
const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

describe('the run’s servers', () => {
  itOnRedis('keep every acknowledged write', async (url) => {
    const redis = client(url)
    expect(await redis.config('GET', 'appendfsync')).toEqual(
      process.env.REDIS_URL ? expect.anything() : ['appendfsync', 'always'],
    )
  })

  itOnRedis('are the same for everybody who asks', async (url) => expect(await redisUrl()).toBe(url))
  itNeeds('postgres')('are the same for everybody, Postgres too', async (url) => expect(await postgresUrl()).toBe(url))
  itNeeds('kafka')('are the same for everybody, Kafka too', async (url) =>
    expect(await kafkaBrokers()).toEqual(url.split(',')),
  )

  it('give every test its own names', () => {
    const names = [freshSchema(), freshSchema(), freshPrefix(), freshPrefix(), freshTopic(), freshTopic()]
    expect(new Set(names).size).toBe(names.length)
    expect(freshSchema()).toMatch(/^[a-z0-9_]{1,63}$/) // needs no quotes in Postgres
  })

  it('are told apart from a program that is not there, with the line to run', async () => {
    const { PATH, MPLP_TEST_INSTALL } = process.env
    closers.push(() =>
      Object.assign(process.env, { PATH }, MPLP_TEST_INSTALL === undefined ? {} : { MPLP_TEST_INSTALL }),
    )
    closers.push(() => MPLP_TEST_INSTALL === undefined && delete process.env.MPLP_TEST_INSTALL)
    Object.assign(process.env, { PATH: tempFolder(), MPLP_TEST_INSTALL: '0' })
    const missing = await binary('redis').catch((error: unknown) => error)
    expect(missing).toBeInstanceOf(ProgramMissing)
    expect((missing as Error).message).toContain('MPLP_TEST_INSTALL=0 forbids installing')
    expect((missing as ProgramMissing).remedy).toBe('apt-get install redis-server')
  })
})

describe('a private Redis', () => {
  itOwns(privateRedis)('comes back after SIGKILL with what it had acknowledged', async (server) => {
    const redis = client(server.url)
    await redis.set('k', 'v')
    redis.disconnect()
    await server.kill()
    await expect(client(server.url).get('k')).rejects.toThrow()
    await server.restart()
    expect(await client(server.url).get('k')).toBe('v')
  })

  itOwns(() => privateRedis({ appendonly: false, maxmemory: '50mb', maxmemoryPolicy: 'allkeys-lru' }))(
    'takes the settings a store must refuse',
    async (server) => {
      expect(await client(server.url).config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'allkeys-lru'])
      expect(await client(server.url).config('GET', 'appendonly')).toEqual(['appendonly', 'no'])
    },
  )

  itOwns(() => privateRedis({ cluster: true }))('serves every slot as a cluster of one', async (server) => {
    await client(server.url).set('anything', 1)
    expect(await client(server.url).cluster('INFO')).toContain('cluster_slots_ok:16384')
  })

  itOwns(privateRedis)('answers nobody while it is paused', async (server) => {
    const redis = client(server.url)
    await redis.ping()
    server.pause()
    let answered = false
    const ping = redis.ping().then(() => {
      answered = true
    })
    expect(
      await client(server.url, { commandTimeout: 200 })
        .ping()
        .catch((e: Error) => e.message),
    ).not.toBe('PONG')
    expect(answered).toBe(false)
    server.resume()
    await ping
  })
})

describe('a private Postgres', () => {
  itOwns(privatePostgres)('comes back after SIGKILL with what it had committed, also under load', async (server) => {
    const connected = async () => {
      const client = new pg.Client(server.url)
      client.on('error', () => undefined)
      await client.connect()
      closers.push(() => client.end().catch(() => undefined))
      return client
    }
    const query = async (sql: string) => (await connected()).query(sql)
    await query('create table t (n int)')
    for (const n of [1, 2, 3]) {
      await query(`insert into t values (${n})`)
      const sleeper = await connected()
      const busy = sleeper.query('select pg_sleep(60)').catch((error: Error) => error)
      await expect.poll(async () => (await query(SLEEPERS)).rowCount).toBe(1)
      await server.kill()
      await server.restart()
      expect(await busy).toBeInstanceOf(Error)
    }
    expect((await query('select count(*)::int as n from t')).rows).toEqual([{ n: 3 }])
    expect((await query('show fsync')).rows).toEqual([{ fsync: 'on' }])
  })
})

describe('the cutting proxy', () => {
  const proxied = async (url: string): Promise<CuttingProxy> => {
    const proxy = await cuttingProxy(url)
    closers.push(proxy.close)
    return proxy
  }

  itOnRedis('lets the server do the work and loses the reply', async (url) => {
    const proxy = await proxied(url)
    const key = freshPrefix()
    const redis = client(proxy.url)
    await redis.ping()
    const cut = proxy.cutReply((request) => request.includes(key))
    await expect(redis.incr(key)).rejects.toThrow()
    await cut
    expect(await client(url).get(key)).toBe('1')
  })

  itOnRedis('loses a request before the server has seen it', async (url) => {
    const proxy = await proxied(url)
    const key = freshPrefix()
    const redis = client(proxy.url)
    const cut = proxy.cutRequest((request) => request.includes(key))
    await expect(redis.incr(key)).rejects.toThrow()
    await cut
    expect(await client(url).get(key)).toBe(null)
  })

  it('keeps the order of what it delays', async () => {
    const heard: string[] = []
    const server = createServer((socket) => socket.on('data', (chunk) => heard.push(chunk.toString())))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closers.push(() => server.close())
    const proxy = await proxied(`127.0.0.1:${(server.address() as AddressInfo).port}`)
    const socket = connect(Number(proxy.url.split(':')[1]), '127.0.0.1')
    await once(socket, 'connect')

    proxy.delay(100)
    socket.write('slow')
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve)) // the proxy has it now
    proxy.delay(0)
    socket.write('quick')
    await expect.poll(() => heard.join('')).toBe('slowquick')
    socket.destroy()
  })

  itOnRedis('refuses and accepts again on the same address', async (url) => {
    const proxy = await proxied(url)
    const redis = client(proxy.url)
    await redis.ping()
    await proxy.refuse()
    await expect(client(proxy.url).ping()).rejects.toThrow(/closed|ECONNREFUSED/)
    await proxy.accept()
    expect(await client(proxy.url).ping()).toBe('PONG')
    expect(proxy.connections).toBe(2)
  })
})

describe('a child', () => {
  const ECHO = new URL('fixtures/echo.ts', import.meta.url)

  it('is spoken to in lines and tells how it ended', async () => {
    const echo = child(ECHO, ['one', 'two'])
    expect(await echo.line()).toBe('args one two')
    echo.tell('hello')
    expect(await echo.line(/hea.d/)).toBe('heard hello')
    echo.tell('leave')
    expect(await echo.exited).toBe('code 3')
    await expect(echo.line('more')).rejects.toThrow('code 3')
  })

  it('dies by SIGKILL at once', async () => {
    const echo = child(ECHO)
    await echo.line('args')
    await echo.kill()
    expect(await echo.exited).toBe('SIGKILL')
  })
})

itOwns(privateRedis)('ends the servers and folders of a process that was killed', async () => {
  const folder = tempFolder()
  const left = () => readdirSync(folder).filter((name) => name.startsWith('mplp-'))
  const owner = child(new URL('fixtures/owner.ts', import.meta.url), [], { TMPDIR: folder, REDIS_URL: '' })
  const url = await owner.line('redis://')
  const ping = () =>
    client(url)
      .ping()
      .catch((error: Error) => error.message)
  expect(await ping()).toBe('PONG')
  expect(left()).toHaveLength(1)
  await owner.kill()
  await expect.poll(ping).not.toBe('PONG')
  await expect.poll(left).toEqual([])
})

function client(url: string, options: { commandTimeout?: number } = {}): Redis {
  const redis = new Redis(url, { retryStrategy: () => null, maxRetriesPerRequest: 0, ...options })
  redis.on('error', () => undefined)
  closers.push(() => redis.disconnect())
  return redis
}
