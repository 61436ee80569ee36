import type { Clock } from '../protocol/clock.ts'
import type { Report } from '../protocol/reporter.ts'
import { slept } from '../protocol/waiting.ts'
import type { TrimOptions } from './trim.ts'

interface Keeping {
  readonly keepEndedMs: number
  readonly trim: (options: TrimOptions) => Promise<unknown>
  readonly clock: Clock
  readonly onError: Report
}

/** So often somebody looks for what has become too old. */
const EVERY_MS = 3_600_000

/** Takes away what ended longer ago than it is to be kept, now and every hour. Answers with what stops it, once it has come to a boundary. */
export function keepEnded({ keepEndedMs, trim, clock, onError }: Keeping): () => Promise<void> {
  const stop = new AbortController()
  const { signal } = stop
  const going = (async () => {
    do {
      const before = new Date(Math.max(0, clock.now() - keepEndedMs)).toISOString() // what is to be kept for longer than there are dates, too
      await trim({ before, signal }).catch((error) => signal.aborted || onError(error))
    } while (await slept(clock, EVERY_MS, signal))
  })()
  return () => {
    stop.abort()
    return going
  }
}
