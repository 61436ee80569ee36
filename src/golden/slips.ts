import { pathProblem } from '../ael/file-root.ts'
import {
  anything,
  type Field,
  type Fields,
  flag,
  isField,
  list,
  needed,
  object,
  problemsIn,
  text,
  texts,
} from '../protocol/fields.ts'
import type { Json, JsonObject } from '../protocol/json.ts'

const content: Field = { says: 'text', fits: (value) => typeof value === 'string' }
const contentOrNull: Field = { says: 'text or null', fits: (value) => value === null || content.fits(value) }

/** What a verb takes, whatever runtime it is for: a map of fields, one value, or nothing. */
const TAKES: { readonly [verb: string]: Fields | Field | null } = {
  move: { kind: needed(text), id: needed(text), to: needed(text) },
  edit: { kind: needed(text), id: needed(text), set: needed(object) },
  add: { kind: needed(text), document: needed(anything), owner: text },
  remove: { kind: needed(text), id: needed(text) },
  depend: { from: needed(text), to: needed(text) },
  free: { from: needed(text), to: needed(text) },
  signal: { name: needed(text), payload: anything },
  decide: { status: needed(text), decided_by_role: needed(text), reason: text },
  want: { '*': content },
  disk: { '*': contentOrNull },
  expect: { steps: list, findings: list, breaches: texts, files: { '*': contentOrNull }, '*': anything },
  snapshot: text,
  restore: text,
  reconcile: text,
  underway: null,
  cancel: null,
  propose: null,
  crash: null,
  freeze: null,
  thaw: null,
  rollback: null,
  verify: null,
}

/** A slip of the pen in what a verb is given; `undefined`: there is none. */
export function slipIn(verb: string, given: Json): string | undefined {
  const takes = TAKES[verb]
  if (takes === undefined) return undefined
  if (takes === null) return given === null ? undefined : `${verb} takes nothing`
  if (isField(takes)) return takes.fits(given) ? undefined : `${verb} must be ${takes.says}`
  const paths = verb === 'disk' || verb === 'want' ? Object.keys(Object(given) as JsonObject) : []
  const [problem] = [
    ...problemsIn(given, takes, verb),
    ...paths.flatMap((path) => pathProblem(path, `${verb}: ${path}`) ?? []), // a flow writes nowhere else
  ]
  return problem && `${problem.path} ${problem.message}`
}

/** One of the ways to answer, and nothing beside it: `hang: false` would hang as well. */
export const isAnswer = (value: unknown): boolean =>
  ANSWERS.some((fields) => problemsIn(value, fields, '').length === 0)

const ANSWERS: readonly Fields[] = [
  { output: needed(anything) },
  { error: needed(text), retryable: flag },
  { hang: needed({ says: 'true', fits: (value) => value === true }) },
  { late: needed(anything) },
]
