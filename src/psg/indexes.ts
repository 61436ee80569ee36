import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { isTerminal, type LifecycleKind } from '../protocol/lifecycle.ts'
import type { PlanStatus } from '../protocol/types.ts'
import { MAX_KEY_BYTES } from '../vsl/backend.ts'
import type { AnyNode, Kind, NodeOf, Stored, Timer } from './change.ts'
import { firstActionOf } from './first-action.ts'
import { KINDS } from './kinds.ts'
import { isKind, statusOf } from './node.ts'
import type { Proposal } from './proposal.ts'

/** Ordinary keys, written in the commits that change what they tell, so that nothing has to be loaded to find what is running or waiting. */
export const INDEX = {
  id: (kind: Kind, id: string) => `id/${kind}/${id}`,
  running: (plan: string) => `running/${plan}`,
  /** Of runs that nobody has to look after; with those above they are all that have not ended. */
  resting: (plan: string) => `resting/${plan}`,
  waiting: (confirm: string) => `waiting/${confirm}`,
  timer: (due: string, id: string) => `timer/${due}/${id}`,
  /** The order in which runs ended, the last one first; where a run is, its id says. */
  ended: (at: string, run: string) => `ended/${untilTheEndOfTime(at)}/${run}`,
  /** Within the graph: the groups that have not ended, which opening it loads. */
  open: (graph: string, group: string) => `${graph}/-/open/${group}`,
  /** Within the graph: the last revision whose values are all written, while those of later ones trail. */
  written: (graph: string) => `${graph}/-/written/revision`,
} as const

/** The id at the end of a row's key. */
export const idIn = (key: string): string => key.slice(key.lastIndexOf('/') + 1)

/** Less the later it is, and always as long. */
const untilTheEndOfTime = (at: string): string =>
  (LAST_MS - (Date.parse(at) || 0)).toString(16).padStart(LAST_MS.toString(16).length, '0')
const LAST_MS = 0xfff_ffff_ffff // in the year 2527

/** Where something is to be found. */
export type Whereabouts = { readonly graph: string; readonly group: string }
/** Of a timer also how long its wait was to be. */
export type TimerRow = Whereabouts & Pick<Timer, 'wait_ms'>

export const timerRow = (where: Whereabouts, { wait_ms }: Pick<Timer, 'wait_ms'>): TimerRow => ({
  ...where,
  ...(wait_ms !== undefined && { wait_ms }),
})

/** How the plan of a run has ended, so that who looks for others need not look at it; older versions do not say. */
export type EndedRow = { readonly status?: PlanStatus }

/** An end is never taken back, so what is said here stays true. */
export const endedRow = (plan: NodeOf<'plan'> | undefined): EndedRow =>
  plan && isTerminal('plan', plan.data.status) ? { status: plan.data.status } : LISTED

/** What a row says of the end, if anything. */
export const endIn = (row: Json | undefined): unknown => (isObject(row) ? row.status : undefined)

export type Written = { readonly revision: number }

/** Has it a place of its own in the index of ids? A step's first action is found through its step. */
export const isIndexed = (kind: Kind, id: string, { data }: Pick<AnyNode | Stored, 'data'>): boolean =>
  KINDS[kind]?.indexed === true && !(kind === 'action' && id === firstActionOf(String((data as JsonObject).step_id)))

export interface IndexWrites {
  readonly inserts: [string, Json][]
  readonly puts: [string, Json][]
  readonly deletes: string[]
}

export function indexWrites(proposal: Proposal): IndexWrites {
  const writes: IndexWrites = { inserts: [], puts: [], deletes: [] }
  const { graph, state } = proposal
  let groups: Set<string> | undefined
  for (const { kind, id, before, after } of proposal.deltas) {
    const { group } = (after ?? before)!
    if (!before && isIndexed(kind, id, after!) && !proposal.revived(kind, id))
      writes.inserts.push([INDEX.id(kind, id), { graph, group }])
    if (kind === 'confirm') keep(writes, INDEX.waiting(id), waits(before), waits(after), { graph, group })
    else if (kind === 'timer') {
      const { data } = (after ?? before) as NodeOf<'timer'>
      keep(writes, INDEX.timer(data.due, id), ticks(before), ticks(after), timerRow({ graph, group }, data))
    } else if (kind === 'run') {
      const [was, is] = [endOf(before), endOf(after)]
      if (was !== undefined && was !== is) writes.deletes.push(was)
      if (is !== undefined && is !== was)
        writes.puts.push([is, endedRow(proposal.after('plan', (after as NodeOf<'run'>).data.plan_id))])
    }
    if (KINDS[kind].root || kind === 'run') {
      groups ??= new Set()
      groups.add(group)
    }
  }
  for (const group of groups ?? []) {
    const where = { graph, group }
    const was = lifeOf(group, state, state.plan(group)?.activeRun)
    const is = lifeOf(group, { get: (kind, id) => proposal.after(kind, id) }, proposal.runAfter(group))
    keep(writes, INDEX.running(group), was.runs, is.runs, where)
    keep(writes, INDEX.resting(group), was.rests, is.rests, where)
    keep(writes, INDEX.open(graph, group), was.stage === 'open', is.stage === 'open', LISTED)
  }
  return writes
}

/** Of what its key says all. */
export const LISTED = {} as const

function keep({ puts, deletes }: IndexWrites, key: string, was: boolean, is: boolean, row: Json): void {
  if (is && !was) puts.push([key, row])
  else if (was && !is) deletes.push(key)
}

export interface Life {
  /** `none`: nothing that could end begins this group. */
  readonly stage: 'none' | 'open' | 'ended'
  /** Somebody has to look after it. */
  readonly runs: boolean
  /** Its run has not ended, and waits or is paused. */
  readonly rests: boolean
}

interface Nodes {
  get<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined
}

/** Where what begins a group stands in its life; `run` is that of a plan which has not ended. Only among its kind an id is unique, so several may begin one. */
export function lifeOf(group: string, nodes: Nodes, run: string | undefined): Life {
  const plan = nodes.get('plan', group)
  if (plan) {
    const { phase, requested } = (run === undefined ? undefined : nodes.get('run', run))?.data ?? {}
    const active = phase !== undefined && phase !== 'ended'
    const over = isTerminal('plan', plan.data.status)
    // A run that waits or is paused has nobody to look after it: the other two indexes, or a wish, find it when its time comes.
    const runs = active && ((phase !== 'waiting' && phase !== 'paused') || requested !== undefined || over)
    const isOpen = active || !over || stageOfOthers(group, nodes) === 'open'
    return { stage: isOpen ? 'open' : 'ended', runs, rests: active && !runs }
  }
  return { stage: stageOfOthers(group, nodes), runs: false, rests: false }
}

function stageOfOthers(group: string, nodes: Nodes): Life['stage'] {
  let stage: Life['stage'] = 'none'
  for (const kind of OTHER_ROOTS) {
    const root = nodes.get(kind, group)
    if (!root) continue
    if (!isTerminal(kind, statusOf(root) as never)) return 'open'
    stage = 'ended'
  }
  return stage
}
const OTHER_ROOTS = ['trace', 'dialog', 'collab', 'network'] as const satisfies readonly LifecycleKind[]

export const waits = (node: AnyNode | undefined): boolean => isKind(node, 'confirm') && node.data.status === 'pending'
export const ticks = (node: AnyNode | undefined): boolean => isKind(node, 'timer') && !node.data.fired
/** The place of a run among those that have ended, once it has. */
export const endOf = (node: AnyNode | undefined): string | undefined =>
  isKind(node, 'run') && node.data.phase === 'ended' ? INDEX.ended(node.data.ended_at ?? '', node.id) : undefined

/** For any key or stream: then it is nobody's. */
export const isTooLong = (name: string): boolean => typeof name === 'string' && Buffer.byteLength(name) > MAX_KEY_BYTES
