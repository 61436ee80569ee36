import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, EntryBody, EntryChange, Kind, Stored } from './change.ts'
import { INDEX } from './indexes.ts'
import { fromStored, groupPrefix, moved } from './node.ts'
import { rankNew } from './order.ts'
import type { Delta, GraphState } from './state.ts'

/** The values of one group, read while others may write: entries above `revision` have to be applied afterwards. */
export async function loadGroup(
  store: Backend,
  graph: string,
  group: string,
  state: GraphState,
): Promise<readonly string[]> {
  const nodes: AnyNode[] = []
  const open: string[] = []
  const listed = INDEX.open(graph, '')
  for await (const [key, value] of store.scan(groupPrefix(graph, group))) {
    if (key.startsWith(listed)) open.push(key.slice(listed.length))
    else if (!(value as Stored).deleted) nodes.push(fromStored(key, value as Stored)!)
  }
  state.openGroup(group)
  state.apply(nodes.filter((node) => !state.has(node.kind, node.id)).map(added))
  rankPlan(group, nodes, state)
  return open
}

/** Brings memory from one revision to the next. Groups that are not loaded stay so, but groups that begin are taken in. */
export function applyEntry(body: EntryBody, state: GraphState): readonly Delta[] {
  for (const change of body.changes) {
    const [, group, , id] = change.key.split('/')
    if (group === '-' || (group === id && !('status' in change) && !change.before)) state.openGroup(group!)
  }
  const deltas = body.changes.flatMap((change) => deltaOf(change, state) ?? [])
  state.apply(deltas)
  const plans = new Set(
    deltas.flatMap(({ kind, after, statusOnly }) => (kind === 'step' && after && !statusOnly ? [after.owner!] : [])),
  )
  for (const plan of plans) rankPlan(plan, [...state.nodesOf(plan)], state)
  return deltas
}

/** A change as the journal tells it, against memory; `undefined` where it concerns a group that is not loaded. */
function deltaOf(change: EntryChange, state: GraphState): Delta | undefined {
  const [, group, kind, ...rest] = change.key.split('/')
  if (!state.hasGroup(group!)) return undefined
  const before = state.get(kind as Kind, rest.join('/'))
  if ('status' in change)
    return (
      before && { kind: before.kind, id: before.id, before, after: moved(before, change.status[1]), statusOnly: true }
    )
  const after = change.after && !change.after.deleted ? fromStored(change.key, change.after) : undefined
  return before || after ? { kind: kind as Kind, id: rest.join('/'), before, after, statusOnly: false } : undefined
}

const added = (node: AnyNode): Delta => ({
  kind: node.kind,
  id: node.id,
  before: undefined,
  after: node,
  statusOnly: false,
})

/** The order of a plan's steps is not stored: it follows from their dependencies. */
function rankPlan(plan: string, nodes: readonly AnyNode[], state: GraphState): void {
  if (!state.plan(plan)) return
  const steps = nodes.filter((node) => node.kind === 'step')
  steps.sort(
    (a, b) =>
      (a.data.order_index ?? Number.MAX_SAFE_INTEGER) - (b.data.order_index ?? Number.MAX_SAFE_INTEGER) ||
      (a.at ?? 0) - (b.at ?? 0),
  )
  const byId = new Map(steps.map((step) => [step.id, step]))
  const ordered = rankNew(
    [...byId.keys()],
    { dependenciesOf: (id) => byId.get(id)?.data.dependencies ?? [], dependantsOf: () => [], rankOf: () => undefined },
    0,
  )
  if (!ordered.cycle) state.apply([], ordered.ranks)
}
