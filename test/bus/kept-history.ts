import { isAfter, isBefore } from '../../src/bus/delivery.ts'
import type { History } from '../../src/bus/fan-out.ts'
import type { Delivery, Transport } from '../../src/bus/transport.ts'
import { aheadOfStore } from '../../src/vsl/check-input.ts'

/** What a store is to a carrier that keeps nothing: everything is here before it is published, once. */
export interface KeptHistory extends History {
  readonly kept: Delivery[]
  /** The transport, whose publisher keeps first. */
  over(transport: Transport): Transport
}

export function keptHistory(): KeptHistory {
  const kept: Delivery[] = []
  return {
    kept,
    async *read(after, signal) {
      const before = structuredClone(kept)
      if (after !== '' && before.every((delivery) => isBefore(delivery, after)))
        throw aheadOfStore(typeof after === 'string' ? after : after.position)
      for (const delivery of before) {
        if (signal.aborted) return
        if (isAfter(delivery, after)) yield delivery
      }
    },
    published: async () => '',
    over: (transport) => ({
      ...transport,
      async publish(batch) {
        const newest = kept.at(-1)
        if (Array.isArray(batch) && batch.every((d) => d.event))
          kept.push(...structuredClone(batch).filter((d) => !newest || isAfter(d, newest)))
        await transport.publish(batch)
      },
    }),
  }
}
