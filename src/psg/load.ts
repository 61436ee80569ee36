import { Corrupt } from '../protocol/errors.ts'
import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, EntryBody, EntryChange, Stored } from './change.ts'
import type { Delta } from './delta.ts'
import { isFieldChange, isMove, nodeWithFields } from './field-change.ts'
import { INDEX, type Written } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { fromStored, groupPrefix, placeOf } from './node.ts'
import type { GraphMemory, GraphState } from './state.ts'

/** What lies in the store under one group. */
export interface GroupValues {
  readonly group: string
  readonly nodes: readonly AnyNode[]
  readonly tombstones: readonly AnyNode[]
  /** Of the context's own group: the groups that have not ended. */
  readonly open: readonly string[]
  /** Of the context's own group: the revision after which values trail behind the journal. */
  readonly written: number | undefined
}

/** Reads a group while others may write: entries above the revision it is to be taken for have to be applied afterwards. */
export async function readGroup(store: Backend, graph: string, group: string): Promise<GroupValues> {
  const [nodes, tombstones, open]: [AnyNode[], AnyNode[], string[]] = [[], [], []]
  const [listed, mark] = [INDEX.open(graph, ''), INDEX.written(graph)]
  let written: number | undefined
  for await (const [key, value] of store.scan(groupPrefix(graph, group))) {
    if (key.startsWith(listed)) open.push(key.slice(listed.length))
    else if (key === mark) written = (value as Written).revision
    else ((value as Stored).deleted ? tombstones : nodes).push(fromStored(key, value as Stored, group))
  }
  return { group, nodes, tombstones, open, written }
}

/** Takes a group that was read into memory. */
export function takeGroup({ group, nodes, tombstones }: GroupValues, memory: GraphMemory): void {
  for (const { kind, id } of nodes)
    if (memory.state.has(kind, id))
      throw new Corrupt(
        `group ${group}`,
        `${kind} ${id} lies in two groups; \`verify\` tells which, and the store has to be brought back from a backup`,
      )
  memory.openGroup(group)
  for (const node of tombstones) memory.bury(node)
  memory.apply(nodes.map(added))
}

/**
 * Brings memory from one revision to the next and tells what that changed in it. Groups that are not loaded stay so, but groups that begin are
 * taken in. Applying an entry whose values are there already does no harm, as long as all later ones follow.
 */
export function applyEntry({ changes }: Pick<EntryBody, 'changes'>, memory: GraphMemory): readonly Delta[] {
  const deltas: Delta[] = []
  for (const change of changes) {
    const { group, kind, id } = placeOf(change.key)
    if (group === '-' || (KINDS[kind].root && group === id && isBirth(change))) memory.openGroup(group)
  }
  for (const change of changes) {
    if (!memory.state.hasGroup(placeOf(change.key).group)) continue
    const delta = deltaOf(change, memory.state)
    if (delta) deltas.push(delta)
    else if (!isFieldChange(change) && change.after?.deleted) memory.bury(fromStored(change.key, change.after))
  }
  memory.apply(deltas)
  return deltas
}

/** What comes back from its tombstone begins nothing: more of its group may lie in the store than the entry tells. */
const isBirth = (change: EntryChange): boolean => !isFieldChange(change) && !change.before

/** A change as the journal tells it, against memory. */
function deltaOf(change: EntryChange, state: GraphState): Delta | undefined {
  const { kind, id } = placeOf(change.key)
  const before = state.get(kind, id)
  if (isFieldChange(change))
    return before && { kind, id, before, after: nodeWithFields(before, change), statusOnly: isMove(change) }
  const after = change.after && !change.after.deleted ? fromStored(change.key, change.after) : undefined
  return before || after ? { kind, id, before, after, statusOnly: false } : undefined
}

const added = (node: AnyNode): Delta => ({
  kind: node.kind,
  id: node.id,
  before: undefined,
  after: node,
  statusOnly: false,
})
