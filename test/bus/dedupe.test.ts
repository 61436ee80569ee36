import { expect, it } from 'vitest'
import { dedupe } from '../../src/bus/bus.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { delivery } from '../contracts/transport-contract.ts'

it('calls the handler once per event', async () => {
  const seen: number[] = []
  const once = dedupe((d) => void seen.push(d.revision))
  for (const n of [1, 2, 1, 2, 3]) await once(delivery(n))
  expect(seen).toEqual([1, 2, 3])
})

it('lets an event through again after its handler threw', async () => {
  let calls = 0
  const once = dedupe(() => {
    if (++calls === 1) throw new Error('not now')
  })
  await expect(once(delivery(1))).rejects.toThrow('not now')
  await once(delivery(1))
  await once(delivery(1))
  expect(calls).toBe(2)
})

it('holds a repeat back while the first is in hand', async () => {
  const finish: (() => void)[] = []
  const once = dedupe(() => new Promise<void>((resolve) => finish.push(resolve)))
  const [first, repeat] = [once(delivery(1)), once(delivery(1))]
  finish[0]?.()
  await Promise.all([first, repeat])
  expect(finish).toHaveLength(1)
})

it('forgets the oldest beyond its limit', async () => {
  const seen: number[] = []
  const once = dedupe((d) => void seen.push(d.revision), { limit: 2 })
  for (const n of [1, 2, 3, 2, 1]) await once(delivery(n))
  expect(seen).toEqual([1, 2, 3, 1])
})

it('refuses a limit of nothing', () => {
  expect(() => dedupe(() => undefined, { limit: 0 })).toThrow(InvalidInput)
  expect(() => dedupe(7 as never)).toThrow(InvalidInput)
})
