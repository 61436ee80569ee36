import type { JsonObject } from '../protocol/json.ts'

/** One committed event on its way: where it stands in the store and in its graph, and the event itself, untouched. */
export interface Delivery extends Place {
  readonly context_id: string
  readonly plan_id?: string
  readonly event: BusEvent
}

/** Where a delivery stands. A commit may bear several events: they share a position, and `index` tells them apart. */
export interface Place {
  /** The store's position of the commit that bore it; text order is feed order. */
  readonly position: string
  readonly graph_id: string
  /** The commit's revision in its graph, and the event's place within the commit. */
  readonly revision: number
  readonly index: number
}

/** After a whole commit (its position), or after one delivery (any delivery will do). The empty text is before everything. */
export type After = string | Place

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
 * Where deliveries come from. Within one graph, first deliveries arrive in order; a repeat may come late and is equal to the first in
 * `event_id`, revision and index. Every subscriber has its own copy. After `close`, every call throws Closed.
 */
export interface Source {
  /**
   * Calls the handler with one delivery at a time, waiting for it. Ready (nothing published from now on is missed) when the promise resolves.
   * Without `group`, every subscriber gets all. With it, the group's members share: a delivery counts as handled when the handler has
   * returned, and what a vanished member had in hand is given to another. A handler that throws is reported to `onError` and hurts nobody
   * else. Throws InvalidInput for an unknown filter or option, Refused for what the traits say this carrier cannot do.
   */
  subscribe(filter: Filter, handler: Handler, options?: SubscribeOptions): Promise<Subscription>
  /** The same as an iterable, beginning with the first `next()`. Ends, without an error, when the signal is aborted, the source closed, or it is left, also while nothing comes. */
  events(filter: Filter, options?: EventsOptions): AsyncIterable<Delivery>
  readonly traits: TransportTraits
  /** Lets handlers finish what they have been given, for a bounded time. Safe to call twice. */
  close(): Promise<void>
}

/** Carries deliveries. */
export interface Transport extends Source {
  /**
   * Takes deliveries in feed order, one batch at a time; a batch may be given again. Resolves once the carrier has all of it (as `traits` say).
   * Throws Unavailable, and then some of it may have been carried; TooLarge or Refused when only a person can help.
   */
  publish(batch: readonly Delivery[]): Promise<void>
}

export interface TransportTraits {
  /** Can `after` reach back before the subscription? */
  readonly retains: boolean
  /** Does what was confirmed survive the carrier's own restart? */
  readonly durable: boolean
  /** Do subscribers in other processes receive? */
  readonly processes: 'one' | 'many'
  /** Does it live in the process that opened it, so that each has to feed its own? Otherwise one at a time feeds it for all. */
  readonly within?: boolean
  /** False where there are none. */
  readonly groups: false | GroupTraits
}

export interface GroupTraits {
  /** Is one graph handled in order whichever member gets it? Otherwise only while the group has one member. */
  readonly inOrder: boolean
  /** Does a group without members still collect what is published? */
  readonly remembered: boolean
}

export type Handler = (delivery: Delivery) => void | Promise<void>

export interface SubscribeOptions extends EventsOptions {
  /** Its members give the same filter. A group that the carrier already knows goes on where it was, whatever `after` says. */
  readonly group?: string
  /** How often in all a delivery is given to a handler that throws; then it counts as handled. 1, or 5 in a group. */
  readonly attempts?: number
  readonly onError?: (error: unknown) => void
}

export interface EventsOptions {
  /**
   * Deliveries after this; from now on when absent. A place that the carrier has not come to, as after an older backup of the store was put back,
   * is refused, or ends the subscription: who waited behind it would miss all that comes until then.
   */
  readonly after?: After
  /** How many deliveries, and how many bytes of them, may wait for this subscriber: 1,000 and 16 MiB. */
  readonly limit?: number
  readonly limitBytes?: number
  /**
   * What happens when more would wait: hold the carrier back, lose the oldest (counted), or end this subscription with FellBehind. Where the
   * carrier retains, holding back delays nobody else and is the default; otherwise it holds the publisher, and `disconnect` is the default.
   * A group always holds back.
   */
  readonly overflow?: Overflow
  /** Ends the subscription like `close`. */
  readonly signal?: AbortSignal
}

export type Overflow = 'wait' | 'drop_oldest' | 'disconnect'

export interface Subscription {
  /** How many deliveries `drop_oldest` has lost. */
  readonly dropped: number
  /** Settles when nothing more will come: with the error that ended it, or with `undefined` after a close. Never rejects. */
  readonly ended: Promise<unknown>
  /**
   * Lets the handler finish the one delivery it has in hand, for a bounded time, and forgets those that wait. Safe to call twice. A handler may
   * call it, or the source's, but not await it: it would wait for itself until that time is over.
   */
  close(): Promise<void>
}
