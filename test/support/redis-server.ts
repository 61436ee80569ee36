import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { binary } from './install.ts'
import { freePort, type PrivateServer, privateServer } from './private-server.ts'
import { own } from './processes.ts'

export interface RedisOptions {
  readonly appendonly?: boolean
  readonly appendfsync?: 'always' | 'everysec' | 'no'
  readonly noAppendfsyncOnRewrite?: boolean
  readonly maxmemory?: string
  readonly maxmemoryPolicy?: string
  /** A cluster of one node that serves every slot. */
  readonly cluster?: boolean
}

/** The nodes of a cluster talk to each other on a port that lies so far above their own. */
const CLUSTER_BUS = 10_000

/** Redis on a free loopback port, with its files in a new folder below `parent`. Keeps every acknowledged write unless told otherwise. */
export async function startRedis(parent: string, options: RedisOptions = {}): Promise<PrivateServer> {
  const command = await binary('redis')
  const port = await freePort(options.cluster ? CLUSTER_BUS : 0)
  const folder = join(parent, `redis-${port}`)
  mkdirSync(folder)
  const settings: Record<string, string> = {
    port: String(port),
    bind: '127.0.0.1',
    dir: folder,
    save: '',
    appendonly: (options.appendonly ?? true) ? 'yes' : 'no',
    appendfsync: options.appendfsync ?? 'always',
    'no-appendfsync-on-rewrite': options.noAppendfsyncOnRewrite ? 'yes' : 'no',
    ...(options.maxmemory && { maxmemory: options.maxmemory }),
    ...(options.maxmemoryPolicy && { 'maxmemory-policy': options.maxmemoryPolicy }),
    ...(options.cluster && { 'cluster-enabled': 'yes' }),
  }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  const url = `redis://127.0.0.1:${port}`
  const server = await privateServer({
    name: 'redis-server',
    url,
    start: () => own(command, args, { cwd: folder }),
    ask: () => askRedis(url),
  })
  if (options.cluster) await serveAllSlots(url)
  return server
}

/** Connects and returns the server's version. */
export async function askRedis(url: string): Promise<string> {
  return withRedis(url, async (redis) => {
    const info = await redis.info('server')
    return /redis_version:(\S+)/.exec(info)?.[1] ?? 'of an unknown version'
  })
}

/** Removes every key that begins so. */
export async function forgetKeys(url: string, prefix: string): Promise<void> {
  await withRedis(url, async (redis) => {
    let cursor = '0'
    do {
      const [next, keys] = await redis.scan(cursor, 'MATCH', `*${prefix}*`, 'COUNT', 1000)
      if (keys.length > 0) await redis.unlink(...keys)
      cursor = next
    } while (cursor !== '0')
  })
}

async function serveAllSlots(url: string): Promise<void> {
  await withRedis(url, async (redis) => {
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
    while (!String(await redis.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })
}

async function withRedis<T>(url: string, work: (redis: import('ioredis').Redis) => Promise<T>): Promise<T> {
  const { Redis } = await import('ioredis')
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null, connectTimeout: 5000 })
  redis.on('error', () => undefined) // connect() rejects with it
  try {
    await redis.connect()
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}
