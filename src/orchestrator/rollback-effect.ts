import type { Action } from '../ael/adapter.ts'
import { endedEvent, leftEvent, startedEvent } from '../ael/events.ts'
import { aborted, toActionError } from '../ael/failure.ts'
import type { Attempt, AttemptEnd, Observer } from '../ael/layer.ts'
import type { Effect } from '../drift/compensate.ts'
import type { ActionError } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Change, EventDraft } from '../psg/change.ts'
import { workNamed } from './acted.ts'
import { failureOf, unasked } from './attempt-failure.ts'
import type { Ownership } from './owner.ts'
import { cutOff, type Journey, segmentEnds, segmentStarts, write } from './rollback-trace.ts'
import { labelOf } from './steps.ts'
import { inverseOf } from './undo.ts'

/** What came of taking an effect back. */
export type EffectOutcome = {
  readonly action_id: string
  readonly step_id: string
  readonly status: 'undone' | 'failed'
  readonly error?: JsonObject
}

/** Carries out the inverse of an action, once there is a place for it; nothing is on record of one that nobody waited for to the end. */
export async function takeBackEffect(
  journey: Journey,
  effect: Effect,
  at: number,
  owner: Ownership,
  signal: AbortSignal,
): Promise<EffectOutcome> {
  const { places } = journey.layer
  const attempt = attemptAt(journey, effect)
  try {
    await places?.enter(attempt.action.action_type, attempt.execution_id, signal)
  } catch (error) {
    const { action_id, step_id } = effect
    const { code, message } = toActionError(error)
    return { action_id, step_id, status: 'failed', error: { code, message } }
  }
  try {
    return await takenBack(journey, effect, at, attempt, owner, signal)
  } finally {
    places?.leave(attempt.execution_id)
  }
}

/** On record before it starts, and again when it has ended, whatever came of it. */
async function takenBack(
  journey: Journey,
  effect: Effect,
  at: number,
  attempt: Attempt,
  owner: Ownership,
  signal: AbortSignal,
): Promise<EffectOutcome> {
  const { action_id, step_id } = effect
  await write(journey, () => started(journey, attempt, effect, at), [told(journey, startedEvent(attempt))])
  const end = await tried(journey, attempt, owner, signal)
  const error = end.status === 'completed' ? undefined : { code: end.error.code, message: end.error.message }
  const ended = (): readonly Change[] => [
    {
      kind: 'node_update',
      node: 'action',
      id: attempt.action.action_id,
      set: { status: end.status, ...(error && { error, failures: 1 }) },
    },
    segmentEnds(journey, attempt.execution_id, end.status, error && { error }),
  ]
  await write(journey, ended, [told(journey, endedEvent(attempt, end))])
  return { action_id, step_id, status: error ? 'failed' : 'undone', ...(error && { error }) }
}

/** Of the inverse actions that were under way when an earlier way back was cut off: nobody knows how far they got. */
export function* cutOffEvents({ graph, layer, run }: Journey): Iterable<EventDraft> {
  for (const { id, data } of cutOff(graph, run)) {
    const { step_id, execution_id, compensates, attempts } = data
    const { inverse, idempotency_key } = workNamed(graph.state, step_id, compensates!)!
    const action = { ...inverseOf({ idempotency_key }, inverse as JsonObject, graph.clock), action_id: id }
    const trace_id = graph.get('segment', execution_id)!.owner!
    const attempt = attemptOf({ graph, layer, run, trace_id }, action, { step_id, execution_id, attempt: attempts })
    yield told({ run }, leftEvent(attempt, 'failed'))
  }
}

function attemptAt(journey: Journey, effect: Effect): Attempt {
  const { clock } = journey.graph
  const { step_id, inverse, cut_off = 0 } = effect
  const attempt = { step_id, execution_id: clock.uuid(), attempt: cut_off + 1 }
  return attemptOf(journey, inverseOf(effect, inverse, clock), attempt)
}

const attemptOf = (
  { graph, layer, run, trace_id }: Pick<Journey, 'graph' | 'layer' | 'run' | 'trace_id'>,
  action: Action,
  { step_id, execution_id, attempt }: Pick<Attempt, 'execution_id' | 'attempt'> & { readonly step_id: string },
): Attempt => ({
  action,
  execution_id,
  attempt,
  read_only: false,
  label: labelOf(layer, action),
  run: { context_id: graph.id, plan_id: run.data.plan_id, step_id, trace_id },
})

function started(
  journey: Journey,
  { action, execution_id, attempt }: Attempt,
  effect: Effect,
  at: number,
): readonly Change[] {
  const { action_id, idempotency_key, action_type } = action
  const { step_id, action_id: compensates } = effect
  return [
    {
      kind: 'node_add',
      node: 'action',
      id: action_id,
      data: {
        action_id,
        step_id,
        idempotency_key,
        status: 'running',
        attempts: attempt,
        failures: 0,
        execution_id,
        compensates,
      },
    },
    segmentStarts(journey, execution_id, at, `takes back ${action_type}`, {
      step_id,
      action_id,
      action_type,
      compensates,
    }),
  ]
}

type Ended = Extract<AttemptEnd, { status: 'completed' }> | FailedEnd
type FailedEnd = Extract<AttemptEnd, { error: ActionError }> & { readonly status: 'failed' | 'cancelled' }

async function tried(
  { graph, layer }: Journey,
  attempt: Attempt,
  owner: Ownership,
  signal: AbortSignal,
): Promise<Ended> {
  const began = graph.clock.now()
  try {
    const { execution_id, run, attempt: time } = attempt
    const { action_type } = attempt.action
    const quiet: Observer = {
      started() {
        if (!owner.isOurs()) throw aborted(action_type, owner.lost) // others may have carried it out meanwhile
      },
      ended: () => undefined, // it is told by the commits around it
    }
    const result = await layer.attempt(attempt.action, {
      signal,
      execution_id,
      attempt: time,
      observer: quiet,
      ...(run && { run }),
    })
    return { status: 'completed', duration_ms: result.duration_ms, result }
  } catch (error) {
    const failure = unasked(failureOf(error))
    const status = failure.code === 'action_aborted' ? 'cancelled' : 'failed'
    return { status, duration_ms: Math.max(0, graph.clock.now() - began), error: failure }
  }
}

const told = ({ run }: Pick<Journey, 'run'>, event: { readonly event_type: string }): EventDraft => ({
  plan_id: run.data.plan_id,
  event: event as EventDraft['event'],
})
