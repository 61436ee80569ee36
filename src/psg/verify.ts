import { DirectedGraph } from 'graphology'
import { hasCycle } from 'graphology-dag'
import { canonical, type Json, type JsonObject } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, Stored } from './change.ts'
import { entriesOf, type Journal, storedAfter } from './history.ts'
import { INDEX, type Whereabouts } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { fromStored, isKind, nodeKey, referencesOf, statusOf } from './node.ts'

/** Something in the store that does not hold together. */
export interface Finding {
  readonly rule: string
  readonly node: string
  readonly message: string
}

/**
 * Proves a graph from the store alone: the journal folds into the values, references resolve, plans are acyclic, the indexes tell the truth,
 * the events' deltas add up, stamps only grow. Reports and repairs nothing.
 */
export async function verifyGraph(store: Backend, journal: Journal): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  const found = (rule: string, node: string, message: string) => void findings.push({ rule, node, message })
  const folded = await foldJournal(journal, found)
  const values = await valuesOf(store, journal.id)
  compareValues(folded.values, values.stored, found)
  const nodes = liveNodes(values.stored)
  checkReferences(nodes, found)
  checkAcyclic(nodes, found)
  checkDeltas(nodes, folded, found)
  checkSnapshots(nodes, journal.revision, found)
  await checkIndexes(store, journal.id, nodes, values.open, found)
  return findings
}

type Found = (rule: string, node: string, message: string) => void

interface Folded {
  readonly values: ReadonlyMap<string, Stored>
  readonly nodeDelta: number
  readonly edgeDelta: number
}

async function foldJournal(journal: Journal, found: Found): Promise<Folded> {
  const values = new Map<string, Stored>()
  let [nodeDelta, edgeDelta, last, expected] = [0, 0, '', 1]
  for await (const { revision, body } of entriesOf(journal)) {
    if (revision !== expected) found('journal.gap', journal.id, `revision ${expected} is missing`)
    expected = revision + 1
    for (const change of body.changes) {
      const after = storedAfter(change, values.get(change.key))
      if (after) values.set(change.key, after)
      else
        found('journal.fold', change.key, `revision ${revision} changes ${change.key}, which no entry before it made`)
    }
    for (const { event } of body.events) {
      if (event.timestamp <= last)
        found('event.order', event.event_id, `event ${event.event_id} is stamped ${event.timestamp}, not after ${last}`)
      last = event.timestamp
      if (event.event_family !== 'graph_update') continue
      nodeDelta += event.node_delta as number
      edgeDelta += event.edge_delta as number
    }
  }
  return { values, nodeDelta, edgeDelta }
}

async function valuesOf(store: Backend, graph: string) {
  const stored = new Map<string, Stored>()
  const open = new Set<string>()
  const listed = INDEX.open(graph, '')
  for await (const [key, value] of store.scan(`${graph}/`)) {
    if (key.startsWith(listed)) open.add(key.slice(listed.length))
    else stored.set(key, value as Stored)
  }
  return { stored, open }
}

function compareValues(folded: ReadonlyMap<string, Stored>, stored: ReadonlyMap<string, Stored>, found: Found): void {
  for (const [key, value] of folded) {
    const there = stored.get(key)
    if (!there) found('value.missing', key, `${key} is in the journal but not among the values`)
    else if (canonical(there as Json) !== canonical(value as Json))
      found('value.differs', key, `${key} is not what the journal says`)
  }
  for (const key of stored.keys())
    if (!folded.has(key)) found('value.unknown', key, `${key} is among the values but not in the journal`)
}

function liveNodes(stored: ReadonlyMap<string, Stored>): ReadonlyMap<string, AnyNode> {
  const nodes = new Map<string, AnyNode>()
  for (const [key, value] of stored) {
    const node = value.deleted ? undefined : fromStored(key, value)
    if (node) nodes.set(nodeKey(node.kind, node.id), node)
  }
  return nodes
}

function checkReferences(nodes: ReadonlyMap<string, AnyNode>, found: Found): void {
  for (const [key, node] of nodes)
    for (const ref of referencesOf(node))
      if (!ref.soft && !nodes.has(nodeKey(ref.kind, ref.id)))
        found('reference.resolves', key, `${key} refers to ${ref.kind} ${ref.id}, which is not there`)
}

function checkAcyclic(nodes: ReadonlyMap<string, AnyNode>, found: Found): void {
  const plans = new Map<string, DirectedGraph>()
  for (const node of nodes.values()) {
    if (!isKind(node, 'step')) continue
    const graph = plans.get(node.owner!) ?? new DirectedGraph()
    plans.set(node.owner!, graph)
    for (const dependency of node.data.dependencies ?? []) graph.mergeDirectedEdge(node.id, dependency)
  }
  for (const [plan, graph] of plans)
    if (hasCycle(graph)) found('plan.acyclic', nodeKey('plan', plan), `steps of plan ${plan} wait for each other`)
}

function checkDeltas(nodes: ReadonlyMap<string, AnyNode>, { nodeDelta, edgeDelta }: Folded, found: Found): void {
  if (nodeDelta !== nodes.size) found('delta.nodes', '', `events tell of ${nodeDelta} nodes, there are ${nodes.size}`)
  let edges = 0
  for (const node of nodes.values())
    for (const ref of referencesOf(node)) if (!ref.soft || nodes.has(nodeKey(ref.kind, ref.id))) edges++
  if (edgeDelta !== edges) found('delta.edges', '', `events tell of ${edgeDelta} edges, there are ${edges}`)
}

function checkSnapshots(nodes: ReadonlyMap<string, AnyNode>, revision: number, found: Found): void {
  for (const [key, node] of nodes)
    if (isKind(node, 'snapshot') && node.data.revision > revision)
      found('snapshot.revision', key, `snapshot ${node.data.name} names revision ${node.data.revision}, after the last`)
}

async function checkIndexes(
  store: Backend,
  graph: string,
  nodes: ReadonlyMap<string, AnyNode>,
  open: ReadonlySet<string>,
  found: Found,
): Promise<void> {
  const ids = [...nodes.values()].filter((node) => KINDS[node.kind].indexed)
  for (let at = 0; at < ids.length; at += 1000) {
    const part = ids.slice(at, at + 1000)
    const there = await store.getMany(part.map((node) => INDEX.id(node.kind, node.id)))
    for (const node of part) {
      const where = there.get(INDEX.id(node.kind, node.id)) as Whereabouts | undefined
      if (where?.graph !== graph || where.group !== node.group)
        found('index.id', nodeKey(node.kind, node.id), `the index does not lead to ${node.kind} ${node.id}`)
    }
  }
  const due = new Set<string>()
  const expected = { running: new Set<string>(), waiting: new Set<string>() }
  const expectedOpen = new Set<string>()
  for (const node of nodes.values()) {
    if (isKind(node, 'confirm') && node.data.status === 'pending') expected.waiting.add(INDEX.waiting(node.id))
    if (isKind(node, 'timer') && !node.data.fired) due.add(INDEX.timer(node.data.due, node.id))
    if (isKind(node, 'plan') && node.data.status === 'in_progress' && !node.imported && !runOf(node.id, nodes))
      expected.running.add(INDEX.running(node.id))
    if (isKind(node, 'run') && node.data.phase !== 'ended') {
      expectedOpen.add(node.group)
      if (node.data.phase !== 'waiting') expected.running.add(INDEX.running(node.data.plan_id))
    }
    if (KINDS[node.kind].root && node.group === node.id && !ENDS.has(statusOf(node)!)) expectedOpen.add(node.group)
  }
  await compareIndex(store, graph, 'running/', expected.running, found)
  await compareIndex(store, graph, 'waiting/', expected.waiting, found)
  await compareIndex(store, graph, 'timer/', due, found)
  for (const group of expectedOpen)
    if (!open.has(group)) found('index.open', group, `group ${group} is open but not listed`)
  for (const group of open)
    if (!expectedOpen.has(group)) found('index.open', group, `group ${group} is listed as open but has ended`)
}
function runOf(plan: string, nodes: ReadonlyMap<string, AnyNode>): AnyNode | undefined {
  for (const node of nodes.values())
    if (isKind(node, 'run') && node.data.plan_id === plan && node.data.phase !== 'ended') return node
  return undefined
}
const ENDS: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'retired'])

async function compareIndex(
  store: Backend,
  graph: string,
  prefix: string,
  expected: ReadonlySet<string>,
  found: Found,
): Promise<void> {
  const there = new Set<string>()
  for await (const [key, value] of store.scan(prefix)) if ((value as JsonObject).graph === graph) there.add(key)
  for (const key of expected)
    if (!there.has(key)) found(`index.${prefix.slice(0, -1)}`, key, `${key} is missing from the index`)
  for (const key of there)
    if (!expected.has(key)) found(`index.${prefix.slice(0, -1)}`, key, `${key} is in the index without reason`)
}
