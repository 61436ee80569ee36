import type { JsonObject } from '../protocol/json.ts'
import type { AnyNode, Kind, Node, Stored } from './change.ts'
import { KINDS } from './kinds.ts'

/** A node's name within its graph. */
export const nodeKey = (kind: Kind, id: string): string => `${kind}/${id}`

/** A node's name within the store. */
export const storeKey = (graph: string, node: Pick<AnyNode, 'group' | 'kind' | 'id'>): string =>
  `${graph}/${node.group}/${node.kind}/${node.id}`

/** The keys under which a group lies; `-` also holds the list of open groups. */
export const groupPrefix = (graph: string, group: string): string => `${graph}/${group}/`

/** What a key of the store names; an id may hold slashes, the parts before it do not. */
export function placeOf(key: string): { readonly group: string; readonly kind: Kind; readonly id: string } {
  const group = key.indexOf('/') + 1
  const kind = key.indexOf('/', group) + 1
  const id = key.indexOf('/', kind) + 1
  return { group: key.slice(group, kind - 1), kind: key.slice(kind, id - 1) as Kind, id: key.slice(id) }
}

export function toStored(node: AnyNode, deleted?: true): Stored {
  return {
    ...(node.owner !== undefined && { owner: node.owner }),
    ...(node.at !== undefined && { at: node.at }),
    born: node.born,
    ...(node.imported && { imported: node.imported }),
    ...(node.retired && { retired: node.retired }),
    ...(deleted && { deleted }),
    data: node.data as JsonObject,
  }
}

/** The node that lies, or as a tombstone lay, under a key. */
export function fromStored(key: string, { owner, at, born, imported, retired, data }: Stored): AnyNode {
  const { group, kind, id } = placeOf(key)
  return {
    kind,
    id,
    group,
    ...(owner !== undefined && { owner }),
    ...(at !== undefined && { at }),
    born,
    ...(imported && { imported }),
    ...(retired && { retired }),
    data,
  } as unknown as AnyNode
}

export const statusOf = (node: AnyNode | undefined): string | undefined =>
  (node?.data as { status?: string } | undefined)?.status

/** The same node in another status. */
export const moved = (node: AnyNode, status: string): AnyNode =>
  ({ ...node, data: { ...node.data, status } }) as AnyNode

/** Siblings in their order. Whatever has no place of its own comes last, oldest first: the same in every process. */
export function byPlace(a: AnyNode, b: AnyNode): number {
  return (a.at ?? LAST) - (b.at ?? LAST) || a.born - b.born || (a.id < b.id ? -1 : 1)
}
const LAST = Number.MAX_SAFE_INTEGER

/** One reference of a node: its edge, where it points, and from which field. */
export interface Reference {
  readonly edge: string
  readonly kind: Kind
  readonly id: string
  readonly path: string
  /** Owner to part rather than part to owner. */
  readonly reversed?: true
  /** May name something that is not there. */
  readonly soft: boolean
}

/** What a node refers to, each target once. Edges are these and nothing else. */
export function referencesOf(node: AnyNode): readonly Reference[] {
  const { partOf, refs = [] } = KINDS[node.kind]
  const found: Reference[] = []
  if (partOf)
    found.push({ edge: 'CONTAINS', kind: partOf, id: node.owner ?? '', path: '', reversed: true, soft: false })
  for (const { field, edge, to, soft } of refs) {
    const value = (node.data as JsonObject)[field]
    if (value === undefined) continue
    const kind = typeof to === 'string' ? to : to(node)
    if (typeof value === 'string') found.push({ edge, kind, id: value, path: field, soft: soft?.(node) ?? false })
    else if (Array.isArray(value)) {
      const seen = new Set<string>()
      for (const [i, id] of (value as string[]).entries()) {
        if (seen.has(id)) continue
        seen.add(id)
        found.push({ edge, kind, id, path: `${field}[${i}]`, soft: false })
      }
    }
  }
  return found
}

export const isKind = <K extends Kind>(node: AnyNode | undefined, kind: K): node is Extract<AnyNode, Node<K>> =>
  node?.kind === kind
