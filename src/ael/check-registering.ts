import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import type { Adapter } from './adapter.ts'

/** Throws InvalidInput for what no layer takes as an adapter beside those whose types are `taken`. */
export function checkRegistering(adapter: Adapter, taken: Pick<ReadonlySet<string>, 'has'>): void {
  const problems: Problem[] = []
  const { action_type, execute } = Object(adapter) as Partial<Adapter>
  if (typeof action_type !== 'string' || action_type === '')
    problems.push({ path: 'action_type', rule: 'type', message: 'must be a name', found: shown(action_type) })
  else if (taken.has(action_type))
    problems.push({ path: 'action_type', rule: 'unique', message: 'has an adapter already', found: action_type })
  if (typeof execute !== 'function')
    problems.push({ path: 'execute', rule: 'type', message: 'must be a function', found: shown(execute) })
  if (problems.length > 0) throw new InvalidInput('adapter', problems)
}
