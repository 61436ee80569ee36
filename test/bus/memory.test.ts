import { expect, it } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import { series, transportContract, until } from '../contracts/transport-contract.ts'
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
