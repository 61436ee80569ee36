import { sleepers } from './sleepers.ts'
import type { Delivery, Overflow } from './transport.ts'

/** A delivery that waits for its handler. */
export interface Item {
  readonly delivery: Delivery
  /** About how much of memory it takes. */
  readonly bytes: number
  /** Others hold the same object: the handler gets a copy. */
  readonly shared?: true
  /** Told once the handler is through with it; false when the subscription ended first. Does not throw. */
  readonly done?: (handled: boolean) => void | Promise<void>
}

/** What waits for one subscriber: bounded by count and bytes, handled one at a time. */
export interface SubscriberQueue {
  /** A promise means that it is now full and the policy is to wait: push no more until it resolves. */
  push(item: Item): Promise<void> | undefined
  /** Resolves when one more would fit, whatever the policy: for those who can wait anyway. */
  room(): Promise<void> | undefined
  readonly dropped: number
  /** Resolves when nothing waits and nothing is in hand. */
  idle(): Promise<void>
  /** Forgets what waits; resolves when what is in hand is done. Takes nothing in any more. */
  end(): Promise<void>
  /** What is in hand is not waited for any more, and does not count as handled. */
  abandon(): void
}

/** `handle` must not throw. `onOverflow` is told when the policy is to disconnect; the queue has then ended. */
export function subscriberQueue(options: {
  readonly limit: number
  readonly limitBytes: number
  readonly overflow: Overflow
  /** True when it counts as handled. */
  readonly handle: (item: Item) => boolean | Promise<boolean>
  readonly onOverflow: () => void
}): SubscriberQueue {
  const { limit, limitBytes, overflow, handle } = options
  let waiting: Item[] = []
  let head = 0
  let bytes = 0
  let dropped = 0
  let inHand: Item | undefined
  let running = false
  let ended = false
  const roomWanted = sleepers()
  const idleWanted = sleepers()

  // An event larger than the bound must still pass when it is alone.
  const isFull = () => head < waiting.length && (waiting.length - head >= limit || bytes >= limitBytes)
  const take = (): Item => {
    const item = waiting[head] as Item
    waiting[head++] = undefined as never
    bytes -= item.bytes
    if (head > 1024 && head * 2 > waiting.length) {
      waiting = waiting.slice(head)
      head = 0
    }
    return item
  }
  const forget = () => {
    for (const item of waiting.slice(head)) item.done?.(false)
    waiting = []
    head = 0
    bytes = 0
  }
  const run = async () => {
    while (head < waiting.length) {
      const item = take()
      inHand = item
      const work = handle(item)
      if (roomWanted.any && !isFull()) roomWanted.wake()
      const handled = typeof work === 'boolean' ? work : await work
      if (item.done && inHand === item) await item.done(handled)
      inHand = undefined
    }
    running = false
    idleWanted.wake()
  }

  return {
    push(item) {
      if (ended) return void item.done?.(false)
      if (overflow === 'disconnect' && isFull()) {
        ended = true
        forget()
        roomWanted.wake()
        options.onOverflow()
        return undefined
      }
      while (overflow === 'drop_oldest' && isFull()) {
        take().done?.(false)
        dropped++
      }
      waiting.push(item)
      bytes += item.bytes
      if (!running) {
        running = true
        queueMicrotask(run) // the publisher goes on first
      }
      return overflow === 'wait' && isFull() ? roomWanted.sleep() : undefined
    },
    room: () => (!ended && isFull() ? roomWanted.sleep() : undefined),
    get dropped() {
      return dropped
    },
    idle: () => (running ? idleWanted.sleep() : Promise.resolve()),
    end() {
      ended = true
      forget()
      roomWanted.wake()
      return running ? idleWanted.sleep() : Promise.resolve()
    },
    abandon() {
      const item = inHand
      inHand = undefined
      item?.done?.(false)
    },
  }
}
