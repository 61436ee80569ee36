import { expect, it } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { Delivery, Subscription, Transport } from '../../src/bus/transport.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { delivery, ids, series, transportContract, until } from '../contracts/transport-contract.ts'
import { heardByProcess } from '../support/heard-by-process.ts'
import { keptHistory } from './kept-history.ts'

transportContract('memory', async () => {
  const transport = memoryTransport({ graceMs: 300 })
  return { transport, listener: async () => transport, close: () => transport.close() }
})

transportContract('memory with a history', async () => {
  const history = keptHistory()
  const transport = history.over(memoryTransport({ graceMs: 300, history }))
  return { transport, listener: async () => transport, close: () => transport.close() }
})

it('refuses a family that the protocol has not, alone or among others: it would be silent for ever', async () => {
  const bus = memoryTransport()
  for (const family of ['pipline_stage', ['intent', 'pipline_stage']]) {
    const error = await bus.subscribe({ family }, () => undefined).catch((e) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems).toMatchObject([{ path: 'family', rule: 'enum', found: '"pipline_stage"' }])
    expect(() => bus.events({ family })).toThrow(InvalidInput)
  }
  await bus.close()
})

it('serves as many subscribers as share one signal, and no leak is suspected', async () => {
  const warned = heardByProcess('warning')
  const bus = memoryTransport()
  const { signal } = new AbortController()
  for (let i = 0; i < 11; i++) await bus.subscribe({}, () => undefined, { signal })
  await bus.close()
  await new Promise((resolve) => setImmediate(resolve)) // a warning is told in a turn of its own
  expect(warned).toEqual([])
})

it.each([
  ['group', null, 'name'],
  ['signal', 7, 'type'],
  ['onError', 7, 'type'],
])('refuses a %s that is %s, and can be closed afterwards', async (path, value, rule) => {
  const bus = memoryTransport()
  const error = await bus.subscribe({}, () => undefined, { [path]: value }).catch((e) => e)
  expect(error).toBeInstanceOf(InvalidInput)
  expect(error.problems).toMatchObject([{ path, rule }])
  await bus.close()
})

it('holds the publisher back while a subscriber that waits is full', async () => {
  const bus = memoryTransport()
  const finish: (() => void)[] = []
  let [published, handled] = [0, 0]
  const slow = async () => {
    await new Promise<void>((resolve) => finish.push(resolve))
    handled++
  }
  await bus.subscribe({}, slow, { limit: 3, overflow: 'wait' })
  const publishing = (async () => {
    for (const d of series(1, 10)) {
      await bus.publish([d])
      published++
    }
  })()
  await until(() => published === 3) // one is in hand, three wait, and the fourth publish is not over
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
  expect(published).toBe(3)
  await until(() => {
    finish.shift()?.()
    return handled === 10
  })
  await publishing
  await bus.close()
})

it('does not hold the publisher back where a history is kept: the subscriber reads on from there', async () => {
  const history = keptHistory()
  const bus = history.over(memoryTransport({ history }))
  const got: number[] = []
  const finish: (() => void)[] = []
  const slow = (revision: number) =>
    new Promise<void>((resolve) => {
      got.push(revision)
      finish.push(resolve)
    })
  await bus.subscribe({}, (d) => slow(d.revision), { limit: 3, overflow: 'wait' })
  for (const d of series(1, 50)) await bus.publish([d])
  await until(() => {
    finish.shift()?.()
    return got.length === 50
  })
  expect(got).toEqual(series(1, 50).map((d) => d.revision))
  finish.shift()?.()
  await bus.close()
})

it('misses nothing that is published while a look at the history is on its way', async () => {
  const history = keptHistory()
  const looks: (() => void)[] = []
  const slow = {
    ...history,
    async *read(...[after, signal]: Parameters<typeof history.read>) {
      const found: Delivery[] = []
      for await (const delivery of history.read(after, signal)) found.push(delivery)
      await new Promise<void>((resolve) => looks.push(resolve))
      yield* found
    },
  }
  const bus = history.over(memoryTransport({ history: slow }))
  await bus.publish([delivery(1)])
  const got: Delivery[] = []
  await bus.subscribe({}, (d) => void got.push(d), { after: delivery(1).position })
  await until(() => looks.length === 1)
  await bus.publish([delivery(2)])
  await until(() => {
    for (const answer of looks.splice(0)) answer()
    return got.length === 1
  })
  await bus.publish([delivery(3)])
  await until(() => {
    for (const answer of looks.splice(0)) answer()
    return got.length === 2
  })
  expect(ids(got)).toEqual(ids(series(2, 3)))
  await bus.close()
})

it('gives a newcomer nothing again that was published before, also while its publisher repeats itself', async () => {
  const history = keptHistory()
  const bus = history.over(memoryTransport({ history }))
  await bus.publish(series(1, 3))
  await bus.publish([delivery(1)])
  const got: Delivery[] = []
  await bus.subscribe({}, (d) => void got.push(d))
  for (const d of series(2, 4)) await bus.publish([d])
  await until(() => got.length > 0)
  expect(ids(got)).toEqual([delivery(4).event.event_id])
  await bus.close()
})

it('asks again where its history has begun if it could not tell', async () => {
  const history = keptHistory()
  let isAway = true
  const published = async () => {
    if (isAway) throw new Unavailable('the store', 'try again')
    return history.published()
  }
  const bus = history.over(memoryTransport({ history: { ...history, published } }))
  const got: Delivery[] = []
  await expect(bus.subscribe({}, (d) => void got.push(d))).rejects.toBeInstanceOf(Unavailable)
  isAway = false
  await bus.subscribe({}, (d) => void got.push(d))
  await bus.publish([delivery(1)])
  await until(() => got.length === 1)
  await bus.close()
})

it('tells who has come to a place that its history has lost, and lets nobody begin there', async () => {
  const history = keptHistory()
  const bus = history.over(memoryTransport({ history, onError: () => undefined }))
  const got: Delivery[] = []
  const ahead = await bus.subscribe({}, (d) => void got.push(d))
  await bus.publish(series(1, 3))
  await until(() => got.length === 3)
  await bus.publish([delivery(3)]) // that was a repeat
  history.kept.length = 1
  await bus.publish([delivery(2)]) // and this is another, in the same place
  expect(await ahead.ended).toBeInstanceOf(InvalidInput)
  expect(ids(got)).toEqual(ids(series(1, 3)))
  const since: Delivery[] = []
  await bus.subscribe({}, (d) => void since.push(d))
  await bus.publish([delivery(3)])
  await until(() => since.length === 1)
  expect(ids(since)).toEqual(ids([delivery(3)]))
  await bus.close()
})

it.each([
  ['its subscription', ({ subscription }: { subscription: Subscription }) => subscription.close()],
  ['the bus', ({ bus }: { bus: Transport }) => bus.close()],
])('leaves a handler behind that waits for the end of %s, once the time is over, and says so', async (_, close) => {
  const clock = manualClock()
  const errors: unknown[] = []
  const bus = memoryTransport({ graceMs: 300, clock, onError: (error) => errors.push(error) })
  const began = clock.now()
  let waited: number | undefined
  const subscription = await bus.subscribe({}, async () => {
    await close({ bus, subscription })
    waited = clock.now() - began
  })
  await bus.publish([delivery(1)])
  await until(() => {
    if (clock.nextWake !== undefined) void clock.advance(clock.nextWake - clock.now())
    return waited !== undefined
  })
  expect([waited, errors]).toEqual([300, [expect.any(Refused)]])
  expect(String(errors[0])).toContain('do not await a close inside of it')
  await bus.close()
})

it('ends every member of a group whose history cannot go on, and begins it anew for the next', async () => {
  const history = keptHistory()
  let isWrong = true
  const strict = {
    ...history,
    async *read(...[after, signal]: Parameters<typeof history.read>) {
      if (isWrong) throw new InvalidInput('feed', [{ path: 'after', rule: 'position', message: 'is no position' }])
      yield* history.read(after, signal)
    },
  }
  const bus = history.over(memoryTransport({ history: strict, onError: () => undefined }))
  const members = [1, 2].map(() => bus.subscribe({}, () => undefined, { group: 'g', after: 'x' }))
  const ends = await Promise.all(members.map(async (member) => (await member).ended))
  expect(ends).toEqual([expect.any(InvalidInput), expect.any(InvalidInput)])
  isWrong = false
  const got: Delivery[] = []
  await bus.subscribe({}, (d) => void got.push(d), { group: 'g' })
  await bus.publish([delivery(1)])
  await until(() => got.length === 1)
  await bus.close()
})

it('lets no member into a group that could not begin', async () => {
  const history = keptHistory()
  const away = { ...history, published: () => Promise.reject(new Unavailable('the store', 'wait')) }
  const bus = memoryTransport({ history: away })
  const members = [1, 2].map(() => bus.subscribe({}, () => undefined, { group: 'g' }))
  const settled = await Promise.allSettled(members)
  expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await bus.close()
})
