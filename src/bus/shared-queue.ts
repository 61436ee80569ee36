import type { Item, SubscriberQueue } from './queue.ts'
import { sleepers } from './sleepers.ts'

/** What waits for a group: whoever of its members is free takes the next, but one graph is in one hand at a time, so that it stays in order. */
export interface SharedQueue extends Pick<SubscriberQueue, 'push' | 'room'> {
  /** Returns how to leave. What the leaver has in hand and does not finish goes to another member. */
  join(member: SubscriberQueue): () => void
}

/** `onEmpty` is told when the last member has left; what waited then is forgotten. */
export function sharedQueue(bound: { limit: number; limitBytes: number }, onEmpty: () => void): SharedQueue {
  const waiting: Item[] = []
  const busy = new Set<string>()
  const members = new Set<SubscriberQueue>()
  const free = new Set<SubscriberQueue>()
  const roomWanted = sleepers()
  let bytes = 0

  const isFull = () => members.size > 0 && (waiting.length >= bound.limit || bytes >= bound.limitBytes)
  const room = () => (isFull() ? roomWanted.sleep() : undefined)

  const give = () => {
    for (const member of free) {
      const at = waiting.findIndex((item) => !busy.has(item.delivery.graph_id))
      if (at < 0) return
      const [item] = waiting.splice(at, 1) as [Item]
      bytes -= item.bytes
      if (!isFull()) roomWanted.wake()
      busy.add(item.delivery.graph_id)
      free.delete(member)
      member.push({ ...item, done: (handled) => finished(member, item, handled) })
    }
  }
  const finished = (member: SubscriberQueue, item: Item, handled: boolean) => {
    busy.delete(item.delivery.graph_id)
    if (!handled) {
      waiting.unshift(item) // nothing of its graph was given meanwhile: the order holds
      bytes += item.bytes
    }
    if (members.has(member)) free.add(member)
    give()
  }

  return {
    push(item) {
      waiting.push(item)
      bytes += item.bytes
      give()
      return room()
    },
    room,
    join(member) {
      members.add(member)
      free.add(member)
      give()
      return () => {
        members.delete(member)
        free.delete(member)
        if (members.size > 0) return
        roomWanted.wake()
        onEmpty()
      }
    },
  }
}
