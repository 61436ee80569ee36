import type { Spend } from '../ael/adapter.ts'
import { ledger } from '../ael/ledger.ts'
import { isoNow } from '../protocol/clock.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { ActionRecord, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { startPlan } from '../psg/moves.ts'
import { isKind, ofKind } from '../psg/node.ts'
import { wakeable } from '../vsl/wakeable.ts'
import { MOST_CUT_OFFS } from './cut-offs.ts'
import { bindingOf, departs, flightOf } from './dispatch.ts'
import { ends, endsWithSession, flightFailed } from './ending.ts'
import { askFor, expiryOf } from './gate.ts'
import { heldUpBy } from './held-up.ts'
import type { Decided, Ending, Flight, LiveRun, RunOptions, Waiting } from './live.ts'
import { fits } from './modes/mode.ts'
import { outcomeOf } from './outcome.ts'
import type { Ownership } from './owner.ts'
import { hasPlace, waitsForPlace } from './place.ts'
import { saBeginning } from './profiles/sa.ts'
import { readySet } from './ready.ts'
import { filledIn, THIS_STEP } from './references.ts'
import { liveSession, readyStep, type Session } from './session.ts'
import { settlingAction } from './settle-step.ts'
import { attemptAgain, attemptWasCutOff, inverseWasCutOff, sa } from './steps.ts'
import { endTimer, fired, latestEnd, openTimers } from './timers.ts'
import { sessionStarts } from './turns.ts'
import { inverseOf } from './undo.ts'

/** A run as its new owner takes it up, made from the graph alone: the same whether it was just started or left behind by a crash. */
export function takeUp(
  graph: ProjectGraph,
  node: Node<'run'>,
  owner: Ownership,
  { layer, patiently, cancelChild }: Pick<LiveRun, 'layer' | 'patiently' | 'cancelChild'>,
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
      if (part.data.carried_from) carried.add(part.data.step_id)
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
    ...standing({ graph, plan: plan_id, options, bindings }, actions),
    ledger: ledger(options.budget),
    line: layer.places?.line(() => {
      run.inbox.push({ kind: 'look' })
      run.wake()
    }),
    used: new Map(),
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
    crowded: false,
    resumed: false,
    wake: () => undefined,
    still: wakeable(),
  }
  run.ledger.know(node.data.lines ?? [])
  account(run, actions)
  return run
}

const hasChildren = ({ state }: ProjectGraph, { id, group, data }: Node<'action'>): boolean =>
  data.status !== 'completed' && state.plan(group)!.children.has(id)

/** What could begin, whose turn it would be, and how many attempts there were. */
export function standing(
  { graph, plan, options, bindings }: Pick<LiveRun, 'graph' | 'plan' | 'options' | 'bindings'>,
  actions: readonly Node<'action'>[],
): Pick<LiveRun, 'ready' | 'session' | 'segments' | 'ends'> {
  const timeoutOf = (step: string) => bindings.get(step)?.data.timeout_ms ?? options.timeout_ms
  return {
    ready: readySet(graph.state, plan),
    session: options.session && liveSession(graph, plan, options.session as Session, actions, timeoutOf),
    segments: count(actions, 'began'),
    ends: count(actions, 'ended'),
  }
}

/**
 * What a restart does with each action that had not ended: waits on, runs it again under the same key, or asks a person; ends it when the run is on its
 * way to its end. Done once, and not while the run is paused or its plan may not start.
 */
export function resume(run: LiveRun, decided: Decided): void {
  if (run.resumed) return
  if (!run.ending) endsAlready(run)
  if (run.paused && !run.ending) return
  if (!run.ending && run.graph.get('plan', run.plan)?.data.status === 'approved') {
    const expired = expiryOf(run.graph, run.plan)
    const unbound = unboundIn(run)
    if (expired !== undefined) ends(run, tooLate(expired))
    else if (unbound !== undefined) ends(run, notBound(unbound))
    if (!run.ending && heldUpBy(run.graph, run.options)) return
    if (!run.ending) starts(run, decided)
  }
  run.resumed = true
  const timers = new Map(openTimers(run.graph, run.plan).map((timer) => [timer.data.target, timer]))
  for (const node of ofKind(run.graph.state.nodesOf(run.plan), 'action')) {
    if (isEnded(node.data)) continue
    const { action_id, attempts, compensates } = node.data
    const flight = takenUp(run, node.data)
    if (compensates !== undefined) {
      inverseWasCutOff(run, flight, setApart(run, flight), decided) // the way back attempts it anew
      continue
    }
    const waiting = node.data.status === 'waiting' ? waitOf(run, node, flight, timers) : undefined
    if (waiting) {
      run.waiting.set(action_id, waiting)
      continue
    }
    if (run.ending) {
      attemptWasCutOff(run, flight, setApart(run, flight), decided)
      flightFailed(run, flight, 'failed', { code: 'interrupted', message: 'it was cut off' }, decided)
      continue
    }
    const again: Flight = { ...flight, execution_id: run.graph.clock.uuid(), attempt: attempts + 1 }
    attemptWasCutOff(run, flight, setApart(run, flight), decided)
    const binding = bindingOf(run, flight)
    const { times, atWork } = cutOffs(node.data)
    if (binding.on_interrupt === 'hold' || atWork >= MOST_CUT_OFFS) {
      attemptAgain(run, again, decided)
      askFor(run, again, binding, decided, `was cut off ${times === 1 ? 'once' : `${times} times`}`)
    } else if (hasPlace(run, again.action.action_type)) {
      attemptAgain(run, again, decided)
      departs(run, again, decided)
    } else waitsForPlace(run, flight, decided)
    decided.reason = 'goes on after an interruption'
  }
}

/** An action that had not ended, as it was begun: for its step, to settle a conflict about it, or to take it back. */
function takenUp(run: LiveRun, record: ActionRecord): Flight {
  const flight = flightOf(run, record)
  const { action_id, settles, compensates } = record
  if (settles?.what === 'conflict') return { ...flight, action: settlingAction(record, settles) }
  const work = compensates === undefined ? undefined : run.graph.get('action', compensates)?.data
  if (!work) return flight
  return { ...flight, action: { ...inverseOf(work, work.inverse as JsonObject, run.graph.clock), action_id } }
}

/** What is over by now is not taken up: nothing that was cut off is tried once more only to be stopped. */
function endsAlready(run: LiveRun): void {
  const { graph, session } = run
  if (session) endsWithSession(run, session)
  const latest = latestEnd(graph.get('run', run.id)!.data)
  if (latest && latest.due <= graph.clock.now()) ends(run, latest.ending)
}

/** How often an action was cut off, the last time included; and how often it did something then: what only waits for children ends no process. */
function cutOffs({ ended = [], left_waiting, execution_id }: ActionRecord): { times: number; atWork: number } {
  const earlier = ended.filter(({ attributes }) => attributes.interrupted)
  const waited = earlier.filter(({ attributes }) => attributes.only_waited).length
  const times = earlier.length + 1
  return { times, atWork: times - waited - (left_waiting === execution_id ? 1 : 0) }
}

/** People have approved: the plan starts, and its approval is used up. */
function starts(run: LiveRun, decided: Decided): void {
  const { graph } = run
  const record = graph.get('run', run.id)!.data
  const started_at = isoNow(graph.clock)
  decided.changes.push(
    ...startPlan(graph, run.plan, run.id),
    { kind: 'node_update', node: 'trace', id: run.trace, set: { status: 'running', started_at } },
    { kind: 'node_update', node: 'run', id: run.id, set: { started_at } },
  )
  for (const { id, data } of openTimers(graph, run.plan)) if (data.purpose === 'expiry') decided.changes.push(fired(id))
  if (run.options.budget?.wall_ms !== undefined)
    decided.changes.push(...endTimer(graph.clock, { ...record, started_at }))
  decided.reason = 'the plan was approved and starts'
  if (run.session) {
    const { options } = run.session
    sessionStarts(graph.get('collab', options.collab_id)!.data, options, run.plan, decided)
  }
  if (!sa(run)) return
  const context = graph.get('context', graph.id)!.data
  const plan = graph.get('plan', run.plan)!.data
  decided.events.push(...saBeginning(context, plan, run.bindings.size))
}

/** A step that came since the plan was submitted, and that nobody says how to execute or nobody of the session may do. */
function unboundIn({ graph, plan, bindings, session }: LiveRun): string | undefined {
  const isAnybodys = (step: string) => session?.options.seats.some((seat) => fits(seat, readyStep(graph, step))) ?? true
  for (const { id } of ofKind(graph.state.nodesOf(plan), 'step')) if (!(bindings.has(id) && isAnybodys(id))) return id
  return undefined
}
const notBound = (step: string): Ending => ({
  status: 'cancelled',
  reason: 'error',
  error: {
    code: 'step_unbound',
    message: `nobody can do step ${step}: a plan that was changed is put up again by propose of the runtime, which looks after that`,
  },
})

const tooLate = (expired: string): Ending => ({
  status: 'cancelled',
  reason: 'timeout',
  error: { code: 'approval_expired', message: `the approval was not used before it expired at ${expired}` },
})

const isEnded = ({ status }: ActionRecord): boolean => status !== 'running' && status !== 'waiting'

/** What was spent, and what had been set apart when the last owner vanished: that counts as spent. */
function account(run: LiveRun, actions: readonly Node<'action'>[]): void {
  for (const { data } of actions) {
    for (const spend of spentOn(data)) run.ledger.forfeit(spend)
    if (data.usage && !isEnded(data)) run.used.set(data.action_id, data.usage)
    if (data.status === 'running') run.ledger.forfeit({ actions: 1, ...setApart(run, takenUp(run, data)) })
  }
}

/** What an attempt that was cut off may have used up, beside what it told on its way. Outputs that its params take from blobs are not looked at. */
function setApart(run: LiveRun, { step, action, turn }: Flight): Spend {
  const { tokens, cost } = run.options.budget ?? {}
  if (tokens === undefined && cost === undefined) return {}
  const outputOf = (from: string) => outcomeOf(run.graph.state, from === THIS_STEP ? step : from)?.data.output
  try {
    return run.layer.estimate({ ...action, params: filledIn(action.params, outputOf, turn) })
  } catch {
    return {} // an attempt at it would be refused
  }
}

/** What the ended attempts at an action cost, as it was counted when they ended; one that was cut off may have been made. */
function* spentOn({ action_type, settles, attempts, ended = [], usage }: ActionRecord): Iterable<Spend> {
  if (action_type === 'wait' || settles || attempts === 0) return // nobody carried it out
  for (const { status, attributes } of ended)
    if ((status === 'completed' && !attributes.cached) || attributes.spent || attributes.interrupted)
      yield { actions: 1, ...(attributes.spent as Spend | undefined) }
  if (usage) yield usage as Spend
}

const count = (actions: readonly Node<'action'>[], what: 'began' | 'ended'): number =>
  actions.reduce((sum, { data }) => sum + (data[what]?.length ?? 0), 0)

function waitOf(
  run: LiveRun,
  node: Node<'action'>,
  flight: Flight,
  timers: ReadonlyMap<string, Node<'timer'>>,
): Waiting | undefined {
  const { action_id } = node.data
  const timerFor = (target: string) => {
    const timer = timers.get(target)
    return timer && { timer: timer.id, due: Date.parse(timer.data.due) }
  }
  for (const confirm of run.graph.state.referrers('action', action_id, 'CONFIRMS')) {
    const timer = timerFor(confirm.id) // fired once the question was answered
    if (timer) return { on: 'confirm', confirm: confirm.id, ...timer, flight }
  }
  const timer = timerFor(action_id)
  const { wait_ms } = timers.get(action_id)?.data ?? {}
  const { signal } = flight.action.params
  if (flight.action.action_type === 'wait' && typeof signal === 'string')
    return { on: 'signal', name: signal, ...(timer && { until: { ...timer, wait_ms: wait_ms! } }), flight }
  return timer && { on: 'timer', ...timer, wait_ms, flight }
}
