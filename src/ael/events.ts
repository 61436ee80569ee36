import type { JsonObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { ExecutionStatus } from '../protocol/types.ts'
import type { Adapter, Asker } from './adapter.ts'
import { finalFailure } from './failure.ts'
import type { Attempt, AttemptEnd, BudgetState, EventDraft } from './layer.ts'
import { isPromised } from './promised.ts'

/** The names that the protocol's matrix has for the start and the completion of some types of action. */
const NAMES: Readonly<Record<string, { readonly started: string; readonly completed: string }>> = {
  tool_call: { started: 'tool_execution_started', completed: 'tool_execution_completed' },
  llm_call: { started: 'llm_call_started', completed: 'llm_call_completed' },
}
const PLAIN = { started: 'execution_started', completed: 'execution_completed' }

export const startedEvent = (attempt: Attempt): EventDraft =>
  execution(attempt, (NAMES[attempt.action.action_type] ?? PLAIN).started, 'running', {})

/** Failed and cancelled attempts end in execution_failed; one that waits for an approval is still running. */
export function endedEvent(attempt: Attempt, end: AttemptEnd): EventDraft {
  const { duration_ms } = end
  if (end.status === 'completed') {
    const { token_usage, cost, output_ref } = end.result
    const name = (NAMES[attempt.action.action_type] ?? PLAIN).completed
    return execution(attempt, name, 'completed', {
      duration_ms,
      ...(token_usage && { tokens_in: token_usage.prompt, tokens_out: token_usage.completion }),
      ...(cost === undefined ? {} : { cost }),
      ...(output_ref && { output_digest: output_ref.digest, output_bytes: output_ref.bytes }),
    })
  }
  const { code, message, retryable, spent } = end.error
  const error = { code, message, retryable }
  const paused = end.status === 'paused'
  return execution(attempt, paused ? 'execution_paused' : 'execution_failed', paused ? 'running' : end.status, {
    duration_ms,
    error,
    ...(spent?.tokens === undefined ? {} : { tokens_used: spent.tokens }),
    ...(spent?.cost === undefined ? {} : { cost: spent.cost }),
  })
}

/** Its process was gone before it had ended, and nobody knows how far it got; or it waited, and its run was ended. */
export const leftEvent = (attempt: Attempt, status: 'failed' | 'cancelled'): EventDraft =>
  execution(attempt, 'execution_failed', status, status === 'failed' ? { interrupted: true } : {})

/** For a budget that crossed a line. */
export function budgetEvent(asker: Asker, action_id: string, { state, remaining, message }: BudgetState): EventDraft {
  return {
    event_type: state === 'exceeded' ? 'budget_exceeded' : 'budget_warning',
    event_family: 'cost_budget',
    decision_kind: 'budget',
    outcome: state === 'exceeded' ? 'deny' : 'allow',
    payload: {
      action_id,
      ...(asker.run && { plan_id: asker.run.plan_id, trace_id: asker.run.trace_id }),
      ...(remaining && { budget_remaining: { ...remaining } }),
      ...(message === undefined ? {} : { message }),
    },
  }
}

function execution(attempt: Attempt, event_type: string, status: ExecutionStatus, more: JsonObject): EventDraft {
  const { action, execution_id, role, run, parent_execution_id } = attempt
  return {
    event_type,
    event_family: 'runtime_execution',
    execution_id,
    executor_kind: action.executor_kind,
    status,
    ...(role === undefined ? {} : { executor_role: role }),
    payload: {
      action_id: action.action_id,
      action_type: action.action_type,
      operation: attempt.label,
      attempt: attempt.attempt,
      ...(run && { context_id: run.context_id, plan_id: run.plan_id, step_id: run.step_id, trace_id: run.trace_id }),
      ...(parent_execution_id === undefined ? {} : { parent_execution_id }),
      ...more,
    },
  }
}

/** What the action is called in events and questions. */
export function labelOf(adapter: Adapter, params: JsonObject, action_type: string): string {
  const label = adapter.label?.(params) ?? action_type
  if (typeof label === 'string') return label
  const found = isPromised(label) ? 'a promise: it is needed at once' : shown(label)
  throw finalFailure(`the label of ${action_type} must be text, not ${found}`)
}
