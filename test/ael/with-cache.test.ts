import { expect, it } from 'vitest'
import type { Outcome } from '../../src/ael/adapter.ts'
import { finalFailure } from '../../src/ael/failure.ts'
import { type CacheOptions, outcomeCache, withCache } from '../../src/ael/with-cache.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { adapterOf, callOf, work } from './calls.ts'

const cached = (options: Partial<CacheOptions> = {}, outcome: (n: number) => Outcome = (n) => ({ output: { n } })) => {
  const clock = manualClock()
  let done = 0
  const inner = adapterOf(async () => outcome(++done), { readOnly: ({ changes }) => changes !== true })
  const adapter = withCache(inner, outcomeCache({ ttlMs: 1_000, clock, ...options }))
  const ask = (params: JsonObject = {}, call = {}) => adapter.execute(work({ params }), callOf(call))
  return { ask, clock, done: () => done }
}

it('answers an equal read-only action from the cache, whatever the order of its keys', async () => {
  const { ask, done } = cached()
  const first = await ask({ a: 1, b: [2] })
  expect(await ask({ b: [2], a: 1 })).toEqual({ ...first, cached: true })
  expect(await ask({ b: [3], a: 1 })).toEqual({ output: { n: 2 } })
  expect(done()).toBe(2)
})

it.each([
  [new Date(0), new Date(1)],
  [Number.NaN, null],
])('refuses what has no text of its own, and does not answer it with what it found for another', async (one, other) => {
  const { ask } = cached()
  await ask({ other: 1, of: other } as never).catch(() => undefined)
  await expect(ask({ other: 1, of: one } as never)).rejects.toThrow(InvalidInput)
})

it('does what changes something each time', async () => {
  const { ask, done } = cached()
  await ask({ changes: true })
  expect(await ask({ changes: true })).not.toHaveProperty('cached')
  expect(done()).toBe(2)
})

it('keeps roles apart, and never answers an attempt that goes on from a checkpoint', async () => {
  const { ask, done } = cached()
  await ask({}, { role: 'a' })
  await ask({}, { role: 'b' })
  await ask({}, { role: 'a', resume: 1 })
  expect(done()).toBe(3)
})

it('forgets after its time', async () => {
  const { ask, clock, done } = cached({ ttlMs: 100 })
  await ask()
  await clock.advance(99)
  await ask()
  expect(done()).toBe(1)
  await clock.advance(1)
  await ask()
  expect(done()).toBe(2)
})

it('forgets what is from a time that is still to come: the clock was set back', async () => {
  const { ask, clock, done } = cached({ ttlMs: 100 })
  await ask()
  await clock.advance(-1)
  await ask()
  expect(done()).toBe(2)
})

it('holds no more entries and bytes than it may, and lets go of what was not asked for longest', async () => {
  const { ask, done } = cached({ maxEntries: 2 })
  for (const n of [1, 2, 1, 3]) await ask({ n }) // 2 goes
  expect(done()).toBe(3)
  await ask({ n: 1 })
  expect(done()).toBe(3)
  await ask({ n: 2 })
  expect(done()).toBe(4)

  const small = cached({ maxBytes: 100 }, (n) => ({ output: 'x'.repeat(n === 1 ? 200 : 60) }))
  await small.ask({ n: 1 })
  await small.ask({ n: 1 })
  expect(small.done()).toBe(2) // the first was too large to keep
})

it('says the cost once, and hands out copies', async () => {
  const usage = { prompt: 1, completion: 1, total: 2 }
  const { ask } = cached({}, () => ({ output: { list: [1] }, token_usage: usage, cost: 3 }))
  expect(await ask()).toMatchObject({ token_usage: usage, cost: 3 })
  const second = await ask()
  expect(second).toEqual({ output: { list: [1] }, cached: true })
  ;(second.output as { list: number[] }).list.push(2)
  expect(await ask()).toEqual({ output: { list: [1] }, cached: true })
})

it('does not remember a failure', async () => {
  const { ask, done } = cached({}, (n) => {
    if (n === 1) throw finalFailure('once')
    return { output: n }
  })
  await expect(ask()).rejects.toThrow('once')
  expect(await ask()).toEqual({ output: 2 })
  expect(done()).toBe(2)
})

it('caches only the types it was told of', async () => {
  const { ask, done } = cached({ types: ['other'] })
  await ask()
  await ask()
  expect(done()).toBe(2)
})

it.each(['ttlMs', 'maxEntries', 'maxBytes'])('refuses a %s of nothing', (path) => {
  expect(() => outcomeCache({ ttlMs: 1, [path]: 0 })).toThrow(InvalidInput)
  expect(() => outcomeCache({ ttlMs: 1, [path]: Number.NaN })).toThrow(
    expect.objectContaining({ problems: [expect.objectContaining({ path })] }),
  )
})
