import { inParts } from '../protocol/each.ts'
import { isObject, type Json } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, Kind, NodeOf, Stored } from './change.ts'
import type { Finding } from './finding.ts'
import { graphIn, NOWHERE, type SHARED_INDEXES } from './index-rows.ts'
import {
  type EndedRow,
  endedRow,
  endIn,
  endOf,
  INDEX,
  idIn,
  isIndexed,
  LISTED,
  lifeOf,
  ticks,
  timerRow,
  type Whereabouts,
  waits,
} from './indexes.ts'
import { isKind, nodeKey, placeOf } from './node.ts'

/** What lies in the store of one graph. */
interface Values {
  readonly nodes: ReadonlyMap<string, AnyNode>
  readonly stored: ReadonlyMap<string, Stored>
  /** The keys of the shared indexes that are said to lead here. */
  readonly rows: readonly string[]
  /** Only these keys are looked at; all of them when absent. */
  readonly only: ReadonlySet<string> | undefined
}

/** Of a timer there is more to it. */
type Row = Partial<Whereabouts> & EndedRow

/** Something in an index that is not what the values say. */
export interface IndexFault extends Finding {
  readonly key: string
  /** Whose it is, where that is known. */
  readonly group: string | undefined
  /** The key, and what ought to be there; absent for one that leads to another graph, which may have a right to it. */
  readonly mend?: readonly [key: string, row: Row | undefined]
  /** Nothing is wrong with it, but a newer version says more. */
  readonly isOld?: true
}

export const findingOf = ({ rule, node, message }: IndexFault): Finding => ({ rule, node, message })

/** Compares each index with what it ought to tell by the values: nothing missing, nothing too much, nothing that leads elsewhere. */
export async function indexFaults(store: Backend, graph: string, values: Values): Promise<readonly IndexFault[]> {
  const { wanted, open } = wantedRows(graph, values)
  const { only } = values
  const asked = only ?? new Set([...wanted.keys(), ...values.rows])
  const there = await valuesAt(store, asked)
  const faults: IndexFault[] = []
  /** That of runs that have ended names no graph: the run does. */
  const leadsTo = (key: string) => graphIn(there.get(key)) ?? (key.startsWith('ended/') ? graph : NOWHERE)
  const fault = (key: string, group: string | undefined, says: string, mend?: IndexFault['mend'], isOld?: true) =>
    void faults.push({
      rule: ruleOf(key),
      node: key,
      message: `${key} ${says}`,
      key,
      group,
      ...(mend && { mend }),
      ...(isOld && { isOld }),
    })
  for (const key of values.rows)
    if (asked.has(key) && !wanted.has(key) && there.has(key) && leadsTo(key) === graph)
      fault(key, groupOf(there.get(key)), 'is in the index without reason', [key, undefined])
  for (const [key, { row, group }] of wanted) {
    if (!asked.has(key)) continue
    if (!there.has(key)) fault(key, group, 'is missing from the index', [key, row])
    else if (leadsTo(key) === NOWHERE) fault(key, group, 'leads nowhere', [key, row])
    else if (leadsTo(key) !== graph) fault(key, group, 'leads elsewhere')
    else if (groupOf(there.get(key)) !== row.group) fault(key, group, 'leads elsewhere', [key, row])
    else if (endIn(there.get(key)) === row.status) continue
    else if (endIn(there.get(key)) === undefined) fault(key, group, 'does not tell how it ended', [key, row], true)
    else fault(key, group, 'tells of another end', [key, row])
  }
  const listing = INDEX.open(graph, '')
  const isListed = new Set<string>()
  for await (const [key] of store.scan(listing)) isListed.add(key.slice(listing.length))
  const listed = (group: string, says: string, row?: Row) => {
    const key = INDEX.open(graph, group)
    if (only?.has(key) === false) return
    faults.push({ rule: 'index.open', node: group, message: `group ${group} ${says}`, key, group, mend: [key, row] })
  }
  for (const group of open) if (!isListed.has(group)) listed(group, 'is open but not listed', LISTED)
  for (const group of isListed) if (!open.has(group)) listed(group, 'is listed as open but has ended')
  return faults
}

/** What lies in the indexes and leads to no graph, as it is by now. */
export async function strayFaults(store: Backend, keys: readonly string[]): Promise<readonly IndexFault[]> {
  const runs = new Map(keys.map((key) => [key, INDEX.id('run', idIn(key))]))
  const there = await valuesAt(store, new Set([...keys, ...runs.values()]))
  const isStray = (key: string) =>
    there.has(key) && graphIn(there.get(key)) === undefined && !(key.startsWith('ended/') && there.has(runs.get(key)!))
  return keys.filter(isStray).map((key) => {
    const message = `${key} leads nowhere`
    return { rule: ruleOf(key), node: key, message, key, group: undefined, mend: [key, undefined] }
  })
}

/** As they are now: the list of keys may be older. */
async function valuesAt(store: Backend, keys: ReadonlySet<string>): Promise<ReadonlyMap<string, Json>> {
  const there = new Map<string, Json>()
  for (const some of inParts([...keys], AT_ONCE))
    for (const [key, value] of await store.getMany(some)) there.set(key, value)
  return there
}
const AT_ONCE = 1000

function groupOf(row: Json | undefined): string | undefined {
  const group = isObject(row) ? (row as Row).group : undefined
  return typeof group === 'string' ? group : undefined
}

const ruleOf = (key: string) => `index.${key.slice(0, key.indexOf('/')) as (typeof SHARED_INDEXES)[number]}` as const

/** The rows that ought to lead to a graph by its values, and its groups that have not ended. */
export function wantedRows(graph: string, { nodes, stored }: Pick<Values, 'nodes' | 'stored'>) {
  /** By the key that must lead there. */
  const wanted = new Map<string, { readonly row: Row; readonly group: string }>()
  const want = (key: string, group: string, row: Row = { graph, group }) => void wanted.set(key, { row, group })
  for (const [key, value] of stored) {
    const { kind, id, group } = placeOf(key)
    if (isIndexed(kind, id, value)) want(INDEX.id(kind, id), group) // also of what was deleted: its id stays taken
  }
  const byName = { get: <K extends Kind>(kind: K, id: string) => nodes.get(nodeKey(kind, id)) as NodeOf<K> | undefined }
  const runs = new Map<string, string>()
  const groups = new Set<string>()
  for (const node of nodes.values()) {
    if (waits(node)) want(INDEX.waiting(node.id), node.group)
    if (isKind(node, 'timer') && ticks(node))
      want(INDEX.timer(node.data.due, node.id), node.group, timerRow({ graph, group: node.group }, node.data))
    const end = endOf(node)
    if (end !== undefined) want(end, node.group, endedRow(byName.get('plan', node.group)))
    else if (isKind(node, 'run')) runs.set(node.data.plan_id, node.id)
    groups.add(node.group)
  }
  const open = new Set<string>()
  for (const group of groups) {
    const { stage, runs: runsOn, rests } = lifeOf(group, byName, runs.get(group))
    if (stage === 'open') open.add(group)
    if (runsOn) want(INDEX.running(group), group)
    if (rests) want(INDEX.resting(group), group)
  }
  return { wanted, open }
}
