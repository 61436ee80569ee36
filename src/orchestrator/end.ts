import type { JsonObject } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import { endPlan, move } from '../psg/moves.ts'
import { isKept } from './ending.ts'
import type { Decided, LiveRun, Waiting } from './live.ts'
import { saEnd } from './profiles/sa.ts'
import type { LiveSession } from './session.ts'
import { attemptWasCancelled, now, sa } from './steps.ts'
import { latestEnd, openTimers, timerFired } from './timers.ts'
import { sessionEnds } from './turns.ts'

/** The last commit of a run: plan, open steps, waiting actions, trace and run end together. */
export function runEnds(run: LiveRun, decided: Decided): void {
  const planStatus = run.graph.get('plan', run.plan)!.data.status
  const over = isTerminal('plan', planStatus) // people withdrew it while it waited
  const unstarted = planStatus === 'approved' // and cannot have failed
  const status = over
    ? (planStatus as 'cancelled')
    : unstarted
      ? 'cancelled'
      : (run.ending?.status ?? (run.failed > 0 ? 'failed' : 'completed'))
  const ended = endedSteps(decided)
  for (const [action, waiting] of run.waiting) {
    decided.changes.push({ kind: 'node_update', node: 'action', id: action, set: { status: 'cancelled' } })
    if (!isBetweenAttempts(waiting)) attemptWasCancelled(run, waiting.flight, decided)
    if (waiting.on !== 'signal') timerFired(waiting.timer, decided)
    if (waiting.on === 'confirm' && run.graph.get('confirm', waiting.confirm)?.data.status === 'pending')
      decided.changes.push(move('confirm', waiting.confirm, 'cancelled'))
  }
  const timed = unstarted || latestEnd(run.graph.get('run', run.id)!.data) !== undefined
  for (const { id, data } of timed ? openTimers(run.graph, run.plan) : [])
    if (unstarted || data.purpose === 'deadline') timerFired(id, decided)
  if (run.session) sessionEnds(run, run.session, status, !over && !unstarted, decided)
  for (const change of over ? [] : endPlan(run.graph, run.plan, status, ended)) decided.changes.push(change)
  decided.changes.push(
    { kind: 'node_update', node: 'trace', id: run.trace, set: { status, finished_at: now(run) } },
    {
      kind: 'node_update',
      node: 'run',
      id: run.id,
      set: {
        phase: 'ended',
        ended_at: now(run),
        spent: { ...run.ledger.spent },
        result: resultOf(run, status),
        ...(isKept(run) && { ending: undefined }),
      },
    },
  )
  const { completed, failed } = tally(run, decided)
  if (sa(run)) decided.events.push(...saEnd({ status, succeeded: completed, failed, segments: run.segments }))
  decided.reason = `the run ${status === 'completed' ? 'is completed' : `has ${status === 'failed' ? 'failed' : 'been cancelled'}`}`
  if (run.ending) decided.termination = run.ending.reason
  decided.end = status
}

/** Its last attempt has failed and told so, and the next has not begun. */
const isBetweenAttempts = ({ on, flight }: Waiting): boolean => on === 'timer' && flight.action.action_type !== 'wait'

function resultOf(run: LiveRun, status: string): JsonObject {
  return {
    status,
    ...(run.ending && { error: run.ending.error, termination_reason: run.ending.reason }),
    ...(!run.ending &&
      run.failed > 0 && { error: { code: 'step_failed', message: `${run.failed} of the plan's steps failed` } }),
    ...(run.undo && { undone: run.undo.outcomes as never }),
    ...(run.session && run.session.writers.size > 0 && { resources: standing(run.session) }),
  }
}

/** Whose result stands for each thing that was written. */
const standing = ({ writers }: LiveSession): JsonObject =>
  Object.fromEntries(
    [...writers].flatMap(([resource, list]) => {
      const last = list.at(-1)
      return last ? [[resource, { step_id: last.step_id, participant_id: last.participant_id }]] : []
    }),
  )

/** Steps that this very tick ends. */
function endedSteps(decided: Decided): ReadonlySet<string> {
  const ended = new Set<string>()
  for (const change of decided.changes)
    if (
      change.kind === 'node_update' &&
      change.node === 'step' &&
      ENDS.has((change.set as { status?: string }).status ?? '')
    )
      ended.add(change.id)
  return ended
}
const ENDS: ReadonlySet<string> = new Set(['completed', 'failed', 'skipped'])

function tally(run: LiveRun, decided: Decided): { completed: number; failed: number } {
  const before = run.graph.state.plan(run.plan)!.tally
  let [completed, failed] = [before.completed, before.failed]
  for (const change of decided.changes) {
    if (change.kind !== 'node_update' || change.node !== 'step') continue
    const { status } = change.set as { status?: string }
    if (status === 'completed') completed++
    if (status === 'failed') failed++
  }
  return { completed, failed }
}
