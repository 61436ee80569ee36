import { endedEvent, startedEvent } from '../ael/events.ts'
import type { ActionLayer, Attempt, AttemptEnd } from '../ael/layer.ts'
import type { Effect } from '../drift/compensate.ts'
import { ActionError, MplpError } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Change, EventDraft } from '../psg/change.ts'
import { type Journey, segmentEnds, segmentStarts } from './rollback-trace.ts'
import { inverseOf } from './undo.ts'

/** What came of taking an effect back. */
export type EffectOutcome = {
  readonly action_id: string
  readonly step_id: string
  readonly status: 'undone' | 'failed'
  readonly error?: JsonObject
}

/** Carries out the inverse of an action: on record before it starts, and again when it has ended, whatever came of it. */
export async function takeBackEffect(
  journey: Journey,
  layer: ActionLayer,
  effect: Effect,
  at: number,
  signal: AbortSignal,
): Promise<EffectOutcome> {
  const { graph, actor, reason } = journey
  const { action_id, step_id } = effect
  const attempt = attemptAt(journey, effect)
  await graph.commit(started(journey, attempt, effect, at), {
    actor,
    reason,
    events: [told(journey, startedEvent(attempt))],
  })
  const end = await tried(journey, layer, attempt, signal)
  const error = end.status === 'completed' ? undefined : { code: end.error.code, message: end.error.message }
  const changes: Change[] = [
    {
      kind: 'node_update',
      node: 'action',
      id: attempt.action.action_id,
      set: { status: error ? 'failed' : 'completed', ...(error && { error, failures: 1 }) },
    },
    segmentEnds(journey, attempt.execution_id, error ? 'failed' : 'completed', error && { error }),
  ]
  await graph.commit(changes, { actor, reason, events: [told(journey, endedEvent(attempt, end))] })
  return { action_id, step_id, status: error ? 'failed' : 'undone', ...(error && { error }) }
}

function attemptAt({ graph, run, trace_id }: Journey, effect: Effect): Attempt {
  const { step_id, inverse } = effect
  const action = inverseOf(effect, inverse, graph.clock)
  return {
    action,
    execution_id: graph.clock.uuid(),
    attempt: 1,
    read_only: false,
    label: action.action_type,
    run: { context_id: graph.id, plan_id: run.data.plan_id, step_id, trace_id },
  }
}

function started(journey: Journey, { action, execution_id }: Attempt, effect: Effect, at: number): readonly Change[] {
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
        attempts: 1,
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

async function tried(
  { graph }: Journey,
  layer: ActionLayer,
  attempt: Attempt,
  signal: AbortSignal,
): Promise<AttemptEnd> {
  const began = graph.clock.now()
  try {
    const { execution_id, run } = attempt
    const quiet = { started: () => undefined, ended: () => undefined } // it is told by the commits around it
    const result = await layer.attempt(attempt.action, {
      signal,
      execution_id,
      attempt: 1,
      observer: quiet,
      ...(run && { run }),
    })
    return { status: 'completed', duration_ms: result.duration_ms, result }
  } catch (error) {
    const failure =
      error instanceof ActionError ? error : new ActionError('action_failed', messageOf(error), { cause: error })
    return { status: 'failed', duration_ms: Math.max(0, graph.clock.now() - began), error: failure }
  }
}

const messageOf = (error: unknown): string =>
  error instanceof MplpError ? `${error.code}: ${error.message}` : String(error)

const told = ({ run }: Journey, event: { readonly event_type: string }): EventDraft => ({
  plan_id: run.data.plan_id,
  event: event as EventDraft['event'],
})
