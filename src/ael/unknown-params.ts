import type { Problem } from '../protocol/errors.ts'
import { anything, problemsIn } from '../protocol/fields.ts'
import type { JsonObject } from '../protocol/json.ts'

/** Those that nobody reads: one that is misspelt would be taken for one that was minded. Every attempt asks, and nearly none has any. */
export function unknownParams(params: JsonObject, known: readonly string[]): Problem[] {
  if (Object.keys(params).every((name) => known.includes(name))) return []
  return [...problemsIn(params, Object.fromEntries(known.map((name) => [name, anything])), '')]
}
