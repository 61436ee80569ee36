import { isoNow } from '../protocol/clock.ts'
import type { Change, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { endPlan } from '../psg/moves.ts'
import { runUnderWay } from '../psg/view.ts'
import type { Ending, RunOptions } from './live.ts'
import { sessionCloses } from './session.ts'
import { fired, latestEnd, openTimers } from './timers.ts'

/**
 * Puts a run that waits back among the running. Decided within the commit: its owner may lay it down a moment before, and one that waits is looked
 * for by nobody.
 */
export const woken = (graph: ProjectGraph, run: string): readonly Change[] =>
  graph.get('run', run)?.data.phase === 'waiting'
    ? [{ kind: 'node_update', node: 'run', id: run, set: { phase: 'running' } }]
    : []

const hasStarted = (graph: ProjectGraph, { data }: Node<'run'>): boolean =>
  graph.get('plan', data.plan_id)?.data.status === 'in_progress'

/** Nobody has said yet whether it may start, so it has no owner that could be asked for anything. */
export function isUndecided(graph: ProjectGraph, id: string): boolean {
  const run = graph.get('run', id)
  return run?.data.phase === 'waiting' && !hasStarted(graph, run)
}

/**
 * What follows when timers of a plan come due or were prolonged: a run that waits goes on, one that was never allowed to start is over, and so is a plan
 * without one.
 */
export function comeDue(graph: ProjectGraph, plan: string): readonly Change[] {
  const run = runUnderWay(graph.state, plan)
  const now = graph.clock.now()
  const due = openTimers(graph, plan).filter(({ data }) => Date.parse(data.due) <= now)
  const isUnheeded = ({ data }: Node<'timer'>) => graph.get('confirm', data.target)?.data.status === 'pending'
  if (!run) {
    const isOver = due.some(isUnheeded) && graph.get('plan', plan)?.data.status === 'proposed'
    return [...due.map((timer) => fired(timer.id)), ...(isOver ? endPlan(graph, plan, 'cancelled') : [])]
  }
  if (!isUndecided(graph, run.id)) return woken(graph, run.id)
  for (const timer of due) {
    const { data } = timer
    if (data.purpose === 'deadline') return withdrawal(graph, run, latestEnd(run.data)!.ending)
    if (isUnheeded(timer))
      return withdrawal(graph, run, {
        error: { code: 'approval_expired', message: `nobody decided before ${data.due}` },
        reason: 'timeout',
      })
  }
  return due.map((timer) => fired(timer.id)) // the question was answered
}

/** Why a run ends whose plan never started. */
export type Withdrawn = Pick<Ending, 'error' | 'reason'>

/** Ends a run before it has started, with its plan, its questions and all that was set up for it. */
export function withdrawal(graph: ProjectGraph, run: Node<'run'>, { error, reason }: Withdrawn): readonly Change[] {
  const { plan_id, trace_id, options } = run.data
  const { session } = options as RunOptions
  const result = { status: 'cancelled', error, termination_reason: reason }
  const now = isoNow(graph.clock)
  return [
    ...endPlan(graph, plan_id, 'cancelled'),
    { kind: 'node_update', node: 'trace', id: trace_id, set: { status: 'cancelled', finished_at: now } },
    ...openTimers(graph, plan_id).map(({ id }) => fired(id)),
    ...(session ? sessionCloses(graph, session, 'cancelled') : []),
    { kind: 'node_update', node: 'run', id: run.id, set: { phase: 'ended', ended_at: now, result } },
  ]
}
