import { isoNow } from '../protocol/clock.ts'
import type { JsonObject } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { Change } from '../psg/change.ts'
import { isUnanswered } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { endPlan, move } from '../psg/moves.ts'
import { ofKind } from '../psg/node.ts'
import type { RunEvent } from '../psg/run-event.ts'
import type { GraphState } from '../psg/state.ts'
import { isKept, stepsFailed } from './ending.ts'
import type { Decided, LiveRun, Waiting } from './live.ts'
import { saEnd, saEvent } from './profiles/sa.ts'
import type { LiveSession } from './session.ts'
import { setAction } from './set-action.ts'
import { attemptWasCancelled, sa } from './steps.ts'
import { fired, latestEnd, openTimers, waitOver } from './timers.ts'
import { sessionEnds } from './turns.ts'

/** The last commit of a run: plan, open steps, waiting actions, trace and run end together. */
export function runEnds(run: LiveRun, decided: Decided): void {
  const planStatus = run.graph.get('plan', run.plan)!.data.status
  const over = isTerminal('plan', planStatus) // people withdrew it while it waited
  const unstarted = planStatus === 'approved' // and cannot have failed
  const ownStatus = run.ending?.status ?? (run.failed > 0 ? 'failed' : 'completed')
  const status = over ? (planStatus as 'cancelled') : unstarted ? 'cancelled' : ownStatus
  const ended = endedSteps(decided)
  waitsEnd(run, decided)
  const started = !over && !unstarted
  const timed = !started || latestEnd(run.graph.get('run', run.id)!.data) !== undefined
  for (const { id, data } of timed ? openTimers(run.graph, run.plan) : [])
    if (!started || data.purpose === 'deadline') decided.changes.push(fired(id))
  if (run.session) sessionEnds(run, run.session, status, started, decided)
  const endings = over ? [] : endPlan(run.graph, run.plan, status, ended)
  for (const change of endings) decided.changes.push(change)
  decided.changes.push(
    { kind: 'node_update', node: 'trace', id: run.trace, set: { status, finished_at: isoNow(run.graph.clock) } },
    {
      kind: 'node_update',
      node: 'run',
      id: run.id,
      set: {
        phase: 'ended',
        ended_at: isoNow(run.graph.clock),
        spent: { ...run.ledger.spent },
        result: resultOf(run, status),
        ...(isKept(run) && { ending: undefined }),
      },
    },
  )
  if (sa(run) && started) {
    for (const { id, to } of endings.map(stepMove)) if (to === 'failed') decided.events.push(stepLeft(run, id))
    decided.events.push(...saEnd({ status, ...tally(run, decided), segments: run.segments }))
  }
  decided.reason = `the run ${HOW[status]}`
  if (run.ending) decided.termination = run.ending.reason
  decided.end = status
}

const HOW = { completed: 'is completed', failed: 'has failed', cancelled: 'has been cancelled' } as const

/** What waits is cancelled, and nobody is asked about it any more. */
function waitsEnd(run: LiveRun, decided: Decided): void {
  for (const [action, waiting] of run.waiting) {
    setAction(decided, action, { status: 'cancelled' })
    if (!isBetweenAttempts(waiting)) attemptWasCancelled(run, waiting.flight, decided)
    waitOver(waiting, decided)
    if (waiting.on === 'confirm' && isUnanswered(run.graph, waiting.confirm))
      decided.changes.push(move('confirm', waiting.confirm, 'cancelled'))
  }
}

/** Its last attempt has failed and told so, and the next has not begun. */
const isBetweenAttempts = ({ on, flight }: Waiting): boolean => on === 'timer' && flight.action.action_type !== 'wait'

function resultOf(run: LiveRun, status: string): JsonObject {
  const error = run.ending?.error ?? (run.failed > 0 ? stepsFailed(run) : undefined)
  return {
    status,
    ...(status !== 'completed' && { error: error ?? endedByOthers(status) }),
    ...(run.ending && { termination_reason: run.ending.reason }),
    ...(run.undo && { undone: run.undo.outcomes as never }),
    ...(run.session && run.session.writers.size > 0 && { resources: resourcesOf(run.session) }),
  }
}

const endedByOthers = (status: string): RunError => ({
  code: 'cancelled',
  message: status === 'cancelled' ? 'the plan was withdrawn' : `somebody has ended the plan as ${status}`,
})

/** Whose result stands for each thing that was written. */
const resourcesOf = ({ writers }: LiveSession): JsonObject =>
  Object.fromEntries(
    [...writers].flatMap(([resource, list]) => {
      const last = list.at(-1)
      return last ? [[resource, { step_id: last.step_id, participant_id: last.participant_id }]] : []
    }),
  )

/** Steps that this very tick ends. */
function endedSteps(decided: Decided): ReadonlySet<string> {
  const ended = new Set<string>()
  for (const { id, to } of decided.changes.map(stepMove)) if (ENDS.has(to)) ended.add(id)
  return ended
}
const ENDS: ReadonlySet<string | undefined> = new Set(['completed', 'failed', 'skipped'])

/** A step that waited for something when its run ended has ended with it. */
const stepLeft = ({ ending }: LiveRun, step_id: string): RunEvent =>
  saEvent('SAStepFailed', {
    step_id,
    status: 'failed',
    error_code: 'action_aborted',
    error_message: String(ending?.error.message),
  })

/** What became of the steps that were begun. One that failed and was skipped for it did not succeed either. */
function tally({ graph, plan }: LiveRun, decided: Decided): { succeeded: number; failed: number } {
  const before = graph.state.plan(plan)!.tally
  let succeeded = before.completed
  let failed = before.failed + (before.skipped > 0 ? givenUp(graph, plan) : 0)
  for (const { id, to } of decided.changes.map(stepMove)) {
    if (to === 'completed') succeeded++
    else if (to === 'failed') failed++
    else if (to === 'skipped' && graph.get('step', id)?.data.status === 'in_progress') failed++
  }
  return { succeeded, failed }
}

/** How many steps were skipped once they had been begun. */
function givenUp({ state }: ProjectGraph, plan: string): number {
  let steps = 0
  for (const { id, data } of ofKind(state.nodesOf(plan), 'step'))
    if (data.status === 'skipped' && wasBegun(state, id)) steps++
  return steps
}

function wasBegun(state: GraphState, step: string): boolean {
  for (const _ of ofKind(state.referrers('step', step, 'EXECUTES'), 'action')) return true
  return false
}

/** The step that a change moves, and where to. */
const stepMove = (change: Change): { readonly id: string; readonly to?: string } =>
  change.kind === 'node_update' && change.node === 'step' && change.set.status !== undefined
    ? { id: change.id, to: change.set.status }
    : NO_MOVE
const NO_MOVE = { id: '' }
