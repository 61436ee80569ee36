import { Closed } from '../protocol/errors.ts'
import { leavable } from '../protocol/leavable.ts'
import type { Delivery, Handler, Subscription } from './transport.ts'

/** A subscription as an iterable: a delivery counts as handled when the consumer asks for the next. Throws what ended the subscription. */
export function iterate(subscribe: Subscribing): AsyncGenerator<Delivery, void, undefined> {
  const hand = handOver()
  return leavable(walk(subscribe, hand), () => hand.end(undefined))
}
type Subscribing = (handler: Handler) => Promise<Subscription>

async function* walk(subscribe: Subscribing, hand: ReturnType<typeof handOver>): AsyncGenerator<Delivery, void> {
  let subscription: Subscription
  try {
    subscription = await subscribe(hand.give)
  } catch (error) {
    if (error instanceof Closed) return // closed between the call and the first `next()`
    throw error
  }
  subscription.ended.then(hand.end)
  try {
    for (let delivery = await hand.take(); delivery; delivery = await hand.take()) yield delivery
  } finally {
    hand.end(undefined)
    await subscription.close()
  }
}

/** One delivery at a time, from a giver that waits to a taker that waits. */
function handOver() {
  let offer: { readonly delivery: Delivery; readonly done: () => void; taken: boolean } | undefined
  let wake: () => void = () => undefined
  let over = false
  let failure: unknown

  return {
    give: (delivery: Delivery): Promise<void> =>
      new Promise((resolve) => {
        if (over) return resolve()
        offer = { delivery, done: resolve, taken: false }
        wake()
      }),
    async take(): Promise<Delivery | undefined> {
      if (offer?.taken) {
        offer.done()
        offer = undefined
      }
      while (!offer && !over) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      if (offer) {
        offer.taken = true
        return offer.delivery
      }
      if (failure !== undefined) throw failure
      return undefined
    },
    end(error: unknown) {
      over = true
      failure ??= error
      offer?.done()
      wake()
    },
  }
}
