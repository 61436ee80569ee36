import { InvalidInput } from '../protocol/errors.ts'
import { problem } from '../protocol/problem.ts'
import type { AnyNode, Kind, Node } from './change.ts'
import { checkNames } from './input.ts'
import { KINDS } from './kinds.ts'
import { byPlace, isKind, nodeKey, ofKind, statusOf } from './node.ts'
import type { GraphState } from './state.ts'

/** The parts of an object, in their order. */
export function children(state: GraphState, kind: Kind, id: string): readonly AnyNode[] {
  return [...state.targets(kind, id, 'CONTAINS')].sort(byPlace)
}

/** Pending steps whose dependencies are all completed or skipped, in the order in which they would start. */
export function readySteps(state: GraphState, plan: string): readonly Node<'step'>[] {
  const ready: Node<'step'>[] = []
  for (const node of state.nodesOf(plan))
    if (isKind(node, 'step') && node.data.status === 'pending' && unmet(state, node) === 0) ready.push(node)
  if (ready.length < 2) return ready
  const ranks = state.plan(plan)!.ranks
  return ready.sort((a, b) => ranks.get(a.id)! - ranks.get(b.id)!)
}

/** The run of a plan that has not ended. */
export function runUnderWay(state: GraphState, plan: string): Node<'run'> | undefined {
  const id = state.plan(plan)?.activeRun
  return id === undefined ? undefined : state.get('run', id)
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
export const dependencies = (state: GraphState, step: string, depth = Number.POSITIVE_INFINITY) =>
  walk(state, step, depth, (id) => state.get('step', id)?.data.dependencies ?? [])

/** What waits for a step, nearest first, up to `depth` edges. */
export const dependants = (state: GraphState, step: string, depth = Number.POSITIVE_INFINITY) =>
  walk(state, step, depth, (id) => state.dependantsOf(id))

/** Every loaded Confirm that waits for a decision, oldest first. */
export function pendingConfirms(state: GraphState): readonly Node<'confirm'>[] {
  const found: Node<'confirm'>[] = []
  for (const confirm of ofKind(state.nodes(), 'confirm')) if (confirm.data.status === 'pending') found.push(confirm)
  return found.sort(byPlace)
}

/** The shortest way between two nodes along edges of either direction; empty when there is none. */
export function path(
  state: GraphState,
  from: readonly [Kind, string],
  to: readonly [Kind, string],
): readonly AnyNode[] {
  checkNames([from, to])
  const start = state.get(...from)
  const goal = nodeKey(...to)
  if (!start || !state.has(...to)) return []
  const cameFrom = new Map<string, AnyNode | undefined>([[nodeKey(...from), undefined]])
  const queue: AnyNode[] = [start]
  for (let i = 0; i < queue.length; i++) {
    const node = queue[i]!
    if (nodeKey(node.kind, node.id) === goal) return backFrom(node, cameFrom)
    for (const next of neighbours(state, node)) {
      const key = nodeKey(next.kind, next.id)
      if (cameFrom.has(key)) continue
      cameFrom.set(key, node)
      queue.push(next)
    }
  }
  return []
}

function* neighbours(state: GraphState, node: AnyNode): Iterable<AnyNode> {
  yield* state.targets(node.kind, node.id)
  yield* state.referrers(node.kind, node.id)
  const { partOf } = KINDS[node.kind]
  const owner = partOf && node.owner !== undefined ? state.get(partOf, node.owner) : undefined
  if (owner) yield owner
}

function backFrom(end: AnyNode, cameFrom: ReadonlyMap<string, AnyNode | undefined>): AnyNode[] {
  const way: AnyNode[] = []
  for (let node: AnyNode | undefined = end; node; node = cameFrom.get(nodeKey(node.kind, node.id))) way.push(node)
  return way.reverse()
}

function walk(
  state: GraphState,
  start: string,
  depth: number,
  next: (id: string) => Iterable<string>,
): readonly Node<'step'>[] {
  if (typeof depth !== 'number' || Number.isNaN(depth) || depth < 0)
    throw new InvalidInput('walk', [problem('depth', 'minimum', 'must be a number of 0 or more', depth)])
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
  return found.flatMap((id) => state.get('step', id) ?? [])
}
