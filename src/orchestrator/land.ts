import { FencedOut, RevisionConflict } from '../protocol/errors.ts'
import type { Change } from '../psg/change.ts'
import { isUnanswered } from '../psg/confirm.ts'
import type { ProjectGraph, Wanted } from '../psg/graph.ts'
import type { Decided, LiveRun } from './live.ts'
import { type SessionAsked, sessionCloses } from './session.ts'

/** Commits what was decided about a run; false when the run is no longer ours. A store that is away is waited for. */
export async function land(run: LiveRun, landing: Landing): Promise<boolean> {
  const { changes, events, reason, termination } = landing
  if (typeof changes !== 'function' && changes.length === 0 && events.length === 0) return true
  const wanted = () => {
    run.owner.lost.throwIfAborted()
    return typeof changes === 'function' ? changes() : asItStands(run, asWished(run, changes, landing), landing)
  }
  const options = {
    actor: 'runtime',
    reason,
    fence: run.owner.fence,
    run: run.id,
    events,
    ...(termination !== undefined && { termination }),
  }
  for (;;) {
    try {
      await run.patiently(() => run.graph.commit(wanted, options), run.owner.lost)
      return true
    } catch (error) {
      if (error instanceof FencedOut || run.owner.lost.aborted) return false
      if (!(error instanceof RevisionConflict)) throw error // others may write first for as long as they like: no reason for a run to fail
    }
  }
}

type Landing = Pick<Decided, 'events' | 'reason' | 'termination' | 'taken' | 'begins'> &
  Partial<Pick<Decided, 'end'>> & { readonly changes: Wanted }

/** Thrown when a tick would let steps begin of which somebody has asked meanwhile that none should. */
export const UNWISHED = new Error('somebody has asked to cancel or pause the run, or its session')

/** Somebody may have asked for something else since the tick looked: that stays asked for, and the next tick takes it in. */
function asWished(run: LiveRun, changes: readonly Change[], { taken, begins, end }: Landing): readonly Change[] {
  const requested = run.graph.get('run', run.id)?.data.requested
  const isMore = begins !== undefined && begins.changes < changes.length && end === undefined
  if (isMore && run.session && !isOpen(run.graph, run.session.options)) throw UNWISHED
  if (requested === taken?.requested) return changes
  if (isMore && (requested === 'cancel' || requested === 'pause')) throw UNWISHED
  return taken
    ? changes.map((change) => (change === taken.by ? { ...taken.by, set: { ...taken.by.set, requested } } : change))
    : changes
}

/** Leaves out what others have settled since the tick looked, questions and the session: refused for these, all that arrived would be lost and done again. */
function asItStands(
  { graph, looked, session }: LiveRun,
  changes: readonly Change[],
  { end }: Landing,
): readonly Change[] {
  if (graph.revision === looked) return changes
  const open = changes.filter((change) => {
    if (change.kind !== 'node_update') return true
    if (change.node === 'confirm') return isUnanswered(graph, change.id)
    return change.node !== 'collab' || end === undefined
  })
  return session && end !== undefined ? [...open, ...sessionCloses(graph, session.options, end)] : open
}

/** May turns be given out? A draft becomes active with the first. */
function isOpen(graph: ProjectGraph, { collab_id }: SessionAsked): boolean {
  const status = graph.get('collab', collab_id)?.data.status
  return status === 'draft' || status === 'active'
}
