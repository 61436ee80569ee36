import { inspect } from 'node:util'
import { describe, expect } from 'vitest'
import { OutcomeUnknown, RevisionConflict, Unavailable } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { append, bodies, collect, write } from '../contracts/backend/given.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { itOwns, privateRedis } from '../support/servers.ts'
import { commitAll } from './load.ts'
import { withClient } from './redis-client.ts'
import { expectWhole } from './whole.ts'

const itOwnsRedis = itOwns(privateRedis)
const isCommit = (chunk: Buffer) => chunk.includes('evalsha') && chunk.includes('"id"')
const STREAMS = Array.from({ length: 8 }, (_, i) => `s${i}`)

describe('a Redis store whose server dies', () => {
  itOwnsRedis('loses no acknowledged commit and doubles none, killed again and again under load', async (server) => {
    const backend = await redisBackend({ url: server.url, timeoutMs: 1000 })
    const followed = collect(backend.feed({ follow: true }), STREAMS.length * 200)
    const load = commitAll(backend, { name: 'p', streams: STREAMS, commits: 200 })
    for (let kills = 0, at = 0; kills < 3; kills++) {
      at += 100
      await collect(backend.feed({ follow: true }), at)
      await server.kill()
      await server.restart()
    }
    const { landed, failures } = await load
    expect(landed).toHaveLength(STREAMS.length * 200)
    expect(Object.values(failures).reduce((a, b) => a + b)).toBeGreaterThan(0)
    await expectWhole(backend, STREAMS, landed)
    expect(await followed).toEqual(await collect(backend.feed()))
    await backend.close()
  })

  itOwnsRedis('is Unavailable while it is down, and back when it is', async (server) => {
    const backend = await redisBackend({ url: server.url, timeoutMs: 600 })
    await backend.commit(append('g', 0))
    await server.kill()
    const followed = collect(backend.feed({ follow: true }), 2) // outlasts it, where others are told
    await expect(backend.head('g')).rejects.toBeInstanceOf(Unavailable)
    await expect(collect(backend.feed())).rejects.toBeInstanceOf(Unavailable)
    await expect(backend.commit(append('g', 1))).rejects.toBeInstanceOf(Unavailable)
    await expect(backend.set('k', 1)).rejects.toBeInstanceOf(Unavailable)
    await server.restart()
    await expect.poll(() => backend.head('g').catch(() => undefined)).toEqual({ revision: 1, token: 0 })
    await backend.commit(append('g', 1))
    expect(await followed).toHaveLength(2)
    await backend.close()
  })

  itOwnsRedis('can be opened by others also after it has lost everything under one that works on', async ({ url }) => {
    const writes: readonly ((store: Backend) => Promise<unknown>)[] = [
      (store) => store.commit(append('g', 0)),
      (store) => store.set('k', 1),
      (store) => store.putBlob(Buffer.from('b')),
      (store) => store.acquire('g', thisHolder('h'), 1000),
    ]
    const backend = await redisBackend({ url })
    for (const write of writes) {
      await withClient(url, (redis) => redis.flushall())
      await write(backend)
      await (await redisBackend({ url, create: false })).close()
    }
    await backend.close()
  })

  itOwnsRedis('ends followers when they are told, however long it is gone', async (server) => {
    const backend = await redisBackend({ url: server.url, timeoutMs: 60_000 })
    const stop = new AbortController()
    const [told, untold] = [backend.feed({ follow: true, signal: stop.signal }), backend.feed({ follow: true })].map(
      (feed) => feed[Symbol.asyncIterator](),
    )
    await backend.commit(append('g', 0))
    for (const follower of [told, untold]) expect((await follower!.next()).done).toBe(false)
    await server.kill()
    const late = collect(backend.feed({ follow: true, signal: stop.signal }))
    const ends = [told!.next(), untold!.next()]
    stop.abort()
    expect(await late).toEqual([])
    expect((await ends[0])?.done).toBe(true)
    await backend.close()
    expect((await ends[1])?.done).toBe(true)
  })
})

describe('a Redis store whose server does not answer', () => {
  itOwnsRedis('does not know whether a commit landed, and knows that a read did not', async (server) => {
    const backend = await redisBackend({ url: server.url, timeoutMs: 600 })
    await backend.commit(append('g', 0))
    server.pause()
    const results = await Promise.allSettled([backend.commit(append('g', 1)), backend.set('k', 1), backend.head('g')])
    expect(results.map((result) => (result as PromiseRejectedResult).reason)).toEqual([
      expect.any(OutcomeUnknown),
      expect.any(OutcomeUnknown),
      expect.any(Unavailable),
    ])
    server.resume()
    await expect.poll(() => backend.head('g').catch(() => undefined)).toEqual({ revision: 2, token: 0 })
    await backend.close()
  })
})

describe('a Redis store behind a bad network', () => {
  itOwnsRedis('reports a lost reply as such; the same write again then says that it is there', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const backend = await redisBackend({ url: proxy.url })
    await backend.commit(append('g', 0, { id: 'before' }))
    const mine = write('g', 1, { entry: { id: 'mine' }, puts: [['k', 1]] })
    const cut = proxy.cutReply(isCommit)
    await expect(backend.commit(mine)).rejects.toBeInstanceOf(OutcomeUnknown)
    await cut
    await expect(backend.commit(mine)).rejects.toEqual(new RevisionConflict('g', 1, 2))
    expect(bodies(await collect(backend.read('g')))).toEqual([{ id: 'before' }, { id: 'mine' }])
    await backend.close()
    await proxy.close()
  })

  itOwnsRedis('does not send a commit a second time by itself', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const backend = await redisBackend({ url: proxy.url })
    const cut = proxy.cutRequest(isCommit)
    const error = await backend.commit(append('g', 0, { id: 'gone' })).catch((e) => e)
    expect(error).toBeInstanceOf(OutcomeUnknown)
    expect(inspect(error, { depth: 9 })).not.toContain('gone') // what was sent stays out of the logs
    await cut
    expect(await backend.head('g')).toEqual({ revision: 0, token: 0 })
    await backend.close()
    await proxy.close()
  })

  itOwnsRedis('asks again for what may be asked twice', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const backend = await redisBackend({ url: proxy.url })
    await backend.commit(append('g', 0))
    for (const cut of [proxy.cutReply, proxy.cutRequest]) {
      const done = cut((chunk) => chunk.includes('hget'))
      expect(await backend.head('g')).toEqual({ revision: 1, token: 0 })
      await done
    }
    await backend.close()
    await proxy.close()
  })

  itOwnsRedis('loses, doubles and halves nothing while connections are cut under load', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const watcher = await redisBackend({ url })
    const backend = await redisBackend({ url: proxy.url, timeoutMs: 1000 })
    const followed = collect(backend.feed({ follow: true }), STREAMS.length * 100)
    const load = commitAll(backend, { name: 'p', streams: STREAMS, commits: 100 })
    for (let cuts = 0; cuts < 24; cuts++) {
      await collect(watcher.feed({ follow: true }), 20 * (cuts + 1)) // some must get through
      if (cuts % 4 === 3) proxy.cutAll()
      else await (cuts % 4 === 2 ? proxy.cutRequest(isCommit) : proxy.cutReply(isCommit))
    }
    const { landed, failures } = await load
    expect(failures.outcome_unknown).toBeGreaterThan(5)
    expect(failures.revision_conflict).toBeGreaterThan(0) // those that had landed although the reply was lost
    await expectWhole(backend, STREAMS, landed)
    expect(await followed).toEqual(await collect(backend.feed()))
    await watcher.close()
    await backend.close()
    await proxy.close()
  })

  /** A follower behind the proxy, asleep; and a writer beside it. */
  async function asleep(url: string, timeoutMs: number) {
    const proxy = await cuttingProxy(url)
    const reader = await redisBackend({ url: proxy.url, timeoutMs })
    const writer = await redisBackend({ url })
    const heard: Json[] = []
    const following = (async () => {
      for await (const entry of reader.feed({ follow: true })) heard.push(entry.body)
    })()
    await withClient(url, (redis) =>
      expect.poll(() => redis.pubsub('NUMSUB', '{mplp}:news')).toEqual(['{mplp}:news', expect.toSatisfy((n) => n > 0)]),
    )
    await writer.commit(append('g', 0, 'first'))
    await expect.poll(() => heard).toEqual(['first'])
    await reader.head('g') // answered after the follower's last, empty page
    return {
      proxy,
      writer,
      heard,
      close: () => Promise.all([reader.close(), following, writer.close(), proxy.close()]),
    }
  }

  itOwnsRedis('reads on, without being told, what came while its connections were cut', async ({ url }) => {
    const { proxy, writer, heard, close } = await asleep(url, 5000)
    await proxy.refuse()
    await writer.commit(append('g', 1, 'not heard'))
    await proxy.accept()
    await expect.poll(() => heard).toEqual(['first', 'not heard'])
    await close()
  })

  itOwnsRedis('notices when the connection on which it only listens has gone silent', async ({ url }) => {
    const { proxy, writer, heard, close } = await asleep(url, 600)
    proxy.delay(3_600_000) // neither cut nor answered: what is on its way now never arrives
    await writer.commit(append('g', 1, 'not heard'))
    await withClient(url, (redis) => redis.ping()) // by now the message is in the proxy
    proxy.delay(0)
    await expect.poll(() => heard).toEqual(['first', 'not heard'])
    await close()
  })
})
