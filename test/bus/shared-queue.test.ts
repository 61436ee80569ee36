import { expect, it } from 'vitest'
import type { Item, SubscriberQueue } from '../../src/bus/queue.ts'
import { sharedQueue } from '../../src/bus/shared-queue.ts'
import { delivery } from '../contracts/transport-contract.ts'

const BOUND = { limit: 100, limitBytes: 10 }

/** A delivery of a graph that takes six bytes. */
const item = (graph_id: string, revision: number): Item => ({ delivery: { ...delivery(revision), graph_id }, bytes: 6 })

/** A member that keeps in hand what it is given. */
function member() {
  const given: Item[] = []
  const queue = { push: (item: Item) => void given.push(item) } as unknown as SubscriberQueue
  const names = () => given.map(({ delivery: { graph_id, revision } }) => `${graph_id} ${revision}`)
  return { queue, given, names }
}

it('gives what a member leaves unfinished to another, before what comes after it in its graph', () => {
  const shared = sharedQueue(BOUND, () => undefined)
  const [leaver, heir] = [member(), member()]
  const leave = shared.join(leaver.queue)
  for (const revision of [1, 2]) shared.push(item('a', revision))
  shared.join(heir.queue)
  leave()
  leaver.given[0]!.done!(false)
  heir.given[0]!.done!(true)
  expect([leaver.names(), heir.names()]).toEqual([['a 1'], ['a 1', 'a 2']])
})

it('counts what was left unfinished as waiting again', () => {
  const shared = sharedQueue(BOUND, () => undefined)
  const [leaver, busy] = [member(), member()]
  const leave = shared.join(leaver.queue)
  shared.push(item('a', 1))
  shared.join(busy.queue)
  shared.push(item('b', 1))
  leave()
  leaver.given[0]!.done!(false)
  expect(shared.room()).toBeUndefined()
  expect(shared.push(item('a', 2))).toBeInstanceOf(Promise)
})

it('keeps nobody waiting for room once the last member has left', async () => {
  let isEmpty = false
  const shared = sharedQueue(BOUND, () => {
    isEmpty = true
  })
  const leave = shared.join(member().queue)
  shared.push(item('a', 1))
  shared.push(item('a', 2))
  const held = shared.push(item('a', 3))
  expect(held).toBeInstanceOf(Promise)
  leave()
  await held
  expect(isEmpty).toBe(true)
})
