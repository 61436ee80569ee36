import { inspect } from 'node:util'
import { Cluster, Redis } from 'ioredis'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { type RedisTransportOptions, redisTransport } from '../../src/bus/redis.ts'
import type { After, Delivery, Source, Transport } from '../../src/bus/transport.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { Corrupt, FellBehind, InvalidInput, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { chunks, delivery, ids, outOfOrder, series, transportContract, until } from '../contracts/transport-contract.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { freePort } from '../support/private-server.ts'
import { freshPrefix, itNeeds, itOwns, privateRedis, suiteNeeds } from '../support/servers.ts'
import { twoNodes } from '../support/two-redis-nodes.ts'
import { comesPastItsPlace } from './past-its-place.ts'

await suiteNeeds('redis', (url) =>
  transportContract('redis', async () => {
    const prefix = freshPrefix()
    const proxy = await cuttingProxy(url)
    const transport = await redisTransport({ url, prefix, graceMs: 300 })
    const listeners: Source[] = []
    return {
      transport,
      async listener() {
        const onError = () => undefined // a cut connection is told, and is no failure
        const listener = await redisTransport({ url: proxy.url, prefix, graceMs: 300, claimAfterMs: 500, onError })
        listeners.push(listener)
        return listener
      },
      interrupt: async () => proxy.cutAll(),
      async close() {
        for (const listener of listeners) await listener.close()
        await transport.close()
        await proxy.close()
      },
    }
  }),
)

/** The time as it is, and a wait until they who sleep by it have done so some times more. */
function counting() {
  let slept = 0
  const sleep = (ms: number, signal?: AbortSignal) => {
    slept++
    return systemClock.sleep(ms, signal)
  }
  const sleeps = (more: number) => {
    const enough = slept + more
    return until(() => slept > enough)
  }
  return { clock: { ...systemClock, sleep }, sleeps }
}

describe('bus/redis', () => {
  const itOnRedis = itNeeds('redis')
  const itOnItsOwn = itOwns(() => privateRedis())

  itOnRedis('keeps about as many deliveries as it is told to, and refuses to resume before them', async (url) => {
    await withBus({ url, keep: { deliveries: 500 } }, async (bus, { redis, key }) => {
      for (const batch of chunks(series(1, 2000), 100)) await bus.publish(batch)
      expect(await redis.xlen(key)).toBeLessThan(700)
      await expect(bus.subscribe({}, () => undefined, { after: delivery(100).position })).rejects.toThrow(Refused)
      const got: Delivery[] = []
      await bus.subscribe({}, (d) => void got.push(d), { after: delivery(1990).position })
      await until(() => got.length === 10)
    })
  })

  itOnRedis('goes on behind a place also when the store counts anew, and tells what came meanwhile', async (url) => {
    await withBus({ url }, async (bus) => {
      const [old, young] = [series(101, 110), series(1, 6)]
      await bus.publish(old)
      await bus.publish(young.slice(0, 3))
      const got: Record<string, Delivery[]> = { caughtUp: [], within: [], ofTheYoung: [], byPosition: [] }
      const listen = (name: string, after: After) => bus.subscribe({}, (d) => void got[name]?.push(d), { after })
      await listen('caughtUp', old.at(-1)!)
      await listen('within', old[7]!)
      await listen('ofTheYoung', young[0]!)
      await listen('byPosition', old.at(-1)!.position)
      await bus.publish(young.slice(3))
      await until(() => Object.values(got).every((heard) => heard.at(-1)?.revision === 6))
      expect(ids(got.caughtUp!)).toEqual(ids(young))
      expect(ids(got.within!)).toEqual(ids([...old.slice(8), ...young]))
      expect(ids(got.ofTheYoung!)).toEqual(ids(young.slice(1)))
      expect(ids(got.byPosition!)).toEqual(ids(young))
    })
  })

  itOnRedis('refuses to resume on a stream that was lost and begun anew, and tells who was listening', async (url) => {
    await withBus({ url }, async (bus, { redis, key }) => {
      const errors: unknown[] = []
      const got: Delivery[] = []
      await bus.subscribe({}, (d) => void got.push(d), { onError: (error) => void errors.push(error) })
      await bus.publish(series(1, 5))
      await until(() => got.length === 5)
      await redis.del(key, `${key}:count`)
      await bus.publish(series(8, 9)) // 6 and 7 went with the stream
      await until(() => got.length === 7)
      expect(errors).toEqual([expect.any(Corrupt)])
      await expect(bus.subscribe({}, () => undefined, { after: delivery(5) })).rejects.toThrow(Refused)
    })
  })

  itOnRedis('lets a group go on that began at a place which is trimmed by now', async (url) => {
    await withBus({ url, keep: { deliveries: 200 } }, async (bus) => {
      await bus.publish(series(1, 10))
      const got: Delivery[] = []
      const join = () => bus.subscribe({}, (d) => void got.push(d), { group: 'g', after: delivery(5).position })
      const first = await join()
      for (const batch of chunks(series(11, 1000), 10)) {
        await bus.publish(batch)
        await until(() => got.at(-1)?.revision === batch.at(-1)?.revision)
      }
      await first.close()
      await join()
      await bus.publish([delivery(1001)])
      await until(() => got.length === 996)
    })
  })

  itOnRedis(
    'gives who has come past their place all that follows, also from an older backup of the store',
    async (url) => {
      await withBus({ url }, async (bus) => {
        await comesPastItsPlace(bus)
      })
    },
  )

  itOnRedis('is refused when the server does not have the database', async (url) => {
    const opening = redisTransport({ url: new URL('/99999', url).href, prefix: freshPrefix() })
    await expect(opening).rejects.toThrow(/has no database 99999; end the URL/)
  })

  itOnRedis('lets go of what is older than it is told to keep', async (url) => {
    await withBus({ url, keep: { ms: 1 } }, async (bus, { redis, key }) => {
      await bus.publish(series(1, 1000))
      for (let n = 1001; (await redis.xlen(key)) > 300; n += 1) await bus.publish([delivery(n)])
    })
  })

  itOnRedis('tells a subscriber and a group how many deliveries were trimmed before they read them', async (url) => {
    await withBus({ url, keep: { deliveries: 200 }, claimAfterMs: 50 }, async (bus) => {
      const heard: Record<string, unknown[]> = { alone: [], group: [] }
      const release: (() => void)[] = []
      const slow = () => new Promise<void>((resolve) => release.push(resolve))
      const onError = (name: string) => (error: unknown) => void heard[name]?.push(error)
      await bus.subscribe({}, slow, { limit: 1, onError: onError('alone') })
      await bus.subscribe({}, slow, { limit: 1, group: 'slow', onError: onError('group') })
      for (const batch of chunks(series(1, 3000), 100)) await bus.publish(batch)
      await until(() => {
        release.pop()?.()
        return heard.alone?.[0] !== undefined && heard.group?.[0] !== undefined
      })
      expect([heard.alone?.[0], heard.group?.[0]]).toEqual([expect.any(FellBehind), expect.any(FellBehind)])
    })
  })

  itOnRedis('tells a group of everything that was trimmed before it read it, however soon it reads on', async (url) => {
    await withBus({ url, keep: { deliveries: 200 } }, async (bus) => {
      const got: number[] = []
      const errors: unknown[] = []
      let goOn: () => void = () => undefined
      const held = new Promise<void>((resolve) => {
        goOn = resolve
      })
      const slow = (d: Delivery) => {
        got.push(d.revision)
        return held
      }
      await bus.subscribe({}, slow, { limit: 1, group: 'slow', onError: (e) => void errors.push(e) })
      for (const batch of chunks(series(1, 3000), 100)) await bus.publish(batch)
      goOn()
      await until(() => got.at(-1) === 3000)
      for (const error of errors) expect(error).toBeInstanceOf(FellBehind)
      const told = errors.map((error) => Number(/(\d+) deliveries were trimmed/.exec(String(error))?.[1]))
      expect(told.reduce((sum, lost) => sum + lost, 0)).toBe(3000 - got.length)
      expect(got.length).toBeLessThan(1000)
    })
  })

  itOnRedis('tells a subscriber of everything that was trimmed before the first that it read', async (url) => {
    await withBus({ url, keep: { deliveries: 200 } }, async (bus) => {
      const got: number[] = []
      const errors: unknown[] = []
      await bus.subscribe({}, (d) => void got.push(d.revision), { onError: (e) => void errors.push(e) })
      await bus.publish(series(1, 1000)) // which the server takes, and trims, before anybody reads
      await until(() => got.at(-1) === 1000)
      expect(errors).toEqual([expect.any(FellBehind)])
      expect(String(errors[0])).toContain(`${1000 - got.length} deliveries`)
    })
  })

  itOnRedis('claims what a dead member of the group had in hand', async (url) => {
    await withBus({ url, claimAfterMs: 200 }, async (bus, { redis, key }) => {
      await (await bus.subscribe({}, () => undefined, { group: 'heirs' })).close()
      await bus.publish(series(1, 5))
      await redis.xreadgroup('GROUP', 'heirs', 'ghost', 'COUNT', 3, 'STREAMS', key, '>')
      const got: Delivery[] = []
      await bus.subscribe({}, (d) => void got.push(d), { group: 'heirs' })
      await until(() => got.length === 5)
      expect(ids(got).sort()).toEqual(ids(series(1, 5)))
      await until(async () => (await pending(redis, key, 'heirs')) === 0)
    })
  })

  itOnRedis('leaves a living member what it has in hand, however long it takes', async (url) => {
    const { clock, sleeps } = counting()
    await withBus({ url, claimAfterMs: 600, clock }, async (bus, { redis, key }) => {
      const got: string[] = []
      let finish: () => void = () => undefined
      const busy = (d: Delivery) =>
        new Promise<void>((resolve) => {
          got.push(`busy ${d.revision}`)
          finish = resolve
        })
      await bus.subscribe({}, busy, { group: 'g' })
      await bus.publish([delivery(1)])
      await until(() => got.length === 1)
      for (let i = 0; i < 6; i++) await bus.subscribe({}, (d) => void got.push(`other ${d.revision}`), { group: 'g' })
      await sleeps(40)
      expect(got).toEqual(['busy 1'])
      finish()
      await until(async () => (await pending(redis, key, 'g')) === 0)
    })
  })

  itOnRedis('tells of what was trimmed while a member that is gone had it in hand', async (url) => {
    const errors: unknown[] = []
    const onError = (e: unknown) => void errors.push(e)
    await withBus({ url, claimAfterMs: 200, onError }, async (bus, { redis, key }) => {
      await (await bus.subscribe({}, () => undefined, { group: 'heirs' })).close()
      await bus.publish(series(1, 5))
      await redis.xreadgroup('GROUP', 'heirs', 'ghost', 'COUNT', 3, 'STREAMS', key, '>')
      await redis.xtrim(key, 'MAXLEN', 2)
      const got: number[] = []
      await bus.subscribe({}, (d) => void got.push(d.revision), { group: 'heirs' })
      await until(() => got.length === 2 && errors.length > 0)
      expect(errors).toEqual([expect.any(FellBehind)])
      expect(String(errors[0])).toContain('3 deliveries')
      await until(async () => (await pending(redis, key, 'heirs')) === 0)
    })
  })

  itOnRedis('tells of what was trimmed while a member had it in hand that leaves', async (url) => {
    await withBus({ url, claimAfterMs: 50 }, async (bus, { redis, key }) => {
      const errors: unknown[] = []
      const onError = (e: unknown) => void errors.push(e)
      let begun = 0
      const hangs = () => new Promise<void>(() => begun++)
      const member = await bus.subscribe({}, hangs, { group: 'g', onError })
      await bus.publish(series(1, 5))
      await until(async () => begun === 1 && (await pending(redis, key, 'g')) === 5)
      await redis.xtrim(key, 'MAXLEN', 2)
      await member.close()
      expect(errors).toContainEqual(expect.any(FellBehind))
      expect(await pending(redis, key, 'g')).toBe(2)
    })
  })

  itOnRedis('leaves a living member also what it has read and has no room for', async (url) => {
    const { clock, sleeps } = counting()
    await withBus({ url, claimAfterMs: 600, clock }, async (bus, { redis, key }) => {
      let finish: () => void = () => undefined
      const busy = new Promise<void>((resolve) => {
        finish = resolve
      })
      const got: number[] = []
      const handler = (d: Delivery) => {
        got.push(d.revision)
        return busy
      }
      await bus.subscribe({}, handler, { group: 'g', limit: 2 })
      await bus.publish(series(1, 4)) // one in hand, two that wait, one without room
      await until(async () => (await pending(redis, key, 'g')) === 4)
      for (let i = 0; i < 6; i++) await bus.subscribe({}, (d) => void got.push(d.revision), { group: 'g' })
      await sleeps(40)
      finish()
      await until(async () => (await pending(redis, key, 'g')) === 0)
      expect(got).toEqual([1, 2, 3, 4])
    })
  })

  itOnRedis('keeps from the others of a group no more than may wait for it', async (url) => {
    await withBus({ url }, async (bus) => {
      let begun = 0
      await bus.subscribe({}, () => new Promise<void>(() => begun++), { group: 'g', limit: 1 })
      await bus.publish(series(1, 50))
      await until(() => begun === 1)
      const got: number[] = []
      await bus.subscribe({}, (d) => void got.push(d.revision), { group: 'g' })
      await until(() => got.length === 48)
    })
  })

  itOnRedis(
    'goes on in order where the only member of a group left off, however much that had in hand',
    async (url) => {
      await withBus({ url, graceMs: 1, onError: () => undefined }, async (bus, { redis, key }) => {
        const first = await bus.subscribe({}, () => new Promise(() => undefined), { group: 'g' })
        await bus.publish(series(1, 500))
        await until(async () => (await pending(redis, key, 'g')) === 500)
        await first.close()
        await bus.publish(series(501, 700))
        const got: Delivery[] = []
        await bus.subscribe({}, (d) => void got.push(d), { group: 'g' })
        await until(() => new Set(ids(got)).size === 700)
        expect(outOfOrder(got)).toEqual([])
      })
    },
  )

  itOnRedis('leaves a member what it has in hand while its close waits for that', async (url) => {
    const { clock, sleeps } = counting()
    await withBus({ url, claimAfterMs: 600, graceMs: 60_000, clock }, async (bus, { redis, key }) => {
      const got: string[] = []
      let finish: () => void = () => undefined
      const busy = (d: Delivery) =>
        new Promise<void>((resolve) => {
          got.push(`leaver ${d.revision}`)
          finish = resolve
        })
      const leaver = await bus.subscribe({}, busy, { group: 'g' })
      await bus.publish([delivery(1)])
      await until(() => got.length === 1)
      for (let i = 0; i < 6; i++) await bus.subscribe({}, (d) => void got.push(`other ${d.revision}`), { group: 'g' })
      const closing = leaver.close()
      await sleeps(40)
      finish()
      await closing
      expect(got).toEqual(['leaver 1'])
      expect(await pending(redis, key, 'g')).toBe(0)
    })
  })

  itOnRedis('handles also what the server has given it and it never heard of', async (url) => {
    await withBus({ url, member: 'worker-1', claimAfterMs: 200 }, async (bus, { redis, key }) => {
      await redis.xgroup('CREATE', key, 'g', '0-0', 'MKSTREAM', 'ENTRIESREAD', 0)
      await bus.publish([delivery(1)])
      const read = await redis.xreadgroup('GROUP', 'g', 'gone', 'COUNT', 1, 'STREAMS', key, '>')
      const got: number[] = []
      await bus.subscribe({}, (d) => void got.push(d.revision), { group: 'g' })
      await bus.publish([delivery(2)])
      await until(() => got.includes(2)) // it reads nothing but what is new by now
      await redis.xclaim(key, 'g', 'worker-1', 0, read![0]![1][0]![0]) // as its own claim would, of which the answer is lost
      await until(() => got.includes(1))
      await until(async () => (await pending(redis, key, 'g')) === 0)
    })
  })

  itOnRedis('frees all that it had in hand when it leaves, however much of that was trimmed', async (url) => {
    await withBus({ url, graceMs: 1 }, async (bus, { redis, key }) => {
      const errors: unknown[] = []
      const onError = (error: unknown) => void errors.push(error)
      const stuck = () => new Promise<void>(() => undefined)
      const leaver = await bus.subscribe({}, stuck, { group: 'g', limit: 20_000, onError })
      await bus.publish(series(1, 10_003))
      await until(async () => (await pending(redis, key, 'g')) === 10_003)
      await redis.xtrim(key, 'MAXLEN', 2)
      await leaver.close()
      expect(String(errors.at(-1))).toContain('10001 deliveries were trimmed')
      const got: number[] = []
      await bus.subscribe({}, (d) => void got.push(d.revision), { group: 'g' })
      await until(() => got.length === 2)
      expect(got).toEqual([10_002, 10_003])
    })
  })

  itOnRedis('begins again under its own name with what it had in hand, in order', async (url) => {
    const prefix = freshPrefix()
    const open = () => redisTransport({ url, prefix, member: 'worker-1', graceMs: 1 })
    const first = await open()
    await first.subscribe({}, () => new Promise(() => undefined), { group: 'g' })
    await first.publish(series(1, 10))
    const redis = new Redis(url)
    await until(async () => (await pending(redis, `{${prefix}}:bus`, 'g')) === 10)
    redis.disconnect()
    await first.close()
    const second = await open()
    const got: Delivery[] = []
    await second.subscribe({}, (d) => void got.push(d), { group: 'g' })
    await second.publish(series(11, 15))
    await until(() => got.length === 15)
    expect(ids(got)).toEqual(ids(series(1, 15)))
    await second.close()
  })

  itOnRedis('tells of what it had in hand and was trimmed when it begins again under its own name', async (url) => {
    const errors: unknown[] = []
    const onError = (e: unknown) => void errors.push(e)
    await withBus({ url, member: 'worker-1', onError }, async (bus, { redis, key }) => {
      await (await bus.subscribe({}, () => undefined, { group: 'g' })).close()
      await bus.publish(series(1, 5))
      await redis.xreadgroup('GROUP', 'g', 'worker-1', 'COUNT', 5, 'STREAMS', key, '>')
      await redis.xtrim(key, 'MAXLEN', 3)
      const got: number[] = []
      await bus.subscribe({}, (d) => void got.push(d.revision), { group: 'g' })
      await until(async () => got.length === 3 && (await pending(redis, key, 'g')) === 0)
      expect(errors).toEqual([expect.any(FellBehind), expect.any(FellBehind)])
    })
  })

  itOnRedis('keeps nothing in hand that a group does not want', async (url) => {
    await withBus({ url }, async (bus, { redis, key }) => {
      const got: number[] = []
      await bus.subscribe({ graph: 'g' }, (d) => void got.push(d.revision), { group: 'g' })
      await bus.publish([delivery(1, { graph: 'other' }), delivery(2)])
      await until(async () => got.length === 1 && (await pending(redis, key, 'g')) === 0)
      expect(got).toEqual([2])
    })
  })

  itOnRedis('forgets a member that has left, and remembers its group', async (url) => {
    await withBus({ url }, async (bus, { redis, key }) => {
      let got = 0
      const subscription = await bus.subscribe({}, () => void got++, { group: 'g' })
      await bus.publish(series(1, 3))
      await until(async () => got === 3 && (await pending(redis, key, 'g')) === 0) // before it has read, nothing is pending either
      await subscription.close()
      expect(await redis.xinfo('CONSUMERS', key, 'g')).toEqual([])
      expect(await redis.xinfo('GROUPS', key)).toHaveLength(1)
    })
  })

  itOnRedis('tells of what another program put on the stream, and goes on', async (url) => {
    await withBus({ url }, async (bus, { redis, key }) => {
      const got: Delivery[] = []
      const errors: unknown[] = []
      const onError = (e: unknown) => void errors.push(e)
      await bus.subscribe({}, (d) => void got.push(d), { onError })
      await bus.subscribe({}, (d) => void got.push(d), { onError, group: 'g' })
      await redis.xadd(key, '*', 'count', '1', 'delivery', '{"not": "a delivery"}')
      await redis.xadd(key, '*', 'hello', 'world')
      await bus.publish([delivery(1)])
      await until(() => got.length === 2)
      expect(errors.filter((e) => e instanceof Corrupt)).toHaveLength(4)
      await until(async () => (await pending(redis, key, 'g')) === 0)
    })
  })

  itOnRedis('lets groups begin and go on beside what another program put first or last', async (url) => {
    await withBus({ url }, async (bus, { redis, key }) => {
      const got: Record<string, number[]> = { first: [], last: [] }
      const onError = () => undefined // told as above
      const join = (group: string, after?: string) =>
        bus.subscribe({}, (d) => void got[group]?.push(d.revision), {
          group,
          onError,
          ...(after !== undefined && { after }),
        })
      await redis.xadd(key, '*', 'hello', 'world')
      await bus.publish(series(1, 2))
      const before = await join('first', '')
      await until(() => got.first?.length === 2)
      await before.close()
      await redis.xadd(key, '*', 'hello', 'world')
      await join('first', '')
      await join('last')
      await bus.publish([delivery(3)])
      await until(() => got.first?.length === 3 && got.last?.length === 1)
      expect(got).toEqual({ first: [1, 2, 3], last: [3] })
    })
  })

  itOnRedis('begins a group again when the server has forgotten it, and says so', async (url) => {
    await withBus({ url, claimAfterMs: 200 }, async (bus, { redis, key }) => {
      const got: Delivery[] = []
      const errors: unknown[] = []
      await bus.subscribe({}, (d) => void got.push(d), { group: 'g', onError: (e) => void errors.push(e) })
      await bus.publish(series(1, 3))
      await until(() => got.length === 3)
      await redis.xgroup('DESTROY', key, 'g')
      await until(() => errors.length > 0)
      await bus.publish([delivery(4)])
      await until(() => got.some((d) => d.revision === 4))
      expect(errors).toEqual([expect.any(Corrupt)])
      await redis.del(key, `${key}:count`)
      await bus.publish([delivery(5)])
      await until(() => got.some((d) => d.revision === 5))
      expect(errors).toEqual([expect.any(Corrupt), expect.any(Corrupt)])
    })
  })

  itOnRedis('reads a stream that the server has forgotten from its beginning, and says so', async (url) => {
    await withBus({ url }, async (bus, { redis, key }) => {
      const { got, errors } = await fiveHeard(bus)
      await redis.del(key, `${key}:count`)
      await bus.publish(series(6, 8))
      await until(() => got.length === 8)
      expect(errors).toEqual([expect.any(Corrupt)])
      // Of a server whose clock is behind, an entry comes before those that were read.
      await redis.del(key, `${key}:count`)
      await redis.xadd(key, '1-1', 'count', 1, 'delivery', JSON.stringify(delivery(9)))
      await until(() => got.length === 9)
      expect(ids(got)).toEqual(ids(series(1, 9)))
      expect(errors).toEqual([expect.any(Corrupt), expect.any(Corrupt)])
    })
  })

  itOnRedis('reads a stream again only once whose counting has begun anew', async (url) => {
    await withBus({ url }, async (bus, { redis, key }) => {
      const { got, errors } = await fiveHeard(bus)
      await redis.del(`${key}:count`)
      await bus.publish(series(6, 8))
      await bus.publish(series(9, 10))
      await until(() => got.at(-1)?.revision === 10)
      expect(ids(got)).toEqual(ids([...series(1, 5), ...series(1, 10)]))
      expect(errors).toEqual([expect.any(Corrupt)])
    })
  })

  itOnItsOwn('goes on with a server that was the replica of another for a while', async (server) => {
    const errors: unknown[] = []
    const onError = (error: unknown) => void errors.push(error)
    await withBus({ url: server.url, onError }, async (bus, { redis }) => {
      const [alone, grouped]: [Delivery[], Delivery[]] = [[], []]
      const subscriptions = [
        await bus.subscribe({}, (d) => void alone.push(d)),
        await bus.subscribe({}, (d) => void grouped.push(d), { group: 'g' }),
      ]
      await bus.publish([delivery(1)])
      await until(async () => (await redis.info('clients')).includes('blocked_clients:2'))
      await redis.replicaof('127.0.0.1', await freePort())
      await until(async () => (await redis.info('clients')).includes('blocked_clients:0'))
      await redis.replicaof('NO', 'ONE')
      await bus.publish([delivery(2)])
      await Promise.race([
        until(() => [alone, grouped].every((got) => got.length === 2)),
        ...subscriptions.map(async ({ ended }) => expect(await ended).toBe('going on')),
      ])
      for (const error of errors) expect(error).toBeInstanceOf(Unavailable)
    })
  })

  it('goes on with the master to which the address leads once the old one is a replica', async () => {
    const [old, young] = [await privateRedis(), await privateRedis()]
    const name = await cuttingProxy(old.url)
    await withBus({ url: name.url, onError: () => undefined }, async (bus, { redis: there, key }) => {
      await bus.publish([delivery(1)])
      await there.config('SET', 'repl-diskless-sync-delay', '0')
      const taker = new Redis(young.url)
      await taker.replicaof('127.0.0.1', new URL(old.url).port)
      await until(async () => (await taker.xlen(key)) === 1)
      await taker.replicaof('NO', 'ONE')
      name.leadTo(young.url)
      await there.replicaof('127.0.0.1', new URL(young.url).port)
      await expect(bus.publish([delivery(2)])).rejects.toThrow(Unavailable)
      await expect.poll(() => bus.publish([delivery(2)]).catch((error: unknown) => error)).toBeUndefined()
      expect(await taker.xlen(key)).toBe(2)
      taker.disconnect()
    })
    await name.close()
    await Promise.all([old.stop(), young.stop()])
  })

  itOnItsOwn('does not call a server durable that does not sync while it rewrites its file', async ({ url }) => {
    const redis = new Redis(url)
    onTestFinished(() => redis.disconnect())
    for (const [unsynced, durable] of [['yes', false] as const, ['no', true] as const]) {
      await redis.config('SET', 'no-appendfsync-on-rewrite', unsynced)
      const bus = await redisTransport({ url, prefix: freshPrefix() })
      expect(bus.traits.durable).toBe(durable)
      await bus.close()
    }
  })

  itOnItsOwn('loses nothing over a restart in the middle of 10,000 events', async (server) => {
    const prefix = freshPrefix()
    const onError = () => undefined
    const bus = await redisTransport({ url: server.url, prefix, onError, claimAfterMs: 1000 })
    const listener = await redisTransport({ url: server.url, prefix, onError, claimAfterMs: 1000 })
    expect(bus.traits.durable).toBe(true)
    const [alone, grouped]: [Delivery[], Delivery[]] = [[], []]
    await listener.subscribe({}, (d) => void alone.push(d))
    await listener.subscribe({}, (d) => void grouped.push(d), { group: 'g' })
    const all = series(1, 10_000, (n) => ({ graph: `graph-${n % 50}` }))
    let refused = 0
    for (const [i, batch] of chunks(all, 100).entries()) {
      const restarted = i === 50 ? server.kill().then(() => server.restart()) : undefined
      for (;;) {
        const error = await bus.publish(batch).catch((e) => e)
        if (!error) break
        expect(error).toBeInstanceOf(Unavailable)
        refused++
        await systemClock.sleep(10)
      }
      await restarted
    }
    expect(refused).toBeGreaterThan(0)
    for (const got of [alone, grouped]) {
      await until(() => new Set(ids(got)).size === all.length)
      expect(outOfOrder(got)).toEqual([])
    }
    await listener.close()
    await bus.close()
  })

  itOnItsOwn(
    'tells a member of a group that the server is away, and not again with everything it tries',
    async (server) => {
      const { clock, sleeps } = counting()
      const errors: unknown[] = []
      const onError = (error: unknown) => void errors.push(error)
      const bus = await redisTransport({ url: server.url, prefix: freshPrefix(), claimAfterMs: 60, clock, onError })
      await bus.subscribe({}, () => undefined, { group: 'g' })
      await server.kill()
      await sleeps(30)
      expect(errors).toEqual([expect.any(Unavailable), expect.any(Unavailable)]) // its reader, and its chores
      await bus.close()
    },
  )

  itOnItsOwn('gives up on a connection that only looks open', async (server) => {
    const prefix = freshPrefix()
    const bus = await redisTransport({ url: server.url, prefix, timeoutMs: 300, onError: () => undefined })
    server.pause()
    await expect(bus.publish([delivery(1)])).rejects.toThrow(Unavailable)
    server.resume()
    await until(() =>
      bus.publish([delivery(1)]).then(
        () => true,
        () => false,
      ),
    )
    await bus.close()
  })

  itOnItsOwn(
    'refuses a wrong password, a key of another kind, and a server that evicts, and tells no secret',
    async (server) => {
      const { url } = server
      const redis = new Redis(url)
      await redis.set('{taken}:bus', 'not a stream')
      const taken = await redisTransport({ url, prefix: 'taken' })
      const refused = await taken.publish([delivery(1)]).catch((e) => e)
      expect(refused).toBeInstanceOf(Refused)
      expect(inspect(refused, { depth: 9 })).not.toContain(delivery(1).event.event_id)
      await expect(taken.subscribe({}, () => undefined)).rejects.toThrow(Refused)
      await taken.close()
      await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
      await expect(redisTransport({ url })).rejects.toThrow(/maxmemory-policy/)
      await redis.config('SET', 'maxmemory-policy', 'noeviction')
      await redis.config('SET', 'requirepass', 'secret')
      const withPassword = (password: string) => url.replace('redis://', `redis://default:${password}@`)
      for (const wrong of [url, withPassword('not-the-one')]) {
        const error = await redisTransport({ url: wrong }).catch((e) => e)
        expect(error).toBeInstanceOf(Refused)
        expect(inspect(error, { depth: 9 })).not.toContain('not-the-one')
      }
      await (await redisTransport({ url: withPassword('secret') })).close()
      redis.disconnect()
    },
  )

  itOnItsOwn(
    'names an event that is longer than the server takes, and carries it once that is mended',
    async (server) => {
      const redis = new Redis(server.url)
      const bus = await redisTransport({ url: server.url, prefix: freshPrefix() })
      const batch = [delivery(1), delivery(2, { event: { payload: { filling: 'x'.repeat(2_000_000) } } }), delivery(3)]
      await redis.config('SET', 'proto-max-bulk-len', '1mb')
      // The server hangs up, and its word may be lost with that: again and again, as a relay does.
      let error: unknown
      await until(async () => {
        error = await bus.publish(batch).catch((e) => e)
        return !(error instanceof Unavailable)
      })
      expect(error).toBeInstanceOf(Refused)
      expect(String(error)).toContain(delivery(2).event.event_id)
      expect(inspect(error, { depth: 9 })).not.toContain('xxx')
      await redis.config('SET', 'proto-max-bulk-len', '512mb')
      await until(() =>
        bus.publish(batch).then(
          () => true,
          () => false,
        ),
      )
      redis.disconnect()
      await bus.close()
    },
  )

  itNeeds('redis')('takes as many at once as there are', (url) =>
    withBus({ url }, async (bus, { redis, key }) => {
      const sent = delivery(1)
      await bus.publish(Array.from({ length: 150_001 }, () => sent))
      expect(await redis.get(`${key}:count`)).toBe('150001')
    }),
  )

  itOnItsOwn('refuses a node of a cluster that does not have the stream', async () => {
    const cluster = await twoNodes()
    const bus = await redisTransport({ url: cluster.url })
    await bus.publish([delivery(1)])
    await cluster.move()
    for (const asked of [bus.publish([delivery(2)]), redisTransport({ url: cluster.url })]) {
      const error = await asked.catch((e) => e)
      expect(error).toBeInstanceOf(Refused)
      expect(error.message).toContain('does not have the stream')
    }
    await bus.close()
    await cluster.stop()
  })

  it('says that nobody answers, and does not keep the process for that connection', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout')
    onTestFinished(() => timers.mockRestore())
    await expect(redisTransport({ url: 'redis://127.0.0.1:1' })).rejects.toThrow(Unavailable)
    const long = timers.mock.calls.filter(([, ms]) => ms !== undefined && ms > 200)
    expect(long).toEqual([])
  })

  it.each<[string, RedisTransportOptions, string]>([
    ['no address', {}, 'url'],
    ['what is no client', { client: {} as Redis }, 'client'],
    ['a client of a cluster', { client: new Cluster([], { lazyConnect: true }) as unknown as Redis }, 'client'],
    ['a URL of another kind', { url: 'http://localhost' }, 'url'],
    ['a query', { url: 'redis://localhost?prefix=x' }, 'url'],
    ['a prefix with braces', { url: 'redis://localhost', prefix: '{x}' }, 'prefix'],
    ['no bound', { url: 'redis://localhost', keep: {} }, 'keep'],
    ['a bound of nothing', { url: 'redis://localhost', keep: { deliveries: 0 } }, 'keep.deliveries'],
    ['a misspelt bound', { url: 'redis://localhost', keep: { deliveries: 1, mss: 1 } as never }, 'keep.mss'],
    ['a prefix that is no text', { url: 'redis://localhost', prefix: 7 as never }, 'prefix'],
    ['a time that is none', { url: 'redis://localhost', claimAfterMs: -1 }, 'claimAfterMs'],
  ])('refuses %s', async (_, options, path) => {
    const error = await redisTransport(options).catch((e) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems[0].path).toBe(path)
  })
})

/** A subscriber who has had the first five there are. */
async function fiveHeard(bus: Transport) {
  const got: Delivery[] = []
  const errors: unknown[] = []
  await bus.publish(series(1, 5))
  await bus.subscribe({}, (d) => void got.push(d), { after: '', onError: (e) => void errors.push(e) })
  await until(() => got.length === 5)
  return { got, errors }
}

async function withBus(
  options: RedisTransportOptions & { url: string },
  test: (bus: Transport, raw: { redis: Redis; key: string }) => Promise<void>,
): Promise<void> {
  const prefix = freshPrefix()
  const bus = await redisTransport({ graceMs: 300, ...options, prefix })
  const redis = new Redis(options.url)
  try {
    await test(bus, { redis, key: `{${prefix}}:bus` })
  } finally {
    await bus.close()
    redis.disconnect()
  }
}

const pending = async (redis: Redis, key: string, group: string): Promise<number> =>
  Number(((await redis.xpending(key, group)) as unknown[])[0])
