import { describe, expect, it } from 'vitest'
import { eachOf, room } from '../../src/drift/each.ts'

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

describe('a room', () => {
  it('lets in what fits, in order, and what is too large alone', async () => {
    const { enter } = room(10)
    const order: string[] = []
    const first = await enter(6)
    const second = enter(5).then((leave) => {
      order.push('second')
      return leave
    })
    const third = enter(1).then((leave) => {
      order.push('third')
      return leave
    })
    const large = enter(50).then((leave) => {
      order.push('large')
      return leave
    })
    await Promise.resolve()
    expect(order).toEqual([])
    first()
    ;(await second)()
    ;(await third)()
    ;(await large)()
    expect(order).toEqual(['second', 'third', 'large'])
  })
})
