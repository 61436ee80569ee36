import { once } from 'node:events'
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Clock, manualClock, systemClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { Entry } from '../../src/vsl/backend.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { unhurried, waited } from '../../src/vsl/postgres-pages.ts'
import { follow } from '../contracts/backend/follow.ts'
import { append, bodies, collect } from '../contracts/backend/given.ts'
import { freshSchema, itNeeds } from '../support/servers.ts'
import { commitDirectly, watchedPool, withClient } from './postgres-client.ts'

const itOnPostgres = itNeeds('postgres')

describe('the feed of a Postgres store', () => {
  itOnPostgres(
    'holds back what comes after a transaction that is still open, then shows both, none twice',
    async (url) => {
      const schema = freshSchema()
      const store = await postgresBackend({ url, schema, clock: lookingWhenTold().clock })
      const follower = follow((signal) => store.feed({ follow: true, signal }))
      const reader = follow((signal) => store.read('late', { follow: true, signal }))
      await store.commit(append('early', 0, 'before'))
      await follower.has(1)
      let all: Promise<Entry[]> | undefined
      await withClient(url, async (client) => {
        await client.query('begin')
        await commitDirectly(client, schema, { stream: 'early', expected: 1, entry: 'earlier' })
        for (let i = 0; i < 3; i++) await store.commit(append('late', i, `later ${i}`))
        all = collect(store.feed())
        await reader.has(3) // a stream of its own has nothing to wait for
        expect(follower.entries).toHaveLength(1)
        await client.query('commit')
      })
      await follower.has(5)
      expect(await all).toEqual(follower.entries)
      expect(bodies(follower.entries)).toEqual(['before', 'earlier', 'later 0', 'later 1', 'later 2'])
      expect(await collect(store.feed())).toEqual(follower.entries)
      await follower.stop()
      await reader.stop()
      await store.close()
    },
  )

  it('is looked at again as soon as ever when the clock is set back', async () => {
    const look = unhurried(async () => ({ rows: [], hidden: false }), AbortSignal.timeout(10_000))
    await look()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 })
    onTestFinished(() => void vi.useRealTimers())
    const began = performance.now()
    await look()
    expect(performance.now() - began).toBeLessThan(5_000)
  })

  it.each([
    ['back', -3_600_000],
    ['forward', 3_600_000],
  ])('waits for what is hidden no longer and no shorter when the clock is set %s', async (_, set) => {
    let [slept, offset] = [0, 0]
    const clock: Clock = {
      ...systemClock,
      now: () => Date.now() + offset,
      async sleep(ms) {
        if (slept > 10_000) throw new Error('it waits for ever')
        offset = set
        slept += ms
      },
    }
    const hidden = async () => ({ rows: [], hidden: true })
    const reading = waited(hidden, clock, AbortSignal.timeout(10_000), 5_000, 'the feed')
    await expect(reading).rejects.toThrow(Unavailable)
    expect(slept).toBeGreaterThanOrEqual(5_000)
    expect(slept).toBeLessThan(10_000)
  })

  itOnPostgres('shows what comes after a transaction that has gone back', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema, clock: lookingWhenTold().clock })
    const follower = follow((signal) => store.feed({ follow: true, signal }))
    await withClient(url, async (client) => {
      await client.query('begin')
      await commitDirectly(client, schema, { stream: 'early', expected: 0, entry: 'never' })
      await store.commit(append('late', 0, 'later'))
      await client.query('rollback')
    })
    await follower.has(1)
    expect(bodies(follower.entries)).toEqual(['later'])
    await follower.stop()
    await store.close()
  })

  itOnPostgres('is delayed by a long transaction of somebody else, and loses nothing', async (url) => {
    const store = await postgresBackend({ url, schema: freshSchema(), clock: lookingWhenTold().clock })
    const followers = [0, 1].map(() => follow((signal) => store.feed({ follow: true, signal })))
    await withClient(url, async (client) => {
      await client.query('begin; create temporary table unrelated (n int)')
      const work = Array.from({ length: 10 }, async (_, s) => {
        for (let i = 0; i < 20; i++) await store.commit(append(`s/${s}`, i))
      })
      await Promise.all(work)
      for (const follower of followers) expect(follower.entries).toEqual([])
      await client.query('commit')
    })
    for (const follower of followers) {
      await follower.has(200)
      const seen = follower.entries.map((entry) => `${entry.stream}@${entry.revision}`)
      expect(new Set(seen).size).toBe(200)
      for (let s = 0; s < 10; s++) {
        const revisions = follower.entries.filter((entry) => entry.stream === `s/${s}`).map((entry) => entry.revision)
        expect(revisions).toEqual(Array.from({ length: 20 }, (_, i) => i + 1))
      }
      await follower.stop()
    }
    await store.close()
  })

  itOnPostgres('tells somebody who does not follow that it is not whole, rather than end early', async (url) => {
    const schema = freshSchema()
    const patient = await postgresBackend({ url, schema })
    const hasty = await postgresBackend({ url, schema, timeoutMs: 300 })
    await patient.commit(append('g', 0, 'before'))
    expect(await collect(patient.feed())).toHaveLength(1)
    await withClient(url, async (client) => {
      await client.query('begin; select pg_current_xact_id()')
      await patient.commit(append('g', 1, 'hidden'))
      const seen: Json[] = []
      const reading = (async () => {
        for await (const entry of hasty.feed()) seen.push(entry.body)
      })()
      await expect(reading).rejects.toThrow(Unavailable)
      expect(seen).toEqual(['before'])
      await client.query('commit')
    })
    expect(bodies(await collect(patient.feed()))).toEqual(['before', 'hidden'])
    await patient.close()
    await hasty.close()
  })

  itOnPostgres('comes to an end for somebody who does not follow, although others go on committing', async (url) => {
    const store = await postgresBackend({ url, schema: freshSchema() })
    let over = false
    const busy = Array.from({ length: 4 }, async (_, s) => {
      for (let i = 0; !over; i++) await store.commit(append(`s/${s}`, i))
    })
    for (let i = 1; i <= 10; i++) {
      await store.commit(append('g', i - 1))
      const own = (await collect(store.feed())).filter((entry) => entry.stream === 'g')
      expect(own).toHaveLength(i)
    }
    over = true
    await Promise.all(busy)
    await store.close()
  })

  itOnPostgres(
    'never shows an entry before a position it has passed, while many hold transactions open',
    async (url) => {
      const schema = freshSchema()
      const stores = await Promise.all([0, 1].map(() => postgresBackend({ url, schema })))
      const follower = follow((signal) => stores[0]!.feed({ follow: true, signal }))
      const slow = Array.from({ length: 4 }, (_, c) =>
        withClient(url, async (client) => {
          for (let i = 0; i < 15; i++) {
            await client.query('begin')
            await commitDirectly(client, schema, { stream: `slow/${c}`, expected: i, entry: i })
            await client.query('select pg_sleep(0.002 * $1)', [(c * 7 + i * 3) % 5])
            await client.query('commit')
          }
        }),
      )
      const fast = stores.map(async (store, s) => {
        for (let i = 0; i < 100; i++) await store.commit(append(`fast/${s}`, i, i))
      })
      await Promise.all([...slow, ...fast])
      await follower.has(260)
      const positions = follower.entries.map((entry) => entry.position)
      expect(positions).toEqual([...new Set(positions)].sort())
      expect(follower.entries).toEqual(await collect(stores[1]!.feed()))
      await follower.stop()
      await Promise.all(stores.map((store) => store.close()))
    },
  )

  itOnPostgres('goes in pages, however large the entries', async (url) => {
    const store = await postgresBackend({ url, schema: freshSchema() })
    const large = 'x'.repeat(3 * 1024 * 1024)
    for (let i = 0; i < 5; i++) await store.commit(append('g', i, `${i}${large}`))
    for (const entries of [await collect(store.feed()), await collect(store.read('g'))])
      expect(entries.map((entry) => [entry.revision, (entry.body as string)[0]])).toEqual([
        [1, '0'],
        [2, '1'],
        [3, '2'],
        [4, '3'],
        [5, '4'],
      ])
    await store.close()
  })
})

describe('followers of a Postgres store', () => {
  itOnPostgres('ask nothing while there is nothing to tell', async (url) => {
    const { pool, names } = watchedPool(url)
    const { clock } = lookingWhenTold()
    const store = await postgresBackend({ pool, schema: freshSchema(), clock })
    const followers = [
      follow((signal) => store.feed({ follow: true, signal })),
      follow((signal) => store.read('g', { follow: true, signal })),
    ]
    await store.commit(append('g', 0))
    await Promise.all(followers.map((follower) => follower.has(1)))
    await expect.poll(() => names.filter((name) => name === 'mplp.notify')).toHaveLength(1)
    const askedWithin = async (seconds: number) => {
      names.length = 0
      await withClient(url, (client) => client.query('select pg_sleep($1)', [seconds]))
      return [...names]
    }
    await expect.poll(() => askedWithin(0.1)).toEqual([])
    expect(await askedWithin(0.4)).toEqual([])
    await Promise.all(followers.map((follower) => follower.stop()))
    await store.close()
    await pool.end()
  })

  itOnPostgres('look by themselves, should another process die before it could tell', async (url) => {
    const schema = freshSchema()
    const { clock, look } = lookingWhenTold()
    const { pool, names } = watchedPool(url)
    const store = await postgresBackend({ pool, schema, clock })
    const followers = [
      follow((signal) => store.feed({ follow: true, signal })),
      follow((signal) => store.read('g', { follow: true, signal })),
    ]
    await expect.poll(() => names.filter((name) => /feed|read/.test(name)).length).toBeGreaterThanOrEqual(2)
    await withClient(url, (client) => commitDirectly(client, schema, { stream: 'g', expected: 0, entry: 'untold' }))
    expect(followers.map((follower) => follower.entries)).toEqual([[], []])
    await look()
    await Promise.all(followers.map((follower) => follower.has(1)))
    await Promise.all(followers.map((follower) => follower.stop()))
    await store.close()
    await pool.end()
  })

  itOnPostgres('hear of others again after the connection that listens was lost', async (url) => {
    const schema = freshSchema()
    const { clock } = lookingWhenTold()
    const [here, there] = await Promise.all([0, 1].map(() => postgresBackend({ url, schema, clock })))
    const follower = follow((signal) => here!.feed({ follow: true, signal }))
    await there!.commit(append('g', 0))
    await follower.has(1)
    await withClient(url, async (client) => {
      const listening = `select pid from pg_stat_activity where query = $1`
      const pids = async () => (await client.query(listening, [`listen "mplp:${schema}"`])).rows.map((row) => row.pid)
      for (let i = 1; i <= 3; i++) {
        const before = await pids()
        expect(before).toHaveLength(1)
        await client.query('select pg_terminate_backend($1)', before)
        await there!.commit(append('g', i))
        await follower.has(i + 1)
        await expect.poll(async () => (await pids()).filter((pid) => !before.includes(pid))).toHaveLength(1)
      }
      await follower.stop()
      await here!.close()
      await expect.poll(pids).toEqual([]) // the server takes a moment to notice
    })
    await there!.close()
  })

  itOnPostgres(
    'notice when the connection that listens has gone silent, and hear of others by another',
    async (url) => {
      const schema = freshSchema()
      const { clock, look } = lookingWhenTold()
      const [ears, silent] = [new Set<Socket>(), new Set<Socket>()]
      const { hostname, port } = new URL(url)
      const between = createServer((client) => {
        const server = dial(Number(port), hostname).on('error', () => undefined)
        client.on('error', () => undefined).once('close', () => server.destroy())
        client.on('data', (bytes) => {
          if (bytes.includes('listen "')) ears.add(client)
          if (!silent.has(client)) server.write(bytes)
        })
        server.on('data', (bytes) => silent.has(client) || client.write(bytes))
      }).listen(0, '127.0.0.1')
      await once(between, 'listening')
      const through = new URL(url)
      through.host = `127.0.0.1:${(between.address() as AddressInfo).port}`
      const there = await postgresBackend({ url, schema, clock })
      const here = await postgresBackend({ url: through.href, schema, clock, timeoutMs: 2000 })
      const follower = follow((signal) => here.feed({ follow: true, signal }))
      await expect.poll(() => ears.size).toBe(1)
      await there.commit(append('g', 0))
      await follower.has(1)
      for (const ear of ears) silent.add(ear)
      await look()
      await expect.poll(() => ears.size).toBe(2)
      await there.commit(append('g', 1))
      await follower.has(2)
      await follower.stop()
      await here.close()
      await there.close()
      between.close()
    },
  )

  itOnPostgres('tell others which streams have news, however many', async (url) => {
    const schema = freshSchema()
    const { clock } = lookingWhenTold()
    const { pool } = watchedPool(url)
    const here = await postgresBackend({ pool, schema, clock })
    const there = await postgresBackend({ url, schema, clock })
    const asleep = () => expect.poll(() => [pool.totalCount - pool.idleCount, pool.waitingCount]).toEqual([1, 0])
    const names = Array.from({ length: 40 }, (_, i) => `${i}/${'n'.repeat(400)}`)
    const followers = names.map((name) => follow((signal) => here.read(name, { follow: true, signal })))
    await asleep()
    await Promise.all(names.map((name) => there.commit(append(name, 0))))
    await Promise.all(followers.map((follower) => follower.has(1)))
    await asleep()
    await there.commit(append(names[7]!, 1))
    await followers[7]!.has(2)
    await Promise.all(followers.map((follower) => follower.stop()))
    await here.close()
    await there.close()
    await pool.end()
  })
})

/** A clock by which followers do not look by themselves until they are told to; everything shorter is real. */
function lookingWhenTold() {
  const manual = manualClock()
  const sleep: typeof systemClock.sleep = (ms, signal) => (ms < 5000 ? systemClock : manual).sleep(ms, signal)
  return { clock: { ...systemClock, sleep }, look: () => manual.advance(5000) }
}
