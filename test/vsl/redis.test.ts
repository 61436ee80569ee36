import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Corrupt, InvalidInput, Refused, TooLarge } from '../../src/protocol/errors.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { keysOf } from '../../src/vsl/redis-scripts.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { freshPrefix, itNeeds, suiteNeeds } from '../support/servers.ts'
import { withClient } from './redis-client.ts'

await suiteNeeds('redis', (url) =>
  backendContract('redis', () => {
    const prefix = freshPrefix()
    return { open: () => redisBackend({ url, prefix }) }
  }),
)

const itOnRedis = itNeeds('redis')

describe('a Redis store', () => {
  itOnRedis('keeps every key of a store in one slot', async (url) => {
    const prefix = freshPrefix()
    const backend = await redisBackend({ url, prefix })
    await backend.commit(write('g', 0, { entry: 1, inserts: [['a/b', 1]], puts: [['c', 2]] }))
    await backend.set('own', 1)
    await backend.putBlob(new Uint8Array(3))
    await backend.acquire('g', { id: 'h', boot: '', pid: 1, started: '' }, 1000)
    await withClient(url, async (redis) => {
      const keys = await redis.keys(`*${prefix}*`)
      expect(keys).toHaveLength(12)
      expect(new Set(keys.map((key) => /^\{(.*)\}:/.exec(key)?.[1]))).toEqual(new Set([prefix]))
    })
    await backend.close()
  })

  itOnRedis('goes on when the scripts are flushed', async (url) => {
    const backend = await redisBackend({ url, prefix: freshPrefix() })
    await withClient(url, async (redis) => {
      for (let i = 0; i < 3; i++) {
        await redis.script('FLUSH')
        await backend.commit(append('g', i))
      }
      await redis.script('FLUSH')
      expect(await collect(backend.read('g'))).toHaveLength(3)
    })
    await backend.close()
  })

  itOnRedis('takes 150,000 puts and as many deletes in one commit', async (url) => {
    const backend = await redisBackend({ url, prefix: freshPrefix(), timeoutMs: 60_000 }) // however busy the machine is
    const keys = Array.from({ length: 150_000 }, (_, i) => `k/${i}`)
    await backend.commit(write('g', 0, { entry: 1, puts: keys.map((key) => [key, 1] as const) }))
    expect((await backend.getMany(['k/0', 'k/149999'])).size).toBe(2)
    await backend.commit(write('g', 1, { entry: 2, deletes: keys }))
    expect(await collect(backend.scan(''))).toEqual([])
    await backend.close()
  })

  itOnRedis('refuses a blob above a mebibyte unless more was asked for', async (url) => {
    const prefix = freshPrefix()
    const bytes = new Uint8Array(1024 * 1024 + 1)
    const backend = await redisBackend({ url, prefix })
    const error = await backend.putBlob(bytes).catch((e) => e)
    expect(error).toBeInstanceOf(TooLarge)
    expect(error).toMatchObject({ bytes: bytes.length, limit: 1024 * 1024 })
    expect(error.message).toContain('maxBlobBytes')
    expect(await collect(backend.blobs())).toEqual([])
    await backend.close()
    const large = await redisBackend({ url, prefix, maxBlobBytes: 2 ** 24 })
    const back = await large.getBlob(await large.putBlob(bytes))
    expect(back && Buffer.compare(back, bytes)).toBe(0)
    await large.close()
  })

  itOnRedis('keeps stores of different prefixes apart, also when one begins like the other', async (url) => {
    const prefix = freshPrefix()
    const [one, other] = [await redisBackend({ url, prefix }), await redisBackend({ url, prefix: `${prefix}:x` })]
    const before = await everything(other, ['g'])
    await one.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    await one.set('own', 1)
    expect(await everything(other, ['g'])).toEqual(before)
    await one.close()
    await other.close()
  })

  itOnRedis('borrows the address of a client and leaves the client alone', async (url) => {
    const client = new Redis(url, { keyPrefix: 'theirs:', maxRetriesPerRequest: null, stringNumbers: true })
    const prefix = freshPrefix()
    const backend = await redisBackend({ client, prefix })
    await backend.commit(append('g', 0, 'through the client'))
    await backend.close()
    expect(await client.ping()).toBe('PONG')
    const again = await redisBackend({ url, prefix })
    expect((await collect(again.feed())).map((entry) => entry.body)).toEqual(['through the client'])
    await again.close()
    client.disconnect()
  })

  itOnRedis('is Corrupt where a text is no JSON', async (url) => {
    const prefix = freshPrefix()
    const backend = await redisBackend({ url, prefix })
    await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    await backend.set('own', 1)
    await withClient(url, async (redis) => {
      const { values, own } = keysOf(prefix)
      await redis.hset(values.hash, 'k', '{')
      await redis.hset(own.hash, 'own', '{')
    })
    for (const read of [() => backend.getMany(['k']), () => collect(backend.scan('')), () => backend.get('own')])
      await expect(read()).rejects.toBeInstanceOf(Corrupt)
    await backend.close()
  })

  itOnRedis('is refused and left as it is when it is of a newer version', async (url) => {
    const prefix = freshPrefix()
    const open = await redisBackend({ url, prefix })
    onTestFinished(() => open.close())
    expect(await open.facts!()).toMatchObject({ layout: 1 })
    await withClient(url, async (redis) => {
      await redis.hset(`{${prefix}}:meta`, 'schema', '7')
      await expect(open.facts!()).rejects.toThrow(Refused)
      const error = await redisBackend({ url, prefix }).catch((e) => e)
      expect(error).toBeInstanceOf(Refused)
      expect(error.message).toContain('schema 7')
      expect(await redis.hgetall(`{${prefix}}:meta`)).toEqual({ schema: '7' })
    })
  })

  itOnRedis('is refused when the keys belong to something else', async (url) => {
    await withClient(url, async (redis) => {
      for (const make of [
        (prefix: string) => redis.set(`{${prefix}}:meta`, 'text'),
        (prefix: string) => redis.set(`{${prefix}}:values`, 'text'),
        (prefix: string) => redis.hset(`{${prefix}}:heads`, 'x', 'y'),
      ]) {
        const prefix = freshPrefix()
        await make(prefix)
        const error = await redisBackend({ url, prefix }).catch((e) => e)
        expect(error).toBeInstanceOf(Refused)
        expect(error.remedy).toContain('another prefix')
        expect(await redis.keys(`*${prefix}*`)).toHaveLength(1)
      }
    })
  })

  itOnRedis(
    'is refused when the server does not have the database, and nothing is put into another one',
    async (url) => {
      const prefix = freshPrefix()
      const elsewhere = new URL('/99999', url).href
      const error = await redisBackend({ url: elsewhere, prefix }).catch((e) => e)
      expect(error).toBeInstanceOf(Refused)
      expect(error.message).toContain('has no database 99999')
      await withClient(url, async (redis) => expect(await redis.keys(`*${prefix}*`)).toEqual([]))
    },
  )

  it.each([
    ['url', {}],
    ['url', { url: 'redis://localhost', client: { duplicate() {}, options: {} } as unknown as Redis }],
    ['client', { client: {} as Redis }],
    ['client', { client: { duplicate() {}, isCluster: true, options: {} } as unknown as Redis }],
    ['prefix', { url: 'redis://localhost', prefix: '' }],
    ['prefix', { url: 'redis://localhost', prefix: 'a{b}' }],
    ['timeoutMs', { url: 'redis://localhost', timeoutMs: 0 }],
    ['timeoutMs', { url: 'redis://localhost', timeoutMs: Number.NaN }],
    ['maxBlobBytes', { url: 'redis://localhost', maxBlobBytes: -1 }],
    ['url', { url: 'not a url' }],
    ['url', { url: 'http://localhost:6379' }],
    ['url', { url: 'redis://localhost/x' }],
    ['url', { url: 'redis://localhost?enableOfflineQueue=true' }],
  ])('refuses options whose %s does not fit: %j', async (at, options) => {
    const error = await redisBackend(options).catch((e) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems).toEqual([expect.objectContaining({ path: at })])
  })
})
