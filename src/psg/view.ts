import { InvalidInput } from '../protocol/errors.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import type { AnyNode, Kind, Node, NodeOf } from './change.ts'
import { isKind, nodeKey, statusOf } from './node.ts'
import type { GraphState } from './state.ts'

/** The parts of an object, in their order. */
export function children(state: GraphState, kind: Kind, id: string): readonly AnyNode[] {
  return [...state.targets(kind, id, 'CONTAINS')].sort((a, b) => (a.at ?? 0) - (b.at ?? 0))
}

/** Pending steps whose dependencies are all completed or skipped, in the order in which they would start. */
export function readySteps(state: GraphState, plan: string): readonly Node<'step'>[] {
  const ranks = state.plan(plan)?.ranks
  const ready: Node<'step'>[] = []
  for (const node of state.nodesOf(plan))
    if (isKind(node, 'step') && node.data.status === 'pending' && unmet(state, node) === 0) ready.push(node)
  return ready.sort((a, b) => (ranks?.get(a.id) ?? 0) - (ranks?.get(b.id) ?? 0))
}

/** How many of a step's dependencies it still waits for. */
export function unmet(state: GraphState, step: Node<'step'>): number {
  let waits = 0
  for (const id of new Set(step.data.dependencies)) {
    const status = statusOf(state.get('step', id))
    if (status !== 'completed' && status !== 'skipped') waits++
  }
  return waits
}

/** What a step waits for, nearest first, down to `depth` edges. */
export const dependencies = (
  state: GraphState,
  step: string,
  depth = Number.POSITIVE_INFINITY,
): readonly Node<'step'>[] =>
  walk(step, depth, (id) => state.get('step', id)?.data.dependencies ?? []).flatMap((id) => state.get('step', id) ?? [])

/** What waits for a step, nearest first. */
export const dependants = (
  state: GraphState,
  step: string,
  depth = Number.POSITIVE_INFINITY,
): readonly Node<'step'>[] =>
  walk(step, depth, (id) => state.dependantsOf(id)).flatMap((id) => state.get('step', id) ?? [])

/** Every loaded Confirm that waits for a decision. */
export function pendingConfirms(state: GraphState): readonly Node<'confirm'>[] {
  const found: Node<'confirm'>[] = []
  for (const node of state.nodes()) if (isKind(node, 'confirm') && node.data.status === 'pending') found.push(node)
  return found.sort((a, b) => a.born - b.born)
}

/** The shortest way between two nodes along edges of either direction; empty when there is none. */
export function path(
  state: GraphState,
  from: readonly [Kind, string],
  to: readonly [Kind, string],
): readonly AnyNode[] {
  const start = state.get(...from)
  const goal = nodeKey(...to)
  if (!start || !state.has(...to)) return []
  const cameFrom = new Map<string, AnyNode | undefined>([[nodeKey(...from), undefined]])
  const queue: AnyNode[] = [start]
  for (let i = 0; i < queue.length; i++) {
    const node = queue[i]!
    if (nodeKey(node.kind, node.id) === goal) return backFrom(node, cameFrom)
    for (const next of [...state.targets(node.kind, node.id), ...around(state, node)]) {
      const key = nodeKey(next.kind, next.id)
      if (cameFrom.has(key)) continue
      cameFrom.set(key, node)
      queue.push(next)
    }
  }
  return []
}

export interface Query<K extends Kind> {
  readonly kind: K
  /** Fields, dotted for inner ones, and the value each must have. */
  readonly where?: { readonly [field: string]: Json }
  readonly after?: string
  readonly limit?: number
}
export interface Page<K extends Kind> {
  readonly nodes: readonly NodeOf<K>[]
  /** Give it as `after` to read on; absent on the last page. */
  readonly next?: string
}

/** Loaded nodes of a kind with these fields, by id, page by page. */
export function query<K extends Kind>(state: GraphState, { kind, where = {}, after, limit = 100 }: Query<K>): Page<K> {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new InvalidInput('query', [
      { path: 'limit', rule: 'minimum', message: 'must be a whole number above 0', found: String(limit) },
    ])
  const conditions = Object.entries(where)
  const found: NodeOf<K>[] = []
  for (const node of state.nodes()) {
    if (node.kind !== kind || (after !== undefined && node.id <= after)) continue
    if (conditions.every(([field, value]) => valueAt(node.data as JsonObject, field) === value))
      found.push(node as NodeOf<K>)
  }
  found.sort((a, b) => (a.id < b.id ? -1 : 1))
  const nodes = found.slice(0, limit)
  return found.length > limit ? { nodes, next: nodes.at(-1)!.id } : { nodes }
}

/** One link of the chain that led to a node. */
export interface Reason {
  readonly kind: Kind
  readonly id: string
  readonly status?: string
  readonly says: string
}

/** The chain from the context down to a node: the plan, its approval, the step, the action, the node itself. */
export function why(state: GraphState, kind: Kind, id: string): readonly Reason[] {
  const chain: AnyNode[] = []
  const seen = new Set<string>()
  const climb = (node: AnyNode | undefined): void => {
    if (!node || seen.has(nodeKey(node.kind, node.id))) return
    seen.add(nodeKey(node.kind, node.id))
    for (const parent of causes(state, node)) climb(parent)
    chain.push(node)
  }
  climb(state.get(kind, id))
  return chain.map((node) => {
    const status = statusOf(node)
    return { kind: node.kind, id: node.id, ...(status !== undefined && { status }), says: saying(node) }
  })
}

/** What directly led to a node, farthest first. */
function causes(state: GraphState, node: AnyNode): readonly (AnyNode | undefined)[] {
  switch (node.kind) {
    case 'context':
      return []
    case 'plan':
      return [state.get('context', node.data.context_id)]
    case 'step': {
      const approvals = [...state.referrers('plan', node.owner!, 'CONFIRMS')].filter(
        (confirm) => statusOf(confirm) === 'approved',
      )
      return [state.get('plan', node.owner!), ...approvals]
    }
    case 'file':
      return node.data.written_by === undefined ? [] : [state.get('action', node.data.written_by)]
    case 'segment': {
      const step = node.data.attributes?.step_id
      return [typeof step === 'string' ? state.get('step', step) : undefined, state.get('trace', node.owner!)]
    }
    default:
      return [...owners(state, node), ...state.targets(node.kind, node.id)].filter(
        (target) => target.kind !== 'segment',
      )
  }
}

function saying(node: AnyNode): string {
  const data = node.data as JsonObject
  const text =
    data.title ??
    data.description ??
    data.reason ??
    data.name ??
    data.label ??
    data.action_type ??
    data.path ??
    node.kind
  return String(text)
}

function* owners(state: GraphState, node: AnyNode): Iterable<AnyNode> {
  for (const kind of ['plan', 'confirm', 'trace', 'dialog', 'collab', 'network'] as const) {
    const owner = node.owner === undefined ? undefined : state.get(kind, node.owner)
    if (owner) yield owner
  }
}

function* around(state: GraphState, node: AnyNode): Iterable<AnyNode> {
  yield* owners(state, node)
  yield* state.referrers(node.kind, node.id)
}

function walk(start: string, depth: number, next: (id: string) => Iterable<string>): string[] {
  const seen = new Set([start])
  const found: string[] = []
  let level = [start]
  for (let far = 0; far < depth && level.length > 0; far++) {
    const farther: string[] = []
    for (const id of level)
      for (const other of next(id)) {
        if (seen.has(other)) continue
        seen.add(other)
        farther.push(other)
        found.push(other)
      }
    level = farther
  }
  return found
}

function backFrom(end: AnyNode, cameFrom: ReadonlyMap<string, AnyNode | undefined>): AnyNode[] {
  const way: AnyNode[] = []
  for (let node: AnyNode | undefined = end; node; node = cameFrom.get(nodeKey(node.kind, node.id))) way.push(node)
  return way.reverse()
}

function valueAt(data: JsonObject, field: string): Json | undefined {
  let value: Json | undefined = data
  for (const part of field.split('.'))
    value =
      typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject)[part] : undefined
  return value
}
