import { allOf } from '../protocol/each.ts'
import type { ActionRecord, Node } from '../psg/change.ts'
import { isAnswerable, rolesLeft } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind, ofKind } from '../psg/node.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { type Project, upToDate } from '../psg/project.ts'
import { runUnderWay } from '../psg/view.ts'
import type { BindingSpec } from './bind.ts'
import { type ChildUnderWay, childrenOf, childrenUnderWay } from './children-under-way.ts'
import { comesBack, heldUpBy } from './held-up.ts'
import type { RunOptions } from './live.ts'
import { isToRest } from './requests.ts'
import { openSignals } from './signals.ts'
import { standingOf } from './standing.ts'

/** Something that a run waits for. */
export interface Wait {
  readonly what: string
  readonly due?: number
  /** A decision that a person has to make, and who may who has not approved yet. */
  readonly decision?: {
    readonly confirm_id: string
    readonly roles: readonly string[] | undefined
    readonly reason: string | undefined
  }
  /** The name of a signal that somebody from outside has to give. */
  readonly signal?: string
  /** The child, or the child of a child, that waits for it; or that is waited for itself, where it is paused and its parent is not. */
  readonly child?: { readonly run_id: string; readonly plan_id: string; readonly context_id: string }
  readonly isPaused?: true
  /** People have turned its plan down. */
  readonly isSentBack?: true
  /** Nothing of it begins meanwhile, whoever works. */
  readonly isHeldUp?: true
}

/**
 * What a plan's run waits for. In place of a step that waits for its children it tells what they wait for, if none of them can do anything until
 * somebody comes. Opens the contexts of children that have not ended.
 */
export async function allWaitsOf(project: Project, graph: ProjectGraph, plan: string): Promise<readonly Wait[]> {
  const own = waitsOf(graph, plan)
  const run = runUnderWay(graph.state, plan)?.data
  const isPaused = run !== undefined && isToRest(run)
  const { underWay } = await childrenUnderWay(
    project.store,
    own.flatMap(({ children = [] }) => children),
  )
  const told = await allOf(own, 1, async ({ children = [], ...wait }) => {
    const theirs = await allOf(
      children.flatMap((child) => underWay.get(child) ?? []),
      CONTEXTS_AT_ONCE,
      (child) => waitsOfChild(project, child, isPaused),
    )
    const isBehindAll = theirs.length > 0 && theirs.every((waits) => waits !== undefined)
    return [...(isBehindAll ? [] : [wait]), ...theirs.flatMap((waits) => waits ?? [])]
  })
  return told.flat()
}

/** What a child waits for that can do nothing until somebody comes; `undefined` of one that goes on, or has ended by now. */
async function waitsOfChild(
  project: Project,
  { run_id, graph, group }: ChildUnderWay,
  isWithParent: boolean,
): Promise<readonly Wait[] | undefined> {
  const theirs = await upToDate(project, { graph, group })
  const run = theirs.get('run', run_id)
  if (!run || (await standingOf({ project }, theirs, run)) !== 'still') return undefined
  const child = { run_id, plan_id: group, context_id: graph }
  const whose = { ...(!isWithParent && { child }), isPaused: true } as const // with its parent it also goes on
  if (run.data.phase === 'paused') return [{ what: `the child ${run_id}, which is paused`, ...whose }]
  const waits = await allWaitsOf(project, theirs, group)
  if (waits.length === 0) return [{ what: `the child ${run_id}`, child }]
  return waits.map((wait) => ({
    ...(!(wait.isPaused && isWithParent) && { child }),
    ...wait,
    what: `the child ${run_id}: ${wait.what}`,
  }))
}

interface OwnWait extends Wait {
  /** Of a step under way: the runs that it has submitted. */
  readonly children?: readonly string[]
}

/** What the graph of a plan tells of what its run waits for. */
export function waitsOf(graph: ProjectGraph, plan: string): readonly OwnWait[] {
  const waits: OwnWait[] = []
  const timed = new Set<string>()
  const until = new Map<string, string>()
  const nodes = [...graph.state.nodesOf(plan)]
  for (const node of nodes) {
    if (isKind(node, 'confirm') && node.data.status === 'pending') waits.push(waitForAnswer(graph, node))
    if (!isKind(node, 'timer') || node.data.fired) continue
    const { purpose, due, target } = node.data
    if (purpose === 'timeout') until.set(target, due)
    else timed.add(target)
    if (purpose === 'retry' || purpose === 'wait') waits.push(waitForTime(graph, purpose, due))
  }
  for (const action of ofKind(nodes, 'action'))
    if (!timed.has(action.id) && !isAskedAbout(graph, action, timed))
      waits.push(...waitOf(graph, plan, action, until.get(action.id)))
  return [...waits, ...standstill(graph, plan)]
}

/** What keeps the whole run from beginning anything, whatever its steps wait for. */
function standstill(graph: ProjectGraph, plan: string): readonly OwnWait[] {
  const run = runUnderWay(graph.state, plan)?.data
  if (!run || run.ending || run.phase === 'undoing') return []
  if (graph.get('plan', plan)?.data.status === 'draft')
    return [{ what: `the plan ${plan}, which was sent back, to be proposed again`, isSentBack: true, isHeldUp: true }]
  const held = heldUpBy(graph, run.options)
  if (!held) return []
  const whose = `the ${held.by} ${held.id}`
  const what = comesBack(held)
    ? `${whose}, which is ${held.status}, to be active`
    : `somebody to cancel it: ${whose} is ${held.status}, and nothing begins there any more`
  return [{ what, isHeldUp: true }]
}

/** Its question was told already. One that was answered and taken in has no time left to run. */
function isAskedAbout({ state }: ProjectGraph, { id }: Node<'action'>, timed: ReadonlySet<string>): boolean {
  for (const confirm of state.referrers('action', id, 'CONFIRMS')) if (timed.has(confirm.id)) return true
  return false
}

function waitForAnswer(graph: ProjectGraph, confirm: Node<'confirm'>): OwnWait {
  const { id, data } = confirm
  if (!isAnswerable(graph, confirm)) return { what: `a worker to take in that nobody has decided on ${id} in time` }
  return {
    what: `the decision ${id}`,
    decision: { confirm_id: id, roles: rolesLeft(graph, id), reason: data.reason },
  }
}

/** Nobody may have taken in that a time has come. */
const isOver = ({ clock }: ProjectGraph, due: string): boolean => Date.parse(due) <= clock.now()

function waitForTime(graph: ProjectGraph, purpose: 'retry' | 'wait', due: string): OwnWait {
  const [next, ready] =
    purpose === 'retry'
      ? [`the next attempt at ${due}`, `the next attempt, due since ${due}`]
      : [`the time ${due}`, `the time ${due}, which has come`]
  return { what: isOver(graph, due) ? ready : next, due: Date.parse(due) }
}

function waitOf(
  graph: ProjectGraph,
  plan: string,
  action: Node<'action'>,
  until: string | undefined,
): readonly OwnWait[] {
  const { step_id, status, attempts } = action.data
  const step = stepNamed(graph, step_id)
  if (status === 'running') {
    const children = childrenOf(graph, action)
    return [{ what: `the step “${step}”, attempt ${attempts}`, ...(children.length > 0 && { children }) }]
  }
  if (status !== 'waiting') return []
  const { signal } = boundTo(graph, plan, action.data)?.params ?? {}
  if (typeof signal !== 'string') return [{ what: `the step “${step}”` }]
  // It was given already, and lies there: who is told to give it again would have it done twice.
  if (openSignals({ graph, plan }).has(signal)) return [{ what: `a worker to take in the signal ${signal}` }]
  if (until === undefined) return [{ what: `the signal ${signal}`, signal }]
  if (isOver(graph, until)) return [{ what: `a worker to take in that the signal ${signal} did not come by ${until}` }]
  return [{ what: `the signal ${signal} until ${until}`, signal }]
}

/** How an action is carried out: as its step's binding says, or as the session does for a word before or after the step. */
function boundTo(graph: ProjectGraph, plan: string, { step_id, turn }: ActionRecord): BindingSpec | undefined {
  const run = runUnderWay(graph.state, plan)?.data
  if (turn && turn.purpose !== 'work') return (run?.options as RunOptions | undefined)?.session?.[turn.purpose]
  for (const { data } of ofKind(graph.state.referrers('step', step_id, 'BINDS'), 'binding')) return data
  return undefined
}

/** A step as people know it. */
export const stepNamed = (graph: ProjectGraph, step: string): string =>
  graph.get('step', step)?.data.description ?? step
