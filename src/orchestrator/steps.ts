import type { Action, Spend } from '../ael/adapter.ts'
import { endedEvent, leftEvent, startedEvent } from '../ael/events.ts'
import type { ActionLayer, Attempt, AttemptEnd } from '../ael/layer.ts'
import { isoNow } from '../protocol/clock.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { ActionRecord, Began, Change, Ended, EventDraft } from '../psg/change.ts'
import { move } from '../psg/moves.ts'
import { RunEvent } from '../psg/run-event.ts'
import type { Decided, Flight, LiveRun } from './live.ts'
import { saEvent } from './profiles/sa.ts'
import { blanksIn } from './references.ts'
import { seatOf } from './session.ts'
import { setAction } from './set-action.ts'
import { withUsage } from './usage.ts'

// What is written when a step starts, an attempt begins, an attempt ends, a step ends: each the changes of one commit.

export function stepStarts(run: LiveRun, flight: Flight, decided: Decided): void {
  const { step } = flight
  decided.changes.push(move('step', step, 'in_progress'))
  actionStarts(run, flight, decided)
  if (sa(run)) decided.events.push(stepStarted(run, step))
}

function stepStarted(run: LiveRun, step: string): RunEvent {
  const { description, agent_role } = run.graph.get('step', step)!.data
  return saEvent('SAStepStarted', { step_id: step, description, ...(agent_role !== undefined && { agent_role }) })
}

/** A step that an earlier run has done: what it came to is there already, and nobody carries it out. */
export function stepCarriedOver(run: LiveRun, step: string, decided: Decided): void {
  decided.changes.push(move('step', step, 'in_progress'), move('step', step, 'completed'))
  if (sa(run)) decided.events.push(stepStarted(run, step), stepDone(step))
  run.ready.satisfied(step)
  if (!decided.carries) run.inbox.push({ kind: 'look' })
  decided.carries = true
}

const stepDone = (step_id: string): RunEvent => saEvent('SAStepCompleted', { step_id, status: 'completed' })

/** One dispatch of a step, with its first attempt. */
export function actionStarts(run: LiveRun, flight: Flight, decided: Decided): void {
  const { execution_id, settles } = flight
  decided.changes.push(
    actionAdded(flight, {
      status: 'running',
      attempts: 1,
      began: [beginning(run, execution_id)],
      ...(settles && { settles }),
    }),
  )
  decided.events.push(inShort(flight, startedEvent(attemptOf(run, flight))))
}

/** An action that nobody has to carry out: it is told, and has its place in the trace. */
export function actionEndsAtOnce(run: LiveRun, flight: Flight, decided: Decided): void {
  decided.changes.push(
    actionAdded(flight, {
      status: 'completed',
      attempts: 0,
      began: [beginning(run, flight.execution_id)],
      ended: [ending(run, 'completed', {})],
    }),
  )
}

/** An action as it is born. */
export const actionAdded = (
  { action: { action_id, idempotency_key, action_type }, step: step_id, execution_id, turn }: Flight,
  rest: Pick<ActionRecord, 'status' | 'attempts'> & Partial<ActionRecord>,
): Change => ({
  kind: 'node_add',
  node: 'action',
  id: action_id,
  data: { action_id, step_id, idempotency_key, failures: 0, execution_id, action_type, ...(turn && { turn }), ...rest },
})

/** A further attempt at an action that is known already. */
export function attemptAgain(run: LiveRun, flight: Flight, decided: Decided): void {
  const { action, execution_id, attempt } = flight
  setAction(decided, action.action_id, {
    status: 'running',
    attempts: attempt,
    execution_id,
    began: [...(run.graph.get('action', action.action_id)?.data.began ?? []), beginning(run, execution_id)],
  })
  decided.events.push(inShort(flight, startedEvent(attemptOf(run, flight))))
}

/** Closes an attempt's segment and tells its end. What a failure cost is its adapter's word: it is checked as a stranger's is. */
export function attemptEnds(run: LiveRun, flight: Flight, end: AttemptEnd, decided: Decided): void {
  const attributes = {
    duration_ms: end.duration_ms,
    ...(end.status === 'completed' ? usageOf(end) : failureOf(end)),
  }
  attemptEnded(run, flight, SEGMENT[end.status], attributes, decided)
  keepUsage(run, flight, decided)
  const attempt = attemptOf(run, flight)
  decided.events.push(
    end.status === 'completed'
      ? inShort(flight, endedEvent(attempt, end))
      : execution(run, endedEvent({ ...attempt, run: whereInRun(run, flight) }, end)),
  )
}
const SEGMENT = { completed: 'completed', failed: 'failed', cancelled: 'cancelled', paused: 'failed' } as const

/** What its action has used up so far beside it, if anything. */
export function keepUsage({ used, soFar }: LiveRun, { action: { action_id } }: Flight, decided: Decided): void {
  soFar.delete(action_id)
  const usage = used.get(action_id)
  if (usage) setAction(decided, action_id, { usage })
}

/** An attempt that a crash cut off, or a close: nobody knows how far it got, so all that it may have used up counts. */
export function attemptWasCutOff(run: LiveRun, flight: Flight, spent: Spend, decided: Decided): void {
  const { action, execution_id } = flight
  const only_waited = run.graph.get('action', action.action_id)?.data.left_waiting === execution_id
  const attributes = {
    interrupted: true,
    ...(only_waited && { only_waited }),
    ...(Object.keys(spent).length > 0 && { spent: { ...spent } }),
  }
  attemptEnded(run, flight, 'failed', attributes, decided)
  decided.events.push(inShort(flight, leftEvent(attemptOf(run, flight), 'failed')))
}

export function inverseWasCutOff(run: LiveRun, flight: Flight, spent: Spend, decided: Decided): void {
  attemptWasCutOff(run, flight, spent, decided)
  actionFailed(run, flight, { code: 'interrupted', message: 'the way back was cut off' }, decided)
}

/** An attempt that waited when its run was ended. */
export function attemptWasCancelled(run: LiveRun, flight: Flight, decided: Decided): void {
  attemptEnded(run, flight, 'cancelled', {}, decided)
  decided.events.push(inShort(flight, leftEvent(attemptOf(run, flight), 'cancelled')))
}

export function stepCompleted(
  run: LiveRun,
  flight: Flight,
  output: ActionOutput,
  usage: Spend,
  decided: Decided,
): void {
  decided.changes.push(move('step', flight.step, 'completed'))
  actionCompleted(run, flight, output, usage, decided)
  if (sa(run)) decided.events.push(stepDone(flight.step))
}

export type ActionOutput = Pick<ActionRecord, 'output' | 'output_blob' | 'inverse' | 'no_inverse'>

export function actionCompleted(
  run: LiveRun,
  { action }: Flight,
  output: ActionOutput,
  usage: Spend,
  decided: Decided,
): void {
  const { action_id } = action
  setAction(decided, action_id, { status: 'completed' })
  setAction(decided, action_id, output)
  if (Object.keys(usage).length > 0) setAction(decided, action_id, { usage: withUsage(run.used.get(action_id), usage) })
  run.used.delete(action_id)
}

export function stepFailed(
  run: LiveRun,
  flight: Flight,
  to: 'failed' | 'skipped',
  error: RunError,
  decided: Decided,
): void {
  decided.changes.push(move('step', flight.step, to))
  actionFailed(run, flight, error, decided)
  if (sa(run))
    decided.events.push(
      saEvent('SAStepFailed', {
        step_id: flight.step,
        status: 'failed',
        error_code: error.code,
        error_message: error.message,
      }),
    )
}

export function actionFailed(run: LiveRun, { action }: Flight, error: RunError, decided: Decided): void {
  setAction(decided, action.action_id, {
    status: error.code === 'action_aborted' ? 'cancelled' : 'failed',
    error,
    failures: (run.graph.get('action', action.action_id)?.data.failures ?? 0) + 1,
  })
  run.used.delete(action.action_id)
}

/** Is it a run of the profile of a single agent? */
export const sa = ({ options: { profile = 'sa' } }: Pick<LiveRun, 'options'>): boolean => profile === 'sa'
export const execution = (
  run: LiveRun,
  event: { readonly event_type: string; readonly payload?: JsonObject },
): EventDraft => ({
  plan_id: run.plan,
  event: event as EventDraft['event'],
})

const beginning = (run: LiveRun, segment_id: string): Began => ({
  segment_id,
  at: run.segments++,
  started_at: isoNow(run.graph.clock),
})
const ending = (run: LiveRun, status: Ended['status'], attributes: JsonObject): Ended => ({
  status,
  at: run.ends++,
  finished_at: isoNow(run.graph.clock),
  attributes,
})

function attemptEnded(
  run: LiveRun,
  { action: { action_id } }: Flight,
  status: Ended['status'],
  attributes: JsonObject,
  decided: Decided,
): void {
  const ended = decided.said.get(action_id)?.set.ended ?? run.graph.get('action', action_id)?.data.ended ?? []
  setAction(decided, action_id, { ended: [...ended, ending(run, status, attributes)] })
}

/** In whose role an action is done: the participant's whose turn it is, else the step's. */
export const roleOf = (run: LiveRun, { step, turn }: Flight): string | undefined =>
  turn && run.session ? seatOf(run.session, turn.participant_id).role : run.graph.get('step', step)?.data.agent_role

function attemptOf(run: LiveRun, flight: Flight): Attempt {
  const { action, execution_id, attempt } = flight
  const role = roleOf(run, flight)
  return {
    action,
    execution_id,
    attempt,
    read_only: false,
    label: blanksIn(action.params).any ? action.action_type : labelOf(run.layer, action), // not while params are to be filled in
    ...(role !== undefined && { role }),
  }
}

/** As its adapter calls it, if it can: whether there still is one shows when it is tried. */
export function labelOf(layer: ActionLayer, action: Action): string {
  try {
    return layer.label(action)
  } catch {
    return action.action_type
  }
}

/** Where in the run a flight belongs. */
export const whereInRun = (run: LiveRun, { step }: Flight): NonNullable<Attempt['run']> => ({
  context_id: run.graph.id,
  plan_id: run.plan,
  step_id: step,
  trace_id: run.trace,
})

const inShort = ({ step }: Flight, event: { readonly event_type: string; readonly payload?: JsonObject }): RunEvent =>
  new RunEvent({ execution: event as EventDraft['event'], step_id: step })

const usageOf = ({ result }: Extract<AttemptEnd, { status: 'completed' }>): JsonObject => ({
  ...(result.token_usage && { token_usage: { ...result.token_usage } }),
  ...(result.cost !== undefined && { cost: result.cost }),
  ...(result.cached && { cached: true }), // no attempt was made
})
const failureOf = ({ error: { code, message, spent } }: Exclude<AttemptEnd, { status: 'completed' }>): JsonObject => ({
  error: { code, message },
  ...(spent && { spent: { ...spent } }),
})
