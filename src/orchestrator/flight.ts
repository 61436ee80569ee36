import type { Action } from '../ael/adapter.ts'
import type { ActionRecord } from '../psg/change.ts'
import { type BindingSpec, executorOf } from './bind.ts'
import type { Decided, Flight, LiveRun } from './live.ts'

/** How a flight is carried out: as its step's binding says, or as its session says for a word before or after a step. */
export function bindingOf(run: LiveRun, { step, turn }: Pick<Flight, 'step' | 'turn'>): BindingSpec {
  const side = turn && turn.purpose !== 'work' ? run.session?.options[turn.purpose] : undefined
  return side ?? run.bindings.get(step)!.data
}

/** What a step's binding asks for, as an action with a fresh id. The key is the step's, so that a repeat can be recognised. */
export function actionOf(
  run: LiveRun,
  step: string,
  { action_id = run.graph.clock.uuid(), idempotency_key = `${run.plan}:${step}`, turn }: Partial<ActionRecord>,
): Action {
  const binding = bindingOf(run, { step, ...(turn && { turn }) })
  const timeout_ms = binding.timeout_ms ?? run.options.timeout_ms
  const token_ms = turn?.token_id === undefined ? undefined : run.session?.options.token_ms
  const limit = Math.min(timeout_ms ?? Number.POSITIVE_INFINITY, token_ms ?? Number.POSITIVE_INFINITY)
  const retry = binding.retry ?? run.options.retry
  return {
    action_id,
    action_type: binding.action_type,
    executor_kind: executorOf(binding, run.layer),
    params: binding.params,
    idempotency_key,
    ...(Number.isFinite(limit) && { timeout_ms: limit }),
    ...(retry && { retry }),
  }
}

/** An action that the graph knows, as it was last under way. */
export function flightOf(run: LiveRun, record: ActionRecord): Flight {
  const { step_id: step, execution_id, attempts: attempt, turn, settles } = record
  return {
    step,
    action: actionOf(run, step, record),
    execution_id,
    attempt,
    ...(turn && { turn }),
    ...(settles && { settles }),
  }
}

/** From now on under way, in its place; takes off when the commit has landed. */
export function departs(run: LiveRun, flight: Flight, decided: Decided): void {
  run.line?.take(flight.action.action_type, flight.execution_id)
  run.flying.set(flight.action.action_id, flight)
  decided.departures.push(flight)
}
