import { isThenable } from '../ael/promised.ts'
import { busName } from '../bus/check-options.ts'
import { foreign } from '../bus/foreign.ts'
import type { Delivery, Transport } from '../bus/transport.ts'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed, FencedOut, InvalidInput, Refused, RevisionConflict } from '../protocol/errors.ts'
import {
  clock as clockField,
  count,
  duration,
  type Field,
  type Fields,
  flag,
  having,
  method,
  needed,
  object,
  positive,
  refuseUnlessFit,
  signal as signalField,
} from '../protocol/fields.ts'
import { reporter } from '../protocol/reporter.ts'
import { atMost, backoffMs, slept, unlessAborted } from '../protocol/waiting.ts'
import type { Backend, Holder, Position } from '../vsl/backend.ts'
import { store as storeField } from '../vsl/check-options.ts'
import { wakeable } from '../vsl/wakeable.ts'
import { own, TTL_MS } from './owner.ts'
import { type Bounds, type Reached, readAhead } from './relay-feed.ts'
import { pace } from './relay-pace.ts'
import {
  begunPosition,
  behind,
  isStill,
  positionKey,
  relayStream,
  storedPosition,
  waitingMs,
} from './relay-position.ts'
import { unlessSilent } from './unless-silent.ts'

export interface RelayOptions {
  readonly store: Backend
  readonly transport: Transport
  /** The bus's name, under which its position is kept: another name begins at the beginning. */
  readonly name: string
  readonly holder: Holder
  /**
   * Of all processes one relays, by lease, because the bus is outside of them: the default unless its traits say that it lives in this process
   * (memory, WebSocket). Then every process feeds its own, and they share the memory of how far any of them has come.
   */
  readonly exclusive?: boolean
  readonly clock?: Clock
  readonly leaseTtlMs?: number
  /** How much is published at once: 1,000 deliveries, 1 MiB. */
  readonly batch?: Partial<Bounds>
  /** The position is moved no more often than this, so that it costs the commits little: a crash repeats what was published since. Default 100. */
  readonly moveEveryMs?: number
  /** How long a close waits for the bus: 5 seconds. */
  readonly graceMs?: number
  readonly onError?: (error: unknown) => void
}

/** Carries what is committed to one bus. */
export interface Relay {
  /** Does this relay feed the bus now, and not another process's? */
  readonly active: boolean
  /** Resolves once everything committed before the call is on the bus, whichever relay brings it there; false when the signal or a close ends the wait first. */
  flush(signal?: AbortSignal): Promise<boolean>
  /** How long the oldest commit that is not on the bus has been waiting for that; 0 when there is none. */
  behindMs(): Promise<number>
  /** Publishes what has been read already, moves the position, gives the lease back. A bus that does not answer is not waited for long. Safe to call twice. */
  close(): Promise<void>
}

/**
 * Follows the store's feed from the bus's position, publishes in order, and moves the position once the bus has confirmed: what is committed reaches
 * the bus at least once, and nothing else does. Goes on for ever, through failures of store and bus; a commit never waits for it.
 */
export function relay(options: RelayOptions): Relay {
  refuseUnlessFit('relay', options, OPTIONS)
  const { store, transport, name, holder, clock = systemClock, leaseTtlMs = TTL_MS } = options
  const { exclusive = !transport.traits?.within } = options // only `publish` is asked of a transport
  const { moveEveryMs = 100, graceMs = 5000 } = options
  const bounds = { deliveries: 1000, bytes: 1024 * 1024, ...options.batch }
  const stream = relayStream(name)
  const report = reporter(options.onError)
  const closing = new AbortController()
  const tooLate = new AbortController()
  const progress = wakeable()
  let active = false
  let begun = false
  let confirmed: Position = ''
  let reached: Reached | undefined

  /** True once the bus has it; false when that is no longer ours to see to. */
  const publish = async (
    deliveries: readonly Delivery[],
    lost: AbortSignal,
    stopped: AbortSignal,
  ): Promise<boolean> => {
    for (let attempt = 1; !lost.aborted; attempt++) {
      try {
        if (deliveries.length === 0) return true
        const published = promised(transport.publish(deliveries), name).then(() => true)
        return (await unlessAborted(published, lost)) ?? false
      } catch (error) {
        if (error instanceof Closed) throw error
        report(foreign(`the bus ${name}`, 'its publish', error))
        if (closing.signal.aborted) return false
        await slept(clock, backoffMs(attempt, clock), stopped)
      }
    }
    return false
  }

  /** Moves the position while batches are confirmed, until what it gives is called, and then a last time. */
  const startMoving = (fence: number | undefined, revision: number, from: Position, onFencedOut: () => void) => {
    const stop = new AbortController()
    let moved = from
    let isDoubtful = false
    const move = async () => {
      if (moved === confirmed || !begun) return
      const to = confirmed
      if (isDoubtful && reached && !(await isStill(store, reached))) return // set back while it was away, as the feed will tell: nothing of it is behind us
      isDoubtful = false
      const isThere = !exclusive && (await storedPosition(store, name)) >= to // another process has come as far
      const guard = { stream, expected: revision, ...(fence !== undefined && { fence }) }
      if (!isThere) await store.commit({ ...guard, inserts: [], puts: [[positionKey(name), to]], deletes: [] })
      moved = to
    }
    const tryMove = () =>
      move().catch((error) => {
        if (error instanceof FencedOut || error instanceof RevisionConflict) return onFencedOut()
        isDoubtful = true
        report(error)
      })
    const moving = (async () => {
      while (!stop.signal.aborted) {
        if (moved === confirmed) await progress.wait(stop.signal)
        await tryMove()
        await slept(clock, moveEveryMs, stop.signal)
      }
    })()
    return async () => {
      stop.abort()
      await moving
      await tryMove()
    }
  }

  /** Relays until the lease is lost, the relay closed, or the feed broken. */
  const carry = async (fence: number | undefined, lease: AbortSignal) => {
    const { revision } = await store.head(stream)
    const stored = await begunPosition(
      store,
      name,
      { stream, expected: revision, ...(fence !== undefined && { fence }) },
      report,
    )
    // A bus of this process goes on after what it was told itself: others may have moved the position they share past that.
    if (exclusive || !begun) confirmed = stored
    begun = true
    reached = undefined
    const from = confirmed
    const fencedOut = new AbortController()
    const lost = AbortSignal.any([lease, fencedOut.signal, tooLate.signal])
    const stopped = AbortSignal.any([lost, closing.signal])
    const feed = store.feed({ ...behind(from), follow: true, signal: stopped })
    active = true
    const ahead = readAhead(feed, bounds)
    const giveWay = pace(exclusive ? 'outside' : 'within', clock)
    const finishMoving = startMoving(fence, revision, stored, () => fencedOut.abort())
    try {
      for (let batch = await ahead.take(); batch; batch = await ahead.take()) {
        if (!(await publish(batch.deliveries, lost, stopped))) break
        if (batch.reached) {
          reached = batch.reached
          confirmed = reached.position
          progress.wake()
        }
        await giveWay(batch, stopped)
      }
    } catch (error) {
      if (error instanceof InvalidInput) begun = false // the store has lost the place where we are: it knows best where to go on
      throw error
    } finally {
      active = false
      ahead.stop()
      await finishMoving()
    }
  }

  const run = async () => {
    for (let failures = 0; !closing.signal.aborted; ) {
      try {
        const mine = exclusive ? await own(stream, { store, clock, holder, ttlMs: leaseTtlMs }) : uncontested()
        if (!mine) {
          await slept(clock, leaseTtlMs / 3, closing.signal)
          continue
        }
        await carry(mine.fence, mine.lost).finally(() => mine.release().catch(report))
        failures = 0
      } catch (error) {
        report(error)
        if (error instanceof Closed) return
        await slept(clock, backoffMs(++failures, clock), closing.signal)
      }
    }
  }
  const running = run()
  const place = async () => (active || (!exclusive && begun) ? confirmed : storedPosition(store, name))

  return {
    get active() {
      return active
    },
    async flush(signal = new AbortController().signal) {
      refuseUnlessFit('flush', { signal }, { signal: signalField })
      let target = await place()
      for await (const entry of store.feed({ ...behind(target), signal })) target = entry.position
      while ((await place()) < target) {
        if (signal.aborted || closing.signal.aborted) return false
        const turn = new AbortController()
        await Promise.race([progress.wait(turn.signal), slept(clock, LOOK_AGAIN_MS, turn.signal)])
        turn.abort()
      }
      return true
    },
    behindMs: async () => waitingMs(store, await place(), clock),
    async close() {
      closing.abort()
      await atMost(graceMs, running, clock)
      tooLate.abort()
      await unlessSilent(running, clock)
    },
  }
}

/** Without a promise, all would count as published that may never be. */
export function promised(publishing: Promise<void>, name: string): Promise<void> {
  if (isThenable(publishing)) return Promise.resolve(publishing)
  const remedy = 'return a promise that resolves once the bus has the batch'
  throw new Refused(`nobody can know when the bus ${name} has what was published: its publish gives no promise`, remedy)
}

/** How often somebody who waits looks whether another process's relay has come further. */
const LOOK_AGAIN_MS = 100

const uncontested = () => ({ fence: undefined, lost: new AbortController().signal, release: async () => undefined })

const OPTIONS: { readonly [O in keyof Required<RelayOptions>]: Field | Fields } = {
  store: needed(storeField),
  transport: needed(having('a transport', 'publish')),
  name: needed(busName),
  holder: needed(object),
  exclusive: flag,
  clock: clockField,
  leaseTtlMs: positive,
  batch: { deliveries: count, bytes: count },
  moveEveryMs: count,
  graceMs: duration,
  onError: method,
}
