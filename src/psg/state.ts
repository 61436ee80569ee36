import { MultiDirectedGraph } from 'graphology'
import type { StepStatus } from '../protocol/types.ts'
import type { AnyNode, Kind, Node, NodeOf } from './change.ts'
import { isKind, nodeKey, type Reference, referencesOf, statusOf } from './node.ts'

/** A node before and after a commit. Neither side is absent on both. */
export interface Delta {
  readonly kind: Kind
  readonly id: string
  readonly before: AnyNode | undefined
  readonly after: AnyNode | undefined
  /** The status differs and nothing else. */
  readonly statusOnly: boolean
  /** Statuses that it passes through on the way, when the commit moves it more than once; a new node's first among them. */
  readonly via?: readonly string[]
}

/** Every status a delta goes through, from where it was, or was born, to where it ends. */
export function statusPath({ before, after, via = [] }: Delta): readonly string[] {
  const path = before ? [statusOf(before), ...via] : [...via]
  return [...path, statusOf(after)].filter((status) => status !== undefined)
}

/** Does it come to this status in the commit? */
export const comesTo = (delta: Delta, status: string): boolean => statusPath(delta).indexOf(status, 1) > 0

/** What is kept of a plan so that no check has to visit all its steps. */
export interface PlanFacts {
  readonly tally: Record<StepStatus, number>
  /** An order in which every step comes after those it waits for. */
  readonly ranks: Map<string, number>
  topRank: number
  /** The run that has not ended. */
  activeRun: string | undefined
}

export type EdgeType = string

/** The graph as it stands in memory: nodes, edges from their references, and what is kept for cheap checks. Changed by `apply` and loading only. */
export interface GraphState {
  get<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined
  has(kind: Kind, id: string): boolean
  nodes(): Iterable<AnyNode>
  nodesOf(group: string): Iterable<AnyNode>
  /** Those that refer to a node, by kind of edge. */
  referrers(kind: Kind, id: string, edge?: EdgeType): Iterable<AnyNode>
  /** What an owner contains, or what a node refers to by that edge. */
  targets(kind: Kind, id: string, edge?: EdgeType): Iterable<AnyNode>
  dependantsOf(step: string): Iterable<string>
  plan(id: string): PlanFacts | undefined
  /** The runs of loaded plans that have not ended. */
  activeRuns(): Iterable<Node<'run'>>
  groups(): Iterable<string>
  hasGroup(group: string): boolean
  readonly size: number
  apply(deltas: Iterable<Delta>, ranks?: ReadonlyMap<string, number>): void
  openGroup(group: string): void
  evict(group: string): void
}

export function graphState(): GraphState {
  const graph = new MultiDirectedGraph<{ node: AnyNode }, { type: EdgeType }>()
  const groups = new Map<string, Set<string>>()
  const plans = new Map<string, PlanFacts>()
  /** Who refers to something that is not loaded: the edge is drawn when it comes. */
  const missing = new Map<string, Set<string>>()

  const at = (key: string): AnyNode | undefined =>
    graph.hasNode(key) ? graph.getNodeAttribute(key, 'node') : undefined

  /** Remembers, or forgets, that `from` refers to something that is not here. */
  function awaits(target: string, from: string): void {
    const waiting = missing.get(target)
    if (waiting) waiting.add(from)
    else missing.set(target, new Set([from]))
  }
  function awaitsNoMore(node: AnyNode, key: string): void {
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
    const group = groups.get(node.group)
    if (group) group.add(key)
    else groups.set(node.group, new Set([key]))
    for (const reference of referencesOf(node)) link(key, reference)
    const waiting = missing.get(key)
    if (!waiting) return
    missing.delete(key)
    for (const from of waiting) {
      const referrer = at(from)!
      for (const reference of referencesOf(referrer))
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
    groups.get(node.group)?.delete(key)
  }

  /** Facts of a plan come with its first part, whichever that is: the store's order is not the plan's. */
  function factsOf(plan: string): PlanFacts {
    let facts = plans.get(plan)
    if (!facts) {
      facts = newFacts()
      plans.set(plan, facts)
    }
    return facts
  }

  function keepFacts({ kind, id, before, after }: Delta): void {
    if (kind === 'step') {
      const facts = factsOf((after ?? before)!.owner!)
      if (before) facts.tally[statusOf(before) as StepStatus]--
      if (after) facts.tally[statusOf(after) as StepStatus]++
      else facts.ranks.delete(id)
    } else if (kind === 'plan') {
      if (after) factsOf(id)
      else plans.delete(id)
    } else if (isKind(after, 'run')) {
      const facts = factsOf(after.data.plan_id)
      if (after.data.phase !== 'ended') facts.activeRun = id
      else if (facts.activeRun === id) facts.activeRun = undefined
    }
  }

  return {
    get: ((kind: Kind, id: string) => at(nodeKey(kind, id))) as GraphState['get'],
    has: (kind, id) => graph.hasNode(nodeKey(kind, id)),
    *nodes() {
      for (const entry of graph.nodeEntries()) yield entry.attributes.node
    },
    *nodesOf(group) {
      for (const key of groups.get(group) ?? []) yield at(key)!
    },
    *referrers(kind, id, edge) {
      const key = nodeKey(kind, id)
      if (!graph.hasNode(key)) return
      for (const entry of graph.inEdgeEntries(key)) {
        if (entry.attributes.type === 'CONTAINS') continue
        if (edge === undefined || entry.attributes.type === edge) yield entry.sourceAttributes.node
      }
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
    groups: () => groups.keys(),
    hasGroup: (group) => groups.has(group),
    get size() {
      return graph.order
    },
    apply(deltas, ranks) {
      for (const delta of deltas) {
        if (!delta.before) add(delta.after!)
        else if (!delta.after) drop(delta.before)
        else replace(delta.before, delta.after, delta.statusOnly)
        keepFacts(delta)
      }
      if (!ranks) return
      for (const [step, rank] of ranks) {
        const facts = plans.get((at(nodeKey('step', step)) as Node<'step'>).owner!)!
        facts.ranks.set(step, rank)
        if (rank > facts.topRank) facts.topRank = rank
      }
    },
    openGroup(group) {
      if (!groups.has(group)) groups.set(group, new Set())
    },
    evict(group) {
      for (const key of [...(groups.get(group) ?? [])]) {
        drop(at(key)!)
      }
      groups.delete(group)
      plans.delete(group)
    },
  }
}

const newFacts = (): PlanFacts => ({
  tally: { pending: 0, in_progress: 0, completed: 0, blocked: 0, skipped: 0, failed: 0 },
  ranks: new Map(),
  topRank: 0,
  activeRun: undefined,
})

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
