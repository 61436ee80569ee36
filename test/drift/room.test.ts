import { describe, expect, it } from 'vitest'
import { room } from '../../src/drift/room.ts'

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
