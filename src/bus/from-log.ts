import { systemClock } from '../protocol/clock.ts'
import { Closed, Unavailable } from '../protocol/errors.ts'
import { having, method, needed, object, refuseUnlessFit, text } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import { backoffMs, slept } from '../protocol/waiting.ts'
import { checkMember } from './check-options.ts'
import { copied } from './copied.ts'
import { aheadOf, asDelivery, checkBatch, isBefore, placeOf } from './delivery.ts'
import { foreign, isForGood } from './foreign.ts'
import { type Feed, type SourceOptions, source } from './source.ts'
import type { After, Delivery, Place, Transport, TransportTraits } from './transport.ts'

/** Where deliveries are kept in the order in which they came, and can be read on from any of them: a topic, a table, a file of lines. */
export interface DeliveryLog {
  /** How errors call it: `the shelf`. */
  readonly name: string
  readonly traits: Pick<TransportTraits, 'durable' | 'processes' | 'within'>
  /** Resolves once all of it is kept, in this order; a batch may be given again. Throws Unavailable, TooLarge or Refused. */
  append(batch: readonly Delivery[]): Promise<void>
  /**
   * What came after a place, in order, and then what comes, until the signal is aborted. It is read again, after the last that it gave, when it ends by
   * itself or throws what may pass; anything else of ours that it throws ends the subscription.
   */
  read(after: After, signal: AbortSignal): AsyncIterable<Delivery>
  /** Of the last delivery that is kept; `undefined` when there is none. */
  newest(): Promise<Place | undefined>
  close?(): Promise<void>
}

/** A transport over a log of your own: filters, limits, overflow, copies, iterables and closing are as everywhere. It has no groups. */
export function fromLog(log: DeliveryLog, options: SourceOptions = {}): Transport {
  refuseUnlessFit('log', { log }, { log: needed(having('a log: append, read, newest', 'append', 'read', 'newest')) })
  const { name, close } = log
  refuseUnlessFit(
    'log',
    { name, traits: log.traits, close },
    { name: needed(text), traits: needed(object), close: method },
  )
  checkMember(name, options, {})
  const { clock = systemClock } = options
  const { durable, processes, within } = log.traits
  const traits: TransportTraits = { retains: true, durable, processes, ...given({ within }), groups: false }

  const feed: Feed = async ({ match, settled: { after }, queue, signal, report, fail }) => {
    const newest = await log.newest()
    if (after && !(newest && !isBefore(newest, after))) throw aheadOf(name, after)
    let cursor: After = after ?? newest ?? ''
    const readOn = async () => {
      for await (const found of log.read(cursor, signal)) {
        if (signal.aborted) return
        const { copy, bytes } = copied(asDelivery(found, name))
        cursor = placeOf(copy)
        if (match(copy)) await queue.push({ delivery: copy, bytes })
      }
    }
    const follow = async () => {
      for (let attempt = 1; !signal.aborted; attempt++) {
        const before = cursor
        try {
          await readOn()
          if (!signal.aborted) throw new Unavailable(name, 'reading ended by itself, and is begun again')
        } catch (error) {
          if (signal.aborted) return
          if (isForGood(error)) return fail(error)
          report(foreign(name, 'reading it', error))
          if (cursor !== before) attempt = 1
          await slept(clock, backoffMs(attempt, clock), signal)
        }
      }
    }
    void follow()
    return () => undefined
  }

  const listening = source(name, traits, feed, options)
  let closing: Promise<void> | undefined
  return {
    ...listening,
    async publish(batch) {
      if (closing) throw new Closed(name)
      checkBatch(batch)
      await log.append(batch.map((delivery) => copied(delivery).copy)) // what the publisher does to its own afterwards changes nothing
    },
    close() {
      closing ??= listening.close().then(() => log.close?.())
      return closing
    },
  }
}
