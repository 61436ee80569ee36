import { InvalidInput } from '../protocol/errors.ts'
import { type Fields, method, needed, problemsIn, text, texts, timeout } from '../protocol/fields.ts'
import { executorKind } from './action.ts'
import type { Adapter } from './adapter.ts'

/** Throws InvalidInput for what no layer takes as an adapter beside those whose types are `taken`. */
export function checkRegistering(adapter: Adapter, taken: Pick<ReadonlySet<string>, 'has'>): void {
  const { action_type, executor_kind, timeoutMs, paramNames, execute } = Object(adapter) as Adapter
  const problems = [...problemsIn({ action_type, executor_kind, timeoutMs, paramNames, execute }, ADAPTER, '')]
  if (taken.has(action_type))
    problems.push({ path: 'action_type', rule: 'unique', message: 'has an adapter already', found: action_type })
  if (problems.length > 0) throw new InvalidInput('adapter', problems)
}

const ADAPTER: Fields = {
  action_type: needed(text),
  executor_kind: executorKind,
  timeoutMs: timeout, // one that no timer takes would be none at all
  paramNames: texts,
  execute: needed(method),
}
