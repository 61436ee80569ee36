import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, Kind, NodeOf, Stored } from './change.ts'
import type { Finding } from './finding.ts'
import type { SHARED_INDEXES } from './index-rows.ts'
import { endOf, INDEX, isIndexed, LISTED, lifeOf, ticks, timerRow, type Whereabouts, waits } from './indexes.ts'
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

/** Of a timer there is more to it. */
type Row = Partial<Whereabouts>

/** Something in an index that is not what the values say. */
export interface IndexFault extends Finding {
  /** The key, and what ought to be there; absent for one that leads to another graph, which may have a right to it. */
  readonly mend?: readonly [key: string, row: Row | undefined]
}

/** Compares each index with what it ought to tell by the values: nothing missing, nothing too much, nothing that leads elsewhere. */
export async function indexFaults(store: Backend, graph: string, values: Values): Promise<readonly IndexFault[]> {
  const { wanted, open } = expected(graph, values)
  const there = await valuesAt(store, new Set([...wanted.keys(), ...values.rows]))
  const faults: IndexFault[] = []
  /** What names no graph is a run's, which is here. */
  const leadsHere = (row: Row | undefined) => row !== undefined && (row.graph ?? graph) === graph
  const fault = (key: string, says: string, mend?: IndexFault['mend']) =>
    void faults.push({ rule: ruleOf(key), node: key, message: `${key} ${says}`, ...(mend && { mend }) })
  for (const key of values.rows)
    if (!wanted.has(key) && leadsHere(there.get(key))) fault(key, 'is in the index without reason', [key, undefined])
  for (const [key, row] of wanted) {
    const where = there.get(key)
    if (!where) fault(key, 'is missing from the index', [key, row])
    else if (!leadsHere(where)) fault(key, 'leads elsewhere')
    else if (where.group !== row.group) fault(key, 'leads elsewhere', [key, row])
  }
  const listed = (group: string, says: string, row?: Row) =>
    void faults.push({
      rule: 'index.open',
      node: group,
      message: `group ${group} ${says}`,
      mend: [INDEX.open(graph, group), row],
    })
  for (const group of open) if (!values.open.has(group)) listed(group, 'is open but not listed', LISTED)
  for (const group of values.open) if (!open.has(group)) listed(group, 'is listed as open but has ended')
  return faults
}

/** As they are now: the list of keys may be older. */
async function valuesAt(store: Backend, keys: ReadonlySet<string>): Promise<ReadonlyMap<string, Row>> {
  const there = new Map<string, Row>()
  const left = [...keys]
  while (left.length > 0)
    for (const [key, value] of await store.getMany(left.splice(-AT_ONCE))) there.set(key, value as Row)
  return there
}
const AT_ONCE = 1000

const ruleOf = (key: string) => `index.${key.slice(0, key.indexOf('/')) as (typeof SHARED_INDEXES)[number]}` as const

function expected(graph: string, { nodes, stored }: Values) {
  /** By the key that must lead there. */
  const wanted = new Map<string, Row>()
  for (const [key, value] of stored) {
    const { kind, id, group } = placeOf(key)
    if (isIndexed(kind, id, value)) wanted.set(INDEX.id(kind, id), { graph, group }) // also of what was deleted: its id stays taken
  }
  const byName = { get: <K extends Kind>(kind: K, id: string) => nodes.get(nodeKey(kind, id)) as NodeOf<K> | undefined }
  const runs = new Map<string, string>()
  const groups = new Set<string>()
  for (const node of nodes.values()) {
    if (waits(node)) wanted.set(INDEX.waiting(node.id), { graph, group: node.group })
    if (isKind(node, 'timer') && ticks(node))
      wanted.set(INDEX.timer(node.data.due, node.id), timerRow({ graph, group: node.group }, node.data))
    const end = endOf(node)
    if (end !== undefined) wanted.set(end, LISTED)
    else if (isKind(node, 'run')) runs.set(node.data.plan_id, node.id)
    groups.add(node.group)
  }
  const open = new Set<string>()
  for (const group of groups) {
    const { stage, runs: runsOn, rests } = lifeOf(group, byName, runs.get(group))
    if (stage === 'open') open.add(group)
    if (runsOn) wanted.set(INDEX.running(group), { graph, group })
    if (rests) wanted.set(INDEX.resting(group), { graph, group })
  }
  return { wanted, open }
}
