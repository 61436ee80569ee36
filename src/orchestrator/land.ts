import { FencedOut, OutcomeUnknown, Unavailable } from '../protocol/errors.ts'
import type { Decided, LiveRun } from './live.ts'

const STORE_AWAY_MS = 500

/**
 * Commits what was decided about a run; false when the run is no longer ours. A store that is away is waited for: outcomes are kept, nothing is
 * lost but time.
 */
export async function land(
  run: LiveRun,
  { changes, events, reason, termination }: Pick<Decided, 'changes' | 'events' | 'reason' | 'termination'>,
): Promise<boolean> {
  if (changes.length === 0 && events.length === 0) return true
  for (;;) {
    try {
      await run.graph.commit(changes, {
        actor: 'runtime',
        reason,
        fence: run.owner.fence,
        run: run.id,
        events,
        moreFollows: run.flying.size > 0,
        ...(termination !== undefined && { termination }),
      })
      return true
    } catch (error) {
      if (error instanceof FencedOut || run.owner.lost.aborted) return false
      if (!(error instanceof Unavailable || error instanceof OutcomeUnknown)) throw error
      await run.graph.clock.sleep(STORE_AWAY_MS, run.owner.lost).catch(() => undefined) // lost: seen above
    }
  }
}
