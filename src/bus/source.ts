import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed, FellBehind, Refused } from '../protocol/errors.ts'
import { method, needed, refuseUnlessFit } from '../protocol/fields.ts'
import { onAbort } from '../protocol/on-abort.ts'
import { type Report, reporter } from '../protocol/reporter.ts'
import { atMost } from '../protocol/waiting.ts'
import { copied } from './copied.ts'
import { iterate } from './events.ts'
import { matcher } from './filter.ts'
import { handling } from './handling.ts'
import { type SubscriberQueue, subscriberQueue } from './queue.ts'
import { type Settled, settleOptions } from './settle-options.ts'
import type { Delivery, Filter, Handler, Source, SubscribeOptions, Subscription, TransportTraits } from './transport.ts'

/** What every member takes beside its own options. */
export interface SourceOptions {
  readonly clock?: Clock
  /** Told what no subscriber's own `onError` was there to hear. */
  readonly onError?: (error: unknown) => void
  /** How long a close waits for handlers: 5 seconds. */
  readonly graceMs?: number
}

/** One subscription, as a member sees it. */
export interface Feeding {
  readonly filter: Filter
  readonly match: (delivery: Delivery) => boolean
  readonly settled: Settled
  readonly queue: SubscriberQueue
  /** Aborted when nothing more is wanted; what was pushed before is still handled. */
  readonly signal: AbortSignal
  readonly report: Report
  /** Ends the subscription for good with an error. */
  readonly fail: Report
}

/** Pushes what matches into the queue until the signal is aborted. Resolves when ready; what it returns lets go of its connections. */
export type Feed = (feeding: Feeding) => Promise<() => void | Promise<void>>

/** Everything about listening that no carrier is needed for: a member brings its feed. */
export function source(name: string, traits: TransportTraits, feed: Feed, options: SourceOptions = {}): Source {
  const { clock = systemClock, graceMs = 5000 } = options
  const drains = new Set<() => Promise<void>>()
  let closing: Promise<void> | undefined

  const refuseIfClosed = () => {
    if (closing) throw new Closed(name)
  }

  const start = async (filter: Filter, handler: Handler, wanted: SubscribeOptions, onFatal?: Report) => {
    const match = matcher(filter)
    const settled = settleOptions(wanted, traits, name)
    const report = reporter(settled.onError ?? options.onError)
    const fed = new AbortController() // no more is taken in
    const over = new AbortController() // no more is handled
    const call = handling(handler, { attempts: settled.attempts, report, clock, signal: over.signal })
    const queue = subscriberQueue({
      ...settled,
      handle: (item) => call(item.shared ? copied(item.delivery).copy : item.delivery),
      onOverflow: () =>
        fail(
          new FellBehind(
            'a subscriber',
            `more than ${settled.limit} deliveries or ${settled.limitBytes} bytes would wait for it`,
          ),
        ),
    })

    let ending: Promise<void> | undefined
    let tellEnd: (error: unknown) => void
    const ended = new Promise<unknown>((resolve) => {
      tellEnd = resolve
    })
    const end = (error?: unknown, waitMs = graceMs): Promise<void> => {
      ending ??= (async () => {
        fed.abort()
        over.abort()
        forget?.()
        if (!(await atMost(waitMs, queue.end(), clock))) report(leftBehind(name, graceMs))
        queue.abandon()
        await feeding.then(
          (letGo) => letGo(),
          () => undefined, // `start` throws it
        )
        drains.delete(drain)
        tellEnd(error)
      })()
      return ending
    }
    const close = () => end()
    const drain = async () => {
      fed.abort()
      const isIdle = await atMost(graceMs, queue.idle(), clock)
      await end(undefined, isIdle ? graceMs : 0) // it has had its time
    }
    const fail = (error: unknown) => {
      if (ending) return
      const tell = onFatal ?? report
      tell(error)
      void end(error)
    }

    drains.add(drain)
    const forget = settled.signal && onAbort(settled.signal, () => void close())
    const feeding = Promise.resolve().then(() =>
      feed({ filter, match, settled, queue, signal: fed.signal, report, fail }),
    )
    try {
      await feeding
    } catch (error) {
      await end(error)
      throw error
    }
    if (settled.signal?.aborted) await close()
    refuseIfClosed()
    const subscription: Subscription = {
      get dropped() {
        return queue.dropped
      },
      ended,
      close,
    }
    return subscription
  }

  return {
    traits,
    async subscribe(filter, handler, wanted = {}) {
      refuseIfClosed()
      refuseUnlessFit('subscription', { handler }, { handler: needed(method) })
      return start(filter, handler, wanted)
    },
    events(filter, wanted = {}) {
      refuseIfClosed()
      matcher(filter)
      settleOptions(wanted, traits, name)
      return iterate(async (handler) => {
        if (closing || wanted.signal?.aborted) throw new Closed(name) // an end, to an iterable
        return start(filter, handler, wanted, () => undefined) // the iterable throws it
      })
    },
    close() {
      closing ??= Promise.all([...drains].map((drain) => drain())).then(() => undefined)
      return closing
    },
  }
}

/** Who waits for its own end cannot be told from who is slow, or every promise of the process would have to be followed. */
const leftBehind = (name: string, graceMs: number): Refused =>
  new Refused(
    `a handler of ${name} is left behind: it went on for more than ${graceMs} ms after the close`,
    'let it end sooner, raise graceMs, and do not await a close inside of it',
  )
