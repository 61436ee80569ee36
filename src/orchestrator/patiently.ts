import type { Clock } from '../protocol/clock.ts'
import { OutcomeUnknown, Unavailable } from '../protocol/errors.ts'

export const STORE_AWAY_MS = 500

/**
 * Asks the store for something, again and again while it is away: what was done is kept meanwhile, and nothing is lost but time. Throws what it cannot
 * be asked for again, and that it is away once the signal says that waiting is no use.
 */
export type Patiently = <T>(ask: () => Promise<T>, signal: AbortSignal) => Promise<T>

/** Can the store not be reached, or did it not say what became of a write? Then it is worth asking again. */
export const isAway = (error: unknown): error is Unavailable | OutcomeUnknown =>
  error instanceof Unavailable || error instanceof OutcomeUnknown

/** For all who wait for the same store: `onAway` is told of an outage once, however many it holds up. */
export function patientWith(clock: Clock, onAway: (error: unknown) => void): Patiently {
  let heldUp = 0
  return async (ask, signal) => {
    let failed = false
    let told = false
    try {
      for (;;) {
        try {
          return await ask()
        } catch (error) {
          if (!isAway(error) || signal.aborted) throw error
          // What fails once and then not is no outage; what is unknown was asked after for long.
          if (!told && (failed || error instanceof OutcomeUnknown)) {
            told = true
            if (heldUp++ === 0) onAway(error)
          }
          failed = true
        }
        await clock.sleep(STORE_AWAY_MS, signal).catch(() => undefined) // aborted: asked a last time
      }
    } finally {
      if (told) heldUp--
    }
  }
}
