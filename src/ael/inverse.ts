import { InvalidInput } from '../protocol/errors.ts'
import { type Fields, needed, object, problemsIn, text } from '../protocol/fields.ts'
import type { JsonObject } from '../protocol/json.ts'
import { jsonCopy } from '../protocol/json-copy.ts'
import { executorKind } from './action.ts'
import type { Action, Adapter, Inverse, Outcome } from './adapter.ts'
import { isPromised, PROMISED } from './promised.ts'
import { isReadOnly } from './read-only.ts'

/** What an adapter says takes an action back. Throws InvalidInput for what nobody could carry out once it is needed. */
export function inverseBy(adapter: Adapter, action: Action, outcome: Outcome): Inverse {
  const { action_type, params } = action
  const said = adapter.inverse?.(action, outcome) ?? (isReadOnly(adapter, params) ? 'none_needed' : 'irreversible')
  if (said === 'none_needed' || said === 'irreversible') return said
  const subject = `what takes ${action_type} back`
  const problems = isPromised(said) ? [PROMISED] : problemsIn(partsOf(said), INVERSE, '')
  if (problems.length > 0) throw new InvalidInput(subject, problems)
  return { ...said, params: jsonCopy(said.params, subject, 'params') as JsonObject }
}

/** Of an action these count: it has an id and a key of its own once it is carried out. */
function partsOf(said: Action): Pick<Action, 'action_type' | 'executor_kind' | 'params'> {
  const { action_type, executor_kind, params } = Object(said) as Action
  return { action_type, executor_kind, params }
}

const INVERSE: Fields = { action_type: needed(text), executor_kind: executorKind, params: needed(object) }
