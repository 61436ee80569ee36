import type { Spend } from '../ael/adapter.ts'
import { ledger } from '../ael/ledger.ts'
import type { ActionRecord, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'
import { isEnded, setApart, takenUp } from './interrupted.ts'
import type { Ending, LiveRun, RunOptions } from './live.ts'
import { isCarriedOver } from './outcome.ts'
import type { Ownership } from './owner.ts'
import { readySet } from './ready.ts'
import { liveSession, type Session } from './session.ts'

/** A run as its new owner takes it up, made from the graph alone: the same whether it was just started or left behind by a crash. */
export function takeUp(
  graph: ProjectGraph,
  node: Node<'run'>,
  owner: Ownership,
  { layer, patiently, cancelChild, still }: Pick<LiveRun, 'layer' | 'patiently' | 'cancelChild' | 'still'>,
): LiveRun {
  const { plan_id, trace_id, run_id } = node.data
  const options = node.data.options as RunOptions
  const bindings = new Map<string, Node<'binding'>>()
  const actions: Node<'action'>[] = []
  const carried = new Set<string>()
  for (const part of graph.state.nodesOf(plan_id)) {
    if (isKind(part, 'binding')) bindings.set(part.data.step_id, part)
    else if (isKind(part, 'action')) {
      actions.push(part)
      if (isCarriedOver(part.data)) carried.add(part.data.step_id)
    }
  }
  const run: LiveRun = {
    id: run_id,
    plan: plan_id,
    trace: trace_id,
    graph,
    layer,
    options,
    owner,
    patiently,
    bindings,
    carried: carried.size > 0 ? carried : undefined,
    ...scheduleOf({ graph, plan: plan_id, options }, actions),
    ledger: ledger(options.budget),
    line: layer.places?.line(() => {
      run.inbox.push({ kind: 'look' })
      run.wake()
    }),
    used: new Map(),
    soFar: new Map(),
    acted: new Map(),
    flying: new Map(),
    waiting: new Map(),
    parents: new Set(actions.filter((action) => hasChildren(graph, action)).map(({ id }) => id)),
    awaiting: new Map(),
    cancelChild,
    inbox: [{ kind: 'look' }],
    told: [],
    abort: new AbortController(),
    failed: graph.state.plan(plan_id)!.tally.failed,
    ending: node.data.ending as unknown as Ending | undefined,
    undo: undefined,
    paused: node.data.phase === 'paused' || node.data.pausing === true,
    looked: graph.revision,
    leaving: false,
    held: false,
    crowded: false,
    resumed: false,
    wake: () => undefined,
    still,
  }
  run.ledger.know(node.data.lines ?? [])
  account(run, actions)
  return run
}

const hasChildren = ({ state }: ProjectGraph, { id, group, data }: Node<'action'>): boolean =>
  data.status !== 'completed' && state.plan(group)!.children.has(id)

/** What could begin, whose turn it would be, and how many attempts there were. */
export function scheduleOf(
  { graph, plan, options }: Pick<LiveRun, 'graph' | 'plan' | 'options'>,
  actions: readonly Node<'action'>[],
): Pick<LiveRun, 'ready' | 'session' | 'segments' | 'ends'> {
  return {
    ready: readySet(graph.state, plan),
    session: options.session && liveSession(graph, plan, options.session as Session, actions),
    segments: count(actions, 'began'),
    ends: count(actions, 'ended'),
  }
}

/** What was spent, and what had been set apart when the last owner vanished: that counts as spent. */
function account(run: LiveRun, actions: readonly Node<'action'>[]): void {
  for (const { data } of actions) {
    for (const spend of spentOn(data)) run.ledger.forfeit(spend)
    if (data.usage && !isEnded(data)) run.used.set(data.action_id, data.usage)
    if (data.status !== 'running') continue
    const onlyWaited = data.left_waiting === data.execution_id
    run.ledger.forfeit({ ...(!onlyWaited && { actions: 1 }), ...setApart(run, takenUp(run, data)) })
  }
}

/** What the ended attempts at an action cost, as it was counted when they ended; one that was cut off may have been made, unless it only waited. */
function* spentOn({ action_type, settles, attempts, ended = [], usage }: ActionRecord): Iterable<Spend> {
  if (action_type === 'wait' || settles || attempts === 0) return // nobody carried it out
  for (const { status, attributes } of ended)
    if ((status === 'completed' && !attributes.cached) || attributes.spent || attributes.interrupted)
      yield { ...(!attributes.only_waited && { actions: 1 }), ...(attributes.spent as Spend | undefined) }
  if (usage) yield usage as Spend
}

const count = (actions: readonly Node<'action'>[], what: 'began' | 'ended'): number =>
  actions.reduce((sum, { data }) => sum + (data[what]?.length ?? 0), 0)
