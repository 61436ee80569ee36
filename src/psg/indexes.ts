import type { Json } from '../protocol/json.ts'
import { isTerminal, type LifecycleKind } from '../protocol/lifecycle.ts'
import type { AnyNode, Kind, NodeOf } from './change.ts'
import { KINDS } from './kinds.ts'
import { isKind, statusOf } from './node.ts'
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
    if (!before && KINDS[kind].indexed && !proposal.revived(kind, id))
      writes.inserts.push([INDEX.id(kind, id), { graph, group }])
    if (kind === 'confirm') keep(INDEX.waiting(id), waits(before), waits(after), group)
    else if (kind === 'timer') keep(INDEX.timer(dueOf(after ?? before), id), ticks(before), ticks(after), group)
    if (KINDS[kind].root || kind === 'run') groups.add(group)
  }
  for (const group of groups) {
    const was = lifeOf(group, state.get, state.plan(group)?.activeRun)
    const is = lifeOf(group, proposal.after, proposal.runAfter(group))
    keep(INDEX.running(group), was.runs, is.runs, group)
    keep(INDEX.open(graph, group), was.stage === 'open', is.stage === 'open', group)
  }
  return writes
}

export interface Life {
  /** `none`: nothing that could end begins this group. */
  readonly stage: 'none' | 'open' | 'ended'
  /** Somebody has to look after it. */
  readonly runs: boolean
}

type Lookup = <K extends Kind>(kind: K, id: string) => NodeOf<K> | undefined

/** Where the object that begins a group stands in its life; `run` is that of a plan which has not ended. */
export function lifeOf(group: string, get: Lookup, run: string | undefined): Life {
  const plan = get('plan', group)
  if (plan) {
    const phase = run === undefined ? undefined : get('run', run)?.data.phase
    const active = phase !== undefined && phase !== 'ended'
    const started = plan.data.status === 'in_progress' && !plan.imported
    return {
      stage: active || !isTerminal('plan', plan.data.status) ? 'open' : 'ended',
      // A run that waits for a person or a timer has nobody to look after it: the other two indexes find it when its time comes.
      runs: active ? phase !== 'waiting' : started,
    }
  }
  for (const kind of OTHER_ROOTS) {
    const root = get(kind, group)
    if (root) return { stage: isTerminal(kind, statusOf(root) as never) ? 'ended' : 'open', runs: false }
  }
  return { stage: 'none', runs: false }
}
const OTHER_ROOTS = ['trace', 'dialog', 'collab', 'network'] as const satisfies readonly LifecycleKind[]

export const waits = (node: AnyNode | undefined): boolean => isKind(node, 'confirm') && node.data.status === 'pending'
export const ticks = (node: AnyNode | undefined): boolean => isKind(node, 'timer') && !node.data.fired
const dueOf = (node: AnyNode | undefined): string => (isKind(node, 'timer') ? node.data.due : '')
