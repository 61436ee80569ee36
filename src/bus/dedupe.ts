import { count, method, needed, refuseUnlessFit } from '../protocol/fields.ts'
import type { Handler } from './transport.ts'

/**
 * Calls the handler once per event, by `event_id`, among the last `limit` events (100,000 unless told otherwise). An event counts from when the
 * handler has returned: one that was thrown at comes through again. A repeat that arrives while the first is still in hand waits for it.
 */
export function dedupe(handler: Handler, options: { readonly limit?: number } = {}): Handler {
  refuseUnlessFit('dedupe', { handler, options }, { handler: needed(method), options: { limit: count } })
  const { limit = 100_000 } = options
  const handled = latest(limit)
  const inHand = new Map<string, Promise<void>>()

  return async (delivery) => {
    const id = delivery.event.event_id
    for (let first = inHand.get(id); first; first = inHand.get(id)) await first.catch(() => undefined) // its own caller hears of it
    if (handled.has(id)) return
    const work = (async () => handler(delivery))()
    inHand.set(id, work)
    try {
      await work
      handled.add(id)
    } finally {
      inHand.delete(id)
    }
  }
}

/** The last ids that were added, and no more of them than this. */
export function latest(limit: number): { has(id: string): boolean; add(id: string): void } {
  const ids = new Set<string>() // in the order in which they came: the first is the oldest
  return {
    has: (id) => ids.has(id),
    add(id) {
      ids.add(id)
      if (ids.size > limit) ids.delete(ids.values().next().value as string)
    },
  }
}
