import { type Clock, isoMicros } from '../protocol/clock.ts'
import { InvalidInput, RuleViolation, type Violation } from '../protocol/errors.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import type { Write } from '../vsl/backend.ts'
import { checkName } from '../vsl/check-input.ts'
import type { AnyNode, Changes, Commit, CommitOptions, EntryChange, Kind, Stored } from './change.ts'
import type { Delta } from './delta.ts'
import { eventsOf } from './events.ts'
import { fieldChange, isFieldChange } from './field-change.ts'
import { INDEX, type IndexWrites, indexWrites } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { governanceOf, nodeKey, storeKey, toStored } from './node.ts'
import { type Footing, Proposal } from './proposal.ts'
import type { Report, Rule } from './rules/rule.ts'
import { RULES } from './rules.ts'
import { RunEvent } from './run-event.ts'
import { bytesLeft } from './trail.ts'

/** What a commit is drafted against. */
export interface Ground extends Footing {
  /** The last stamp given out, in microseconds. */
  readonly stamped: number
  readonly clock: Clock
  readonly rules: RuleBook
  /** The last revision whose values are all written, if those of later ones trail behind the journal. */
  readonly trailsFrom: number | undefined
  /** What trails and is to be written with this commit's own values; `undefined` when these may trail too. */
  readonly due: readonly (readonly [string, Stored])[] | undefined
}

/** A commit that holds: what to write, and what memory becomes once it is written. */
export interface Draft {
  readonly commit: Commit
  readonly write: Write & { readonly entry: Json }
  readonly deltas: readonly Delta[]
  readonly ranks: ReadonlyMap<string, number>
  readonly stamped: number
  /** About so many of values that it leaves to the journal. */
  readonly bytes: number
}

/** The rules by the kind they look at, and which of their ids are switched over. */
export interface RuleBook {
  readonly shapes: readonly Rule[]
  readonly of: { readonly [K in Kind]: readonly Rule[] }
  readonly switched: ReadonlySet<string>
}

/**
 * All rules. `switched` names ids that do the opposite of what they say: a rule no longer looks, an allowed arrow of a lifecycle is forbidden
 * and a forbidden one allowed, an event is not told. It exists so that a proof can show what each one is for.
 */
export const ruleBook = (switched?: ReadonlySet<string>): RuleBook => (switched ? bookOf(switched) : ALL_RULES)

function bookOf(switched: ReadonlySet<string>): RuleBook {
  const left = RULES.filter((rule) => !switched.has(rule.id)).map(alike)
  const kinds = Object.keys(KINDS) as Kind[]
  const shapes = left.filter((rule) => rule.id === 'schema')
  const looksAt = (kind: Kind) => left.filter((rule) => rule.id !== 'schema' && (rule.kinds?.includes(kind) ?? true))
  const of = Object.fromEntries(kinds.map((kind) => [kind, looksAt(kind)]))
  return { shapes, of: of as unknown as RuleBook['of'], switched }
}

/** All rules of one make: every commit goes through them. */
const alike = ({ id, keeps, kinds, check }: Rule): Rule => ({ id, keeps, kinds, check }) as Rule

const ALL_RULES = bookOf(new Set())

/** The first stamp that a commit made now may give out, in microseconds: by the clock, but after the last one, whose writer's clock may be ahead. */
export const nextStamp = ({ clock, stamped }: Pick<Ground, 'clock' | 'stamped'>): number =>
  Math.max(Math.floor(clock.now() * 1000), stamped + 1)

/** Changes nothing: throws RuleViolation with everything that is wrong, before anything has moved. */
export function draft(ground: Ground, changes: Changes, options: CommitOptions): Draft {
  const first = nextStamp(ground)
  const proposal = new Proposal(ground, changes, options, first)
  refuseIfEmpty(proposal)
  refuseIfBroken(proposal, ground.rules)

  const commit_id = ground.clock.uuid()
  const { project_id } = ground
  const events = eventsOf(proposal, { event_id: commit_id, timestamp: isoMicros(first), project_id })
  const stamped = first + Math.max(events.length - 1, 0)
  const told = proposal.deltas.map((delta) => changeOf(delta, proposal))
  const writes = indexWrites(proposal)
  const trails = ground.due === undefined
  if (!trails) writeValues(told, proposal, ground, writes)
  else {
    // The store meets these keys only with a later commit, and would refuse that one and all that follow.
    for (const change of told) if (isBirth(change)) checkName('id', change.key)
    if (ground.trailsFrom === undefined) writes.puts.push([INDEX.written(ground.graph), { revision: ground.revision }])
  }
  const body = {
    commit_id,
    at: isoMicros(stamped),
    actor: options.actor,
    reason: options.reason,
    ...(options.run !== undefined && { run: options.run }),
    ...(options.events?.some((given) => given instanceof RunEvent) && { run_of: runOf(proposal) }),
    ...(project_id !== undefined && { project_id }),
    ...(trails && { trails }),
    changes: told,
    events,
  }
  return {
    commit: { graph: ground.graph, revision: proposal.revision, body },
    write: {
      checked: true, // whatever came from a caller was copied as JSON, the rest is ours
      stream: ground.graph,
      expected: ground.revision,
      ...(options.fence !== undefined && { fence: options.fence }),
      entry: body as unknown as Json,
      ...writes,
    },
    deltas: proposal.deltas,
    ranks: proposal.order.ranks,
    stamped,
    bytes: trails ? bytesLeft(proposal.deltas) : 0,
  }
}

/** What the run's own events name beside it. */
function runOf(proposal: Proposal): { readonly plan_id: string; readonly trace_id: string } {
  const { run } = proposal.options
  const found = run === undefined ? undefined : proposal.after('run', run)
  if (!found) throw new InvalidInput('commit', [problem('run', 'reference', 'is no run of this graph', run)])
  const { plan_id, trace_id } = found.data
  return { plan_id, trace_id }
}

/** The values of a commit, and with them those that trail. */
function writeValues(
  told: readonly EntryChange[],
  { deltas }: Proposal,
  { graph, trailsFrom, due = [] }: Ground,
  { inserts, puts, deletes }: IndexWrites,
): void {
  for (const [i, change] of told.entries())
    (isBirth(change) ? inserts : puts).push([change.key, valueAfter(deltas[i]!)])
  if (trailsFrom === undefined) return
  const written = new Set(told.map(({ key }) => key))
  for (const [key, value] of due) if (!written.has(key)) puts.push([key, value])
  deletes.push(INDEX.written(graph))
}

/** What memory must hold before these changes can be judged: whatever they name, except what they add. */
export function named(changes: Changes): readonly (readonly [Kind, string])[] {
  const names: Names = { added: new Map(), found: [] }
  for (const change of changes) {
    if (change.kind !== 'node_add' || change.revived) continue
    const known = names.added.get(change.node)
    if (known) known.add(change.id)
    else names.added.set(change.node, new Set([change.id]))
  }
  for (const change of changes) {
    if (change.kind === 'edge_add' || change.kind === 'edge_delete') {
      name(names, 'step', change.from)
      continue
    }
    name(names, change.node, change.id)
    if (change.kind === 'node_delete') continue
    const fields = (change.kind === 'node_add' ? change.data : change.set) as JsonObject
    name(names, 'confirm', governanceOf(fields)?.lastConfirmRef?.id)
    if (change.kind === 'node_update') continue
    const { partOf, refs = [] } = KINDS[change.node]
    if (partOf) name(names, partOf, change.owner)
    for (const { field, to } of refs)
      name(names, typeof to === 'string' ? to : to(change as unknown as AnyNode), fields[field])
  }
  return names.found
}

interface Names {
  readonly added: Map<Kind, Set<string>>
  readonly found: [Kind, string][]
}

function name({ added, found }: Names, kind: Kind, id: unknown): void {
  if (typeof id === 'string' && !added.get(kind)?.has(id)) found.push([kind, id])
}

/** A change as the journal tells it. */
function changeOf(delta: Delta, proposal: Proposal): EntryChange {
  const { kind, id, before, after } = delta
  const key = storeKey(proposal.graph, (after ?? before)!)
  const fields = fieldChange(key, delta)
  if (fields) return fields
  if (before) return { key, before: toStored(before), after: valueAfter(delta) }
  const tombstone = proposal.revived(kind, id)
  return tombstone
    ? { key, before: toStored(tombstone, true), after: valueAfter(delta) }
    : { key, after: valueAfter(delta) }
}

/** Nothing lies under its key yet, not even a tombstone. */
const isBirth = (change: EntryChange): boolean => !isFieldChange(change) && !change.before

const valueAfter = ({ before, after }: Delta): Stored => (after ? toStored(after) : toStored(before!, true))

function refuseIfEmpty({ deltas, misfits, options }: Proposal): void {
  if (deltas.length === 0 && misfits.length === 0 && (options.events ?? []).length === 0)
    throw new InvalidInput('commit', [
      { path: 'changes', rule: 'min_items', message: 'have neither a change nor an event' },
    ])
}

/** Shapes first: what does not even have one is told for that, and no other rule has to reckon with it. */
function refuseIfBroken(proposal: Proposal, rules: RuleBook): void {
  const violations: Violation[] = proposal.misfits.filter(({ rule }) => !rules.switched.has(rule))
  let rule: Rule
  let looked: Delta
  const report: Report = (path, message, id) =>
    void violations.push({ rule: id ?? rule.id, node: nodeKey(looked.kind, looked.id), path, message })
  const judge = (by: readonly Rule[], delta: Delta) => {
    looked = delta
    for (rule of by) rule.check(delta, proposal, report)
  }
  for (const delta of proposal.deltas) {
    const known = violations.length
    judge(rules.shapes, delta)
    if (violations.length > known) proposal.shapeless.add(delta)
  }
  for (const delta of proposal.deltas) if (!proposal.shapeless.has(delta)) judge(rules.of[delta.kind], delta)
  if (violations.length > 0) throw new RuleViolation(proposal.graph, violations)
}
