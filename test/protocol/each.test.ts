import { describe, expect, it } from 'vitest'
import { allOf, eachOf } from '../../src/protocol/each.ts'

describe('doing something for each', () => {
  it('does so many at a time, and all of them', async () => {
    let [going, most] = [0, 0]
    const done: number[] = []
    await eachOf([1, 2, 3, 4, 5, 6, 7], 3, async (n) => {
      most = Math.max(most, ++going)
      await new Promise((resolve) => setImmediate(resolve))
      going--
      done.push(n)
    })
    expect([most, done.sort()]).toEqual([3, [1, 2, 3, 4, 5, 6, 7]])
  })

  it('begins nothing more after a failure, and waits for what is under way', async () => {
    const ended: number[] = []
    const work = eachOf([1, 2, 3, 4], 2, async (n) => {
      await new Promise((resolve) => setImmediate(resolve))
      if (n === 1) throw new Error('no')
      ended.push(n)
    })
    await expect(work).rejects.toThrow('no')
    expect(ended).toEqual([2])
  })
})

describe('what comes of each', () => {
  it('is told in their order, whoever was ready first', async () => {
    const waits: (() => void)[] = []
    const results = allOf(['a', 'b', 'c'], 3, async (name) => {
      await new Promise<void>((resolve) => waits.push(resolve))
      return name.toUpperCase()
    })
    for (const go of waits.toReversed()) go()
    expect(await results).toEqual(['A', 'B', 'C'])
  })
})
