import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { Delivery } from '../../src/bus/transport.ts'
import { type RelayOptions, relay } from '../../src/orchestrator/relay.ts'
import { historyOf } from '../../src/orchestrator/relay-history.ts'
import { manualClock, systemClock } from '../../src/protocol/clock.ts'
import { InvalidInput, Unavailable } from '../../src/protocol/errors.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend, Holder } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { ids, outOfOrder, until } from '../contracts/transport-contract.ts'
import { replicated } from '../support/replicated.ts'
import { eventId, faultyBus, tell } from './relay-support.ts'

const KEY = 'position/bus'

describe('a relay', () => {
  it('brings every event of every graph, in order, with its place', async () => {
    const { store, bus, flush } = start()
    await tell(store, 'a', 2)
    await tell(store, 'b')
    await tell(store, 'a', 1)
    await flush()
    const [first] = await entries(store)
    expect(bus.got[0]).toEqual({
      position: first?.position,
      graph_id: 'a',
      context_id: 'a',
      plan_id: 'a-plan',
      revision: 1,
      index: 0,
      event: expect.objectContaining({ event_id: eventId('a', 1, 0) }),
    })
    expect(bus.got.map((d) => [d.graph_id, d.revision, d.index, 'plan_id' in d])).toEqual([
      ['a', 1, 0, true],
      ['a', 1, 1, false],
      ['b', 1, 0, true],
      ['a', 2, 0, true],
    ])
  })

  it('brings everything also on a thread that never rests', async () => {
    const { store, bus, flush } = start()
    let resting = false
    const busy = () => {
      for (const until = performance.now() + 0.3; performance.now() < until; );
      if (!resting) setImmediate(busy)
    }
    onTestFinished(() => {
      resting = true
    })
    busy()
    for (let i = 0; i < 100; i++) await tell(store, `graph-${i % 3}`, 3)
    await flush()
    expect(bus.got.length).toBe(300)
    expect(outOfOrder(bus.got)).toEqual([])
  })

  it('brings what is committed while it runs, and moves the position without an entry', async () => {
    const { store, bus, close } = start()
    for (let i = 0; i < 20; i++) await tell(store, `g${i % 3}`)
    await until(() => bus.got.length === 20)
    await close()
    const all = await entries(store)
    expect(all).toHaveLength(20)
    expect((await store.getMany([KEY])).get(KEY)).toBe(all.at(-1)?.position)
    expect(await store.head('relay/bus')).toMatchObject({ revision: 0 })
  })

  it.each([true, false])(
    'goes on from the place that the store knows when it has lost the relay’s own (exclusive: %s)',
    async (exclusive) => {
      const inner = memoryBackend()
      let lose = () => {}
      const lost = new Promise<never>((_, reject) => {
        lose = () => reject(new InvalidInput('feed', [{ path: 'after', rule: 'position', message: 'is ahead' }]))
      })
      lost.catch(() => undefined)
      let feeds = 0
      const store: Backend = {
        ...inner,
        async *feed(from = {}) {
          if (!from.follow || ++feeds > 1) return yield* inner.feed(from)
          yield* inner.feed()
          await lost
        },
      }
      await tell(store, 'a', 1)
      await tell(store, 'a', 1)
      const [first] = await entries(store)
      const { bus, errors } = start({ store, exclusive, moveEveryMs: 60_000, batch: { deliveries: 1 } })
      await until(() => bus.got.length === 2)
      await store.commit({ stream: 'relay/bus', expected: 0, inserts: [], puts: [[KEY, first!.position]], deletes: [] })
      lose()
      await until(() => bus.got.length === 3)
      expect(bus.got.map(({ revision }) => revision)).toEqual([1, 2, 2])
      expect(errors).toEqual([expect.any(InvalidInput)])
    },
  )

  it('moves its position to no place that the store has lost while it was away', async () => {
    const { store: inner, lag, failOver } = replicated(systemClock)
    const position = async () => (await inner.getMany([KEY])).get(KEY)
    let isAway = false
    const commit: Backend['commit'] = async (write) => {
      if (isAway && write.puts.some(([key]) => key === KEY)) throw new Unavailable('the store', 'a failover')
      return inner.commit(write)
    }
    const store = new Proxy(inner, { get: (_, name) => (name === 'commit' ? commit : Reflect.get(inner, name)) })
    const { bus, errors, close } = start({ store, moveEveryMs: 1 })
    await tell(store, 'a', 1)
    await until(async () => (await position()) !== undefined)
    const kept = await position()
    lag()
    isAway = true
    await tell(store, 'a', 1)
    await until(() => bus.got.length === 2 && errors.length > 0)
    failOver()
    isAway = false
    await close()
    expect(await position()).toBe(kept)
  })

  it('passes over entries that are no graph’s, and moves past them', async () => {
    const { store, bus, flush, close } = start()
    const foreign = (stream: string, entry: string | object) =>
      store.commit({ stream, expected: 0, entry: entry as never, inserts: [], puts: [], deletes: [] })
    await foreign('notes', 'text')
    await tell(store, 'a')
    await foreign('log', { events: 'none' })
    await foreign('empty', { events: [] })
    await foreign('history', { events: [5, { move: 1 }], at: 'noon' })
    await flush()
    await close()
    expect(bus.got).toHaveLength(1)
    expect((await store.getMany([KEY])).get(KEY)).toBe((await entries(store)).at(-1)?.position)
  })

  it('goes on after the stored position when it is started again', async () => {
    const { store, bus, flush, close } = start()
    await tell(store, 'a')
    await flush()
    await close()
    await tell(store, 'a')
    const again = start({ store, transport: bus })
    await again.flush()
    expect(bus.got.map((d) => d.revision)).toEqual([1, 2])
  })

  it.each(['none', 'half', 'all'] as const)(
    'loses and invents nothing on a bus that breaks after %s',
    async (fault) => {
      const { store, bus, flush, errors } = start({ batch: { deliveries: 7 } })
      bus.faults.push(fault, fault)
      for (let i = 0; i < 30; i++) await tell(store, `g${i % 4}`, 1 + (i % 3))
      bus.faults.push(fault, fault)
      await flush()
      const committed = (await entries(store)).flatMap((entry) => eventsIn(entry).map(({ event }) => event.event_id))
      expect([...new Set(ids(bus.got))].sort()).toEqual(committed.sort())
      expect(outOfOrder(bus.got)).toEqual([])
      expect(errors).toHaveLength(4)
      if (fault !== 'none') expect(bus.got.length).toBeGreaterThan(committed.length)
    },
  )

  it('repeats what was confirmed when it ends before the position has moved', async () => {
    const store = memoryBackend()
    const bus = faultyBus()
    const dies = {
      ...bus,
      async publish(batch: Parameters<typeof bus.publish>[0]) {
        await bus.publish(batch)
        await new Promise(() => undefined) // it has the batch, and its relay never hears so
      },
    }
    start({ store, transport: dies })
    await tell(store, 'a', 3)
    await until(() => bus.got.length === 3)
    expect((await store.getMany([KEY])).get(KEY)).toBe('')
    const next = start({ store, transport: bus, holder: holder('next'), exclusive: false })
    await next.flush()
    expect(ids(bus.got)).toEqual([...ids(bus.got).slice(0, 3), ...ids(bus.got).slice(0, 3)])
  })

  it('waits longer after each failure, by the clock, and comes back', async () => {
    const waits: number[] = []
    const sleep = (ms: number, signal?: AbortSignal) => {
      waits.push(ms)
      return systemClock.sleep(0, signal)
    }
    const any = vi.spyOn(AbortSignal, 'any')
    onTestFinished(() => any.mockRestore())
    const { store, bus } = start({ clock: { ...systemClock, sleep, random: () => 0 }, exclusive: false })
    bus.faults.push(...Array.from({ length: 10 }, () => 'none' as const))
    await tell(store, 'a')
    await until(() => bus.got.length === 1)
    expect(waits.slice(0, 10)).toEqual([100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000])
    expect(any.mock.calls.length).toBeLessThan(10) // each of them would stay on its sources for as long as the relay lives
  })

  it('publishes within its bounds, and splits a commit that is larger', async () => {
    const { store, bus, flush } = start({ batch: { deliveries: 10, bytes: 5000 } })
    bus.faults.push('none')
    await tell(store, 'many', 35)
    await tell(store, 'large', 4, { payload: { filling: 'x'.repeat(3000) } })
    await tell(store, 'huge', 1, { payload: { filling: 'x'.repeat(50_000) } })
    await flush()
    expect(bus.got).toHaveLength(40)
    expect(Math.max(...bus.batches)).toBe(10)
    expect(bus.batches.slice(-4)).toEqual([1, 1, 1, 1])
  })

  it('does not move into a commit that is not wholly out', async () => {
    const store = memoryBackend()
    const stuck = start({ store, batch: { deliveries: 10 } })
    stuck.bus.faults.push('ok', 'ok', 'hang')
    await tell(store, 'a')
    await stuck.flush()
    await tell(store, 'a', 25)
    await until(() => stuck.bus.got.length === 11 && stuck.bus.faults.length === 0)
    await until(async () => (await store.getMany([KEY])).get(KEY) === (await entries(store))[0]?.position)
    const next = start({ store, exclusive: false, holder: holder('next') })
    await next.flush()
    expect(next.bus.got.map((d) => [d.revision, d.index])).toEqual(Array.from({ length: 25 }, (_, i) => [2, i]))
  })

  it('never holds a commit back, whatever the bus does', async () => {
    const { store, bus } = start()
    bus.faults.push('hang')
    for (let i = 0; i < 3000; i++) await tell(store, 'a')
    expect((await store.head('a')).revision).toBe(3000)
    expect(bus.got).toEqual([])
  })

  it('leaves the bus to the relay that has the lease, and takes over when it is given back', async () => {
    const store = memoryBackend()
    const [one, two] = [start({ store }), start({ store, holder: holder('two'), leaseTtlMs: 60 })]
    await tell(store, 'a')
    await until(() => one.bus.got.length + two.bus.got.length === 1)
    expect([one.relay.active, two.relay.active].filter(Boolean)).toHaveLength(1)
    const [active, waiting] = one.relay.active ? [one, two] : [two, one]
    await active.close()
    await tell(store, 'a')
    await until(() => waiting.bus.got.length === 1)
    expect(waiting.bus.got[0]?.revision).toBe(2)
  })

  it('stops when it is fenced out, and begins again from the stored position when it has the lease again', async () => {
    const inner = memoryBackend()
    let owner = holder('nobody')
    const acquire: Backend['acquire'] = (stream, asking, ttlMs) => {
      owner = asking
      return inner.acquire(stream, asking, ttlMs)
    }
    const { store, bus } = start({ store: { ...inner, acquire }, leaseTtlMs: 600_000 }) // it would renew too late to notice by itself
    await tell(store, 'a')
    const [first] = await entries(store)
    await until(async () => (await store.getMany([KEY])).get(KEY) === first?.position)
    const taken = await inner.acquire('relay/bus', owner, 1000) // given at once to the same holder
    await inner.release(taken!)
    await tell(store, 'a')
    await until(async () => (await store.getMany([KEY])).get(KEY) !== first?.position)
    expect((await store.head('relay/bus')).token).toBeGreaterThan(taken?.token as number)
    expect(bus.got.map((d) => d.revision)).toEqual([1, 2, 2])
  })

  it('feeds the bus of every process when it lives in them', async () => {
    const store = memoryBackend()
    const one = start({ store, exclusive: false })
    const two = start({ store, exclusive: false, holder: holder('two') })
    await tell(store, 'a', 2)
    await one.flush()
    await two.flush()
    await until(() => one.bus.got.length === 2 && two.bus.got.length === 2)
  })

  it('brings to the bus of its process also what others have moved the position past while its feed was broken', async () => {
    const whole = memoryBackend()
    const clock = manualClock()
    let breaks = 1
    const store: Backend = {
      ...whole,
      async *feed(from) {
        for await (const entry of whole.feed(from)) {
          if (from?.follow && entry.revision === 2 && breaks-- > 0) throw new Unavailable('the store', 'wait')
          yield entry
        }
      },
    }
    const one = start({ store, exclusive: false, clock, moveEveryMs: 1 })
    await tell(whole, 'a')
    await until(() => one.bus.got.length === 1)
    await tell(whole, 'a')
    await until(() => one.errors.length === 1 && clock.sleeping > 0)
    const two = start({ store: whole, exclusive: false, holder: holder('two') })
    await two.flush()
    await two.close()
    expect((await whole.getMany([KEY])).get(KEY)).toBe((await entries(whole)).at(-1)?.position)
    await clock.advance(1000)
    await until(() => one.relay.active)
    await tell(whole, 'a')
    await until(() => one.bus.got.some((d) => d.revision === 3))
    expect(one.bus.got.map((d) => d.revision)).toEqual([1, 2, 3])
  })

  it('asks once whether another process has come further, and then rests', async () => {
    const whole = memoryBackend()
    const clock = manualClock()
    let asked = 0
    const store: Backend = {
      ...whole,
      async getMany(keys) {
        return asked++ === 0 ? whole.getMany(keys) : new Map(keys.map((key) => [key, '~'])) // behind every position
      },
    }
    const { bus } = start({ store, exclusive: false, clock, moveEveryMs: 100 })
    await tell(store, 'a')
    await until(() => bus.got.length === 1 && asked === 2 && clock.sleeping > 0)
    for (let i = 0; i < 10; i++) await clock.advance(100)
    expect(asked).toBe(2)
  })

  it('goes on when the feed breaks', async () => {
    const whole = memoryBackend()
    let breaks = 2
    const store: Backend = {
      ...whole,
      async *feed(from) {
        for await (const entry of whole.feed(from)) {
          if (from?.follow && entry.revision === 3 && breaks-- > 0) throw new Unavailable('the store', 'wait')
          yield entry
        }
      },
    }
    const { bus, errors } = start({ store })
    for (let i = 0; i < 5; i++) await tell(store, 'a')
    await until(() => bus.got.some((d) => d.revision === 5))
    expect(outOfOrder(bus.got)).toEqual([])
    expect(new Set(ids(bus.got)).size).toBe(5)
    expect(errors).toEqual([expect.any(Unavailable), expect.any(Unavailable)])
  })

  it('goes on when the position cannot be moved', async () => {
    const whole = memoryBackend()
    let refusals = 3
    const store: Backend = {
      ...whole,
      async commit(write) {
        if (write.stream === 'relay/bus' && refusals-- > 0) throw new Unavailable('the store', 'wait')
        return whole.commit(write)
      },
    }
    const { bus, errors } = start({ store, moveEveryMs: 1 })
    await tell(store, 'a')
    await until(async () => (await store.getMany([KEY])).has(KEY))
    expect(bus.got).toHaveLength(1)
    expect(errors).toHaveLength(3)
  })

  it('publishes what it has read when it is closed, and moves the position', async () => {
    const bus = faultyBus()
    let answer: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      answer = resolve
    })
    const transport = { ...bus, publish: (batch: readonly Delivery[]) => held.then(() => bus.publish(batch)) }
    const { store, close } = start({ transport, batch: { deliveries: 1 } })
    await tell(store, 'a', 3)
    await systemClock.sleep(0)
    const closed = close()
    answer()
    await closed
    await close()
    expect(bus.got).toHaveLength(3)
    expect((await store.getMany([KEY])).get(KEY)).toBe((await entries(store))[0]?.position)
    expect(await store.acquire('relay/bus', holder('next'), 1000)).toBeDefined()
  })

  it('does not wait for a bus that is away when it is closed', async () => {
    const { store, bus, errors, close } = start()
    bus.faults.push(...Array.from({ length: 50 }, () => 'none' as const))
    await tell(store, 'a')
    await until(() => errors.length > 0)
    await close()
    expect(bus.got).toEqual([])
    expect((await store.getMany([KEY])).get(KEY)).toBe('')
  })

  it('gives up on a bus that never answers when it is closed', async () => {
    const { store, bus, close } = start({ graceMs: 20 })
    bus.faults.push('hang')
    await tell(store, 'a')
    await until(() => bus.faults.length === 0)
    await close()
    expect((await store.getMany([KEY])).get(KEY)).toBe('')
    expect(await store.acquire('relay/bus', holder('next'), 1000)).toBeDefined()
  })

  it('ends a flush that a close leaves without hope', async () => {
    const { store, bus, relay: mine, close } = start({ graceMs: 20 })
    bus.faults.push('hang')
    await tell(store, 'a')
    const flushed = mine.flush()
    await close()
    expect(await flushed).toBe(false)
  })

  it('says when the wait for a flush is given up', async () => {
    const { store, bus, relay: mine } = start()
    bus.faults.push('hang')
    await tell(store, 'a')
    const signal = AbortSignal.timeout(50)
    expect(await mine.flush(signal)).toBe(false)
  })

  it('says how long the oldest commit that the bus does not have has been waiting', async () => {
    const clock = { ...systemClock, now: () => Date.parse('2026-01-01T01:00:00Z') }
    const { store, bus, relay: mine, flush, close } = start({ clock })
    expect(await mine.behindMs()).toBe(0)
    await store.commit({ stream: 'notes', expected: 0, entry: 'no time', inserts: [], puts: [], deletes: [] })
    bus.faults.push('none', 'none')
    await tell(store, 'a')
    expect(await mine.behindMs()).toBe(3_600_000)
    await flush()
    expect(await mine.behindMs()).toBe(0)
    await close()
    await tell(store, 'a')
    expect(await mine.behindMs()).toBe(3_600_000)
  })

  it('feeds a memory bus whose subscribers resume from the store, also between two events of one commit', async () => {
    const store = memoryBackend()
    const transport = memoryTransport({ history: historyOf(store, 'bus') })
    for (let i = 0; i < 3; i++) await tell(store, `g${i}`, 3)
    const { flush } = start({ store, transport })
    await flush()
    const all: Delivery[] = []
    await transport.subscribe({}, (d) => void all.push(d), { after: '' })
    await until(() => all.length === 9)
    const middle: Delivery[] = []
    await transport.subscribe({}, (d) => void middle.push(d), { after: all[4] as Delivery })
    const live: Delivery[] = []
    await transport.subscribe({}, (d) => void live.push(d))
    await tell(store, 'g0')
    await until(() => middle.length === 5 && live.length === 1 && all.length === 10)
    expect(ids(middle)).toEqual(ids(all).slice(5))
    expect(ids(live)).toEqual(ids(all).slice(9))
    await expect(
      new Promise((_, reject) => transport.subscribe({}, () => undefined, { after: 'nonsense', onError: reject })),
    ).rejects.toThrow(InvalidInput)
  })

  it.each<[string, (batch: readonly Delivery[]) => Promise<void>, RegExp]>([
    [
      'throws an error of its own',
      () => Promise.reject(new Error('kaput')),
      /^the bus bus .* publish failed with kaput$/,
    ],
    ['throws no error at all', () => Promise.reject('kaput'), /^the bus bus .* publish failed with kaput$/],
    ['gives no promise', () => undefined as never, /the bus bus .* no promise; return a promise/],
  ])('names the bus whose publish %s', async (_, publish, message) => {
    const { store, errors } = start({ transport: { ...memoryTransport(), publish } })
    await tell(store, 'a')
    await until(() => errors.length > 0)
    expect(errors[0]).toMatchObject({ message: expect.stringMatching(message) })
    expect((await store.getMany([KEY])).get(KEY)).toBe('')
  })

  it.each<[string, Partial<RelayOptions>, string]>([
    ['a name with a slash', { name: 'a/b' }, 'name'],
    ['a lease of no time', { leaseTtlMs: 0 }, 'leaseTtlMs'],
    ['a batch of nothing', { batch: { deliveries: 0 } }, 'batch.deliveries'],
  ])('refuses %s', (_, options, path) => {
    const store = memoryBackend()
    const make = () => relay({ store, transport: faultyBus(), name: 'bus', holder: holder('x'), ...options })
    expect(make).toThrow(InvalidInput)
    expect(make).toThrow(expect.objectContaining({ problems: [expect.objectContaining({ path })] }))
  })
})

function start(options: Partial<RelayOptions> = {}) {
  const store = options.store ?? memoryBackend()
  const transport = options.transport ?? faultyBus()
  const errors: unknown[] = []
  const clock = options.clock ?? systemClock
  const running = relay({
    store,
    name: 'bus',
    holder: holder('first'),
    moveEveryMs: 5,
    onError: (e) => void errors.push(e),
    ...options,
    transport,
    clock,
  })
  onTestFinished(async () => {
    const bus = transport as ReturnType<typeof faultyBus>
    bus.faults?.splice(0)
    void running.close()
  })
  return {
    store,
    bus: transport as ReturnType<typeof faultyBus>,
    relay: running,
    errors,
    flush: () => running.flush(),
    close: () => running.close(),
  }
}

const holder = (id: string): Holder => ({ id, boot: '', pid: process.pid, started: '' })

async function entries(store: Backend) {
  const all = []
  for await (const entry of store.feed()) all.push(entry)
  return all
}
