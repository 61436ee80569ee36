import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, Kind, NodeOf, Stored } from './change.ts'
import type { Found } from './finding.ts'
import type { SHARED_INDEXES } from './index-rows.ts'
import { INDEX, isIndexed, lifeOf, ticks, type Whereabouts, waits } from './indexes.ts'
import { isKind, nodeKey, placeOf } from './node.ts'

/** What lies in the store of one graph. */
interface Values {
  readonly nodes: ReadonlyMap<string, AnyNode>
  readonly stored: ReadonlyMap<string, Stored>
  /** The groups that are listed as open. */
  readonly open: ReadonlySet<string>
  /** The keys of the shared indexes that are said to lead here. */
  readonly rows: readonly string[]
}

/** Compares each index with what it ought to tell by the values: nothing missing, nothing too much, nothing that leads elsewhere. */
export async function verifyIndexes(store: Backend, graph: string, values: Values, found: Found): Promise<void> {
  const { wanted, open } = expected(values)
  const there = await valuesAt(store, new Set([...wanted.keys(), ...values.rows]))
  for (const key of values.rows)
    if (!wanted.has(key) && there.get(key)?.graph === graph)
      found(ruleOf(key), key, `${key} is in the index without reason`)
  for (const [key, group] of wanted) {
    const where = there.get(key)
    if (!where) found(ruleOf(key), key, `${key} is missing from the index`)
    else if (where.graph !== graph || where.group !== group) found(ruleOf(key), key, `${key} leads elsewhere`)
  }
  for (const group of open)
    if (!values.open.has(group)) found('index.open', group, `group ${group} is open but not listed`)
  for (const group of values.open)
    if (!open.has(group)) found('index.open', group, `group ${group} is listed as open but has ended`)
}

/** As they are now: the list of keys may be older. */
async function valuesAt(store: Backend, keys: ReadonlySet<string>): Promise<ReadonlyMap<string, Whereabouts>> {
  const there = new Map<string, Whereabouts>()
  const left = [...keys]
  while (left.length > 0)
    for (const [key, value] of await store.getMany(left.splice(-AT_ONCE))) there.set(key, value as Whereabouts)
  return there
}
const AT_ONCE = 1000

const ruleOf = (key: string) => `index.${key.slice(0, key.indexOf('/')) as (typeof SHARED_INDEXES)[number]}` as const

function expected({ nodes, stored }: Values) {
  /** Groups by the key that must lead to them. */
  const wanted = new Map<string, string>()
  for (const [key, value] of stored) {
    const { kind, id, group } = placeOf(key)
    if (isIndexed(kind, id, value)) wanted.set(INDEX.id(kind, id), group) // also of what was deleted: its id stays taken
  }
  const byName = { get: <K extends Kind>(kind: K, id: string) => nodes.get(nodeKey(kind, id)) as NodeOf<K> | undefined }
  const runs = new Map<string, string>()
  const groups = new Set<string>()
  for (const node of nodes.values()) {
    if (waits(node)) wanted.set(INDEX.waiting(node.id), node.group)
    if (isKind(node, 'timer') && ticks(node)) wanted.set(INDEX.timer(node.data.due, node.id), node.group)
    if (isKind(node, 'run') && node.data.phase !== 'ended') runs.set(node.data.plan_id, node.id)
    groups.add(node.group)
  }
  const open = new Set<string>()
  for (const group of groups) {
    const { stage, runs: runsOn, rests } = lifeOf(group, byName, runs.get(group))
    if (stage === 'open') open.add(group)
    if (runsOn) wanted.set(INDEX.running(group), group)
    if (rests) wanted.set(INDEX.resting(group), group)
  }
  return { wanted, open }
}
