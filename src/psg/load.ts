import { Corrupt, Refused } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, EntryBody, EntryChange, Kind, NodeOf, Stored } from './change.ts'
import type { Delta } from './delta.ts'
import { isFieldChange, isMove, nodeWithFields, takeOn } from './field-change.ts'
import { damaged, isNodeKey, isStored } from './form.ts'
import type { GraphMemory } from './graph-memory.ts'
import type { JournalEntry } from './history.ts'
import { INDEX, lifeOf } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { fromStored, groupIn, groupPrefix, kindPrefix, nodeKey, placeOf } from './node.ts'
import type { GraphState } from './state.ts'

/** Values by their keys. */
export type Values = Map<string, Stored>

/** What lies in the store under one group. */
export interface GroupValues {
  readonly group: string
  readonly values: Values
  /** Of the context's own group: the groups that have not ended. */
  readonly open: readonly string[]
}

/** Where a graph stands in the store. Throws Refused for a store that does not say: nothing that is read there could be placed. */
export async function readRevision(store: Backend, graph: string): Promise<number> {
  const head = await store.head(graph)
  if (Number.isSafeInteger(head?.revision)) return head.revision
  const remedy = 'give { revision, token }, both 0 for a stream that was never written'
  throw new Refused(`the store does not say where ${graph} stands: its head gives ${shown(head)}`, remedy)
}

/** Reads a group while others may write: entries above the revision it is to be taken for have to be applied afterwards. Throws Corrupt. */
export async function readGroup(store: Backend, graph: string, group: string): Promise<GroupValues> {
  const values: Values = new Map()
  const open: string[] = []
  const [listed, mark] = [INDEX.open(graph, ''), INDEX.written(graph)]
  for await (const [key, value] of store.scan(groupPrefix(graph, group))) {
    if (key.startsWith(listed)) open.push(key.slice(listed.length))
    else if (key !== mark) values.set(key, storedUnder(graph, key, value))
  }
  return { group, values, open }
}

/** The same of these kinds alone. */
export async function readKinds(store: Backend, graph: string, group: string, kinds: readonly Kind[]): Promise<Values> {
  const values: Values = new Map()
  const read = async (kind: Kind) => {
    for await (const [key, value] of store.scan(kindPrefix(graph, group, kind)))
      values.set(key, storedUnder(graph, key, value))
  }
  await Promise.all(kinds.map(read))
  return values
}

function storedUnder(graph: string, key: string, value: Json): Stored {
  if (!isNodeKey(graph, key) || !isStored(value)) throw damaged(key, 'holds no node')
  return value as unknown as Stored
}

/** The groups that begin in these entries: the store holds no more of them than the entries tell. */
export function groupsBegunIn(entries: readonly JournalEntry[]): readonly string[] {
  const changes = entries.flatMap(({ body }) => body.changes)
  return changes.filter(begins).map(({ key }) => placeOf(key).group)
}

/** Brings groups to where the entries after what was read leave them. Entries whose values are there already do no harm. */
export function foldInto(groups: ReadonlyMap<string, Values>, entries: readonly JournalEntry[]): void {
  for (const { body } of entries)
    for (const change of body.changes) {
      const values = groups.get(groupIn(change.key))
      if (values) takeOn(values, change)
    }
}

/** Do these values say that what begins the group has ended? */
export function groupHasEnded(group: string, values: Values): boolean {
  const nodes = new Map<string, AnyNode>()
  let run: string | undefined
  for (const [key, value] of values) {
    const { kind, id } = placeOf(key)
    nodes.set(nodeKey(kind, id), value as unknown as AnyNode)
    if (kind === 'run' && value.data.phase !== 'ended') run = id
  }
  const get = <K extends Kind>(kind: K, id: string) => nodes.get(nodeKey(kind, id)) as NodeOf<K> | undefined
  return lifeOf(group, { get }, run).stage === 'ended'
}

/** Takes a group that was read into memory. */
export function takeGroup(group: string, values: Values, memory: GraphMemory): void {
  const added: Delta[] = []
  memory.openGroup(group)
  for (const [key, value] of values) {
    const after = fromStored(key, value, group)
    const { kind, id } = after
    if (value.deleted) memory.bury(after)
    else if (memory.state.has(kind, id))
      throw new Corrupt(
        `group ${group}`,
        `${kind} ${id} lies in two groups; \`verify\` tells which, and the store has to be brought back from a backup`,
      )
    else added.push({ kind, id, before: undefined, after, statusOnly: false })
  }
  memory.apply(added)
}

/**
 * Brings memory from one revision to the next and tells what that changed in it. Groups that are not loaded stay so, but groups that begin are
 * taken in. Applying an entry whose values are there already does no harm, as long as all later ones follow.
 */
export function applyEntry({ changes }: Pick<EntryBody, 'changes'>, memory: GraphMemory): readonly Delta[] {
  const deltas: Delta[] = []
  for (const change of changes) {
    const group = groupIn(change.key)
    if (group === '-' || begins(change)) memory.openGroup(group)
  }
  for (const change of changes) {
    if (!memory.state.hasGroup(groupIn(change.key))) continue
    const delta = deltaOf(change, memory.state)
    if (delta) deltas.push(delta)
    else if (!isFieldChange(change) && change.after?.deleted) memory.bury(fromStored(change.key, change.after))
  }
  memory.apply(deltas)
  return deltas
}

/** Does a group begin with it? Not with what comes back from its tombstone: more of its group may lie in the store than the entry tells. */
function begins(change: EntryChange): boolean {
  if (isFieldChange(change) || change.before) return false
  const { group, kind, id } = placeOf(change.key)
  return KINDS[kind].root === true && group === id
}

/** A change as the journal tells it, against memory. */
function deltaOf(change: EntryChange, state: GraphState): Delta | undefined {
  const { kind, id } = placeOf(change.key)
  const before = state.get(kind, id)
  if (isFieldChange(change))
    return before && { kind, id, before, after: nodeWithFields(before, change), statusOnly: isMove(change) }
  const after = change.after && !change.after.deleted ? fromStored(change.key, change.after) : undefined
  return before || after ? { kind, id, before, after, statusOnly: false } : undefined
}
