import { setTimeout as aWhile } from 'node:timers/promises'
import type { Clock } from '../protocol/clock.ts'
import type { Batch } from './relay-feed.ts'

/**
 * While others use the thread, so many bytes a millisecond are told and no more: whoever commits comes first, and what they committed follows. The
 * older it is by then, the more, up to a limit. A thread that nobody else uses is never waited for. A bus outside of the process costs the machine
 * several times as much as one within.
 */
const BUSY_RATE = { outside: 2 * 1024, within: 4 * 1024 } as const
/** Being so far behind doubles it, but never more than so often. */
const BEHIND_MS = 10_000
const MOST_HASTE = 4
/** Time that went by unused counts for so long. */
const SAVED_MS = 250
/** How long the thread is looked at, and how much of that time it must have rested to count as free. */
const LOOK_MS = 10
const RESTED = 0.9

/** Waits after a batch for as long as it was worth, unless the thread is free; not at all once the signal is aborted. */
export type Pace = (batch: Batch, signal: AbortSignal) => Promise<void>

export function pace(bus: keyof typeof BUSY_RATE, clock: Clock): Pace {
  let due = 0
  return async ({ bytes, deliveries }, signal) => {
    const told = Date.parse(String(deliveries.at(-1)?.event.timestamp))
    const behind = Math.max(0, clock.now() - told) || 0 // none of a batch without a time
    const rate = BUSY_RATE[bus] * Math.min(MOST_HASTE, 1 + behind / BEHIND_MS)
    due = Math.max(due, performance.now() - SAVED_MS) + bytes / rate
    while (performance.now() < due && !signal.aborted) {
      const before = performance.eventLoopUtilization()
      await aWhile(LOOK_MS)
      const { idle, active } = performance.eventLoopUtilization(before)
      if (idle >= RESTED * (idle + active)) due = 0
    }
  }
}
