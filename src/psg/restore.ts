import type { Json, JsonObject } from '../protocol/json.ts'
import type { AnyNode, Change, EntryChange, Kind, Stored } from './change.ts'
import { isFieldChange, isMove, storedAfter } from './field-change.ts'
import type { JournalEntry } from './history.ts'
import { KINDS } from './kinds.ts'
import { fromStored, placeOf, statusOf } from './node.ts'
import { sameJson } from './plain.ts'
import type { GraphState } from './state.ts'

/** The way back, before anybody has gone it. */
export interface Restoration {
  readonly changes: readonly Change[]
  /** What is left as it is, and why: somebody else changed it since, or a rule keeps it. */
  readonly conflicts: readonly Conflict[]
}
export interface Conflict {
  readonly kind: Kind
  readonly id: string
  /** Of the change that stands in the way, or of the graph when a rule does. */
  readonly revision: number
  readonly message: string
}

/** The changes that take back what the chosen entries did: definitions, files and the like go back to what they were before. */
export function restoration(touched: ReadonlyMap<string, Touched>, state: GraphState): Restoration {
  const changes: Change[] = []
  const conflicts: Conflict[] = []
  const kept = new Map<string, number>()
  for (const [key, { before, left, foreign, foreignMove, isMixed }] of touched) {
    const { kind, id } = placeOf(key)
    if (foreign !== undefined && !isMixed && isAlike(kind, before, left)) continue // taken back already: what it is now is theirs
    const [back, ...rest] = wayBack(state, kind, id, before && !before.deleted ? fromStored(key, before) : undefined)
    if (!back) continue
    // Where a thing stands in its life is not restored, so that somebody moved it stands in the way of its end only.
    const revision = foreign ?? (back.kind === 'node_delete' ? foreignMove : undefined)
    if (revision === undefined) {
      changes.push(back, ...rest)
      continue
    }
    const message = `${kind} ${id} was changed by somebody else at revision ${revision}`
    conflicts.push({ kind, id, revision, message })
    if (isStepGoing(back)) kept.set(id, revision)
  }
  return withBindings({ changes, conflicts }, kept, state)
}

export const isStepGoing = (change: Change): boolean => change.kind === 'node_delete' && change.node === 'step'

/** A step that was to go and stays is executed as before: what says how stays with it. `kept` tells by which revision each of them does. */
export function withBindings(way: Restoration, kept: ReadonlyMap<string, number>, state: GraphState): Restoration {
  if (kept.size === 0) return way
  const changes: Change[] = []
  const conflicts = [...way.conflicts]
  for (const change of way.changes) {
    const bound =
      change.kind === 'node_delete' && change.node === 'binding' ? state.get('binding', change.id) : undefined
    const revision = bound && kept.get(bound.data.step_id)
    if (revision === undefined) changes.push(change)
    else {
      const { id, data } = bound!
      const message = `step ${data.step_id} stays, and needs binding ${id}`
      conflicts.push({ kind: 'binding', id, revision, message })
    }
  }
  return { changes, conflicts }
}

/** What became of something that chosen entries have changed. */
export interface Touched {
  /** What it was before the first of the chosen entries. */
  readonly before: Stored | undefined
  /** What the chosen ones left it as, up to where somebody else changed it. */
  left: Stored | undefined
  now: Stored | undefined
  /** The last revision at which somebody else changed it since, unless that was put back. */
  foreign?: number | undefined
  /** The last at which somebody else moved its status. */
  foreignMove?: number
  /** The chosen ones changed it once more after somebody else had. */
  isMixed?: boolean
}

/**
 * What the chosen entries did that can be taken back, by its key, given every entry since the revision to go back to. What a run did to its own plan,
 * steps, traces and approvals is history and stays, and so does what is written once.
 */
export function touchedBy(
  entries: readonly JournalEntry[],
  chosen: (entry: JournalEntry) => boolean,
): ReadonlyMap<string, Touched> {
  const touched = new Map<string, Touched>()
  for (const entry of entries) {
    const { revision, body } = entry
    const ours = chosen(entry)
    for (const change of body.changes) {
      const known = touched.get(change.key)
      if (known) followed(known, change, ours, revision)
      else if (ours && !isFieldChange(change) && goesBack(placeOf(change.key).kind))
        touched.set(change.key, { before: change.before, left: change.after, now: change.after })
    }
  }
  return touched
}

const goesBack = (kind: Kind): boolean => !KINDS[kind].runState && !KINDS[kind].writeOnce && !KINDS[kind].passing

function followed(known: Touched, change: EntryChange, ours: boolean, revision: number): void {
  const status = known.now?.data.status
  known.now = storedAfter(change, known.now)
  if (ours) {
    if (known.foreign === undefined) known.left = known.now
    else known.isMixed = true
    return
  }
  if (known.now?.data.status !== status) known.foreignMove = revision // alone, or with what may be put back
  // As it was before somebody else changed it: that was taken back, or is nothing but a further look at it.
  if (!isMove(change)) known.foreign = isAlike(placeOf(change.key).kind, known.left, known.now) ? undefined : revision
}

/** Are these the same thing, whatever was last seen of it? */
function isAlike(kind: Kind, one: Stored | undefined, other: Stored | undefined): boolean {
  if (!one || one.deleted || !other || other.deleted) return isGone(one) === isGone(other)
  return one.retired === other.retired && !differences(one.data, other.data, KINDS[kind].seen ?? [])
}
const isGone = (stored: Stored | undefined): boolean => !stored || stored.deleted === true

function wayBack(state: GraphState, kind: Kind, id: string, then: AnyNode | undefined): readonly Change[] {
  const now = state.get(kind, id)
  if (!then) return now ? [{ kind: 'node_delete', node: kind, id }] : []
  if (now) {
    const { seen = [] } = KINDS[kind]
    const set = differences(then.data as JsonObject, now.data as JsonObject, seen) // what was last seen of it was seen
    // Retiring is how roles and core go instead of being deleted, so it goes back like a deletion.
    const retired = then.retired === now.retired ? undefined : { retired: then.retired === true }
    return set || retired ? [{ kind: 'node_update', node: kind, id, set: set ?? {}, ...retired } as Change] : []
  }
  const tombstone = state.tombstone(kind, id)
  if (!tombstone) return []
  const status = statusOf(tombstone)
  const data = status === undefined ? then.data : { ...then.data, status }
  const revived = { kind: 'node_add', node: kind, id, group: then.group, revived: true, data } as Change
  if (then.retired === tombstone.retired) return [revived]
  return [revived, { kind: 'node_update', node: kind, id, set: {}, retired: then.retired === true } as Change]
}

/** The fields that differ, except the status and these. */
function differences(
  then: JsonObject,
  now: JsonObject,
  except: readonly string[],
): { [field: string]: Json | undefined } | undefined {
  const fields = new Set([...Object.keys(then), ...Object.keys(now)])
  for (const field of ['status', ...except]) fields.delete(field)
  const set = [...fields].filter((field) => !sameJson(then[field], now[field]))
  return set.length > 0 ? Object.fromEntries(set.map((field) => [field, then[field]])) : undefined
}
