import type { JsonObject } from '../protocol/json.ts'

/** One committed event on its way: where it stands in the store and in its graph, and the event itself, untouched. */
export interface Delivery {
  /** The store's position of the commit that bore it; text order is feed order. */
  readonly position: string
  readonly graph_id: string
  readonly context_id: string
  readonly plan_id?: string
  /** The commit's revision in its graph, and the event's place within the commit. */
  readonly revision: number
  readonly index: number
  readonly event: BusEvent
}

/** What every event shape on the bus shares. SA and MAP events have no family. */
export type BusEvent = JsonObject & {
  readonly event_id: string
  readonly event_type: string
  readonly event_family?: string
  readonly timestamp: string
}

/** Everything given must match; a list matches any of its members. An empty filter matches all. */
export interface Filter {
  readonly family?: string | readonly string[]
  readonly type?: string | readonly string[]
  readonly graph?: string | readonly string[]
  readonly context?: string | readonly string[]
  readonly plan?: string | readonly string[]
}

/**
 * Carries deliveries. Within one graph, first deliveries arrive in order; a repeat may come late and is equal to the first in `event_id`,
 * revision and index. After `close`, every call throws Closed.
 */
export interface Transport {
  /** Resolves once the carrier has all of it for good (as `traits` say); throws Unavailable, and then some of it may have been carried. */
  publish(batch: readonly Delivery[]): Promise<void>
  /**
   * Calls the handler with one delivery at a time, waiting for it. Ready (nothing published from now on is missed) when the promise resolves.
   * With `group`, the group's members share the deliveries and what was handled is remembered by the carrier: a delivery counts as handled
   * when the handler has returned. Without, every subscriber gets all. A handler that throws is reported to `onError` and hurts nobody else.
   */
  subscribe(filter: Filter, handler: Handler, options?: SubscribeOptions): Promise<Subscription>
  /** The same as an iterable; ends, without an error, when the signal is aborted or the transport closed. */
  events(filter: Filter, options?: { after?: string; signal?: AbortSignal }): AsyncIterable<Delivery>
  readonly traits: TransportTraits
  close(): Promise<void>
}

export interface TransportTraits {
  /** Does the carrier keep deliveries, so that `after` and `group` reach back before the subscription? */
  readonly retains: boolean
  /** Do subscribers in other processes receive? */
  readonly processes: 'one' | 'many'
  /** Do groups share? */
  readonly groups: boolean
}

export type Handler = (delivery: Delivery) => void | Promise<void>

export interface SubscribeOptions {
  readonly group?: string
  /** Deliveries after this position; from now on when absent. */
  readonly after?: string
  /** How many deliveries may wait for this subscriber. */
  readonly limit?: number
  /** What happens when more would wait: hold the publisher back, lose the oldest (counted), or end this subscription with an error. */
  readonly overflow?: 'wait' | 'drop_oldest' | 'disconnect'
  readonly onError?: (error: unknown) => void
}

export interface Subscription {
  /** How many deliveries `drop_oldest` has lost. */
  readonly dropped: number
  /** Lets the handler finish what it has in hand, then stops. Safe to call twice. */
  close(): Promise<void>
}
