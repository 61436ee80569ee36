import { InvalidInput } from '../protocol/errors.ts'
import { type Fields, list, needed, problemsIn, text } from '../protocol/fields.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Adapter, Lack } from './adapter.ts'
import { isPromised, PROMISED } from './promised.ts'

/** What an adapter says that it does not have. Throws InvalidInput for what names nothing: nobody could see to it. */
export function lackOf(adapter: Pick<Adapter, 'action_type' | 'lacks'>, params: JsonObject): Lack | undefined {
  const said = adapter.lacks?.(params)
  if (!said) return undefined
  const problems = isPromised(said) ? [PROMISED] : problemsIn(said, LACK, '')
  if (problems.length > 0) throw new InvalidInput(`what ${adapter.action_type} lacks`, problems)
  return said
}

const LACK: Fields = { what: needed(text), name: needed(text), known: list }
