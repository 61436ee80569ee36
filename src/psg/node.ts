import type { JsonObject } from '../protocol/json.ts'
import type { AnyNode, Kind, Node, NodeData, Stored } from './change.ts'
import { KINDS, type RefFacts } from './kinds.ts'
import { frozen } from './plain.ts'

/** A node's name within its graph. */
export const nodeKey = (kind: Kind, id: string): string => `${kind}/${id}`

/** A node's name within the store. */
export const storeKey = (graph: string, node: Pick<AnyNode, 'group' | 'kind' | 'id'>): string =>
  `${graph}/${node.group}/${node.kind}/${node.id}`

/** The keys under which a group lies; `-` also holds the list of open groups. */
export const groupPrefix = (graph: string, group: string): string => `${graph}/${group}/`

/** The keys under which those of one kind lie. */
export const kindPrefix = (graph: string, group: string, kind: Kind): string => `${graph}/${group}/${kind}/`

/** What a key of the store names; an id may hold slashes, the parts before it do not. */
export function placeOf(key: string): { readonly group: string; readonly kind: Kind; readonly id: string } {
  const group = key.indexOf('/') + 1
  const kind = key.indexOf('/', group) + 1
  const id = key.indexOf('/', kind) + 1
  const name = key.slice(kind, id - 1)
  return { group: key.slice(group, kind - 1), kind: KIND_NAMES.get(name) ?? (name as Kind), id: key.slice(id) }
}
const KIND_NAMES: ReadonlyMap<string, Kind> = new Map((Object.keys(KINDS) as Kind[]).map((kind) => [kind, kind]))

/** The group alone. */
export function groupIn(key: string): string {
  const from = key.indexOf('/') + 1
  return key.slice(from, key.indexOf('/', from))
}

export function toStored({ owner, at, born, imported, retired, data }: AnyNode, deleted?: true): Stored {
  const stored: { -readonly [F in keyof Stored]: Stored[F] } = { born, data: data as JsonObject }
  if (owner !== undefined) stored.owner = owner
  if (at !== undefined) stored.at = at
  if (imported) stored.imported = imported
  if (retired) stored.retired = retired
  if (deleted) stored.deleted = deleted
  return stored
}

/** The node that lies, or as a tombstone lay, under a key. The value is taken over: nobody else may hold it. */
export function fromStored(
  key: string,
  { owner, at, born, imported, retired, data }: Stored,
  within?: string,
): AnyNode {
  const { group, kind, id } = placeOf(key)
  const own = data[KINDS[kind]?.idField ?? '']
  const name = own === id ? own : id // a piece of the key would keep all of it in memory
  return nodeOf({ kind, id: name, group: within ?? group, owner, at, born, imported, retired }, frozen(data))
}

/** A node of these members, told or not: to the engine all nodes are of one make, and finding a member takes no search. */
export const nodeOf = (
  { kind, id, group, owner, at, born, imported, retired }: Place,
  data: NodeData[Kind] | JsonObject,
): AnyNode => ({ kind, id, group, owner, at, born, imported, retired, data: Object.freeze(data) }) as unknown as AnyNode

/** A node without its content. */
type Place = Pick<Node, 'kind' | 'id' | 'group' | 'born'> & {
  readonly [F in 'owner' | 'at' | 'imported' | 'retired']?: Node[F] | undefined
}

export const statusOf = (node: AnyNode | undefined): string | undefined =>
  (node?.data as { status?: string } | undefined)?.status

/** Whether an object is locked, and by which Confirm it was last let change; told by all of its fields or some. */
export const governanceOf = (fields: object | undefined) => (fields as Governed | undefined)?.governance
interface Governed {
  readonly governance?: { readonly locked?: boolean; readonly lastConfirmRef?: { readonly id: string } }
}

/** Siblings in their order. Whatever has no place of its own comes last, oldest first: the same in every process. */
export function byPlace(a: AnyNode, b: AnyNode): number {
  return (a.at ?? LAST) - (b.at ?? LAST) || a.born - b.born || (a.id < b.id ? -1 : 1)
}
const LAST = Number.MAX_SAFE_INTEGER

/** What a node refers to. */
interface Reference {
  readonly kind: Kind
  readonly id: string
  /** May name something that is not there. */
  readonly soft: boolean
}

/** Of the parts of an object, whose edge runs from owner to part. */
export const CONTAINS: RefFacts = { field: '', edge: 'CONTAINS', to: (node) => KINDS[node.kind].partOf! }

/** Calls for everything a node refers to, each target once: what contains it first. `at` is the place in a list, or -1. */
export function eachReference(node: AnyNode, visit: (ref: RefFacts, kind: Kind, id: string, at: number) => void): void {
  const { partOf, refs } = KINDS[node.kind]
  if (partOf) visit(CONTAINS, partOf, node.owner ?? '', -1)
  if (!refs) return
  for (const ref of refs) {
    const value = (node.data as JsonObject)[ref.field]
    if (value === undefined) continue
    const kind = typeof ref.to === 'string' ? ref.to : ref.to(node)
    if (typeof value === 'string') visit(ref, kind, value, -1)
    else if (Array.isArray(value)) {
      const seen = value.length > 8 ? new Set<string>() : undefined
      for (let i = 0; i < value.length; i++) {
        const id = value[i] as string
        if (seen ? seen.has(id) : value.indexOf(id) < i) continue
        seen?.add(id)
        visit(ref, kind, id, i)
      }
    }
  }
}

/** What a node refers to, each target once. Edges are these and nothing else. */
export function referencesOf(node: AnyNode): readonly Reference[] {
  const found: Reference[] = []
  eachReference(node, ({ soft }, kind, id) => void found.push({ kind, id, soft: soft?.(node) ?? false }))
  return found
}

/** Those of one kind. */
export function* ofKind<K extends Kind>(nodes: Iterable<AnyNode>, kind: K): Iterable<Extract<AnyNode, Node<K>>> {
  for (const node of nodes) if (isKind(node, kind)) yield node
}

export const isKind = <K extends Kind>(node: AnyNode | undefined, kind: K): node is Extract<AnyNode, Node<K>> =>
  node?.kind === kind
