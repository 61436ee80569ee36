import { InvalidInput, type Problem } from './errors.ts'
import {
  anything,
  type Field,
  type Fields,
  having,
  needed,
  oneOf,
  problemsIn,
  refuseUnlessFit,
  text,
} from './fields.ts'
import { isNameIn, isObject } from './json.ts'
import type { EventComplaint } from './map-rules.ts'
import { eachPlace, type Path, parsePath } from './paths.ts'
import { problem } from './problem.ts'
import { applies, type Condition, complaint, parseCondition, parseRule, type Rule } from './rules.ts'
import { shown, shownPath } from './shown.ts'
import type { ModuleName } from './types.ts'

/** What an invariant speaks of. */
export type Scope =
  | ModuleName
  | 'event'
  | 'learning_sample'
  | 'tool_event'
  | 'file_update_event'
  | 'git_event'
  | 'ci_event'

/** A rule about every place that a path leads to. */
export interface PathInvariant {
  readonly id: string
  readonly scope: Scope
  readonly path: string
  readonly rule: string
  /** Only where this is true of the scope's object: `event_family == "graph_update"`. */
  readonly when?: string
  /** Nobody has to have it. */
  readonly ifPresent?: true
}

/** A rule about a list of events, which no path can express. */
export interface EventInvariant {
  readonly id: string
  readonly scope: 'trace'
  readonly events: (events: readonly unknown[]) => EventComplaint[]
}

export type Invariant = PathInvariant | EventInvariant

/** An invariant that does not hold. */
export interface Breach {
  readonly id: string
  readonly scope: Scope
  /** Concrete, from the scope on: `plan.steps[1].description`. */
  readonly path: string
  readonly rule: string
  readonly message: string
  readonly found: string
}

/** Breaches as what is wrong with an input: each breaks the rule that is the invariant. */
export const breachProblems = (breaches: readonly Breach[]): readonly Problem[] =>
  breaches.map(({ id, path, message, found }) => ({ path, rule: id, message, found }))

/** The objects to check by scope, and the events of a MAP session. */
export type Subjects = { readonly [S in Scope]?: unknown } & { readonly events?: readonly unknown[] }

export interface CheckOptions {
  /**
   * `skip` (the default): an invariant is silent where its path leads nowhere, as in the protocol's own harness.
   * `breach`: only those with `ifPresent` are.
   */
  readonly absent?: 'skip' | 'breach'
  /** Scopes that must be there; of the others, an absent one is not checked. */
  readonly scopes?: readonly Scope[]
  /** Ids that are not looked at, for a proof of what each is for. */
  readonly switched?: ReadonlySet<string> | undefined
}

/** Everything that does not hold, in the order of the invariants. */
export function checkInvariants(
  invariants: readonly Invariant[],
  subjects: Subjects,
  options: CheckOptions = {},
): readonly Breach[] {
  const problems: Problem[] = []
  if (!Array.isArray(invariants) || !invariants.every(isObject))
    problems.push(problem('invariants', 'type', 'must be a list of invariants', invariants))
  if (!isObject(subjects)) problems.push(problem('subjects', 'type', 'must be an object', subjects))
  problems.push(...problemsIn(options, OPTIONS, ''))
  if (problems.length > 0) throw new InvalidInput('what to check', problems)
  const breaches = (options.scopes ?? []).filter((scope) => subjects[scope] === undefined).map(missingScope)
  for (const invariant of invariants)
    if (!options.switched?.has(invariant.id)) collect(invariant, subjects, options, breaches)
  return breaches
}

/** An entry as golden flows write it; throws InvalidInput for a rule, path, scope or condition that means nothing. */
export function parseInvariant(entry: unknown, scope?: Scope): PathInvariant {
  refuseUnlessFit('invariant', { scope }, { scope: SCOPE })
  const { id, scope: about = scope as Scope, path, rule, when, ifPresent } = Object(entry) as PathInvariant
  const invariant = {
    ...{ id, scope: about, path, rule },
    ...(when === undefined ? {} : { when }),
    ...(ifPresent === true ? { ifPresent } : {}),
  }
  parsed(invariant)
  return invariant
}

function collect(invariant: Invariant, subjects: Subjects, options: CheckOptions, into: Breach[]): void {
  if ('events' in invariant) {
    for (const breach of eventBreaches(invariant, subjects.events ?? [])) into.push(breach) // there may be more than a call takes arguments
    return
  }
  const { id, scope } = invariant
  const subject = subjects[scope]
  const { path, rule, when } = parsed(invariant)
  if (subject === undefined || (when !== undefined && !applies(when, subject))) return
  const skipAbsent = rule.name !== 'if' && (options.absent !== 'breach' || invariant.ifPresent === true)
  eachPlace(subject, path, (value, at) => {
    if (value === undefined && skipAbsent) return
    const message = complaint(rule, value, subject, subjects)
    if (message === undefined) return
    into.push({ id, scope, path: shownPath([scope, ...at]), rule: invariant.rule, message, found: shown(value) })
  })
}

function eventBreaches({ id, scope, events: check }: EventInvariant, events: readonly unknown[]): Breach[] {
  return check(events).map(({ index, message }) => {
    return { id, scope, path: `events[${index}]`, rule: id, message, found: shown(events[index]) }
  })
}

const missingScope = (scope: Scope): Breach => ({
  id: `${scope}_must_exist`,
  scope,
  path: scope,
  rule: 'exists',
  message: 'must be there',
  found: 'undefined',
})

const SCOPES: Readonly<Record<Scope, true>> = {
  ...{ context: true, plan: true, confirm: true, trace: true, role: true },
  ...{ extension: true, dialog: true, collab: true, core: true, network: true },
  ...{ event: true, learning_sample: true, tool_event: true, file_update_event: true, git_event: true, ci_event: true },
}

const SCOPE = oneOf(...Object.keys(SCOPES))
const ENTRY: Fields = {
  ...{ id: needed(text), scope: needed(SCOPE), path: needed(text), rule: needed(text) },
  ...{ when: text, '*': anything },
}
const OPTIONS: { readonly [O in keyof Required<CheckOptions>]: Field } = {
  absent: oneOf('skip', 'breach'),
  scopes: {
    says: `a list of ${Object.keys(SCOPES).join(', ')}`,
    fits: (value) => Array.isArray(value) && value.every((scope) => isNameIn(SCOPES, scope)),
  },
  switched: having('a set', 'has'),
}

interface Parsed {
  readonly path: Path
  readonly rule: Rule
  readonly when: Condition | undefined
}

// Invariants are data that is checked over and over: each is read once.
const known = new WeakMap<PathInvariant, Parsed>()
function parsed(invariant: PathInvariant): Parsed {
  const earlier = known.get(invariant)
  if (earlier !== undefined) return earlier
  refuseUnlessFit('invariant', invariant, ENTRY)
  const when = invariant.when === undefined ? undefined : parseCondition(invariant.when)
  const now = { path: parsePath(invariant.path), rule: parseRule(invariant.rule), when }
  known.set(invariant, now)
  return now
}
