import { FencedOut } from '../protocol/errors.ts'
import type { Change } from '../psg/change.ts'
import type { Wanted } from '../psg/graph.ts'
import type { Decided, LiveRun } from './live.ts'
import { patiently } from './patiently.ts'

/** Commits what was decided about a run; false when the run is no longer ours. A store that is away is waited for. */
export async function land(run: LiveRun, { changes, events, reason, termination, taken }: Landing): Promise<boolean> {
  if (typeof changes !== 'function' && changes.length === 0 && events.length === 0) return true
  const wanted = taken && typeof changes !== 'function' ? () => keepingWishes(run, changes, taken) : changes
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
    await patiently(() => run.graph.commit(wanted, options), run.graph.clock, run.owner.lost)
    return true
  } catch (error) {
    if (error instanceof FencedOut || run.owner.lost.aborted) return false
    throw error
  }
}

type Landing = Pick<Decided, 'events' | 'reason' | 'termination' | 'taken'> & { readonly changes: Wanted }

/** Somebody may have asked for something else since the tick looked: that stays asked for, and the next tick takes it in. */
function keepingWishes(run: LiveRun, changes: readonly Change[], taken: NonNullable<Decided['taken']>) {
  const requested = run.graph.get('run', run.id)?.data.requested
  if (requested === taken.requested) return changes
  return changes.map((change) => (change === taken.by ? { ...taken.by, set: { ...taken.by.set, requested } } : change))
}
