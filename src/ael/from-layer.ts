import { ActionError, InvalidInput } from '../protocol/errors.ts'
import { needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import { isObject, type Json } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import { executorKind } from './action.ts'
import type { ActionExecutionLayer, Adapter, ExecutorKind, Outcome, TokenUsage } from './adapter.ts'

/**
 * Any object with `execute` as an adapter: for one action type, or with `*` as a whole layer. What it returns is the output, unless it is
 * a result in the published shape: then its output is, and a status that does not say that it was done is thrown.
 */
export function fromLayer(
  action_type: string,
  layer: ActionExecutionLayer,
  executor_kind: ExecutorKind = 'external',
): Adapter {
  refuseUnlessFit('layer', { action_type, executor_kind }, { action_type: needed(text), executor_kind: executorKind })
  if (typeof Object(layer).execute !== 'function')
    throw new InvalidInput('layer', [
      { path: 'execute', rule: 'type', message: 'must be a function', found: shown(Object(layer).execute) },
    ])
  return {
    action_type,
    executor_kind,
    execute: async (action, call) => outcomeOf(await layer.execute(action, call)),
  }
}

function outcomeOf(result: unknown): Outcome {
  if (!isObject(result) || !('action_id' in result) || typeof result.status !== 'string')
    return result === undefined ? {} : { output: result as Json }
  if (!DONE.has(result.status)) throw failureOf(result)
  const { output, token_usage, cost } = result
  return {
    ...(output === undefined ? {} : { output: output as Json }),
    ...(isUsage(token_usage) && { token_usage }),
    ...(typeof cost === 'number' && { cost }),
  }
}

/** The published word, and what foreign layers say for it; any other (`error`, `timeout`) must not pass for work that was done. */
const DONE: ReadonlySet<string> = new Set(['completed', 'executed', 'success', 'succeeded', 'ok'])

function failureOf({ status, error }: Record<string, unknown>): ActionError {
  const message = isObject(error) ? error.message : error
  const text = typeof message === 'string' ? message : `the layer answered ${status}`
  return new ActionError(status === 'cancelled' ? 'action_aborted' : 'action_failed', text, {
    retryable: isObject(error) && error.retryable === true,
  })
}

const isUsage = (usage: unknown): usage is TokenUsage =>
  isObject(usage) && [usage.prompt, usage.completion, usage.total].every((count) => typeof count === 'number')
