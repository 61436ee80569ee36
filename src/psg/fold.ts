import type { Violation } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { AnyNode, Change, Changes, EdgeChange, Kind, Node, NodeAdd } from './change.ts'
import type { Delta } from './delta.ts'
import { KINDS } from './kinds.ts'
import { nodeKey, statusOf } from './node.ts'
import type { GraphState } from './state.ts'

export interface Folded {
  /** By the node's name. */
  readonly deltas: ReadonlyMap<string, Delta>
  readonly misfits: readonly Violation[]
}

/** The changes of each node folded into one, from how it is to how it would be. What does not fit at all is told. */
export function fold(state: GraphState, revision: number, changes: Changes): Folded {
  const deltas = new Map<string, { -readonly [F in keyof Delta]: Delta[F] }>()
  const after = (kind: Kind, id: string): AnyNode | undefined => {
    const delta = deltas.get(nodeKey(kind, id))
    return delta ? delta.after : state.get(kind, id)
  }

  /** The group of a node, also of one that a later change of this commit adds. */
  let toCome: Map<string, NodeAdd> | undefined
  function groupOf(kind: Kind, id: string): string | undefined {
    const there = after(kind, id)
    if (there) return there.group
    toCome ??= new Map(
      changes.flatMap((change) => (change.kind === 'node_add' ? [[nodeKey(change.node, change.id), change]] : [])),
    )
    const coming = toCome.get(nodeKey(kind, id))
    return coming && groupFor(coming, groupOf)
  }

  function add(change: NodeAdd): Violation | undefined {
    const { node: kind, id } = change
    const key = nodeKey(kind, id)
    const tombstone = state.tombstone(kind, id)
    if (after(kind, id)) return misfit('id.unique', kind, id, 'exists already')
    if (deltas.has(key) || (tombstone && !change.revived))
      return misfit('id.unique', kind, id, 'was deleted, and its id stays taken')
    if (change.revived && !tombstone) return misfit('node.deleted', kind, id, 'was never deleted: it cannot come back')
    const node = tombstone ? withData(tombstone, change.data as JsonObject) : born(change, revision, groupOf)
    deltas.set(key, { kind, id, before: undefined, after: node, statusOnly: false })
    return undefined
  }

  function replace(kind: Kind, id: string, node: AnyNode, statusOnly: boolean): undefined {
    const key = nodeKey(kind, id)
    const delta = deltas.get(key)
    if (!delta) deltas.set(key, { kind, id, before: state.get(kind, id), after: node, statusOnly })
    else {
      const passed = statusOf(delta.after)
      if (passed !== undefined && passed !== statusOf(node)) delta.via = [...(delta.via ?? []), passed]
      delta.after = node
      delta.statusOnly &&= statusOnly
    }
    return undefined
  }

  function remove(kind: Kind, id: string): Violation | undefined {
    if (!after(kind, id)) return misfit('node.exists', kind, id, 'is not there to be deleted')
    const before = state.get(kind, id)
    if (before) deltas.set(nodeKey(kind, id), { kind, id, before, after: undefined, statusOnly: false })
    else deltas.delete(nodeKey(kind, id)) // born and deleted at once: never was
    return undefined
  }

  function connect({ kind, from, to }: EdgeChange): Violation | undefined {
    const step = after('step', from) as Node<'step'> | undefined
    if (!step) return misfit('node.exists', 'step', from, 'is not there to depend on anything')
    const dependencies = step.data.dependencies ?? []
    const there = dependencies.includes(to)
    if (kind === 'edge_add' && there) return misfit('edge.unique', 'step', from, `depends on ${to} already`)
    if (kind === 'edge_delete' && !there) return misfit('edge.exists', 'step', from, `does not depend on ${to}`)
    const next = kind === 'edge_add' ? [...dependencies, to] : dependencies.filter((id) => id !== to)
    return replace('step', from, withData(step, { ...step.data, dependencies: Object.freeze(next) }), false)
  }

  function foldIn(change: Change): Violation | undefined {
    switch (change.kind) {
      case 'node_add':
        return add(change as NodeAdd)
      case 'node_update': {
        const { node: kind, id, set, retired } = change
        const node = after(kind, id)
        if (!node) return misfit('node.exists', kind, id, 'is not there to be changed')
        const next = withData(node, patched(node.data as JsonObject, set))
        return replace(kind, id, retired ? ({ ...next, retired } as AnyNode) : next, !retired && movesOnly(node, set))
      }
      case 'node_delete':
        return remove(change.node, change.id)
      case 'edge_add':
      case 'edge_delete':
        return connect(change)
      default:
        return change satisfies never
    }
  }

  const misfits: Violation[] = []
  for (const change of changes) {
    const found = foldIn(change)
    if (found) misfits.push(found)
  }
  return { deltas, misfits }
}

const misfit = (rule: string, kind: Kind, id: string, message: string): Violation => ({
  rule,
  node: nodeKey(kind, id),
  path: '',
  message: `${kind} ${id} ${message}`,
})

type GroupOf = (kind: Kind, id: string) => string | undefined

function born(change: NodeAdd, revision: number, groupOf: GroupOf): AnyNode {
  const { node: kind, id, owner, at, imported, data } = change
  return {
    kind,
    id,
    group: groupFor(change, groupOf),
    ...(owner !== undefined && { owner }),
    ...(at !== undefined && { at }),
    born: revision,
    ...(imported && { imported }),
    data,
  } as unknown as AnyNode
}

/** What a node is loaded with: its owner, what it hangs on, itself if it begins a group, else the context. */
function groupFor(change: NodeAdd, groupOf: GroupOf): string {
  const { partOf, refs = [], root, group = '-' } = KINDS[change.node]
  if (change.group !== undefined) return change.group
  const owned = partOf && change.owner !== undefined ? groupOf(partOf, change.owner) : undefined
  if (owned !== undefined) return owned
  const hangsOn = refs.find((ref) => ref.groups)
  const target = hangsOn && (change.data as JsonObject)[hangsOn.field]
  if (hangsOn && typeof target === 'string') {
    const kind = typeof hangsOn.to === 'string' ? hangsOn.to : hangsOn.to(change as unknown as AnyNode)
    const shared = groupOf(kind, target)
    if (shared !== undefined) return shared
  }
  return root ? change.id : group
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
  data === (node.data as JsonObject) ? node : ({ ...node, data: Object.freeze(data) } as unknown as AnyNode)
