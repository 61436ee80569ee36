import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { Refused, Unavailable } from '../../src/protocol/errors.ts'
import { type RedisBackendOptions, redisBackend } from '../../src/vsl/redis.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { child } from '../support/child.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { freePort } from '../support/private-server.ts'
import { itOwns, privateRedis } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { twoNodes } from '../support/two-redis-nodes.ts'
import { withClient } from './redis-client.ts'

const itOwnsRedis = itOwns(privateRedis)

/** The error with which an open fails; a store that opens is closed. */
const failed = (options: RedisBackendOptions): Promise<Error & { remedy?: string }> =>
  redisBackend({ timeoutMs: 2000, ...options }).then(
    async (backend) => {
      await backend.close()
      return new Error('it was opened')
    },
    (error) => error,
  )

describe('a Redis store asks of its server', () => {
  itOwnsRedis('one command for a commit, and one for many that wait together', async ({ url }) => {
    const backend = await redisBackend({ url })
    const puts = Array.from({ length: 5 }, (_, i) => [`k/${i}`, i] as const)
    await backend.commit(write('g', 0, { entry: 0, puts }))
    await withClient(url, async (redis) => {
      await redis.config('RESETSTAT')
      for (let i = 1; i <= 10; i++) await backend.commit(write('g', i, { entry: i, puts }))
      await Promise.all(Array.from({ length: 32 }, (_, i) => backend.commit(append(`s/${i}`, 0))))
      const stats = await redis.info('commandstats')
      expect(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]).toBe('11')
      expect(stats).not.toContain('cmdstat_eval:')
    })
    await backend.close()
  })

  itOwnsRedis('that it evicts nothing', async ({ url }) => {
    await withClient(url, async (redis) => {
      for (const policy of ['allkeys-lru', 'allkeys-lfu', 'allkeys-random', 'volatile-lru', 'volatile-ttl']) {
        await redis.config('SET', 'maxmemory-policy', policy)
        const error = await failed({ url })
        expect(error).toBeInstanceOf(Refused)
        expect(error.message).toContain(policy)
        expect(error.remedy).toContain('noeviction')
      }
      expect(await redis.dbsize()).toBe(0)
    })
  })

  itOwnsRedis('that its settings can be read, or that somebody vouches for them', async ({ url }) => {
    await withClient(url, async (redis) => {
      const asGuest = await guestOf(redis, url, '~*', '&*', '+@all', '-config')
      const warnings: string[] = []
      const error = await failed({ url: asGuest })
      expect(error).toBeInstanceOf(Refused)
      expect(error.remedy).toContain('trustConfig')
      const backend = await redisBackend({ url: asGuest, trustConfig: true, onWarning: (text) => warnings.push(text) })
      await backend.commit(append('g', 0))
      expect(backend.traits.durable).toBe(true)
      expect(warnings).toEqual([])
      await backend.close()
      await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
      expect(await failed({ url, trustConfig: true })).toBeInstanceOf(Refused) // no vouching against what can be seen
    })
  })

  itOwnsRedis('and waits, once it is open, while the rights of its user are gone', async ({ url }) => {
    await withClient(url, async (redis) => {
      const asGuest = await guestOf(redis, url, '~*', '&*', '+@all')
      const backend = await redisBackend({ url: asGuest })
      await redis.acl('SETUSER', 'guest', 'resetkeys')
      for (const call of [() => backend.commit(append('g', 0)), () => backend.head('g')]) {
        const error = await call().catch((error) => error)
        expect(error).toBeInstanceOf(Unavailable)
        expect(error.message).toContain('give the user @all')
      }
      expect(await failed({ url: asGuest })).toBeInstanceOf(Refused)
      await redis.acl('SETUSER', 'guest', '~*')
      await backend.commit(append('g', 0))
      await backend.close()
    })
  })

  itOwnsRedis('the right to its channel too, before it makes anything', async ({ url }) => {
    await withClient(url, async (redis) => {
      const asGuest = await guestOf(redis, url, '~{mplp}:*', 'resetchannels', '+@all')
      const error = await failed({ url: asGuest })
      expect(error).toBeInstanceOf(Refused)
      expect(error.remedy).toContain('channel')
      expect(await redis.dbsize()).toBe(0)
    })
  })

  itOwnsRedis('nothing by halves once that right is gone', async ({ url }) => {
    await withClient(url, async (redis) => {
      const asGuest = await guestOf(redis, url, '~{mplp}:*', '&{mplp}:*', '+@all')
      const backend = await redisBackend({ url: asGuest })
      await redis.acl('SETUSER', 'guest', 'resetchannels')
      const commit = () => backend.commit(write('g', 0, { entry: 1, inserts: [['a', 1]], puts: [['b', 2]] }))
      const error = await commit().catch((error) => error)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error.message).toContain('channel')
      expect(await everything(backend, ['g'])).toMatchObject({ feed: [], values: [], heads: [{ revision: 0 }] })
      await redis.acl('SETUSER', 'guest', '&{mplp}:*')
      await commit()
      expect(await collect(backend.scan(''))).toHaveLength(2)
      await backend.close()
    })
  })

  it.each([
    ['appendonly no', { appendonly: false }, false],
    ['appendfsync everysec', { appendfsync: 'everysec' }, false],
    ['appendfsync always', { appendfsync: 'always' }, true],
    ['appendfsync always, but not while it rewrites its file', { noAppendfsyncOnRewrite: true }, false],
  ] as const)('no more than it has: with %s', async (_, settings, durable) => {
    const server = await privateRedis(settings)
    try {
      const warnings: string[] = []
      const backend = await redisBackend({ url: server.url, onWarning: (text) => warnings.push(text) })
      expect(backend.traits.durable).toBe(durable)
      for (let i = 0; i < 3; i++) await backend.commit(append('g', i))
      expect(warnings).toEqual(durable ? [] : [expect.stringContaining('appendfsync always')])
      await backend.close()
    } finally {
      await server.stop()
    }
  })

  itOwns(() => privateRedis({ cluster: true }))('nothing that a cluster does not have', async ({ url }) => {
    const backend = await redisBackend({ url })
    const stop = new AbortController()
    const followed = collect(backend.feed({ follow: true, signal: stop.signal }), 2)
    await backend.commit(write('g', 0, { entry: 1, inserts: [['a', 1]], puts: [['b', 2]] }))
    await backend.commit(write('h', 0, { entry: 2, deletes: ['a'] }))
    await backend.set('own', 1)
    const digest = await backend.putBlob(new Uint8Array(5))
    const lease = await backend.acquire('g', { id: 'h', boot: '', pid: 1, started: '' }, 60_000)
    expect(await backend.renew(lease!)).toBe(true)
    expect((await followed).map((entry) => entry.body)).toEqual([1, 2])
    expect(await collect(backend.scan(''))).toEqual([['b', 2]])
    expect(await collect(backend.read('g'))).toHaveLength(1)
    expect(await collect(backend.blobs())).toEqual([digest])
    await backend.release(lease!)
    await backend.close()
  })
})

describe('a Redis cluster of two nodes', () => {
  it('is found whichever node is asked, and followed when it moves', { timeout: 60_000 }, async () => {
    const cluster = await twoNodes()
    try {
      const backend = await redisBackend({ url: cluster.url })
      await backend.commit(append('g', 0, 'before'))
      const followed = collect(backend.feed({ follow: true }), 2)
      await cluster.move()
      expect(await backend.head('g')).toEqual({ revision: 1, token: 0 })
      await backend.commit(append('g', 1, 'after'))
      expect((await followed).map((entry) => entry.body)).toEqual(['before', 'after'])
      await backend.close()

      await cluster.two.config('SET', 'maxmemory-policy', 'allkeys-lru')
      expect(await failed({ url: cluster.url })).toBeInstanceOf(Refused) // it is the settings of that node that count
      await cluster.two.config('SET', 'maxmemory-policy', 'noeviction')
      await cluster.one.config('SET', 'maxmemory-policy', 'allkeys-lru')
      const again = await redisBackend({ url: cluster.url })
      expect(await collect(again.feed())).toHaveLength(2)
      await again.close()
    } finally {
      await cluster.stop()
    }
  })
})

describe('a Redis cluster whose nodes go away', () => {
  it('is heard at the node that has the store, also without the one that was named', { timeout: 60_000 }, async () => {
    const cluster = await twoNodes()
    const named = await cuttingProxy(cluster.url)
    try {
      await cluster.move()
      const backend = await redisBackend({ url: named.url })
      await backend.commit(append('g', 0, 'before'))
      await named.refuse()
      const feed = backend.feed({ follow: true })[Symbol.asyncIterator]()
      expect((await feed.next()).value.body).toBe('before')
      const next = feed.next()
      for (let i = 0; i < 2; i++) await backend.head('g') // answered after the follower's last, empty page
      await backend.commit(append('g', 1, 'after'))
      expect((await next).value.body).toBe('after')
      await backend.close()
    } finally {
      await named.close()
      await cluster.stop()
    }
  })

  it('is asked again at the node that was named once the one that had the store is gone', {
    timeout: 60_000,
  }, async () => {
    const cluster = await twoNodes()
    try {
      const backend = await redisBackend({ url: cluster.url })
      await cluster.move()
      await backend.commit(append('g', 0))
      await cluster.failOver()
      await expect
        .poll(() => backend.head('g').catch(() => undefined), { timeout: 10_000 })
        .toEqual({ revision: 0, token: 0 })
      await backend.close()
    } finally {
      await cluster.stop()
    }
  })
})

describe('a Redis server that says no', () => {
  itOwnsRedis(
    'because of a missing or wrong password is told apart, and the password told to nobody',
    async ({ url }) => {
      await withClient(url, async (redis) => {
        await redis.config('SET', 'requirepass', 'right-password')
      })
      for (const [given, remedy] of [
        ['', 'put user name and password into the URL'],
        [':wrong-password@', 'check user name and password'],
        ['nobody:wrong-password@', 'check user name and password'],
      ] as const) {
        const error = await failed({ url: url.replace('//', `//${given}`) })
        expect(error).toBeInstanceOf(Refused)
        expect(error.remedy).toContain(remedy)
        expect(inspect(error, { depth: 9 })).not.toContain('wrong-password')
      }
      const backend = await redisBackend({ url: url.replace('//', '//:right-password@') })
      await backend.commit(append('g', 0))
      await backend.close()
    },
  )

  itOwnsRedis('because its memory is full has written nothing, and goes on when there is room', async ({ url }) => {
    const backend = await redisBackend({ url })
    await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    const before = await everything(backend, ['g', 'h'])
    await withClient(url, async (redis) => {
      await redis.config('SET', 'maxmemory', '1')
      const calls = [
        backend.commit(write('g', 1, { entry: 2, puts: [['k', 2]], inserts: [['new', 1]] })),
        backend.commit(write('h', 0, { entry: 2, deletes: ['k'] })),
        backend.set('own', 1),
        backend.putBlob(new Uint8Array(9)),
      ]
      for (const result of await Promise.allSettled(calls)) {
        expect(result).toMatchObject({ status: 'rejected', reason: expect.any(Unavailable) })
        expect(result).toMatchObject({ reason: { message: expect.stringContaining('maxmemory') } })
      }
      expect(await everything(backend, ['g', 'h'])).toEqual(before)
      await redis.config('SET', 'maxmemory', '0')
    })
    await backend.commit(write('g', 1, { entry: 2, puts: [['k', 2]] }))
    expect(await collect(backend.scan(''))).toEqual([['k', 2]])
    await backend.close()
  })

  itOwnsRedis('because it is a replica is Unavailable, and says what to do', async ({ url }) => {
    const backend = await redisBackend({ url })
    await withClient(url, async (redis) => {
      await redis.replicaof('127.0.0.1', 1)
      await expect(backend.commit(append('g', 0))).rejects.toThrow(/connect to the master/)
      expect(await failed({ url, prefix: 'new' })).toBeInstanceOf(Unavailable)
      await redis.replicaof('NO', 'ONE')
    })
    await backend.commit(append('g', 0))
    await backend.close()
  })

  it('because it is no master any more is left for the one to which its address leads by now', async () => {
    const [old, young] = [await privateRedis(), await privateRedis()]
    const name = await cuttingProxy(old.url)
    const backend = await redisBackend({ url: name.url })
    await backend.commit(append('g', 0))
    await withClient(old.url, (redis) => redis.config('SET', 'repl-diskless-sync-delay', '0'))
    await withClient(young.url, async (redis) => {
      await redis.replicaof('127.0.0.1', new URL(old.url).port)
      await expect.poll(() => redis.hget('{mplp}:heads', 'g')).toBe('1 0')
      await redis.replicaof('NO', 'ONE')
    })
    name.leadTo(young.url)
    await withClient(old.url, (redis) => redis.replicaof('127.0.0.1', new URL(young.url).port))
    await expect(backend.commit(append('g', 1))).rejects.toThrow(/connect to the master/)
    await backend.commit(append('g', 1))
    expect(await collect(backend.feed())).toHaveLength(2)
    await backend.close()
    await name.close()
    await Promise.all([old.stop(), young.stop()])
  })

  itOwnsRedis('because its certificate is not trusted is refused, and opened with one that is', async ({ url }) => {
    const folder = tempFolder()
    const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
    const selfSigned = `req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1`
    execFileSync('openssl', [...selfSigned.split(' '), '-keyout', key, '-out', certificate], { stdio: 'pipe' })
    const port = await freePort()
    await withClient(url, async (redis) => {
      const settings = { 'tls-cert-file': certificate, 'tls-key-file': key, 'tls-ca-cert-file': certificate }
      await redis.config('SET', ...Object.entries({ ...settings, 'tls-auth-clients': 'no', 'tls-port': port }).flat())
    })
    const error = await failed({ url: `rediss://127.0.0.1:${port}` })
    expect(error).toBeInstanceOf(Refused)
    expect(error.remedy).toContain('certificate')
    for (const mistaken of [`rediss://${new URL(url).host}`, `redis://127.0.0.1:${port}`])
      expect(await failed({ url: mistaken, timeoutMs: 300 })).toBeInstanceOf(Unavailable)

    const client = new Redis({ host: '127.0.0.1', port, tls: { ca: readFileSync(certificate) } })
    const backend = await redisBackend({ client })
    await backend.commit(append('g', 0))
    await backend.close()
    client.disconnect()
  })
})

describe('what is not a Redis server', () => {
  let servers: Server[] = []
  const listening = async (answer?: string): Promise<string> => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined)
      if (answer) socket.once('data', () => socket.end(answer))
    })
    servers.push(server)
    const port = await freePort()
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    return `redis://127.0.0.1:${port}`
  }
  afterEach(() => {
    for (const server of servers) server.close()
    servers = []
  })

  it('is refused when it speaks another language', async () => {
    expect(await failed({ url: await listening('HTTP/1.1 400 Bad Request\r\n\r\n') })).toBeInstanceOf(Refused)
  })

  it('is Unavailable when it is silent, when nobody is there, and when its name is unknown', async () => {
    expect(await failed({ url: await listening(), timeoutMs: 200 })).toBeInstanceOf(Unavailable)
    expect(await failed({ url: `redis://127.0.0.1:${await freePort()}` })).toBeInstanceOf(Unavailable)
    expect(await failed({ url: 'redis://no-such-host.invalid' })).toBeInstanceOf(Unavailable)
  })

  it('leaves nothing behind that keeps a process alive', async () => {
    const silent = await listening()
    const urls = [silent, silent.replace('redis:', 'rediss:'), `redis://127.0.0.1:${await freePort()}`]
    const opener = child(new URL('redis-failed-open.ts', import.meta.url), urls)
    expect(await opener.exited).toBe('code 0')
    expect(opener.lines).toEqual(['unavailable', 'unavailable', 'unavailable'])
  })
})

/** The URL of a user who may do this. */
async function guestOf(redis: Redis, url: string, ...rights: string[]): Promise<string> {
  await redis.acl('SETUSER', 'guest', 'on', '>secret', ...rights)
  return url.replace('//', '//guest:secret@')
}
