import type { Clock } from './clock.ts'
import { whenAborted } from './on-abort.ts'

/** Doubles from 100 ms to 10 s, of which up to half is left to chance. */
export const backoffMs = (attempt: number, clock: Clock): number =>
  Math.min(10_000, 50 * 2 ** attempt) * (1 - clock.random() / 2)

/** True after the time, false when the signal was aborted first. */
export const slept = (clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> =>
  clock.sleep(ms, signal).then(
    () => true,
    () => false,
  )

/** Waits for the work, but not longer than this: false when it was still going on then. */
export async function atMost(ms: number, work: Promise<unknown>, clock: Clock): Promise<boolean> {
  const over = new AbortController()
  try {
    return await Promise.race([work.then(() => true), slept(clock, ms, over.signal).then(() => false)])
  } finally {
    over.abort()
  }
}

/** The work's result, or `undefined` as soon as the signal is aborted; as many as like may wait by one signal, and nothing of a wait is left on it. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const forget = whenAborted(signal, () => resolve(undefined))
    work.then(resolve, reject).finally(forget)
  })
}
