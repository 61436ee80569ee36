import { FencedOut } from '../protocol/errors.ts'
import type { Decided, LiveRun } from './live.ts'
import { patiently } from './patiently.ts'

/** Commits what was decided about a run; false when the run is no longer ours. A store that is away is waited for. */
export async function land(
  run: LiveRun,
  { changes, events, reason, termination }: Pick<Decided, 'changes' | 'events' | 'reason' | 'termination'>,
): Promise<boolean> {
  if (changes.length === 0 && events.length === 0) return true
  const options = {
    actor: 'runtime',
    reason,
    fence: run.owner.fence,
    run: run.id,
    events,
    moreFollows: run.flying.size > 0,
    ...(termination !== undefined && { termination }),
  }
  try {
    await patiently(() => run.graph.commit(changes, options), run.graph.clock, run.owner.lost)
    return true
  } catch (error) {
    if (error instanceof FencedOut || run.owner.lost.aborted) return false
    throw error
  }
}
