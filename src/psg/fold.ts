import type { Violation } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { AnyNode, Change, Changes, EdgeChange, Kind, Node, NodeAdd, NodeUpdate } from './change.ts'
import type { Delta } from './delta.ts'
import { KINDS } from './kinds.ts'
import { nodeKey, nodeOf, statusOf } from './node.ts'
import type { GraphState } from './state.ts'

export interface Folded {
  /** In the order in which they were first named. */
  readonly deltas: readonly Delta[]
  readonly byKind: ReadonlyMap<Kind, ReadonlyMap<string, Open>>
  readonly misfits: readonly Violation[]
}

/** The changes of each node folded into one, from how it is to how it would be. What does not fit at all is told. */
export function fold(state: GraphState, revision: number, changes: Changes): Folded {
  const folding: Folding = { state, revision, changes, deltas: [], byKind: new Map(), toCome: undefined }
  const misfits: Violation[] = []
  for (const change of changes) {
    const misfit = foldIn(folding, change)
    if (misfit) misfits.push(misfit)
  }
  const { deltas, byKind } = folding
  const never = deltas.some(neverWas)
  return { deltas: never ? deltas.filter((delta) => !neverWas(delta)) : deltas, byKind, misfits }
}

/** What is being folded. One state, handed from hand to hand: every commit makes one. */
interface Folding {
  readonly state: GraphState
  readonly revision: number
  readonly changes: Changes
  readonly deltas: Open[]
  readonly byKind: Map<Kind, Map<string, Open>>
  /** What this commit adds, for those that are added before what they hang on. */
  toCome: ReadonlyMap<string, NodeAdd> | undefined
}
/** A delta that is still being put together. */
export type Open = { -readonly [F in keyof Delta]: Delta[F] }

function foldIn(folding: Folding, change: Change): Violation | undefined {
  switch (change.kind) {
    case 'node_add':
      return add(folding, change as NodeAdd)
    case 'node_update':
      return update(folding, change as NodeUpdate)
    case 'node_delete':
      return remove(folding, change.node, change.id)
    case 'edge_add':
    case 'edge_delete':
      return connect(folding, change)
    default:
      return change satisfies never
  }
}

function add(folding: Folding, change: NodeAdd): Violation | undefined {
  const { node: kind, id } = change
  const tombstone = folding.state.tombstone(kind, id)
  if (after(folding, kind, id)) return misfit('id.unique', kind, id, 'exists already')
  if (find(folding, kind, id) || (tombstone && !change.revived))
    return misfit('id.unique', kind, id, 'was deleted, and its id stays taken')
  if (change.revived && !tombstone) return misfit('node.deleted', kind, id, 'was never deleted: it cannot come back')
  const node = tombstone ? withData(tombstone, change.data as JsonObject) : born(folding, change)
  return begin(folding, { kind, id, before: undefined, after: node, statusOnly: false })
}

function update(folding: Folding, { node: kind, id, set, retired }: NodeUpdate): Violation | undefined {
  const node = after(folding, kind, id)
  if (!node) return misfit('node.exists', kind, id, 'is not there to be changed')
  const next = withData(node, patched(node.data as JsonObject, set))
  if (retired !== undefined)
    return replace(folding, nodeOf({ ...next, retired: retired || undefined }, next.data), false)
  return replace(folding, next, movesOnly(node, set))
}

function remove(folding: Folding, kind: Kind, id: string): Violation | undefined {
  if (!after(folding, kind, id)) return misfit('node.exists', kind, id, 'is not there to be deleted')
  const delta = find(folding, kind, id)
  if (!delta)
    return begin(folding, { kind, id, before: folding.state.get(kind, id), after: undefined, statusOnly: false })
  delta.after = undefined
  delta.statusOnly = false
  delete delta.via
  return undefined
}

function connect(folding: Folding, { kind, from, to }: EdgeChange): Violation | undefined {
  const step = after(folding, 'step', from) as Node<'step'> | undefined
  if (!step) return misfit('node.exists', 'step', from, 'is not there to depend on anything')
  const dependencies = step.data.dependencies ?? []
  const there = dependencies.includes(to)
  if (kind === 'edge_add' && there) return misfit('edge.unique', 'step', from, `depends on ${to} already`)
  if (kind === 'edge_delete' && !there) return misfit('edge.exists', 'step', from, `does not depend on ${to}`)
  const next = kind === 'edge_add' ? [...dependencies, to] : dependencies.filter((id) => id !== to)
  return replace(folding, withData(step as AnyNode, { ...step.data, dependencies: Object.freeze(next) }), false)
}

function replace(folding: Folding, node: AnyNode, statusOnly: boolean): undefined {
  const { kind, id } = node
  const delta = find(folding, kind, id)
  if (!delta) return begin(folding, { kind, id, before: folding.state.get(kind, id), after: node, statusOnly })
  const passed = statusOf(delta.after)
  if (passed !== undefined && passed !== statusOf(node)) delta.via = [...(delta.via ?? []), passed]
  delta.after = node
  delta.statusOnly &&= statusOnly
  return undefined
}

function begin({ byKind, deltas }: Folding, delta: Open): undefined {
  const known = byKind.get(delta.kind)
  if (known) known.set(delta.id, delta)
  else byKind.set(delta.kind, new Map([[delta.id, delta]]))
  deltas.push(delta)
  return undefined
}

const find = ({ byKind }: Folding, kind: Kind, id: string): Open | undefined => byKind.get(kind)?.get(id)

function after(folding: Folding, kind: Kind, id: string): AnyNode | undefined {
  const delta = find(folding, kind, id)
  return delta ? delta.after : folding.state.get(kind, id)
}

/** Born and deleted in one commit. */
const neverWas = ({ before, after: is }: Delta): boolean => before === undefined && is === undefined

const misfit = (rule: string, kind: Kind, id: string, message: string): Violation => ({
  rule,
  node: nodeKey(kind, id),
  path: '',
  message: `${kind} ${id} ${message}`,
})

function born(folding: Folding, change: NodeAdd): AnyNode {
  const { node: kind, id, owner, at, imported, data } = change
  return nodeOf({ kind, id, group: groupFor(folding, change), owner, at, born: folding.revision, imported }, data)
}

/** What a node is loaded with: its owner, what it hangs on, itself if it begins a group, else the context. */
function groupFor(folding: Folding, change: NodeAdd): string {
  const { partOf, refs, root, group = '-' } = KINDS[change.node]
  if (change.group !== undefined) return change.group
  const owned = partOf && change.owner !== undefined ? groupOf(folding, partOf, change.owner) : undefined
  if (owned !== undefined) return owned
  for (const { groups, field, to } of refs ?? []) {
    const target = groups ? (change.data as JsonObject)[field] : undefined
    if (typeof target !== 'string') continue
    const shared = groupOf(folding, typeof to === 'string' ? to : to(change as unknown as AnyNode), target)
    if (shared !== undefined) return shared
  }
  return root ? change.id : group
}

/** The group of a node, also of one that a later change of this commit adds. */
function groupOf(folding: Folding, kind: Kind, id: string): string | undefined {
  const there = after(folding, kind, id)
  if (there) return there.group
  folding.toCome ??= new Map(
    folding.changes.flatMap((change) =>
      change.kind === 'node_add' ? [[nodeKey(change.node, change.id), change as NodeAdd]] : [],
    ),
  )
  const coming = folding.toCome.get(nodeKey(kind, id))
  return coming && groupFor(folding, coming)
}

function patched(data: JsonObject, set: { readonly [field: string]: unknown }): JsonObject {
  const fields = Object.keys(set)
  if (fields.length === 0) return data
  const next: Record<string, unknown> = { ...data, ...set }
  for (const field of fields) if (set[field] === undefined) delete next[field]
  return next as JsonObject
}

/** A change of status, and of nothing else: the lifecycle says all there is to say of it. */
function movesOnly({ kind, data }: AnyNode, set: { readonly [field: string]: unknown }): boolean {
  const { lifecycle, schema } = KINDS[kind]
  return (
    Object.keys(set).length === 1 &&
    typeof set.status === 'string' &&
    typeof (data as { status?: unknown }).status === 'string' &&
    (lifecycle !== undefined || schema === undefined)
  )
}

const withData = (node: AnyNode, data: JsonObject): AnyNode =>
  data === (node.data as JsonObject) ? node : nodeOf(node, data)
