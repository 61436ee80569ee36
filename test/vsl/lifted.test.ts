import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Corrupt, InvalidInput, OutcomeUnknown, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { digestOf, type Json } from '../../src/protocol/json.ts'
import type { Backend, Write } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { liftedBackend } from '../../src/vsl/lifted.ts'
import type { BareStore } from '../../src/vsl/lifted-cells.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { commitOnce } from '../../src/vsl/settle.ts'
import { follow } from '../contracts/backend/follow.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { farHolder } from '../contracts/backend/holders.ts'
import { backendContract } from '../contracts/backend-contract.ts'

backendContract(
  'lifted, a bare Map,',
  () => {
    const clock = manualClock()
    const map = new Map<string, Json>()
    return { open: () => liftedBackend(map, { clock }), elapse: clock.advance }
  },
  { kept: true },
)

backendContract(
  'lifted, a store that answers late, with null and with what it was given,',
  () => {
    const clock = manualClock()
    const map = new Map<string, Json>()
    const bare: BareStore = {
      async get(key) {
        await new Promise((resolve) => setImmediate(resolve))
        return map.get(key) ?? null
      },
      async set(key, value) {
        await new Promise((resolve) => setImmediate(resolve))
        map.set(key, value)
      },
    }
    return { open: () => liftedBackend(bare, { clock }), elapse: clock.advance }
  },
  { kept: true, scanKeys: 2000 },
)

it('lifted: lets the lease of a dead process last no longer than its time where the clock of that machine was ahead', async () => {
  const clock = manualClock()
  const map = new Map<string, Json>()
  const ahead = await liftedBackend(map, { clock: { ...clock, now: () => clock.now() + 3_600_000 } })
  await ahead.acquire('g', farHolder('far'), 10_000)
  const store = await liftedBackend(map, { clock })
  expect(await store.acquire('g', thisHolder('near'), 10_000)).toBeUndefined()
  await clock.advance(9_000)
  expect(await store.acquire('g', thisHolder('near'), 10_000)).toBeUndefined()
  await clock.advance(1_000)
  expect(await store.acquire('g', thisHolder('near'), 10_000)).toMatchObject({ token: 2 })
})

it('lifted: names the place to which somebody had come who followed from the beginning when its bare store was set back', async () => {
  const map = new Map<string, Json>()
  const store = await liftedBackend(map)
  for (let i = 0; i < 2; i++) await store.commit(append('g', i))
  const before = [...map]
  await store.commit(append('g', 2))
  const positions = (await collect(store.feed())).map(({ position }) => position)
  const feed = store.feed({ follow: true })[Symbol.asyncIterator]()
  for (const _ of positions) await feed.next()
  map.clear()
  for (const [cell, value] of before) map.set(cell, value)
  await expect(feed.next()).rejects.toMatchObject({ problems: [{ path: 'after', found: positions.at(-1) }] })
  await store.close()
})

type Effect = 'before' | 'after'
/** A bare store that fails at one call, before or after it had its effect, and from then on always or never again. */
function failing(map: Map<string, Json>, at: number, effect: Effect, forGood: boolean) {
  let calls = 0
  let dead = false
  const call = async (work: () => unknown) => {
    const fails = dead || calls === at
    calls++
    if (!fails) return work()
    if (effect === 'after' && !dead) await work()
    dead = forGood
    throw new Error('the bare store failed')
  }
  const bare: BareStore = {
    get: (key) => call(() => map.get(key)),
    set: (key, value) => call(() => map.set(key, value)),
  }
  return { bare, calls: () => calls }
}

describe('a lifted store', () => {
  it('is whole wherever the process dies, also while it recovers', async () => {
    const states = await statesOf(HISTORY)
    const total = await callsOf(HISTORY)
    expect(total).toBeGreaterThan(100)
    for (let at = 0; at < total; at++)
      for (const effect of ['before', 'after'] as const) {
        const map = new Map<string, Json>()
        const acknowledged = await runUntilDeath(failing(map, at, effect, true).bare)
        // What was acknowledged is there; of what was under way all or nothing.
        const possible = [states[acknowledged], states[acknowledged + 1]]
        for (let again = 0; ; again++) {
          const copy = new Map([...map].map(([cell, value]) => [cell, structuredClone(value)]))
          const recovering = failing(copy, again, effect, true)
          const died = await lifted(recovering.bare).then(
            () => false,
            () => true,
          )
          const last = await lifted(reborn(copy))
          expect(possible, `died at call ${at}, recovering at ${again}, ${effect}`).toContainEqual(await stateOf(last))
          await last.commit(append('later', 0))
          expect(await collect(last.read('later'))).toHaveLength(1)
          if (!died) break
        }
      }
  }, 120_000)

  it('lands every write once when a call fails and the caller asks again', async () => {
    const states = await statesOf(HISTORY)
    const total = await callsOf(HISTORY)
    for (let at = 0; at < total; at++)
      for (const effect of ['before', 'after'] as const) {
        const map = new Map<string, Json>()
        const { bare } = failing(map, at, effect, false)
        const backend = await again(() => lifted(bare))
        for (const step of HISTORY) await again(() => step(backend))
        expect(await stateOf(backend), `call ${at}, ${effect}`).toEqual(states.at(-1))
        expect(await stateOf(await lifted(reborn(map)))).toEqual(states.at(-1))
      }
  }, 120_000)

  it('says that nothing was written, or that it is not known, and never anything else', async () => {
    const total = await callsOf(HISTORY)
    for (let at = 0; at < total; at++) {
      const { bare } = failing(new Map(), at, 'after', true)
      const error = await (async () => {
        const backend = await lifted(bare)
        for (const step of HISTORY) await step(backend)
      })().catch((error) => error)
      expect(error instanceof Unavailable || error instanceof OutcomeUnknown, `call ${at}: ${error}`).toBe(true)
    }
  })

  it('shows followers an entry that landed although the store failed halfway', async () => {
    const seen: number[] = []
    for (let at = 0; at < 8; at++) {
      const map = new Map<string, Json>()
      let sets = Number.NEGATIVE_INFINITY
      const backend = await lifted({
        get: (key) => map.get(key),
        set(key, value) {
          map.set(key, value)
          if (sets++ === at) throw new Error('the reply was lost')
        },
      })
      const follower = follow((signal) => backend.feed({ follow: true, signal }))
      await backend.commit(append('g', 0))
      await follower.has(1)
      await new Promise((resolve) => setImmediate(resolve)) // it is asleep now
      sets = 0
      const error = await backend.commit(append('g', 1)).catch((error) => error)
      if (error instanceof OutcomeUnknown) await follower.has(2)
      seen.push(follower.entries.length)
      await follower.stop()
    }
    expect(seen).toContain(2)
  })

  it("leaves the caller's own keys under their own names, and finds what he put there himself", async () => {
    const map = new Map<string, Json>([['mine', { a: 1 }]])
    const backend = await liftedBackend(map)
    expect(await backend.get('mine')).toEqual({ a: 1 })
    await backend.set('yours', [1])
    expect(map.get('yours')).toEqual([1])
    map.set('yours', [2])
    await backend.commit(write('g', 0, { entry: 1, puts: [['yours', 'graph']] }))
    expect(await backend.get('yours')).toEqual([2])
    await backend.close()
    expect(await (await lifted(reborn(map))).get('yours')).toEqual([2])
    expect([...map.keys()].filter((cell) => !cell.startsWith('mplp/'))).toEqual(['mine', 'yours'])
  })

  it('keeps an own key that looks like one of its cells apart', async () => {
    const map = new Map<string, Json>()
    const backend = await liftedBackend(map)
    await backend.commit(append('g', 0))
    for (const key of ['mplp/feed', 'mplp/head/g', 'mplp/redo', 'mplp/own/x']) await backend.set(key, 'own')
    expect(await backend.head('g')).toMatchObject({ revision: 1 })
    expect(await backend.get('mplp/feed')).toBe('own')
    expect((await collect(backend.scan('mplp/', { own: true }))).map(([key]) => key)).toEqual([
      'mplp/feed',
      'mplp/head/g',
      'mplp/own/x',
      'mplp/redo',
    ])
  })

  it('gives the bare store copies, and takes copies from it', async () => {
    const map = new Map<string, Json>()
    const backend = await liftedBackend(map)
    await backend.commit(write('g', 0, { puts: [['k', { list: [1] }]] }))
    const [stored] = map.get('mplp/value/k') as unknown as [{ list: number[] }]
    const read = (await backend.getMany(['k'])).get('k') as { list: number[] }
    read.list.push(2)
    expect(stored).toEqual({ list: [1] })
  })

  it('costs what changes, not what is there', async () => {
    const map = new Map<string, Json>()
    const backend = await liftedBackend(map)
    for (let i = 0; i < 40; i++)
      await backend.commit(write('g', i, { entry: i, puts: Array.from({ length: 500 }, (_, k) => [`k/${i}/${k}`, k]) }))
    await backend.close()
    let cost = 0
    const weighed: BareStore = {
      get: (cell) => map.get(cell),
      set(cell, value) {
        cost += JSON.stringify(value).length
        map.set(cell, value)
      },
    }
    const again = await liftedBackend(weighed)
    await again.commit(write('g', 40, { entry: 40, puts: [['k/3/3', 'changed']] }))
    expect(cost).toBeLessThan(1000)
    cost = 0
    await again.commit(write('g', 41, { entry: 41, puts: [['k/3/new', 'new']], deletes: ['k/7/7'] }))
    expect(cost).toBeLessThan(20_000) // two pages of keys, twice; all keys would be ten times as much
  })

  it('is one store however often the same object is lifted', async () => {
    const map = new Map<string, Json>()
    const [one, two] = [await liftedBackend(map), await liftedBackend(map)]
    const follower = follow((signal) => two.feed({ follow: true, signal }))
    const race = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) => (i % 2 ? one : two).commit(append('g', 0, i))),
    )
    expect(race.filter((result) => result.status === 'fulfilled')).toHaveLength(1)
    await follower.has(1)
    await one.close()
    await two.commit(append('g', 1))
    await follower.has(2)
    await follower.stop()
    await two.close()
  })

  it('says what the bare store has lost, and gives out nothing half', async () => {
    const map = new Map<string, Json>()
    const backend = await lifted(map)
    for (let i = 0; i < 3; i++)
      await backend.commit(
        write('g', i, {
          entry: i,
          inserts: [
            [`a/${i}`, i],
            [`b/${i}`, i],
          ],
        }),
      )
    await backend.close()
    const reads = {
      'mplp/entry/2': (store: Backend) => collect(store.feed()),
      'mplp/place/2/g': (store: Backend) => collect(store.read('g')),
      'mplp/value/a/1': (store: Backend) => collect(store.scan('')),
      'mplp/keys/values/1': (store: Backend) => collect(store.scan('')),
    }
    for (const [cell, read] of Object.entries(reads)) {
      const some = new Map([...map].filter(([name]) => name !== cell))
      expect(some.size, cell).toBe(map.size - 1)
      const error = await read(await lifted(some)).catch((error) => error)
      expect(error, cell).toBeInstanceOf(Corrupt)
      expect(error.message).toContain(cell)
    }
  })

  it('tells an entry that the bare store has lost from one that was forgotten', async () => {
    const map = new Map<string, Json>()
    const backend = await lifted(map)
    for (const [stream, expected] of [
      ['g', 0],
      ['h', 0],
      ['g', 1],
      ['h', 1],
    ] as const)
      await backend.commit(append(stream, expected))
    const lossOf = async (cell: string, ask: (store: Backend) => Promise<unknown>) => {
      const some = new Map([...map].filter(([name]) => name !== cell))
      expect(some.size, cell).toBe(map.size - 1)
      const code = 'corrupt'
      await expect(ask(await lifted(some))).rejects.toMatchObject({ code, message: expect.stringContaining(cell) })
      return some
    }
    const forget = (store: Backend) => store.commit(write('g', 2, { forget: true }))
    for (const cell of ['mplp/place/1/g', 'mplp/entry/4']) {
      const some = await lossOf(cell, forget)
      expect(some.get('mplp/head/g'), cell).toMatchObject({ revision: 2 })
    }
    await forget(backend)
    expect(await collect(backend.feed())).toHaveLength(2)
    for (const cell of ['mplp/entry/1', 'mplp/entry/2', 'mplp/entry/3'])
      await lossOf(cell, (store) => collect(store.feed()))
    await lossOf('mplp/entry/2', (store) => collect(store.read('h')))
  })

  it('leaves nothing in the bare store of what was forgotten', async () => {
    const map = new Map<string, Json>()
    const backend = await lifted(map)
    const secret = 'the launch code'
    await backend.commit(write('g', 0, { entry: { secret }, puts: [['k', secret]] }))
    await backend.commit(append('h', 0))
    const digest = await backend.putBlob(Buffer.from(secret))
    const told = () => JSON.stringify([...map])
    const asBlob = Buffer.from(secret).toString('base64')
    expect(told()).toContain(asBlob)
    await backend.commit(write('g', 1, { forget: true, deletes: ['k'] }))
    expect(await backend.forgetBlobs([digest], 0)).toEqual([digest])
    expect(told()).not.toContain(secret)
    expect(told()).not.toContain(asBlob)
    const isLeft = ([cell, value]: [string, Json]) => value !== null && (cell.includes(digest) || cell.endsWith('/g'))
    expect([...map].filter(isLeft)).toEqual([['mplp/head/g', { revision: 0, token: 0 }]])
  })

  it('counts a blob of an earlier release, which wrote no times, as put long ago, until it is put again', async () => {
    const map = new Map<string, Json>()
    const writer = await lifted(map)
    const [one, two] = [await writer.putBlob(new Uint8Array([1])), await writer.putBlob(new Uint8Array([2]))]
    await writer.close()
    for (const cell of [...map.keys()]) if (cell.startsWith('mplp/put-at/')) map.delete(cell)
    const backend = await lifted(map)
    await backend.putBlob(new Uint8Array([2]))
    expect(await backend.getBlob(one)).toEqual(new Uint8Array([1]))
    expect(await backend.forgetBlobs([one, two], 60_000)).toEqual([one])
    expect(await collect(backend.blobs())).toEqual([two])
  })

  it('lets others have their turn while it passes over what was forgotten', async () => {
    const map = new Map<string, Json>()
    const backend = await lifted(map)
    for (let i = 0; i < 1000; i++) await backend.commit(append('g', i))
    await backend.commit(append('h', 0, 'last'))
    await backend.commit(write('g', 1000, { forget: true }))
    let reads = 0
    const slow = await lifted({
      get(cell) {
        if (cell.startsWith('mplp/entry/')) reads++
        return map.get(cell)
      },
      set: (cell, value) => map.set(cell, value),
    })
    const walk = collect(slow.feed())
    await slow.get('mine')
    expect(reads).toBeLessThan(300)
    expect((await walk).map(({ body }) => body)).toEqual(['last'])
    expect(reads).toBe(1001)
  })

  it('forgets what it knew of a store when it is closed, in whose turn another process may change it', async () => {
    const map = new Map<string, Json>()
    const bare = reborn(map)
    const first = await lifted(bare)
    await first.commit(write('g', 0, { entry: 1, puts: [['a', 1]] }))
    await first.close()
    const other = await lifted(reborn(map))
    await other.commit(write('g', 1, { entry: 2, puts: ['b', 'c', 'd', 'e'].map((key) => [key, 1]) }))
    await other.close()
    const dying = await lifted(failing(map, 10, 'after', true).bare)
    await expect(dying.commit(write('g', 2, { entry: 3, puts: [['f', 1]] }))).rejects.toThrow(OutcomeUnknown)

    const second = await lifted(bare)
    expect((await collect(second.scan(''))).map(([key]) => key)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
    expect(await second.head('g')).toMatchObject({ revision: 3 })
  })

  it('takes an error that says "not there" for a miss, and no other', async () => {
    const map = new Map<string, Json>()
    const missing = Object.assign(new Error('no such file'), { code: 'ENOENT' })
    const backend = await liftedBackend({
      async get(key) {
        if (!map.has(key)) throw missing
        return map.get(key)
      },
      set: (key, value) => map.set(key, value),
    })
    expect(await backend.get('nobody')).toBeUndefined()
    await backend.commit(append('g', 0))
    const broken = { get: () => Promise.reject(new Error('down')), set: () => undefined }
    await expect(liftedBackend(broken)).rejects.toThrow(Unavailable)
  })

  it('is durable only if it is told so', async () => {
    expect((await liftedBackend(new Map())).traits).toEqual({ durable: false, processes: 'one', grouped: false })
    expect((await liftedBackend(new Map(), { durable: true })).traits.durable).toBe(true)
  })

  it('refuses what has no get and set, and a store of another version', async () => {
    for (const bad of [undefined, null, {}, { get: () => 1 }, 'text'])
      await expect(liftedBackend(bad as unknown as BareStore)).rejects.toThrow(InvalidInput)
    await expect(liftedBackend(new Map([['mplp/store', { version: 2 }]]))).rejects.toThrow(Refused)
  })
})

/** With pages so small that they split and empty. */
const lifted = (bare: BareStore) => liftedBackend(bare, { pageKeys: 3 })
const holder = thisHolder('one')
const commit = (id: string, parts: Write) => (backend: Backend) =>
  commitOnce(backend, { ...parts, entry: { commit_id: id } }, { clock: manualClock(), patienceMs: 0 })
/** Steps that may be taken again without harm. */
const HISTORY: readonly ((backend: Backend) => Promise<unknown>)[] = [
  commit(
    '1',
    write('g', 0, {
      inserts: [
        ['a/1', { z: 1, a: 2 }],
        ['a/2', null],
      ],
      puts: [['gone', 1]],
    }),
  ),
  (backend) => backend.set('own', ['ü', '\ud800']),
  commit(
    '2',
    write('h', 0, {
      puts: [
        ['a/1', 'again'],
        ['b', null],
      ],
      deletes: ['gone', 'never'],
    }),
  ),
  (backend) => backend.set('own', 'changed'),
  commit('3', write('g', 1, { puts: Array.from({ length: 6 }, (_, i) => [`many/${i}`, i]) })),
  (backend) => backend.putBlob(new Uint8Array([1, 2, 3])),
  (backend) => backend.commit(write('g', 2, { puts: [['cursor', 1]] })),
  commit('4', write('g', 2, { deletes: Array.from({ length: 5 }, (_, i) => `many/${i}`) })),
  async (backend) => {
    if ((await backend.head('g')).token === 0) await backend.acquire('g', holder, 1000)
  },
  (backend) => backend.release({ stream: 'g', holder, token: 1, ttlMs: 1000 }),
  async (backend) => {
    if ((await backend.head('h')).revision === 1)
      await backend.commit(write('h', 1, { forget: true, puts: [['b', 'kept']], deletes: ['a/1'] }))
  },
  (backend) => backend.putBlob(new Uint8Array([1, 2, 3])),
  (backend) => backend.forgetBlobs([digestOf(new Uint8Array([1, 2, 3]))], 0),
  commit('5', write('h', 0)),
]

async function again<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Unavailable || error instanceof OutcomeUnknown)) throw error
    return work()
  }
}

/** How many steps were acknowledged before the store failed for good. */
async function runUntilDeath(bare: BareStore): Promise<number> {
  let acknowledged = 0
  try {
    const backend = await lifted(bare)
    for (const step of HISTORY) {
      await step(backend)
      acknowledged++
    }
  } catch (error) {
    if (!(error instanceof Unavailable || error instanceof OutcomeUnknown)) throw error
  }
  return acknowledged
}

async function callsOf(history: typeof HISTORY): Promise<number> {
  const counted = failing(new Map(), -1, 'before', false)
  const backend = await lifted(counted.bare)
  for (const step of history) await step(backend)
  return counted.calls()
}

/** The same cells for another process, which knows nothing of the first. */
const reborn = (map: Map<string, Json>): BareStore => ({
  get: (key) => map.get(key),
  set: (key, value) => void map.set(key, value),
})

async function statesOf(history: typeof HISTORY): Promise<unknown[]> {
  const memory = memoryBackend()
  const states = [await stateOf(memory)]
  for (const step of history) {
    await step(memory)
    states.push(await stateOf(memory))
  }
  return states
}

async function stateOf(backend: Backend): Promise<unknown> {
  const state = (await everything(backend, ['g', 'h'])) as { feed: { position?: string }[] }
  const blobs = await Promise.all((await collect(backend.blobs())).map((digest) => backend.getBlob(digest)))
  return { ...state, blobs, feed: state.feed.map(({ position: _, ...entry }) => entry) }
}
