import type { Clock } from '../protocol/clock.ts'
import { whenAborted } from '../protocol/on-abort.ts'
import type { Report } from '../protocol/reporter.ts'
import { backoffMs, slept } from '../protocol/waiting.ts'
import { copied } from './copied.ts'
import { isAfter, placeOf } from './delivery.ts'
import { isForGood } from './foreign.ts'
import type { Item, SubscriberQueue } from './queue.ts'
import { type SharedQueue, sharedQueue } from './shared-queue.ts'
import type { Feed } from './source.ts'
import type { After, Delivery, Place } from './transport.ts'

/** Where deliveries are kept for good, for carriers that keep none: the store's feed. */
export interface History {
  /** Everything after a place, oldest first, up to the newest; the signal ends it without an error. */
  read(after: After, signal: AbortSignal): AsyncIterable<Delivery>
  /** The position up to which everything had been published when this carrier was opened; empty if nothing ever was. */
  published(): Promise<string>
}

/** From one publisher to every subscriber of this process, each at its own pace, each beginning where it asked to. */
export interface FanOut {
  publish(batch: readonly Delivery[]): Promise<void>
  readonly feed: Feed
  /** The place after which a subscriber that asks for nothing begins; `undefined` where nothing is kept. */
  now(): Promise<After | undefined>
}

type Listener = (items: readonly Item[], holds: Promise<void>[]) => void
type Sink = Pick<SubscriberQueue, 'push' | 'room'>
interface Wanted {
  readonly match: (delivery: Delivery) => boolean
  readonly after: After | undefined
  readonly signal: AbortSignal
  readonly report: Report
  readonly fail: Report
}

export function fanOut(options: { history: History | undefined; clock: Clock }): FanOut {
  const { history, clock } = options
  const live = new Set<Listener>()
  const followers = new Set<() => void>()
  const groups = new Map<string, Group>()
  let newest: Place | undefined
  let turn: Promise<unknown> = Promise.resolve()

  let origin: Promise<string> | undefined
  /** Asked first, and once: whoever keeps the history may have newcomers wait until its publisher has come to the end of it. */
  const originIn = (history: History) => {
    origin ??= history.published().catch((error) => {
      origin = undefined
      throw error
    })
    return origin
  }
  const now = async () => {
    if (!history) return undefined
    const from = await originIn(history)
    return newest ?? from
  }

  /**
   * A publisher that goes back repeats itself, unless the history was set back and gives the same places to something else. Then nobody begins at a
   * place that is lost, and who has come to one is told.
   */
  const lookBack = async (history: History, place: Place) => {
    try {
      for await (const _ of history.read(place, UNENDED)) return
    } catch (error) {
      if (!isForGood(error)) throw error
      newest = undefined
      origin = undefined
      for (const lookAgain of followers) lookAgain()
    }
  }

  const spread = async (batch: readonly Delivery[]) => {
    const last = batch.at(-1)
    if (!last) return
    if (history && newest && !isAfter(batch[0]!, newest)) await lookBack(history, newest)
    if (!newest || isAfter(last, newest)) newest = placeOf(last)
    if (live.size === 0) return
    const items = batch.map(carried)
    const holds: Promise<void>[] = []
    for (const listener of [...live]) listener(items, holds)
    if (holds.length > 0) await Promise.all(holds)
  }

  const attach = (listener: Listener, signal: AbortSignal) => {
    live.add(listener)
    whenAborted(signal, () => live.delete(listener))
  }

  /** Without a history: what is published while the sink listens, and the publisher waits for a sink that is full. */
  const listen = (sink: Sink, { match, signal }: Wanted) =>
    attach((items, holds) => {
      const held = pushAll(
        sink,
        items.filter(({ delivery }) => match(delivery)),
      )
      if (held) holds.push(held)
    }, signal)

  /**
   * With one: live as long as the sink keeps up, and from the history, at the sink's own pace, whenever it is behind. Everything published is in the
   * history already, so that reading until nothing newer was published, and then listening in the same turn, leaves no gap.
   */
  const follow = async (history: History, sink: Sink, { match, after, signal, report, fail }: Wanted) => {
    let cursor: After
    let behind = true
    attach((items) => {
      for (const item of items) {
        if (behind) return
        if (!isAfter(item.delivery, cursor)) continue // a repeat
        cursor = item.delivery
        const held = match(item.delivery) ? sink.push(item) : undefined
        if (!held) continue
        behind = true
        void held.then(catchUp)
      }
    }, signal)

    const isBehind = () => newest !== undefined && isAfter(newest, cursor)
    const readOn = async (): Promise<boolean> => {
      let read = false
      for await (const delivery of history.read(cursor, signal)) {
        read = true
        if (match(delivery)) sink.push(carried(delivery))
        cursor = placeOf(delivery)
        await sink.room()
      }
      return read
    }
    const catchUp = async () => {
      for (let attempt = 1; !signal.aborted; ) {
        try {
          // What was published while we read is there at the next look. A history that otherwise ends before what was published knows no
          // more: to wait for it would be for ever.
          const before = newest
          const more = await readOn()
          if (signal.aborted || (isBehind() && (more || newest !== before))) continue
          behind = false
          return
        } catch (error) {
          if (isForGood(error)) return fail(error) // a place that the history cannot have made
          report(error)
          await slept(clock, backoffMs(attempt++, clock), signal)
        }
      }
    }
    const lookAgain = () => {
      if (behind) return
      behind = true
      void catchUp()
    }
    followers.add(lookAgain)
    whenAborted(signal, () => followers.delete(lookAgain))
    cursor = after ?? (await now()) ?? ''
    if (after === undefined && !isBehind()) behind = false
    else void catchUp()
  }

  const begin = async (sink: Sink, wanted: Wanted) =>
    history ? await follow(history, sink, wanted) : listen(sink, wanted)

  return {
    now,
    publish(batch) {
      const mine = turn.then(() => spread(batch))
      turn = mine.catch(() => undefined) // the caller hears of it; the next batch has its own fate
      return mine
    },
    async feed({ match, settled, queue, signal, report, fail }) {
      const { group, after } = settled
      if (group === undefined) {
        await begin(queue, { match, after, signal, report, fail })
        return () => undefined
      }
      let known = groups.get(group)
      if (!known) {
        const over = new AbortController()
        const fails = new Set<Report>()
        const shared = sharedQueue(settled, () => {
          groups.delete(group)
          over.abort()
        })
        const failAll = (error: unknown) => {
          for (const failOne of fails) failOne(error)
        }
        const begun = begin(shared, { match, after, signal: over.signal, report, fail: failAll })
        known = { shared, fails, begun }
        groups.set(group, known)
      }
      const { shared, fails, begun } = known
      const leave = shared.join(queue)
      fails.add(fail)
      whenAborted(signal, () => {
        fails.delete(fail)
        leave()
      })
      await begun
      return () => undefined
    },
  }
}

const UNENDED = new AbortController().signal

/** Members share one feed: what becomes of it becomes of all of them. */
interface Group {
  readonly shared: SharedQueue
  readonly fails: Set<Report>
  readonly begun: Promise<void>
}

function pushAll(sink: Sink, items: readonly Item[]): Promise<void> | undefined {
  for (const [i, item] of items.entries()) {
    const held = sink.push(item)
    if (held) return held.then(() => pushAll(sink, items.slice(i + 1)))
  }
  return undefined
}

/** One copy for all: what the publisher does to its own afterwards changes nothing here. */
const carried = (delivery: Delivery): Item => {
  const { copy, bytes } = copied(delivery)
  return { delivery: copy, bytes, shared: true }
}
