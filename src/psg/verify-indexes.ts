import type { Json, JsonObject } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, Kind, NodeOf, Stored } from './change.ts'
import type { Found } from './finding.ts'
import { INDEX, lifeOf, ticks, type Whereabouts, waits } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { isKind, nodeKey, placeOf } from './node.ts'

/** What lies in the store of one graph. */
interface Values {
  readonly nodes: ReadonlyMap<string, AnyNode>
  readonly stored: ReadonlyMap<string, Stored>
  /** The groups that are listed as open. */
  readonly open: ReadonlySet<string>
}

/** Compares each index with what it ought to tell by the values: nothing missing, nothing too much, nothing that leads elsewhere. */
export async function verifyIndexes(store: Backend, graph: string, values: Values, found: Found): Promise<void> {
  const { ids, running, waiting, timers, open } = expected(values)
  await compare(store, graph, 'id', ids, found)
  await compare(store, graph, 'running', running, found)
  await compare(store, graph, 'waiting', waiting, found)
  await compare(store, graph, 'timer', timers, found)
  for (const group of open)
    if (!values.open.has(group)) found('index.open', group, `group ${group} is open but not listed`)
  for (const group of values.open)
    if (!open.has(group)) found('index.open', group, `group ${group} is listed as open but has ended`)
}

/** Groups by the key that must lead to them. */
type Index = Map<string, string>

function expected({ nodes, stored }: Values) {
  const ids: Index = new Map()
  const running: Index = new Map()
  const waiting: Index = new Map()
  const timers: Index = new Map()
  for (const key of stored.keys()) {
    const { kind, id, group } = placeOf(key)
    if (KINDS[kind]?.indexed) ids.set(INDEX.id(kind, id), group) // also of what was deleted: its id stays taken
  }
  const byName = { get: <K extends Kind>(kind: K, id: string) => nodes.get(nodeKey(kind, id)) as NodeOf<K> | undefined }
  const runs = new Map<string, string>()
  const groups = new Set<string>()
  for (const node of nodes.values()) {
    if (waits(node)) waiting.set(INDEX.waiting(node.id), node.group)
    if (isKind(node, 'timer') && ticks(node)) timers.set(INDEX.timer(node.data.due, node.id), node.group)
    if (isKind(node, 'run') && node.data.phase !== 'ended') runs.set(node.data.plan_id, node.id)
    groups.add(node.group)
  }
  const open = new Set<string>()
  for (const group of groups) {
    const { stage, runs: runsOn } = lifeOf(group, byName, runs.get(group))
    if (stage === 'open') open.add(group)
    if (runsOn) running.set(INDEX.running(group), group)
  }
  return { ids, running, waiting, timers, open }
}

async function compare(
  store: Backend,
  graph: string,
  index: 'id' | 'running' | 'waiting' | 'timer',
  wanted: Index,
  found: Found,
): Promise<void> {
  const rule = `index.${index}` as const
  const there = new Map<string, Json>()
  for await (const [key, value] of store.scan(`${index}/`)) {
    if (wanted.has(key)) there.set(key, value)
    else if ((value as JsonObject).graph === graph) found(rule, key, `${key} is in the index without reason`)
  }
  for (const [key, group] of wanted) {
    const where = there.get(key) as Whereabouts | undefined
    if (!where) found(rule, key, `${key} is missing from the index`)
    else if (where.graph !== graph || where.group !== group) found(rule, key, `${key} leads elsewhere`)
  }
}
