import { InvalidInput } from '../protocol/errors.ts'
import { type Field, having, needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import type { JsonObject } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import type { Backend } from '../vsl/backend.ts'
import type { EntryBody, Kind, Stored } from './change.ts'
import { isFieldChange, storedAfter } from './field-change.ts'
import { damaged, entryFault } from './form.ts'
import { graphMemory } from './graph-memory.ts'
import { applyEntry } from './load.ts'
import { placeOf } from './node.ts'
import { sameJson } from './plain.ts'
import type { GraphState } from './state.ts'

const JOURNAL: Field = {
  says: 'a graph, or the id of one and its store',
  fits: (value) => text.fits(Object(value).id) && having('a store', 'read').fits(Object(value).store),
}

/** A graph's journal. */
export interface Journal {
  readonly id: string
  readonly store: Pick<Backend, 'read'>
}

export interface JournalEntry {
  readonly revision: number
  readonly body: EntryBody
}

/** One change of a node, and who made it. Of a plan also a stage on the way back from its run, of a Confirm also a decision that left it open. */
export interface Past {
  readonly revision: number
  readonly at: string
  readonly actor: string
  readonly reason: string
  readonly run?: string
  /** Where the plan or Confirm itself stays as it is: the type of the event that tells of the way back, or how somebody decided. */
  readonly told?: string
  readonly before?: JsonObject
  /** Absent once it was deleted. */
  readonly after?: JsonObject
  /** It was retired, now or before. */
  readonly retired?: true
}

/** Entries of a graph above `after`, up to and with `upTo`. Throws Corrupt for one that is none: who passed it by would tell another story. */
export async function* entriesOf(
  journal: Journal,
  after = 0,
  upTo = Number.POSITIVE_INFINITY,
): AsyncIterable<JournalEntry> {
  if (after >= upTo) return
  for await (const { revision, body } of journal.store.read(journal.id, { after })) {
    const fault = entryFault(journal.id, body)
    if (fault !== undefined) throw damaged(`revision ${revision} of ${journal.id}`, fault)
    yield { revision, body: body as unknown as EntryBody }
    if (revision >= upTo) return
  }
}

/** Every change of one node, oldest first; it is looked for from the revision that bore it. */
export async function historyOf(journal: Journal, kind: Kind, id: string, born = 1): Promise<readonly Past[]> {
  const past: Past[] = []
  let stored: Stored | undefined
  for await (const { revision, body } of entriesOf(journal, born - 1)) {
    const { at, actor, reason, run } = body
    const by = { revision, at, actor, reason, ...(run !== undefined && { run }) }
    for (const change of body.changes) {
      if (!change.key.endsWith(id)) continue
      const place = placeOf(change.key)
      if (place.kind !== kind || place.id !== id) continue
      const before = contentOf(stored)
      stored = storedAfter(change, stored)
      const after = contentOf(stored)
      const retired = after && stored?.retired && { retired: true as const }
      past.push({ ...by, ...(before && { before }), ...(after && { after }), ...retired })
    }
    const now = contentOf(stored)
    const hasChanged = past.at(-1)?.revision === revision
    const beside = kind === 'plan' ? waysBack(body, id) : kind === 'confirm' && !hasChanged ? decisionsOn(body, id) : []
    for (const told of beside) past.push({ ...by, told, ...(now && { before: now, after: now }) })
  }
  return past
}

/** Taking a plan's run back changes files and others, never the plan: only the events that the entry tells are about it. */
const waysBack = ({ events }: EntryBody, plan: string): readonly string[] =>
  events.flatMap((told) =>
    'event' in told && told.plan_id === plan && told.event.event_family === 'compensation_plan'
      ? [told.event.event_type]
      : [],
  )

/** Where several must agree, all but the last leave the Confirm as it is. */
const decisionsOn = ({ changes }: EntryBody, confirm: string): readonly string[] =>
  changes.flatMap((change) => {
    if (isFieldChange(change) || placeOf(change.key).kind !== 'decision') return []
    return change.after?.owner === confirm && !change.before ? [`decision ${change.after.data.status}`] : []
  })

/** The whole graph as it was at a revision, read from the journal; groups that have ended since are there too. */
export async function graphAt(journal: Journal, revision: number): Promise<GraphState> {
  refuseUnlessFit('history', { journal }, { journal: needed(JOURNAL) })
  refuseUnlessRevision(revision)
  const memory = graphMemory()
  let reached = 0
  for await (const entry of entriesOf(journal, 0, revision)) {
    for (const change of entry.body.changes) memory.openGroup(placeOf(change.key).group)
    applyEntry(entry.body, memory)
    reached = entry.revision
  }
  if (reached < revision) throw unknownRevision(journal, revision, reached)
  return memory.state
}

export interface Difference {
  readonly kind: Kind
  readonly id: string
  readonly before?: JsonObject
  readonly after?: JsonObject
  /** Whether it is retired afterwards, where that is not as it was before. */
  readonly retired?: boolean
}

/** What differs between two revisions: each node once, first state against last, in the order in which they were touched. */
export async function diffOf(journal: Journal, from: number, to: number): Promise<readonly Difference[]> {
  refuseUnlessRevision(from)
  refuseUnlessRevision(to)
  const values = new Map<string, Stored | undefined>()
  const earlier = new Map<string, Stored | undefined>()
  const [first, last] = [Math.min(from, to), Math.max(from, to)]
  let reached = 0
  for await (const { revision, body } of entriesOf(journal, 0, last)) {
    for (const change of body.changes) {
      const before = values.get(change.key)
      if (revision > first && !earlier.has(change.key)) earlier.set(change.key, before)
      values.set(change.key, storedAfter(change, before))
    }
    reached = revision
  }
  if (reached < last) throw unknownRevision(journal, last, reached)
  return [...earlier].flatMap(([key, then]) => {
    const since = values.get(key)
    return from <= to ? difference(key, then, since) : difference(key, since, then)
  })
}

export function difference(key: string, one: Stored | undefined, other: Stored | undefined): readonly Difference[] {
  const [before, after] = [contentOf(one), contentOf(other)]
  const wasRetired = before !== undefined && one?.retired === true
  const isRetired = after !== undefined && other?.retired === true
  if (sameJson(before, after) && wasRetired === isRetired) return []
  const { kind, id } = placeOf(key)
  const retired = after && wasRetired !== isRetired ? { retired: isRetired } : undefined
  return [{ kind, id, ...(before && { before }), ...(after && { after }), ...retired }]
}

/** What a node says; nothing once it was deleted. */
const contentOf = (stored: Stored | undefined): JsonObject | undefined => (stored?.deleted ? undefined : stored?.data)

function refuseUnlessRevision(revision: number): void {
  if (Number.isSafeInteger(revision) && revision >= 0) return
  throw new InvalidInput('revision', [problem('', 'revision', 'is not a whole number of 0 or more', revision)])
}

const unknownRevision = ({ id }: Journal, revision: number, last: number): InvalidInput =>
  new InvalidInput('revision', [
    { path: '', rule: 'range', message: `is not one of ${id}: they go from 0 to ${last}`, found: String(revision) },
  ])
