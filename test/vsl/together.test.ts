import { expect, it } from 'vitest'
import { together } from '../../src/vsl/together.ts'

const options = { most: 3, bytesOf: (item: string) => item.length, maxBytes: 10 }
const recording = () => {
  const batches: (readonly string[])[] = []
  return { batches, write: async (batch: readonly string[]) => void batches.push(batch) }
}

it('hands on together what waits together, in the order it came', async () => {
  const { batches, write } = recording()
  const items = together(write, options)
  await Promise.all(['a', 'b', 'c', 'd'].map(items.add))
  expect(batches).toEqual([['a', 'b', 'c'], ['d']])
})

it('keeps a batch small in bytes, and lets what is larger travel alone', async () => {
  const { batches, write } = recording()
  const items = together(write, options)
  await Promise.all(['x'.repeat(6), 'y'.repeat(6), 'z'.repeat(20), 'a'].map(items.add))
  expect(batches.map((batch) => batch.map((item) => item.length))).toEqual([[6], [6], [20], [1]])
})

it('fails those of a batch that failed, and nobody else', async () => {
  const items = together(async (batch: readonly string[]) => {
    if (batch.includes('bad')) throw new Error('no')
  }, options)
  const results = await Promise.allSettled(['a', 'bad', 'c', 'd'].map(items.add))
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'fulfilled'])
})

it('is idle when everything has settled', async () => {
  const { batches, write } = recording()
  const items = together(write, options)
  void items.add('a')
  await items.idle()
  expect(batches).toEqual([['a']])
  await items.idle()
})
