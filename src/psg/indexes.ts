import type { Json } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { AnyNode, Kind, NodeOf } from './change.ts'
import { KINDS } from './kinds.ts'
import { isKind, nodeKey, statusOf } from './node.ts'
import type { Proposal } from './proposal.ts'

/** Ordinary keys, written in the commits that change what they tell, so that nothing has to be loaded to find what is running or waiting. */
export const INDEX = {
  id: (kind: Kind, id: string) => `id/${kind}/${id}`,
  running: (plan: string) => `running/${plan}`,
  waiting: (confirm: string) => `waiting/${confirm}`,
  timer: (due: string, id: string) => `timer/${due}/${id}`,
  /** Within the graph: the groups that have not ended, which opening it loads. */
  open: (graph: string, group: string) => `${graph}/-/open/${group}`,
} as const

/** Where something is to be found. */
export type Whereabouts = { readonly graph: string; readonly group: string }

export interface IndexWrites {
  readonly inserts: [string, Json][]
  readonly puts: [string, Json][]
  readonly deletes: string[]
}

export function indexWrites(proposal: Proposal): IndexWrites {
  const writes: IndexWrites = { inserts: [], puts: [], deletes: [] }
  const { graph, state } = proposal
  const keep = (key: string, was: boolean, is: boolean, group: string) => {
    if (is && !was) writes.puts.push([key, { graph, group }])
    else if (was && !is) writes.deletes.push(key)
  }
  const groups = new Set<string>()

  for (const { kind, id, before, after } of proposal.deltas) {
    const { group } = (after ?? before)!
    if (!before && KINDS[kind].indexed && !proposal.revived.has(nodeKey(kind, id)))
      writes.inserts.push([INDEX.id(kind, id), { graph, group }])
    if (kind === 'confirm') keep(INDEX.waiting(id), waits(before), waits(after), group)
    else if (kind === 'timer') keep(INDEX.timer(dueOf(after ?? before), id), ticks(before), ticks(after), group)
    if (KINDS[kind].root || kind === 'run') groups.add(group)
  }
  for (const group of groups) {
    if (group === '-') continue
    const was = livesIn(group, (kind, id) => state.get(kind, id), state.plan(group)?.activeRun)
    const run = proposal.deltas.find(({ after }) => isKind(after, 'run') && after.group === group)
    const is = livesIn(group, proposal.after, run ? run.id : state.plan(group)?.activeRun)
    keep(INDEX.running(group), was.runs, is.runs, group)
    keep(INDEX.open(graph, group), was.open, is.open, group)
  }
  return writes
}

type Lookup = <K extends Kind>(kind: K, id: string) => NodeOf<K> | undefined

/** Is the group's root still open, and does its plan run? */
function livesIn(group: string, get: Lookup, run: string | undefined): { open: boolean; runs: boolean } {
  const phase = run === undefined ? undefined : get('run', run)?.data.phase
  const plan = get('plan', group)
  if (plan) {
    const active = phase !== undefined && phase !== 'ended'
    const started = plan.data.status === 'in_progress' && !plan.imported
    // A run that waits for a person or a timer has nobody to look after it: the other two indexes find it when its time comes.
    return { open: active || !isTerminal('plan', plan.data.status), runs: active ? phase !== 'waiting' : started }
  }
  const open = ROOTS.some((kind) => {
    const root = get(kind, group)
    return root !== undefined && !isTerminal(kind, statusOf(root) as never)
  })
  return { open, runs: false }
}
const ROOTS = ['trace', 'dialog', 'collab', 'network'] as const

const waits = (node: AnyNode | undefined): boolean => statusOf(node) === 'pending'
const ticks = (node: AnyNode | undefined): boolean => isKind(node, 'timer') && !node.data.fired
const dueOf = (node: AnyNode | undefined): string => (isKind(node, 'timer') ? node.data.due : '')
