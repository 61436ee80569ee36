import type { Violation } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { StepStatus } from '../protocol/types.ts'
import type { AnyNode, Change, Changes, CommitOptions, Kind, Node, NodeAdd, NodeOf } from './change.ts'
import { KINDS } from './kinds.ts'
import { nodeKey, statusOf } from './node.ts'
import { orderOf, type PlanOrder } from './plan-order.ts'
import type { Delta, GraphState } from './state.ts'

/** The graph as it would be after the changes: what the rules look at. Nothing here moves anything. */
export interface Proposal {
  readonly graph: string
  readonly revision: number
  readonly options: CommitOptions
  readonly state: GraphState
  readonly deltas: readonly Delta[]
  /** What could not even be folded: a node added twice, a change of something that is not there. */
  readonly misfits: readonly Violation[]
  after<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined
  /** How many steps of a plan would be in each status. */
  tallyAfter(plan: string): Readonly<Record<StepStatus, number>>
  /** The plan's parts that this commit touches. */
  stepsTouched(plan: string): readonly Delta[]
  /** What a group would hold. */
  groupAfter(group: string): Iterable<AnyNode>
  /** Where each new or re-ordered step stands, and the cycle if there is one. */
  readonly order: PlanOrder
  /** Keys of nodes that come back from their tombstones. */
  readonly revived: ReadonlySet<string>
  /** The first stamp this commit may give out, in microseconds. */
  readonly micros: number
  /** Ids of rules, arrows and events that are switched over for a proof. */
  readonly switched: ReadonlySet<string>
}

/** What the proposal is made against. */
export interface Footing {
  readonly graph: string
  readonly state: GraphState
  readonly revision: number
  readonly rules: { readonly switched: ReadonlySet<string> }
}

export function propose(footing: Footing, changes: Changes, options: CommitOptions, micros: number): Proposal {
  const { graph, state } = footing
  const revision = footing.revision + 1
  const folded = new Map<string, { -readonly [F in keyof Delta]: Delta[F] }>()
  const misfits: Violation[] = []
  const revived = new Set<string>()
  const after = (kind: Kind, id: string): AnyNode | undefined => {
    const delta = folded.get(nodeKey(kind, id))
    return delta ? delta.after : state.get(kind, id)
  }
  const misfit = (rule: string, change: { node: Kind; id: string }, message: string) =>
    misfits.push({
      rule,
      node: nodeKey(change.node, change.id),
      path: '',
      message: `${change.node} ${change.id} ${message}`,
    })

  function replace(kind: Kind, id: string, node: AnyNode, statusOnly: boolean): void {
    const key = nodeKey(kind, id)
    const delta = folded.get(key)
    if (!delta) folded.set(key, { kind, id, before: state.get(kind, id), after: node, statusOnly })
    else {
      const passed = statusOf(delta.after)
      if (passed !== undefined && passed !== statusOf(node)) delta.via = [...(delta.via ?? []), passed]
      delta.after = node
      delta.statusOnly &&= statusOnly
    }
  }

  function fold(change: Change): void {
    switch (change.kind) {
      case 'node_add': {
        if (after(change.node, change.id)) return void misfit('id.unique', change, 'exists already')
        const node = born(change, revision, (kind, id) => after(kind, id)?.group)
        if (change.revived) revived.add(nodeKey(change.node, change.id))
        folded.set(nodeKey(change.node, change.id), {
          kind: change.node,
          id: change.id,
          before: undefined,
          after: node,
          statusOnly: false,
        })
        return
      }
      case 'node_update': {
        const node = after(change.node, change.id)
        if (!node) return void misfit('node.exists', change, 'is not there to be changed')
        const data = patched(node.data as JsonObject, change.set)
        const keys = Object.keys(change.set)
        const next = { ...node, ...(change.retired && { retired: change.retired }), data } as AnyNode
        replace(change.node, change.id, next, keys.length === 1 && keys[0] === 'status' && !change.retired)
        return
      }
      case 'node_delete': {
        const node = after(change.node, change.id)
        if (!node) return void misfit('node.exists', change, 'is not there to be deleted')
        folded.set(nodeKey(change.node, change.id), {
          kind: change.node,
          id: change.id,
          before: state.get(change.node, change.id),
          after: undefined,
          statusOnly: false,
        })
        return
      }
      case 'edge_add':
      case 'edge_delete': {
        const step = after('step', change.from) as Node<'step'> | undefined
        if (!step)
          return void misfit('node.exists', { node: 'step', id: change.from }, 'is not there to depend on anything')
        const dependencies = step.data.dependencies ?? []
        const there = dependencies.includes(change.to)
        if (change.kind === 'edge_add' && there)
          return void misfit('edge.unique', { node: 'step', id: change.from }, `depends on ${change.to} already`)
        if (change.kind === 'edge_delete' && !there)
          return void misfit('edge.exists', { node: 'step', id: change.from }, `does not depend on ${change.to}`)
        const next =
          change.kind === 'edge_add' ? [...dependencies, change.to] : dependencies.filter((id) => id !== change.to)
        replace('step', change.from, { ...step, data: { ...step.data, dependencies: next } } as AnyNode, false)
        return
      }
      default:
        change satisfies never
    }
  }
  for (const change of changes) fold(change)

  const deltas = [...folded.values()].filter((delta) => delta.before || delta.after) // born and deleted at once: never was
  const touched = new Map<string, Delta[]>()
  for (const delta of deltas) {
    if (delta.kind !== 'step') continue
    const plan = (delta.after ?? delta.before)!.owner!
    const list = touched.get(plan)
    if (list) list.push(delta)
    else touched.set(plan, [delta])
  }

  let order: PlanOrder | undefined
  return {
    graph,
    revision,
    options,
    state,
    deltas,
    misfits,
    micros,
    revived,
    switched: footing.rules.switched,
    after: after as Proposal['after'],
    stepsTouched: (plan) => touched.get(plan) ?? [],
    *groupAfter(group) {
      for (const node of state.nodesOf(group)) {
        const left = after(node.kind, node.id)
        if (left) yield left
      }
      for (const delta of deltas) if (!delta.before && delta.after?.group === group) yield delta.after
    },
    tallyAfter(plan) {
      const tally = { ...(state.plan(plan)?.tally ?? EMPTY_TALLY) }
      for (const { before, after } of touched.get(plan) ?? []) {
        if (before) tally[statusOf(before) as StepStatus]--
        if (after) tally[statusOf(after) as StepStatus]++
      }
      return tally
    },
    get order() {
      order ??= orderOf(touched, after, state)
      return order
    },
  }
}

const EMPTY_TALLY: Readonly<Record<StepStatus, number>> = {
  pending: 0,
  in_progress: 0,
  completed: 0,
  blocked: 0,
  skipped: 0,
  failed: 0,
}

function patched(data: JsonObject, set: { readonly [field: string]: unknown }): JsonObject {
  const next: Record<string, unknown> = { ...data, ...set }
  for (const field of Object.keys(set)) if (set[field] === undefined) delete next[field]
  return next as JsonObject
}

/** A node and the group it is loaded with: that of its owner, of what it hangs on, its own if it begins one, else the context's. */
function born(change: NodeAdd, revision: number, groupOf: (kind: Kind, id: string) => string | undefined): AnyNode {
  const { partOf, refs = [], root } = KINDS[change.node]
  const { kind: _, node: kind, group: given, revived: __, ...rest } = change
  const node = { ...rest, kind, born: revision } as unknown as AnyNode
  const hangsOn = refs.find((ref) => ref.groups)
  const target = hangsOn && ((change.data as JsonObject)[hangsOn.field] as string | undefined)
  const targetKind = hangsOn && (typeof hangsOn.to === 'string' ? hangsOn.to : hangsOn.to(node))
  const group =
    given ??
    (partOf && change.owner !== undefined ? groupOf(partOf, change.owner) : undefined) ??
    (target !== undefined && targetKind ? groupOf(targetKind, target) : undefined) ??
    (root ? change.id : '-')
  return { ...node, group }
}
