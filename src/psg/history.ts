import { InvalidInput } from '../protocol/errors.ts'
import { canonical, type Json, type JsonObject } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, EntryBody, EntryChange, Kind, Stored } from './change.ts'
import { applyEntry } from './load.ts'
import { type GraphState, graphState } from './state.ts'

/** A graph's journal. */
export interface Journal {
  readonly id: string
  readonly store: Pick<Backend, 'read'>
  readonly revision: number
}

/** One change of a node, and who made it. */
export interface Past {
  readonly revision: number
  readonly at: string
  readonly actor: string
  readonly reason: string
  readonly run?: string
  readonly before?: JsonObject
  /** Absent once it was deleted. */
  readonly after?: JsonObject
}

/** Entries of a graph above `after`, up to and with `upTo`. */
export async function* entriesOf(
  journal: Journal,
  after = 0,
  upTo = Number.POSITIVE_INFINITY,
): AsyncIterable<{ revision: number; body: EntryBody }> {
  for await (const entry of journal.store.read(journal.id, { after })) {
    if (entry.revision > upTo) return
    yield { revision: entry.revision, body: entry.body as unknown as EntryBody }
  }
}

/** Every change of one node, oldest first. */
export async function historyOf(journal: Journal, kind: Kind, id: string, born = 1): Promise<readonly Past[]> {
  const suffix = `/${kind}/${id}`
  const past: Past[] = []
  let now: JsonObject | undefined
  for await (const { revision, body } of entriesOf(journal, born - 1)) {
    for (const change of body.changes) {
      if (!change.key.endsWith(suffix)) continue
      const before = now
      now = dataAfter(change, now)
      const { at, actor, reason, run } = body
      past.push({
        revision,
        at,
        actor,
        reason,
        ...(run !== undefined && { run }),
        ...(before && { before }),
        ...(now && { after: now }),
      })
    }
  }
  return past
}

/** The whole graph as it was at a revision, read from the journal; groups that have ended since are there too. */
export async function graphAt(journal: Journal, revision: number): Promise<GraphState> {
  refuseUnknown(journal, revision)
  const state = graphState()
  for await (const { body } of entriesOf(journal, 0, revision)) {
    for (const change of body.changes) state.openGroup(change.key.split('/')[1]!)
    applyEntry(body, state)
  }
  return state
}

export interface Difference {
  readonly kind: Kind
  readonly id: string
  readonly before?: JsonObject
  readonly after?: JsonObject
}

/** What differs between two revisions: each node once, first state against last. */
export async function diffOf(journal: Journal, from: number, to: number): Promise<readonly Difference[]> {
  refuseUnknown(journal, from)
  refuseUnknown(journal, to)
  if (from > to)
    return (await diffOf(journal, to, from)).map(({ kind, id, before, after }) => ({
      kind,
      id,
      ...(after && { before: after }),
      ...(before && { after: before }),
    }))
  const first = await graphAt(journal, from)
  const last = await graphAt(journal, to)
  const touched = new Map<string, AnyNode>()
  for await (const { body } of entriesOf(journal, from, to))
    for (const change of body.changes) {
      const [, , kind, ...id] = change.key.split('/')
      const node = first.get(kind as Kind, id.join('/')) ?? last.get(kind as Kind, id.join('/'))
      if (node) touched.set(change.key, node)
    }
  return [...touched.values()].flatMap(({ kind, id }) => {
    const before = first.get(kind, id)?.data as JsonObject | undefined
    const after = last.get(kind, id)?.data as JsonObject | undefined
    if (before && after && canonical(before) === canonical(after)) return []
    return [{ kind, id, ...(before && { before }), ...(after && { after }) }]
  })
}

/** A node's content after a change, given the content before it. */
function dataAfter(change: EntryChange, before: JsonObject | undefined): JsonObject | undefined {
  if ('status' in change) return { ...before, status: change.status[1] }
  return change.after && !change.after.deleted ? change.after.data : undefined
}

/** The value of a key before and after a change; the short form needs the value that came before it. */
export function storedAfter(change: EntryChange, before: Stored | undefined): Stored | undefined {
  if (!('status' in change)) return change.after
  return before && { ...before, data: { ...before.data, status: change.status[1] as Json } }
}

function refuseUnknown(journal: Journal, revision: number): void {
  if (Number.isSafeInteger(revision) && revision >= 0 && revision <= journal.revision) return
  throw new InvalidInput('revision', [
    {
      path: '',
      rule: 'range',
      message: `is not a revision of ${journal.id}: they go from 0 to ${journal.revision}`,
      found: String(revision),
    },
  ])
}
