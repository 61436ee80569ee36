import type { Clock } from '../protocol/clock.ts'
import { OutcomeUnknown, Unavailable } from '../protocol/errors.ts'

const STORE_AWAY_MS = 500

/**
 * Asks the store for something, again and again while it is away: what was done is kept meanwhile, and nothing is lost but time. Throws what it cannot
 * be asked for again, and that it is away once the signal says that waiting is no use.
 */
export async function patiently<T>(ask: () => Promise<T>, clock: Clock, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      const away = error instanceof Unavailable || error instanceof OutcomeUnknown
      if (!away || signal.aborted) throw error
      await clock.sleep(STORE_AWAY_MS, signal).catch(() => undefined) // aborted: asked a last time
    }
  }
}
