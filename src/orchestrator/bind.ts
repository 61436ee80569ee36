import type { ExecutorKind } from '../ael/adapter.ts'
import type { ActionLayer } from '../ael/layer.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { type Fields, problemsIn, text } from '../protocol/fields.ts'
import { digestOfJson, isObject, type Json, type JsonObject, roughBytes } from '../protocol/json.ts'
import { valueIn } from '../protocol/paths.ts'
import type { Role, Step } from '../protocol/types.ts'
import type { ActionRecord, Binding } from '../psg/change.ts'
import { plain } from '../psg/plain.ts'
import { type Dependence, unheld } from './depends.ts'
import { MOST_SHOWN } from './one-commit.ts'
import { blobAt } from './outcome.ts'
import { BINDING, bindingProblems } from './submit-check.ts'

/** How a step is executed, as a flow says it. */
export type BindingSpec = Omit<Binding, 'binding_id' | 'step_id'>

export interface Bindings {
  readonly steps?: { readonly [step_id: string]: BindingSpec }
  readonly roles?: { readonly [role: string]: BindingSpec }
}

/** The last to be asked how a step is executed. */
export type Resolver = (step: Step) => BindingSpec | undefined

/** A role of the project, by its id or name. */
export type RoleFinder = (idOrName: string) => Role | undefined

/** A binding for every step: its own, its role's by id or name, or what the resolver says. Throws InvalidInput naming each step that has none. */
export function bindSteps(
  steps: readonly Step[],
  bindings: Bindings,
  resolve: Resolver | undefined,
  idOf: (step: string) => string,
  roleOf?: RoleFinder,
): readonly Binding[] {
  const problems: Problem[] = []
  const far: (Dependence & { readonly at: string })[] = []
  const known = new Set(steps.map((step) => step.step_id))
  for (const id of Object.keys(bindings.steps ?? {}))
    if (!known.has(id))
      problems.push({
        path: `bindings.steps.${id}`,
        rule: 'reference.resolves',
        message: 'names a step that the plan does not have',
      })
  const bound = steps.flatMap((step, i) => {
    const given = bindings.steps?.[step.step_id] ?? bindingOfRole(bindings, step.agent_role, roleOf)
    const spec = given ?? resolve?.(step)
    if (!spec) {
      const who = step.agent_role === undefined ? 'no role' : `role ${step.agent_role}`
      problems.push({
        path: `plan.steps[${i}]`,
        rule: 'binding',
        message: `has no binding: step ${step.step_id} (${step.description}), ${who}`,
      })
      return []
    }
    const path = `bindings.steps.${step.step_id}`
    const wrong = given ? [] : problemsIn(plain(spec, path, 'flow'), BINDING, path)
    problems.push(...wrong)
    if (wrong.length > 0) return []
    problems.push(...bindingProblems(spec, path))
    const refers = (itself: string | undefined) => (reference: Reference, at: string) => {
      const { $from: from } = reference
      problems.push(...problemsIn(reference, REFERENCE, at))
      if (from !== itself && !step.dependencies?.includes(from)) far.push({ step: step.step_id, on: from, at })
    }
    eachReference(spec.params, `${path}.params`, refers(undefined))
    if (isObject(spec.inverse)) eachReference(spec.inverse, `${path}.inverse`, refers(step.step_id))
    return [{ ...spec, binding_id: idOf(step.step_id), step_id: step.step_id }]
  })
  for (const { at, step, on } of unheld(steps, far))
    problems.push({
      path: at,
      rule: 'dependency',
      message: `refers to step ${on}, which step ${step} does not depend on`,
    })
  if (problems.length > 0) throw new InvalidInput('flow', problems)
  return bound
}

/** Does a binding depend on who the roles of the project are? */
export const asksForRoles = (steps: readonly Step[], bindings: Bindings = {}): boolean =>
  bindings.roles !== undefined &&
  steps.some(({ step_id, agent_role }) => {
    const isBound = bindings.steps?.[step_id] ?? bindingOfRole(bindings, agent_role)
    return agent_role !== undefined && !isBound
  })

function bindingOfRole({ roles = {} }: Bindings, role = '', roleOf?: RoleFinder): BindingSpec | undefined {
  if (Object.hasOwn(roles, role)) return roles[role] // a role may be called constructor
  const known = roleOf?.(role)
  const name = [known?.role_id, known?.name].find((one) => one !== undefined && Object.hasOwn(roles, one))
  return name === undefined ? undefined : roles[name]
}

/** Who carries out what a binding asks for, unless it says so itself: whoever the layer has for it. */
export const executorOf = (
  { executor_kind, action_type }: Pick<Binding, 'action_type' | 'executor_kind'>,
  layer: Pick<ActionLayer, 'executorOf'>,
): ExecutorKind => executor_kind ?? layer.executorOf(action_type) ?? 'worker'

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

export type Reference = JsonObject & { readonly $from: string }

/** Calls for every reference to an output, with the place where it stands. */
function eachReference(value: Json, path: string, visit: (reference: Reference, at: string) => void): void {
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) eachReference(value[i], `${path}[${i}]`, visit)
    return
  }
  const object = value as JsonObject
  if (typeof object.$from === 'string') visit(object as Reference, path)
  else for (const key of Object.keys(object)) eachReference(object[key]!, `${path}.${key}`, visit)
}
