import type { DirectedGraph } from 'graphology'
import { RevisionConflict } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import type { Backend, Entry } from '../vsl/backend.ts'
import type { AnyNode, BornEvent, EntryBody, EntryChange, FieldChange, Stored } from './change.ts'
import { fieldsOf, isFieldChange, storedAfter, takeOn } from './field-change.ts'
import type { Finding, Found } from './finding.ts'
import { entryFault, isNodeKey, isStored } from './form.ts'
import { type IndexRows, indexRows } from './index-rows.ts'
import { INDEX, type Written } from './indexes.ts'
import { fromStored, isKind, nodeKey, ofKind, placeOf, referencesOf } from './node.ts'
import { sameJson } from './plain.ts'
import { misfits } from './rules/structure.ts'
import { eventsIn } from './told.ts'
import { trimmedAt } from './trimmed.ts'
import { checkBlobs, type NamedBlobs, nameBlobs } from './verify-blobs.ts'
import { findingOf, type IndexFault, indexFaults } from './verify-indexes.ts'

/**
 * Proves a graph from the store alone: the journal folds into the values and what trails behind them, references resolve, plans are acyclic, the
 * indexes tell the truth, the events' deltas add up, stamps only grow, blobs are what their digests say. Reports and repairs nothing. Others may write
 * meanwhile; throws RevisionConflict when they kept writing wherever something seemed wrong. `rows` spares it reading the indexes of the whole store.
 */
export async function verifyGraph(store: Backend, graph: string, rows?: IndexRows): Promise<readonly Finding[]> {
  const { findings, faults } = await foundIn(store, graph, rows ?? (await indexRows(store, graph)))
  return [...findings, ...faults.filter(({ isOld }) => !isOld).map(findingOf)]
}

interface FoundIn {
  /** The last one that was looked at. */
  readonly revision: number
  readonly findings: readonly Finding[]
  /** Of the indexes: all else is truth, which these are made from. */
  readonly faults: readonly IndexFault[]
}

/** What is wrong with a graph, whoever writes to it meanwhile. One that was taken away in between is looked at again. */
export async function foundIn(store: Backend, graph: string, rows: IndexRows): Promise<FoundIn> {
  for (;;) {
    const trimmed = await trimmedAt(store, graph)
    const found = await foundAtOnce(store, graph, rows)
    if ((await trimmedAt(store, graph)) === trimmed) return found
  }
}

async function foundAtOnce(store: Backend, graph: string, rows: IndexRows): Promise<FoundIn> {
  const findings: Finding[] = []
  const found: Found = (rule, node, message) => void findings.push({ rule, node, message })
  const { revision: head } = await store.head(graph)
  const settled = await writtenUpTo(store, graph, head)
  const stored = await valuesOf(store, graph, found)
  const { revision } = await store.head(graph) // no value that was read is newer
  const blobs: NamedBlobs = new Map()
  const folded = await foldJournal(store, graph, revision, found, (at, change) => {
    if (at > settled) takeOn(stored, change)
    nameBlobs(change, blobs)
  })
  compareValues(folded.values, stored, found)
  const nodes = liveNodes(stored, found)
  checkReferences(nodes, found)
  await checkAcyclic(nodes, found)
  checkDeltas(graph, nodes, folded, found)
  checkSnapshots(nodes, revision, found)
  await checkBlobs(store, blobs, found)
  return { findings, ...(await settledFaults(store, graph, { revision, stored, nodes }, rows.get(graph) ?? [])) }
}

const MOST_LOOKS = 50

/** The graph as it was at a revision. */
interface Standing {
  readonly revision: number
  readonly stored: Map<string, Stored>
  readonly nodes: ReadonlyMap<string, AnyNode>
}

/** What is wrong with the indexes, and was so while nobody wrote to the group it is about: else the next look is at a later revision. */
async function settledFaults(
  store: Backend,
  graph: string,
  { stored, ...from }: Standing,
  rows: readonly string[],
): Promise<Pick<FoundIn, 'revision' | 'faults'>> {
  const faults: IndexFault[] = []
  let { revision, nodes } = from
  let only: ReadonlySet<string> | undefined
  for (let look = 1; ; look++) {
    const seen = await indexFaults(store, graph, { nodes, stored, rows, only })
    const [before, touched] = [revision, new Set<string>()]
    revision = (await store.head(graph)).revision
    for await (const { body } of entriesUpTo(revision, store.read(graph, { after: before }))) {
      if (entryFault(graph, body) !== undefined) continue // the next proof tells
      for (const change of (body as unknown as EntryBody).changes) {
        takeOn(stored, change)
        touched.add(placeOf(change.key).group)
      }
    }
    const isSettled = ({ group }: IndexFault) => (group === undefined ? revision === before : !touched.has(group))
    faults.push(...seen.filter(isSettled))
    only = new Set(seen.filter((fault) => !isSettled(fault)).map(({ key }) => key))
    if (only.size === 0) return { revision, faults }
    if (look === MOST_LOOKS) throw new RevisionConflict(graph, before, revision)
    nodes = liveNodes(stored)
  }
}

/** No more of a journal: whoever reads on while others write may never come to its end. */
async function* entriesUpTo(revision: number, journal: AsyncIterable<Entry>): AsyncIterable<Entry> {
  for await (const entry of journal) {
    if (entry.revision > revision) return
    yield entry
  }
}

interface Folded {
  readonly values: ReadonlyMap<string, Stored>
  readonly nodeDelta: number
  readonly edgeDelta: number
}

async function foldJournal(
  store: Backend,
  graph: string,
  upTo: number,
  found: Found,
  passing: (revision: number, change: EntryChange) => void,
): Promise<Folded> {
  const values = new Map<string, Stored>()
  let [nodeDelta, edgeDelta, last, expected] = [0, 0, '', 1]
  for await (const { revision, body: json } of entriesUpTo(upTo, store.read(graph))) {
    if (revision !== expected) found('journal.gap', graph, `revision ${expected} is missing`)
    expected = revision + 1
    const fault = entryFault(graph, json)
    if (fault !== undefined) {
      found('journal.form', graph, `revision ${revision} ${fault}`)
      continue
    }
    const body = json as unknown as EntryBody
    for (const change of body.changes) {
      const before = values.get(change.key)
      if (!follows(change, before))
        found('journal.fold', change.key, `revision ${revision} changes ${change.key} from what it was not`)
      const after = storedAfter(change, before)
      if (after) values.set(change.key, after)
      passing(revision, change)
    }
    for (const [i, { event }] of toldIn(graph, revision, body, found).entries()) {
      if (event.timestamp <= last)
        found('event.order', event.event_id, `event ${event.event_id} is stamped ${event.timestamp}, not after ${last}`)
      last = event.timestamp
      if (!('update' in body.events[i]!)) continue // a module may tell updates of its own: they count nothing here
      nodeDelta += event.node_delta as number
      edgeDelta += event.edge_delta as number
    }
  }
  if (expected <= upTo) found('journal.gap', graph, `the journal ends at ${expected - 1}, the head says ${upTo}`)
  return { values, nodeDelta, edgeDelta }
}

/** An event may refer to changes that its entry does not have. */
function toldIn(graph: string, revision: number, body: EntryBody, found: Found): readonly BornEvent[] {
  try {
    return eventsIn({ stream: graph, revision, body })
  } catch (error) {
    found(
      'journal.form',
      graph,
      `revision ${revision} tells of events that it does not have: ${(error as Error).message}`,
    )
    return []
  }
}

/** Does a change begin where the one before it ended? Restoring relies on it. */
function follows(change: EntryChange, before: Stored | undefined): boolean {
  if (isFieldChange(change)) return fieldsOf(change).every((field) => goesOn(change, field, before?.data[field]))
  return same(change.before as Json | undefined, before as Json | undefined)
}

function goesOn({ was, grew }: FieldChange, field: string, value: Json | undefined): boolean {
  const growth = grew?.[field]
  return growth ? Array.isArray(value) && value.length === growth.from : same(value, was[field])
}

const same = (a: Json | undefined, b: Json | undefined): boolean => sameJson(a ?? null, b ?? null)

/** The values of revisions up to this one are all written; asked before they are read, of a head that was read before. */
async function writtenUpTo(store: Backend, graph: string, head: number): Promise<number> {
  const mark = INDEX.written(graph)
  const written = (await store.getMany([mark])).get(mark) as Written | undefined
  return written?.revision ?? head
}

async function valuesOf(store: Backend, graph: string, found: Found): Promise<Map<string, Stored>> {
  const stored = new Map<string, Stored>()
  const listed = INDEX.open(graph, '')
  for await (const [key, value] of store.scan(`${graph}/`)) {
    if (key.startsWith(listed) || key === INDEX.written(graph)) continue
    if (isNodeKey(graph, key) && isStored(value)) stored.set(key, value as Stored)
    else found('value.form', key, `${key} holds no node`)
  }
  return stored
}

function compareValues(folded: ReadonlyMap<string, Stored>, stored: ReadonlyMap<string, Stored>, found: Found): void {
  for (const [key, value] of folded) {
    const there = stored.get(key)
    if (!there) found('value.missing', key, `${key} is in the journal but not among the values`)
    else if (!sameJson(there as Json, value as Json)) found('value.differs', key, `${key} is not what the journal says`)
  }
  for (const key of stored.keys())
    if (!folded.has(key)) found('value.unknown', key, `${key} is among the values but not in the journal`)
}

function liveNodes(stored: ReadonlyMap<string, Stored>, found?: Found): ReadonlyMap<string, AnyNode> {
  const nodes = new Map<string, AnyNode>()
  for (const [key, value] of stored) {
    if (value.deleted) continue
    const node = fromStored(key, value)
    const name = nodeKey(node.kind, node.id)
    const [misfit] = misfits(node)
    if (misfit) {
      found?.('value.shape', key, `${name}: ${misfit.path || 'it'} ${misfit.message}`)
      continue // nothing more can be said of it
    }
    if (nodes.has(name))
      found?.('id.unique', name, `${name} lies in two groups: ${nodes.get(name)!.group}, ${node.group}`)
    nodes.set(name, node)
  }
  return nodes
}

function checkReferences(nodes: ReadonlyMap<string, AnyNode>, found: Found): void {
  for (const [key, node] of nodes)
    for (const ref of referencesOf(node))
      if (!ref.soft && !nodes.has(nodeKey(ref.kind, ref.id)))
        found('reference.resolves', key, `${key} refers to ${ref.kind} ${ref.id}, which is not there`)
}

async function checkAcyclic(nodes: ReadonlyMap<string, AnyNode>, found: Found): Promise<void> {
  const [graphology, { hasCycle }] = await Promise.all([import('graphology'), import('graphology-dag')])
  const plans = new Map<string, DirectedGraph>()
  for (const { id, owner, data } of ofKind(nodes.values(), 'step')) {
    const graph = plans.get(owner!) ?? new graphology.DirectedGraph()
    plans.set(owner!, graph)
    for (const dependency of data.dependencies ?? []) graph.mergeDirectedEdge(id, dependency)
  }
  for (const [plan, graph] of plans)
    if (hasCycle(graph)) found('plan.acyclic', nodeKey('plan', plan), `steps of plan ${plan} wait for each other`)
}

function checkDeltas(
  graph: string,
  nodes: ReadonlyMap<string, AnyNode>,
  { nodeDelta, edgeDelta }: Folded,
  found: Found,
): void {
  if (nodeDelta !== nodes.size)
    found('delta.nodes', graph, `events tell of ${nodeDelta} nodes, there are ${nodes.size}`)
  let edges = 0
  for (const node of nodes.values())
    for (const ref of referencesOf(node)) if (!ref.soft || nodes.has(nodeKey(ref.kind, ref.id))) edges++
  if (edgeDelta !== edges) found('delta.edges', graph, `events tell of ${edgeDelta} edges, there are ${edges}`)
}

function checkSnapshots(nodes: ReadonlyMap<string, AnyNode>, revision: number, found: Found): void {
  for (const [key, node] of nodes)
    if (isKind(node, 'snapshot') && node.data.revision >= Math.min(node.born, revision + 1))
      found(
        'snapshot.revision',
        key,
        `snapshot ${node.data.name} names revision ${node.data.revision}, not before itself`,
      )
}
