import { MultiDirectedGraph } from 'graphology'
import type { StepStatus } from '../protocol/types.ts'
import type { AnyNode, Kind, Node, NodeOf } from './change.ts'
import { type Delta, isStructural } from './delta.ts'
import { isKind, nodeKey, type Reference, referencesOf, statusOf } from './node.ts'
import { type PlanFacts, type PlanRecord, planRecord } from './plan-facts.ts'

export type EdgeType = string

/** The graph as it stands in memory, for reading: nodes, edges from their references, and what is kept for cheap checks. */
export interface GraphState {
  get<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined
  has(kind: Kind, id: string): boolean
  nodes(): Iterable<AnyNode>
  nodesOf(group: string): Iterable<AnyNode>
  /** Those that refer to a node, by kind of edge. */
  referrers(kind: Kind, id: string, edge?: EdgeType): Iterable<AnyNode>
  /** Those that refer to something that is not in memory. */
  awaiting(kind: Kind, id: string): Iterable<AnyNode>
  /** What an owner contains, or what a node refers to by that edge. */
  targets(kind: Kind, id: string, edge?: EdgeType): Iterable<AnyNode>
  dependantsOf(step: string): Iterable<string>
  plan(id: string): PlanFacts | undefined
  /** The runs of loaded plans that have not ended. */
  activeRuns(): Iterable<Node<'run'>>
  /** What was deleted under this id, as it was then; the id stays taken. */
  tombstone(kind: Kind, id: string): AnyNode | undefined
  groups(): Iterable<string>
  hasGroup(group: string): boolean
  /** How many nodes and edges there are. */
  readonly size: number
  readonly edges: number
}

/** A graph's memory: what is read of it, and the only hands that change it. */
export interface GraphMemory {
  readonly state: GraphState
  /** `ranks` tell where new and re-ordered steps stand; without them the order of the plans concerned is made anew when needed. */
  apply(deltas: Iterable<Delta>, ranks?: ReadonlyMap<string, number>): void
  /** Remembers what lies in the store as deleted. */
  bury(node: AnyNode): void
  openGroup(group: string): void
  evict(group: string): void
}

export function graphMemory(): GraphMemory {
  const graph = new MultiDirectedGraph<{ node: AnyNode }, { type: EdgeType }>()
  const groups = new Map<string, Group>()
  const plans = new Map<string, PlanRecord>()
  const tombstones = new Map<string, AnyNode>()
  /** Who refers to something that is not here: the edge is drawn when it comes. */
  const missing = new Map<string, Set<string>>()

  const at = (key: string): AnyNode | undefined =>
    graph.hasNode(key) ? graph.getNodeAttribute(key, 'node') : undefined

  function groupOf(name: string): Group {
    let group = groups.get(name)
    if (!group) {
      group = { nodes: new Set(), tombstones: new Set() }
      groups.set(name, group)
    }
    return group
  }

  /** Remembers, or forgets, that `from` refers to something that is not here. */
  function awaits(target: string, from: string): void {
    const waiting = missing.get(target)
    if (waiting) waiting.add(from)
    else missing.set(target, new Set([from]))
  }
  function awaitsNoMore(node: AnyNode, key: string): void {
    if (missing.size === 0) return
    for (const reference of referencesOf(node)) {
      const target = nodeKey(reference.kind, reference.id)
      const waiting = missing.get(target)
      if (waiting?.delete(key) && waiting.size === 0) missing.delete(target)
    }
  }

  function link(key: string, reference: Reference): void {
    const target = nodeKey(reference.kind, reference.id)
    if (!graph.hasNode(target)) awaits(target, key)
    else if (reference.reversed) graph.addDirectedEdge(target, key, edgeOf(reference.edge))
    else graph.addDirectedEdge(key, target, edgeOf(reference.edge))
  }

  function unlink(key: string, node: AnyNode): void {
    awaitsNoMore(node, key)
    for (const edge of graph.outEdges(key))
      if (graph.getEdgeAttribute(edge, 'type') !== 'CONTAINS') graph.dropEdge(edge)
  }

  function add(node: AnyNode): void {
    const key = nodeKey(node.kind, node.id)
    graph.addNode(key, { node })
    const group = groupOf(node.group)
    group.nodes.add(key)
    if (group.tombstones.delete(key)) tombstones.delete(key)
    for (const reference of referencesOf(node)) link(key, reference)
    const waiting = missing.get(key)
    if (!waiting) return
    missing.delete(key)
    for (const from of waiting) {
      for (const reference of referencesOf(at(from)!))
        if (nodeKey(reference.kind, reference.id) === key) link(from, reference)
    }
  }

  function replace(before: AnyNode, after: AnyNode, statusOnly: boolean): void {
    const key = nodeKey(after.kind, after.id)
    graph.setNodeAttribute(key, 'node', after)
    if (statusOnly || !refersElsewhere(before, after)) return
    unlink(key, before)
    for (const reference of referencesOf(after)) if (!reference.reversed) link(key, reference)
  }

  function drop(node: AnyNode): void {
    const key = nodeKey(node.kind, node.id)
    awaitsNoMore(node, key)
    for (const edge of graph.inEdges(key))
      if (graph.getEdgeAttribute(edge, 'type') !== 'CONTAINS') awaits(key, graph.source(edge))
    for (const edge of graph.outEdges(key))
      if (graph.getEdgeAttribute(edge, 'type') === 'CONTAINS') awaits(key, graph.target(edge))
    graph.dropNode(key)
    groups.get(node.group)?.nodes.delete(key)
  }

  function bury(node: AnyNode): void {
    const key = nodeKey(node.kind, node.id)
    groupOf(node.group).tombstones.add(key)
    tombstones.set(key, node)
  }

  /** Facts of a plan come with its first part, whichever that is: the store's order is not the plan's. */
  function recordOf(plan: string): PlanRecord {
    let record = plans.get(plan)
    if (!record) {
      record = planRecord(() => stepsOf(plan))
      plans.set(plan, record)
    }
    return record
  }
  function* stepsOf(plan: string): Iterable<Node<'step'>> {
    for (const key of groups.get(plan)?.nodes ?? []) {
      const node = at(key)
      if (isKind(node, 'step')) yield node
    }
  }

  function keepFacts({ kind, id, before, after }: Delta): void {
    if (kind === 'step') {
      const record = after ? recordOf(after.owner!) : plans.get(before!.owner!)
      if (!record) return // its plan went first
      if (before) record.tally[statusOf(before) as StepStatus]--
      if (after) record.tally[statusOf(after) as StepStatus]++
      else record.removed(id)
    } else if (kind === 'plan') {
      if (!after) plans.delete(id)
      else recordOf(id)
    } else if (isKind(after, 'run')) {
      const record = recordOf(after.data.plan_id)
      if (after.data.phase !== 'ended') record.activeRun = id
      else if (record.activeRun === id) record.activeRun = undefined
    }
  }

  function keepOrders(deltas: Iterable<Delta>, ranks: ReadonlyMap<string, number> | undefined): void {
    const restructured = new Map<string, [string, number][]>()
    for (const delta of deltas) if (isStructural(delta)) restructured.set((delta.after ?? delta.before)!.owner!, [])
    for (const [step, rank] of ranks ?? []) restructured.get(at(nodeKey('step', step))!.owner!)?.push([step, rank])
    for (const [plan, ranked] of restructured) {
      plans.get(plan)?.restructured(ranks && ranked)
      if (statusOf(at(nodeKey('plan', plan))) !== 'draft') plans.get(plan)?.settled()
    }
  }

  const state: GraphState = {
    get: ((kind: Kind, id: string) => at(nodeKey(kind, id))) as GraphState['get'],
    has: (kind, id) => graph.hasNode(nodeKey(kind, id)),
    *nodes() {
      for (const entry of graph.nodeEntries()) yield entry.attributes.node
    },
    *nodesOf(group) {
      for (const key of groups.get(group)?.nodes ?? []) yield at(key)!
    },
    *referrers(kind, id, edge) {
      const key = nodeKey(kind, id)
      if (!graph.hasNode(key)) return
      for (const entry of graph.inEdgeEntries(key)) {
        if (entry.attributes.type === 'CONTAINS') continue
        if (edge === undefined || entry.attributes.type === edge) yield entry.sourceAttributes.node
      }
    },
    *awaiting(kind, id) {
      for (const from of missing.get(nodeKey(kind, id)) ?? []) yield at(from)!
    },
    *targets(kind, id, edge) {
      const key = nodeKey(kind, id)
      if (!graph.hasNode(key)) return
      for (const entry of graph.outEdgeEntries(key)) {
        if (edge === undefined || entry.attributes.type === edge) yield entry.targetAttributes.node
      }
    },
    *dependantsOf(step) {
      const key = nodeKey('step', step)
      if (!graph.hasNode(key)) return
      for (const entry of graph.inEdgeEntries(key))
        if (entry.attributes.type === 'DEPENDS_ON') yield entry.sourceAttributes.node.id
    },
    plan: (id) => plans.get(id),
    *activeRuns() {
      for (const { activeRun } of plans.values()) {
        const run = activeRun === undefined ? undefined : at(nodeKey('run', activeRun))
        if (isKind(run, 'run')) yield run
      }
    },
    tombstone: (kind, id) => tombstones.get(nodeKey(kind, id)),
    groups: () => groups.keys(),
    hasGroup: (group) => groups.has(group),
    get size() {
      return graph.order
    },
    get edges() {
      return graph.size
    },
  }

  return {
    state,
    apply(deltas, ranks) {
      for (const delta of deltas) {
        if (!delta.before) add(delta.after!)
        else if (delta.after) replace(delta.before, delta.after, delta.statusOnly)
        else {
          drop(delta.before)
          bury(delta.before)
        }
        keepFacts(delta)
      }
      keepOrders(deltas, ranks)
    },
    bury,
    openGroup: (group) => void groupOf(group),
    evict(name) {
      const group = groups.get(name)
      if (!group) return
      for (const key of group.nodes) drop(at(key)!)
      for (const key of group.tombstones) tombstones.delete(key)
      groups.delete(name)
      plans.delete(name)
    },
  }
}

/** Names of what is loaded and evicted together. */
interface Group {
  readonly nodes: Set<string>
  readonly tombstones: Set<string>
}

const edges = new Map<EdgeType, { type: EdgeType }>()
/** One attribute object per kind of edge, not one per edge. */
function edgeOf(type: EdgeType): { type: EdgeType } {
  let attributes = edges.get(type)
  if (!attributes) {
    attributes = { type }
    edges.set(type, attributes)
  }
  return attributes
}

/** Only steps may come to refer to other nodes than they were born with; every other reference is fixed. */
const refersElsewhere = (before: AnyNode, after: AnyNode): boolean =>
  isKind(before, 'step') && isKind(after, 'step') && before.data.dependencies !== after.data.dependencies
