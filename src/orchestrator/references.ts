import type { Problem } from '../protocol/errors.ts'
import { type Fields, oneOf, problemsIn, text } from '../protocol/fields.ts'
import { digestOfJson, isObject, type Json, type JsonObject, roughBytes } from '../protocol/json.ts'
import { valueIn } from '../protocol/paths.ts'
import type { ActionRecord } from '../psg/change.ts'
import { MOST_SHOWN } from './one-commit.ts'
import { blobAt } from './outcome.ts'

/** What params take of a step's output. */
export type Reference = JsonObject & { readonly $from: string }

/** In a word about a step, the step itself. */
export const THIS_STEP = 'step'

/** Params with every reference replaced by the output it names, and `{ "$turn": "participant_id" }` by that of the turn. */
export const filledIn = (
  params: JsonObject,
  outputOf: (step: string) => Json | undefined,
  turn?: JsonObject | undefined,
): JsonObject =>
  fill(params, (reference) => valueIn(outputOf(reference.$from), partsOf(reference)) ?? null, turn) as JsonObject

/** The same for people to see: an output that lies in the store, or would make a question too large, is told by its digest. */
export const filledToSee = (
  params: JsonObject,
  outcomeOf: (step: string) => ActionRecord | undefined,
  turn?: JsonObject | undefined,
): JsonObject => {
  let left = MOST_SHOWN
  const seen = (reference: Reference): Json => {
    const outcome = outcomeOf(reference.$from)
    const parts = partsOf(reference)
    const blob = outcome && blobAt(outcome, parts)
    if (blob !== undefined) return { ...reference, digest: blob }
    const value = valueIn(outcome?.output, parts) ?? null
    const bytes = roughBytes(value)
    if (bytes > left) return { ...reference, digest: digestOfJson(value) }
    left -= bytes
    return value
  }
  return fill(params, seen, turn) as JsonObject
}

/** Is it to be replaced, all of it, by what it names? */
export const isReference = (object: JsonObject): boolean =>
  typeof object.$from === 'string' || typeof object.$turn === 'string'

const partsOf = ({ path }: Reference): readonly string[] =>
  typeof path === 'string' && path !== '' ? path.split('.') : []

function fill(value: Json, named: (reference: Reference) => Json, turn: JsonObject | undefined): Json {
  if (Array.isArray(value)) return value.map((item) => fill(item, named, turn))
  if (!isObject(value)) return value
  const object = value as JsonObject
  if (typeof object.$from === 'string') return named(object as Reference)
  if (typeof object.$turn === 'string') return turn?.[object.$turn] ?? null
  return Object.fromEntries(Object.entries(object).map(([key, item]) => [key, fill(item, named, turn)]))
}

/** What is filled in later: the steps whose outputs are referred to, and whether anything is. */
interface Blanks {
  readonly from: ReadonlySet<string>
  readonly any: boolean
}

/** Most params have none. */
export function blanksIn(params: JsonObject): Blanks {
  const found: JsonObject[] = []
  collectBlanks(params, found)
  if (found.length === 0) return NO_BLANKS
  return { from: new Set(found.flatMap(({ $from }) => (typeof $from === 'string' ? $from : []))), any: true }
}
const NO_BLANKS: Blanks = { from: new Set(), any: false }

function collectBlanks(value: Json | undefined, found: JsonObject[]): void {
  if (typeof value !== 'object' || value === null) return
  const object = value as JsonObject
  if (isReference(object)) found.push(object)
  else for (const name in object) collectBlanks(object[name], found)
}

/** What would not be understood in it would be left out, and the whole output be given, or `null` for what lies at `list[1]`. */
export const REFERENCE: Fields = {
  $from: text,
  path: {
    says: 'names and numbers with dots between them, such as a.0.b',
    fits: (value) => typeof value === 'string' && (value === '' || value.split('.').every(isPart)),
  },
}
const isPart = (part: string): boolean => part !== '' && !/\[\d+\]$/.test(part)

const TURN: Fields = { $turn: oneOf('participant_id', 'role_id', 'turn_number', 'purpose', 'token_id') }

export const referenceProblems = (reference: JsonObject, at: string): readonly Problem[] =>
  problemsIn(reference, typeof reference.$from === 'string' ? REFERENCE : TURN, at)

/** Calls for everything that is to be replaced, with the place where it stands. */
export function eachReference(value: Json, path: string, visit: (reference: JsonObject, at: string) => void): void {
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) eachReference(value[i], `${path}[${i}]`, visit)
    return
  }
  const object = value as JsonObject
  if (isReference(object)) visit(object, path)
  else for (const key of Object.keys(object)) eachReference(object[key]!, `${path}.${key}`, visit)
}
