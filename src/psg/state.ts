import type { AnyNode, Kind, Node, NodeOf } from './change.ts'
import type { Edges } from './edges.ts'
import { isKind, nodeKey } from './node.ts'
import type { PlanFacts, PlanRecord } from './plan-facts.ts'

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

/** What a graph's memory consists of. */
export class Kept {
  readonly kinds = new Map<Kind, Map<string, Held>>()
  readonly groups = new Map<string, Group>()
  readonly plans = new Map<string, PlanRecord>()
  readonly tombstones = new Map<string, AnyNode>()
  /** Who refers to something that is not here: the edge is drawn when it comes. */
  readonly missing = new Map<string, Set<Held>>()
  size = 0
  edges = 0
}

/** A class, because every context has one: generators and accessors of an object's own would each take longer to make than most commits. */
export class State implements GraphState {
  readonly #kept: Kept

  constructor(kept: Kept) {
    this.#kept = kept
  }

  get size(): number {
    return this.#kept.size
  }

  get edges(): number {
    return this.#kept.edges
  }

  get<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined {
    return this.#record(kind, id)?.node as NodeOf<K> | undefined
  }

  has(kind: Kind, id: string): boolean {
    return this.#record(kind, id) !== undefined
  }

  *nodes(): Iterable<AnyNode> {
    for (const { records } of this.#kept.groups.values()) for (const { node } of records) yield node
  }

  *nodesOf(group: string): Iterable<AnyNode> {
    for (const { node } of this.#kept.groups.get(group)?.records ?? []) yield node
  }

  *referrers(kind: Kind, id: string, edge?: EdgeType): Iterable<AnyNode> {
    for (const { type, from } of this.#record(kind, id)?.in ?? [])
      if (type !== 'CONTAINS' && (edge === undefined || type === edge)) yield from.node
  }

  *awaiting(kind: Kind, id: string): Iterable<AnyNode> {
    const { missing } = this.#kept
    if (missing.size === 0) return
    for (const { node } of missing.get(nodeKey(kind, id)) ?? []) yield node
  }

  *targets(kind: Kind, id: string, edge?: EdgeType): Iterable<AnyNode> {
    for (const { type, to } of this.#record(kind, id)?.out ?? []) if (edge === undefined || type === edge) yield to.node
  }

  *dependantsOf(step: string): Iterable<string> {
    for (const { type, from } of this.#record('step', step)?.in ?? []) if (type === 'DEPENDS_ON') yield from.node.id
  }

  plan(id: string): PlanFacts | undefined {
    return this.#kept.plans.get(id)
  }

  *activeRuns(): Iterable<Node<'run'>> {
    for (const { activeRun } of this.#kept.plans.values()) {
      const run = activeRun === undefined ? undefined : this.get('run', activeRun)
      if (run) yield run as Node<'run'>
    }
  }

  tombstone(kind: Kind, id: string): AnyNode | undefined {
    const { tombstones } = this.#kept
    return tombstones.size === 0 ? undefined : tombstones.get(nodeKey(kind, id))
  }

  groups(): Iterable<string> {
    return this.#kept.groups.keys()
  }

  hasGroup(group: string): boolean {
    return this.#kept.groups.has(group)
  }

  #record(kind: Kind, id: string): Held | undefined {
    return this.#kept.kinds.get(kind)?.get(id)
  }
}

/** A node and its edges. */
export interface Held {
  node: AnyNode
  in: Edges
  out: Edges
}

export interface Edge {
  readonly type: EdgeType
  readonly from: Held
  readonly to: Held
}

/** What is loaded and evicted together. */
export interface Group {
  readonly records: Set<Held>
  readonly tombstones: Set<string>
}

/** Only steps may come to refer to other nodes than they were born with; every other reference is fixed. */
export const refersElsewhere = (before: AnyNode, after: AnyNode): boolean =>
  isKind(before, 'step') && isKind(after, 'step') && before.data.dependencies !== after.data.dependencies
