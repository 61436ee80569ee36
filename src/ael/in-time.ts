import { type Clock, timer } from '../protocol/clock.ts'
import type { Adapter } from './adapter.ts'
import { timedOut } from './failure.ts'

/** The promise, unless it takes longer than it may: then throws an ActionError that says of what. */
export async function inTime<T>(promise: Promise<T>, ms: number, what: string, clock: Clock): Promise<T> {
  let forget: (() => void) | undefined
  const late = new Promise<never>((_, reject) => {
    forget = timer(clock, ms, () => reject(timedOut(what, ms)))
  })
  return await Promise.race([promise, late]).finally(forget)
}

/** One that takes longer keeps nobody from closing the rest. */
const CLOSE_MS = 10_000

/** Throws what the adapter throws, and an ActionError when it does not come to its end in time. */
export async function closeInTime(adapter: Adapter, clock: Clock): Promise<void> {
  const closing = adapter.close?.()
  if (closing) await inTime(closing, CLOSE_MS, `closing the adapter for actions of type ${adapter.action_type}`, clock)
}
