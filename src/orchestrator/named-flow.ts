import { type Clock, systemClock } from '../protocol/clock.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import {
  comparedSparingly,
  type Fields,
  having,
  needed,
  notKnown,
  problemsIn,
  refuseUnlessFit,
  text,
  texts,
  uuid,
} from '../protocol/fields.ts'
import { isObject, type Json, type JsonGiven, type JsonObject, uuidOf } from '../protocol/json.ts'
import { META } from '../protocol/meta.ts'
import { shown } from '../protocol/shown.ts'
import type { Context, Step } from '../protocol/types.ts'
import { plain } from '../psg/plain.ts'
import type { BindingSpec, Bindings } from './bind.ts'
import { dependenciesFirst } from './depends.ts'
import type { RunOptions } from './live.ts'
import { REFERENCE, type Reference, THIS_STEP } from './references.ts'
import type { SessionAsked } from './session.ts'
import type { Flow } from './submit.ts'
import { BINDING, bindingProblems, FLOW, isInShort } from './submit-check.ts'

/** A flow in short: its steps are known by name, and what every flow says alike is left out. */
export interface NamedFlow<Name extends string = string> extends Pick<Flow, 'approval' | 'options' | 'chosen'> {
  readonly title: string
  /** The title when absent. */
  readonly objective?: string
  /** The id of a context that is there, or as much of a new one as matters: its `root`, for one. */
  readonly context?: string | Partial<Context>
  readonly steps: { readonly [N in Name]: NamedStep<NoInfer<Name>> }
  /** For steps that do not say themselves how they are executed. `$from` takes a name here, too. */
  readonly bindings?: { readonly roles?: { readonly [role: string]: GivenBinding } }
}

/** A binding, with params that are looked at when the flow is made. */
type GivenBinding = Omit<BindingSpec, 'params' | 'inverse'> & {
  readonly params: GivenParams
  readonly inverse?: 'irreversible' | (Omit<Inverse, 'params'> & { readonly params?: GivenParams })
}
type GivenParams = { readonly [name: string]: JsonGiven }
type Inverse = Exclude<NonNullable<BindingSpec['inverse']>, string>

/** A step of a plan and its binding in one. Without an `action_type` it is bound by its role, or by the runtime's `resolve`. */
export interface NamedStep<Name extends string = string> extends Partial<GivenBinding> {
  /** The name when absent. */
  readonly description?: string
  readonly agent_role?: string
  /** The names of those that come first; a step from which this one takes an output, by `{ $from: name }`, is one of them anyway. */
  readonly dependencies?: readonly Name[]
}

/** A flow, and the id of each of its steps by name: what the outputs of its run are found by. */
export interface FlowWithIds<Name extends string = string> {
  readonly flow: Flow
  readonly ids: { readonly [N in Name]: string }
}

/**
 * The flow that is meant, with ids of its own: made twice, it is two, unless its run is chosen. The compiler knows the names; `flowOf<string>(…)` takes
 * those that are put together while the program runs. Throws InvalidInput, with paths in the flow as it was given; what `submit` looks at is left to it.
 */
export function flowOf<Name extends string>(
  named: NamedFlow<Name>,
  clock: Pick<Clock, 'uuid'> = systemClock,
): FlowWithIds<Name> {
  refuseUnlessFit('flowOf', { clock }, { clock: having('a clock', 'uuid') })
  const given = plain(named, '', 'flow') as unknown as NamedFlow
  refuseUnlessFit('flow', given, NAMED)
  const { title, objective = title, context = {}, steps: byName, bindings, options, ...rest } = given
  const idOf = idsFor(given.chosen?.run, clock)
  const ids = new Map(Object.keys(byName).map((name) => [name, idOf(`step ${name}`)]))
  const { session, ...how } = options ?? {}
  const { steps, bound, seated } = resolved(byName, bindings as Pick<Bindings, 'roles'> | undefined, session, ids)
  const whole = typeof context === 'string' ? context : newContext(context, title, idOf('context'))
  const context_id = typeof whole === 'string' ? whole : whole.context_id
  const plan = { meta: META, plan_id: idOf('plan'), context_id, title, objective, status: 'draft', steps } as const
  return {
    flow: { context: whole, plan, bindings: bound, ...rest, ...(options && { options: { ...how, ...seated } }) },
    ids: Object.fromEntries(ids) as FlowWithIds<Name>['ids'],
  }
}

/** Whoever makes the flow of a run again, as after a crash, has to find the outputs of the one that was submitted. */
const idsFor = (run: string | undefined, clock: Pick<Clock, 'uuid'>): ((what: string) => string) =>
  run === undefined ? () => clock.uuid() : (what) => uuidOf(`${what} of ${run}`)

/** What a file or a request holds: a flow, as it is, or one in short. */
export function flowIn(given: unknown): { readonly flow: unknown; readonly ids?: FlowWithIds['ids'] } {
  return isInShort(given) ? flowOf(given as NamedFlow) : { flow: given }
}

const PART: Fields = { description: text, agent_role: text, dependencies: texts }
const STEP: Fields = { ...PART, ...BINDING }
const NAMED: Fields = {
  title: needed(text),
  objective: text,
  context: {
    says: 'the id of a Context, or an object with what matters of a new one',
    fits: (value) => uuid.fits(value) || isObject(value),
  },
  steps: needed({
    says: 'an object of steps by their names: at least one, and no name empty',
    fits: (value) => isObject(value) && Object.keys(value).length > 0 && Object.keys(value).every(text.fits),
  }),
  bindings: { roles: FLOW.bindings.roles },
  approval: FLOW.approval,
  options: FLOW.options,
  chosen: FLOW.chosen,
}

const newContext = (said: Partial<Context>, title: string, context_id: string): Context => ({
  meta: META,
  context_id,
  root: { domain: 'default', environment: 'default' },
  title,
  status: 'active',
  ...said,
})

/** The steps as a plan has them, and how they are executed, both by id. Tells everything that is wrong at once. */
function resolved(
  byName: NamedFlow['steps'],
  { roles = {} }: Pick<Bindings, 'roles'> = {},
  session: SessionAsked | undefined,
  ids: ReadonlyMap<string, string>,
): { readonly steps: readonly Step[]; readonly bound: Bindings; readonly seated: Pick<RunOptions, 'session'> } {
  const problems: Problem[] = []
  const idOf = finder(ids, problems)
  const bind = (spec: BindingSpec, path: string): Bound => {
    const bound = byId(spec, path, idOf, problems)
    problems.push(...bindingProblems(bound.spec, path))
    return bound
  }
  const ofRoles = new Map(Object.entries(roles).map(([role, spec]) => [role, bind(spec, `bindings.roles.${role}`)]))
  const steps: Step[] = []
  const ofSteps: { [step_id: string]: BindingSpec } = {}
  for (const [name, step_id] of ids) {
    const given = byName[name]!
    const path = `steps.${name}`
    const isBound = isObject(given) && Object.keys(given).some((field) => !Object.hasOwn(PART, field))
    const wrong = problemsIn(given, isBound ? STEP : PART, path)
    problems.push(...wrong)
    if (wrong.length > 0) continue
    const { description = name, agent_role, dependencies = [], ...binding } = given
    const first = new Set(dependencies.map((other, i) => idOf(other, `${path}.dependencies[${i}]`)))
    const bound = isBound ? bind(binding as BindingSpec, path) : ofRoles.get(agent_role ?? '')
    for (const id of bound?.takes ?? []) first.add(id)
    for (const id of bound?.takesBack ?? []) if (id !== step_id) first.add(id) // it may use what the step gave
    if (bound && isBound) ofSteps[step_id] = bound.spec
    steps.push({
      step_id,
      description,
      status: 'pending',
      ...(agent_role !== undefined && { agent_role }),
      ...(first.size > 0 && { dependencies: [...first] }),
    })
  }
  const seated = session && { session: sessionById(session, idOf, problems) }
  const wrong = problems.length > 0 ? problems : circles(steps, [...ids.keys()])
  if (wrong.length > 0) throw new InvalidInput('flow', wrong)
  const bound = Object.fromEntries([...ofRoles].map(([role, { spec }]) => [role, spec]))
  return { steps, bound: { ...(ofRoles.size > 0 && { roles: bound }), steps: ofSteps }, seated: { ...seated } }
}

/** The rest of it is looked at when the session is opened, and so is what has not the shape that it should have. */
function sessionById(session: SessionAsked, idOf: IdOf, problems: Problem[]): SessionAsked {
  const path = 'options.session'
  const idIn: IdOf = (name, at) => (name === THIS_STEP ? name : idOf(name, at))
  const word = (name: 'brief' | 'review') =>
    isObject(session[name]?.params) && { [name]: byId(session[name], `${path}.${name}`, idIn, problems).spec }
  const words = { ...word('brief'), ...word('review') }
  const { conflicts } = session
  const writes = Object.entries(isObject(conflicts?.writes) ? conflicts.writes : {}).map(
    ([step, written]) => [idOf(step, `${path}.conflicts.writes.${step}`), written] as const,
  )
  return {
    ...session,
    ...words,
    ...(writes.length > 0 && { conflicts: { ...conflicts, writes: Object.fromEntries(writes) } }),
  }
}

/** The id of the step that is named at a path. */
type IdOf = (name: string, path: string) => string

function finder(ids: ReadonlyMap<string, string>, problems: Problem[]): IdOf {
  const names = [...ids.keys()]
  const sparingly = comparedSparingly()
  return (name, path) => {
    const id = ids.get(name)
    if (id !== undefined) return id
    const message = `names ${shown(name)}, which ${notKnown(name, sparingly(names))}`
    problems.push({ path, rule: 'reference.resolves', message, found: shown(name) })
    return name
  }
}

/** A binding with ids for names, and the steps whose outputs it takes, to be carried out and to be taken back. */
interface Bound {
  readonly spec: BindingSpec
  readonly takes: ReadonlySet<string>
  readonly takesBack: ReadonlySet<string>
}

function byId(binding: BindingSpec, path: string, idOf: IdOf, problems: Problem[]): Bound {
  const [takes, takesBack] = [new Set<string>(), new Set<string>()]
  const into =
    (taken: Set<string>): Refer =>
    (reference, at) => {
      problems.push(...problemsIn(reference, REFERENCE, at))
      const id = idOf(reference.$from, `${at}.$from`)
      taken.add(id)
      return id
    }
  const byIds = (value: JsonObject, at: string, taken: Set<string>) => renamed(value, at, into(taken)) as JsonObject
  const { params, inverse } = binding
  const spec = {
    ...binding,
    params: byIds(params, `${path}.params`, takes),
    ...(isObject(inverse) && { inverse: byIds(inverse, `${path}.inverse`, takesBack) as typeof inverse }),
  }
  return { spec, takes, takesBack }
}

/** The id of the step that is referred to. */
type Refer = (reference: Reference, at: string) => string

function renamed(value: Json, at: string, refer: Refer): Json {
  if (Array.isArray(value)) return value.map((item, i) => renamed(item, `${at}[${i}]`, refer))
  if (!isObject(value)) return value
  const object = value as JsonObject
  if (typeof object.$from === 'string') return { ...object, $from: refer(object as Reference, at) }
  return Object.fromEntries(Object.entries(object).map(([key, item]) => [key, renamed(item, `${at}.${key}`, refer)]))
}

/** The graph would find them too, and tell them by id. */
const circles = (steps: readonly Step[], names: readonly string[]): readonly Problem[] =>
  dependenciesFirst(steps).circular.map((at) => ({
    path: `steps.${names[at]}`,
    rule: 'plan.acyclic',
    message: 'waits for itself, directly or through other steps',
  }))
