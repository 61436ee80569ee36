import type { Node, Timer } from '../psg/change.ts'
import { isUnanswered } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import { type Project, upToDate } from '../psg/project.ts'
import { childrenOf, childrenUnderWay } from './children-under-way.ts'
import { heldUpBy } from './held-up.ts'
import { isAwaited, openSignals } from './signals.ts'
import { openTimers } from './timers.ts'

/**
 * How a run stands that has not ended. `still`: it can do nothing until somebody comes. `submitting`: it goes on, or is about to wait for a child that
 * is not there yet, and nobody is told when it is. `behind`: it only waits for children, and this one goes on.
 */
export type Standing = 'still' | 'goes_on' | 'submitting' | { readonly behind: string }

/** What a process knows of runs beside the graph. */
export interface Sight {
  readonly project: Project
  /** Is there nobody who could go on with the run? */
  readonly isStuck?: (graph: ProjectGraph, run: Node<'run'>) => boolean
  /** Does something of it go on as soon as there is a place? */
  readonly waitsForPlace?: (run: Node<'run'>) => boolean
}

/** How a run stands, as the graph has it by now; asks after its children where it only waits for them. */
export async function standingOf(sight: Sight, graph: ProjectGraph, run: Node<'run'>): Promise<Standing> {
  return needsSomebody(graph, run) || sight.isStuck?.(graph, run) ? 'still' : standingByChildren(sight, graph, run)
}

/** The same of a run that has something under way: whether that is more than waiting for children that stand still. */
export async function standingByChildren(sight: Sight, graph: ProjectGraph, run: Node<'run'>): Promise<Standing> {
  const { plan_id } = run.data
  if (hasNoChildren(graph, plan_id) || mayGoOn(graph, run) || sight.waitsForPlace?.(run)) return 'goes_on'
  const waited = actionsUnderWay(graph, plan_id).map((action) => childrenOf(graph, action))
  if (waited.length === 0 || waited.some(({ length }) => length === 0)) return 'goes_on'
  const { underWay, missing } = await childrenUnderWay(sight.project.store, waited.flat())
  for (const children of waited)
    if (!children.some((child) => underWay.has(child)))
      return children.some((child) => missing.has(child)) ? 'submitting' : 'goes_on'
  for (const child of underWay.values()) {
    const theirs = await upToDate(sight.project, child)
    const node = theirs.get('run', child.run_id)
    if (!node || (await standingOf(sight, theirs, node)) !== 'still') return { behind: child.run_id }
  }
  return 'still'
}

/**
 * Held up with nothing under way, or laid down and not to go on by time alone: a timer of one of its actions would do that, while a deadline or an
 * expiry only ends it.
 */
export function needsSomebody(graph: ProjectGraph, { id }: Pick<Node<'run'>, 'id'>): boolean {
  const { phase, requested, ending, options, plan_id } = graph.get('run', id)!.data
  if (requested !== undefined) return false // it goes on as soon as a worker hears of that
  if (phase === 'paused') return true
  if (phase === 'running')
    return !ending && heldUpBy(graph, options) !== undefined && actionsUnderWay(graph, plan_id).length === 0
  return phase === 'waiting' && !wakesByItself(graph, plan_id)
}

/** Is a time over that was set for a run which is laid down, so that it goes on, or ends, with whoever works? While it is paused, only that of the run itself counts. */
export function isOverdue(graph: ProjectGraph, id: string): boolean {
  const { phase, plan_id } = graph.get('run', id)!.data
  if (phase !== 'waiting' && phase !== 'paused') return false
  const isOver = ({ due, purpose }: Timer) =>
    Date.parse(due) <= graph.clock.now() && (phase === 'waiting' || purpose === 'deadline')
  return openTimers(graph, plan_id).some(({ data }) => isOver(data))
}

/** Most have none, and need not be gone through. */
const hasNoChildren = ({ state }: ProjectGraph, plan: string): boolean => !state.plan(plan)?.children.size

const wakesByItself = (graph: ProjectGraph, plan: string): boolean =>
  openTimers(graph, plan).some(({ data }) => data.purpose === 'retry' || data.purpose === 'wait')

const actionsUnderWay = ({ state }: ProjectGraph, plan: string): readonly Node<'action'>[] =>
  [...ofKind(state.nodesOf(plan), 'action')].filter(({ data }) => data.status === 'running')

/** Is there more to come than the end of what is under way: is the run to end, has an answer or a signal come, or will a time come by itself? */
function mayGoOn(graph: ProjectGraph, { id }: Node<'run'>): boolean {
  const { phase, requested, ending, plan_id } = graph.get('run', id)!.data
  if (phase !== 'running' || requested !== undefined || ending || wakesByItself(graph, plan_id)) return true
  if (openTimers(graph, plan_id).some(({ data }) => !isUnanswered(graph, data.target))) return true
  return [...openSignals({ graph, plan: plan_id }).keys()].some((name) => isAwaited(graph, plan_id, name))
}
