import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { anything, type Field, type Fields, refuseUnlessFit, uuid } from '../protocol/fields.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { type Blame, blaming, problem } from '../protocol/problem.ts'
import type { Change, Changes, CommitOptions, EventDraft, Kind } from './change.ts'
import { KINDS } from './kinds.ts'
import { MOST_LEVELS_KEPT, plain } from './plain.ts'
import { RunEvent } from './run-event.ts'

/** What a caller asks for, as a copy that he can no longer change. Throws InvalidInput when it does not have the form of changes. */
export function takeIn(changes: unknown): Changes {
  const problems: Problem[] = []
  if (!Array.isArray(changes)) throw new InvalidInput('commit', [problem('changes', 'type', 'is not a list', changes)])
  const blame = blaming(problems)
  for (let i = 0; i < changes.length; i++) blameMisfits(changes[i], `changes[${i}]`, blame)
  if (problems.length > 0) throw new InvalidInput('commit', problems)
  return (changes as Change[]).map(copied)
}

/** Throws InvalidInput when a commit could not be told to anybody. */
export function checkOptions(options: CommitOptions): void {
  if (!isObject(options)) throw new InvalidInput('commit', [problem('options', 'type', 'are not given', options)])
  const { actor, reason, fence, module, run, termination, events, reads } = options
  const problems: Problem[] = []
  const blame = blaming(problems)
  if (!isText(actor)) blame('actor', 'text', 'does not name anybody', actor)
  if (typeof reason !== 'string') blame('reason', 'text', 'is not a text', reason)
  if (fence !== undefined && !isCount(fence)) blame('fence', 'token', 'is not a token', fence)
  if (module !== undefined && !isText(module)) blame('module', 'text', 'names no module', module)
  if (run !== undefined && !isText(run)) blame('run', 'text', 'names no run', run)
  if (termination !== undefined && !isText(termination)) blame('termination', 'text', 'gives no reason', termination)
  if (events !== undefined && !Array.isArray(events)) blame('events', 'type', 'are not a list', events)
  else
    for (const [i, given] of (events ?? []).entries())
      if (!(given instanceof RunEvent)) blameMisfitDraft(given, `events[${i}]`, blame)
  if (
    reads !== undefined &&
    !(Array.isArray(reads) && reads.every((name) => Array.isArray(name) && isKindName(name[0]) && isText(name[1])))
  )
    blame('reads', 'name', 'are not kinds with ids', reads)
  if (problems.length > 0) throw new InvalidInput('commit', problems)
}

/** Throws InvalidInput for options of a commit, and more, with names that nobody knows: whoever means to try something out must not do it. */
export function checkKnown(what: string, options: CommitOptions, more: Fields): void {
  checkOptions(options)
  refuseUnlessFit(what, options, { ...COMMIT, ...more })
}
const COMMIT: { readonly [O in keyof Required<CommitOptions>]: Field } = {
  ...{ actor: anything, reason: anything, fence: anything, module: anything, run: anything },
  ...{ termination: anything, events: anything, reads: anything },
}

/** What an event says is checked with the changes; its id and its plan stand beside it, and everybody who is told it relies on them. */
function blameMisfitDraft(given: unknown, path: string, blame: Blame): void {
  if (!isObject(given) || !isObject(given.event) || !isText(given.event.event_type))
    return blame(path, 'event', 'is not an event with an event_type', given)
  const { event_id, plan_id } = given
  if (event_id !== undefined && !uuid.fits(event_id))
    blame(`${path}.event_id`, 'pattern', `must be ${uuid.says}`, event_id)
  if (plan_id !== undefined && !isText(plan_id)) blame(`${path}.plan_id`, 'text', 'names no plan', plan_id)
}

/** A caller's events as copies. */
export const takeInEvents = (events: CommitOptions['events'] = []): NonNullable<CommitOptions['events']> =>
  events.map((given, i) => (given instanceof RunEvent ? given : (kept(given, `events[${i}]`) as EventDraft)))

/** Throws InvalidInput unless there is such a kind of node, and the id could be one's. */
export function checkName(kind: unknown, id: unknown): void {
  const problems: Problem[] = []
  const blame = blaming(problems)
  if (!isKindName(kind)) blame('kind', 'enum', 'is not a kind of node', kind)
  if (!isText(id)) blame('id', 'text', 'is not an id', id)
  if (problems.length > 0) throw new InvalidInput('node', problems)
}

/** The same for each of a list of names. */
export function checkNames(names: unknown): void {
  if (!Array.isArray(names) || !names.every((name) => Array.isArray(name)))
    throw new InvalidInput('node', [problem('names', 'type', 'are not kinds with ids', names)])
  for (const [kind, id] of names) checkName(kind, id)
}

/** Throws InvalidInput unless there is something to look at, and somebody to look. */
export function checkReading(names: unknown, look: unknown, groups: unknown): void {
  checkNames(names)
  const problems: Problem[] = []
  const blame = blaming(problems)
  if (typeof look !== 'function') blame('look', 'type', 'is not a function', look)
  if (!Array.isArray(groups)) blame('groups', 'type', 'are not a list', groups)
  if (problems.length > 0) throw new InvalidInput('reading', problems)
  for (const group of groups as readonly unknown[]) checkSegment('group', group)
}

export function checkKinds(group: unknown, kinds: unknown): void {
  checkSegment('group', group)
  if (!Array.isArray(kinds) || !kinds.every(isKindName))
    throw new InvalidInput('reading', [problem('kinds', 'enum', 'are not a list of kinds of nodes', kinds)])
}

/** A graph's id and a group's name stand between slashes in the keys of the store. */
export function checkSegment(path: string, name: unknown): void {
  if (!isSegment(name)) throw new InvalidInput('graph', [problem(path, 'name', 'is not a name without a slash', name)])
}

export const isSegment = (name: unknown): boolean => isText(name) && !name.includes('/')

export const isKindName = (kind: unknown): kind is Kind => typeof kind === 'string' && Object.hasOwn(KINDS, kind)

function blameMisfits(change: unknown, path: string, blame: Blame): void {
  if (!isObject(change)) return blame(path, 'type', 'is not a change', change)
  switch (change.kind) {
    case 'edge_add':
    case 'edge_delete':
      needText(change, 'from', path, blame)
      needText(change, 'to', path, blame)
      return
    case 'node_add':
    case 'node_update':
    case 'node_delete':
      if (!isKindName(change.node)) blame(`${path}.node`, 'enum', 'is not a kind of node', change.node)
      needText(change, 'id', path, blame)
      break
    default:
      return blame(`${path}.kind`, 'enum', 'is not a kind of change', change.kind)
  }
  if (change.kind === 'node_update') {
    if (!isObject(change.set)) blame(`${path}.set`, 'type', 'is not an object', change.set)
    if (change.retired !== undefined && typeof change.retired !== 'boolean')
      blame(`${path}.retired`, 'type', 'is neither true nor false', change.retired)
  } else if (change.kind === 'node_add') {
    if (!isObject(change.data)) blame(`${path}.data`, 'type', 'is not an object', change.data)
    if (change.owner !== undefined) needText(change, 'owner', path, blame)
    if (change.at !== undefined && !isCount(change.at))
      blame(`${path}.at`, 'count', 'is not a whole number of 0 or more', change.at)
    for (const mark of ['imported', 'revived'])
      if (change[mark] !== undefined && change[mark] !== true)
        blame(`${path}.${mark}`, 'const', 'is neither true nor absent', change[mark])
    if (change.group !== undefined && !isSegment(change.group))
      blame(`${path}.group`, 'name', 'is not a name without a slash', change.group)
  }
}

function needText(change: { readonly [field: string]: unknown }, field: string, path: string, blame: Blame): void {
  if (!isText(change[field])) blame(`${path}.${field}`, 'text', 'is not an id', change[field])
}

/** Of each kind of change all copies are of one make, with members that were not given as well: they are looked at again and again. */
function copied(change: Change, i: number): Change {
  switch (change.kind) {
    case 'node_add': {
      const { kind, node, id, owner, at, group, imported, revived } = change
      const data = kept(change.data, `changes[${i}].data`)
      return { kind, node, id, owner, at, group, imported, revived, data } as unknown as Change
    }
    case 'node_update': {
      const { kind, node, id, retired } = change
      const set = kept(change.set, `changes[${i}].set`) as JsonObject
      const gone = Object.keys(change.set).filter((field) => !Object.hasOwn(set, field)) // JSON knows no `undefined`
      const all = gone.length === 0 ? set : { ...set, ...Object.fromEntries(gone.map((field) => [field, undefined])) }
      return { kind, node, id, set: all, retired } as unknown as Change
    }
    default:
      return { ...change }
  }
}

const kept = (value: unknown, path: string): Json => plain(value, path, 'commit', MOST_LEVELS_KEPT)
const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
