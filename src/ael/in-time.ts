import { type Clock, timer } from '../protocol/clock.ts'
import { timedOut } from './failure.ts'

/** The promise, unless it takes longer than it may: then throws an ActionError that says of what. */
export async function inTime<T>(promise: Promise<T>, ms: number, what: string, clock: Clock): Promise<T> {
  let forget: (() => void) | undefined
  const late = new Promise<never>((_, reject) => {
    forget = timer(clock, ms, () => reject(timedOut(what, ms)))
  })
  return await Promise.race([promise, late]).finally(forget)
}
