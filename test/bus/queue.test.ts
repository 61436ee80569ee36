import { expect, it } from 'vitest'
import { subscriberQueue } from '../../src/bus/queue.ts'
import { delivery } from '../contracts/transport-contract.ts'

it('keeps nobody waiting for the room of a subscriber that was disconnected', async () => {
  let overflows = 0
  const onOverflow = () => void overflows++
  const handle = () => new Promise<boolean>(() => undefined)
  const queue = subscriberQueue({ limit: 1, limitBytes: 100, overflow: 'disconnect', handle, onOverflow })
  queue.push({ delivery: delivery(1), bytes: 6 })
  const held = queue.room()
  expect(held).toBeInstanceOf(Promise)
  queue.push({ delivery: delivery(2), bytes: 6 })
  await held
  expect(overflows).toBe(1)
})
