import { expect, it } from 'vitest'
import { turns } from '../../src/protocol/turns.ts'

it('lets those who come to the same names in one after the other, and others beside them', async () => {
  const turn = turns()
  const order: string[] = []
  const first = await turn(['a', 'b', 'a'])
  const second = turn(['b', 'c']).then((leave) => {
    order.push('second')
    return leave
  })
  const third = turn(['c']).then((leave) => {
    order.push('third')
    return leave
  })
  const beside = await turn(['d'])
  expect(order).toEqual([])
  first()
  const leaves = await second
  expect(order).toEqual(['second']) // the third waits for it, though the first never was at c
  leaves()
  const last = await third
  expect(order).toEqual(['second', 'third'])
  last()
  beside()
})
