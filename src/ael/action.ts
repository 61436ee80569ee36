import { type Clock, systemClock } from '../protocol/clock.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import {
  duration,
  type Fields,
  needed,
  oneOf,
  problemsIn,
  timeout,
  uuid,
  wholeFrom,
  within,
} from '../protocol/fields.ts'
import { digestOf, isObject, type JsonObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { Action } from './adapter.ts'

export function newAction(
  draft: Partial<Action> & { readonly action_type: string; readonly params: JsonObject },
  clock: Clock = systemClock,
): Action {
  const action_id = draft.action_id ?? clock.uuid()
  return { executor_kind: 'worker', idempotency_key: action_id, ...draft, action_id }
}

export const undo = (action: Action, params: JsonObject, clock: Clock): Action =>
  newAction(
    {
      action_type: action.action_type,
      executor_kind: action.executor_kind,
      params,
      idempotency_key: `undo:${fitted(action.idempotency_key || action.action_id)}`,
    },
    clock,
  )

/** A key with room for a word beside it; of a long one its digest, or those that only begin alike would be one. */
export const fitted = (key: string, most = 250): string => (key.length <= most ? key : digestOf(key))

/** Throws InvalidInput, naming each path, unless this is an action that some adapter could be given. */
export function checkAction(action: unknown): asserts action is Action {
  const problems = problemsOf(action)
  if (problems.length > 0) throw new InvalidInput('action', problems)
}

/** What `check` says of the retry policy once it is known whether the action changes anything. */
export function checkRepeatable(action: Action, readOnly: boolean, policy = action.retry): void {
  if (readOnly || action.idempotency_key !== '' || policy === undefined) return
  if (policy.strategy === 'none' || policy.max_attempts <= 1) return
  throw new InvalidInput('action', [
    {
      path: 'idempotency_key',
      rule: 'repeatable',
      message: 'is needed to attempt an action more than once that changes something',
    },
  ])
}

export const executorKind = oneOf('agent', 'tool', 'llm', 'worker', 'external')
/** It travels in HTTP headers. */
const KEY = /^[\x21-\x7e]{0,255}$/
const MOST_ATTEMPTS = 1000

/** What a retry policy is made of. */
export const RETRY: Fields = {
  strategy: oneOf('none', 'fixed', 'exponential'),
  max_attempts: needed(wholeFrom(1, MOST_ATTEMPTS)),
  delay_ms: duration,
  max_delay_ms: duration,
  jitter: within(0, 1),
}

function problemsOf(action: unknown): Problem[] {
  if (!isObject(action)) return [{ path: '', rule: 'type', message: 'must be an object', found: shown(action) }]
  const problems: Problem[] = []
  const ask = (ok: boolean, path: string, rule: string, message: string, found: unknown) => {
    if (!ok) problems.push({ path, rule, message, found: shown(found) })
  }
  const { action_id, action_type, executor_kind, params, timeout_ms, retry, idempotency_key } = action
  ask(uuid.fits(action_id), 'action_id', 'uuid', `must be ${uuid.says}`, action_id)
  ask(typeof action_type === 'string' && action_type !== '', 'action_type', 'type', 'must be a name', action_type)
  ask(executorKind.fits(executor_kind), 'executor_kind', 'enum', `must be ${executorKind.says}`, executor_kind)
  ask(isObject(params), 'params', 'type', 'must be an object', params)
  ask(isKey(idempotency_key), 'idempotency_key', 'key', 'must be at most 255 visible ASCII characters', idempotency_key)
  if (timeout_ms !== undefined)
    ask(timeout.fits(timeout_ms), 'timeout_ms', 'range', `must be ${timeout.says}`, timeout_ms)
  if (retry !== undefined) problems.push(...problemsIn(retry, RETRY, 'retry'))
  return problems
}

const isKey = (value: unknown): boolean => typeof value === 'string' && KEY.test(value)
