import { type Clock, isoMicros } from '../protocol/clock.ts'
import type { Change, Node, Run, Timer } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import type { Decided, Ending, Flight, LiveRun, RunOptions, Waiting } from './live.ts'

/** A stored wait of a plan. */
export const newTimer = (
  timer_id: string,
  plan: string,
  { due, purpose, target, wait_ms }: Pick<Timer, 'purpose' | 'target'> & Wait,
): Change => ({
  kind: 'node_add',
  node: 'timer',
  id: timer_id,
  group: plan,
  data: { timer_id, due: isoMicros(due * 1000), purpose, target, ...(wait_ms !== undefined && { wait_ms }) },
})

/** Until when, and how long that was to be where a length of time was asked for. */
interface Wait {
  readonly due: number
  readonly wait_ms?: number | undefined
}

/** The timers of a plan that have not fired. */
export const openTimers = (graph: ProjectGraph, plan: string): readonly Node<'timer'>[] =>
  [...ofKind(graph.state.nodesOf(plan), 'timer')].filter(({ data }) => !data.fired)

/** Lets an action wait: stored, so that whoever owns the run when the time comes goes on with it. */
export function setTimer(run: LiveRun, flight: Flight, ms: number, decided: Decided): void {
  const timer = run.graph.clock.uuid()
  const due = run.graph.clock.now() + ms
  const purpose = flight.action.action_type === 'wait' ? 'wait' : 'retry'
  decided.changes.push(newTimer(timer, run.plan, { due, purpose, target: flight.action.action_id, wait_ms: ms }))
  run.waiting.set(flight.action.action_id, { on: 'timer', timer, due, wait_ms: ms, flight })
}

/** Lets an action wait for a signal: for as long as it takes, or for so long. */
export function awaitSignal(
  run: LiveRun,
  flight: Flight,
  name: string,
  ms: number | undefined,
  decided: Decided,
): void {
  const { action_id } = flight.action
  const waiting = { on: 'signal', name, flight } as const
  if (ms === undefined) return void run.waiting.set(action_id, waiting)
  const until = { timer: run.graph.clock.uuid(), due: run.graph.clock.now() + ms, wait_ms: ms }
  decided.changes.push(newTimer(until.timer, run.plan, { ...until, purpose: 'timeout', target: action_id }))
  run.waiting.set(action_id, { ...waiting, until })
}

/** The stored wait of what a run waits for, if there is one. */
export const timerOf = (waiting: Waiting) => (waiting.on === 'signal' ? waiting.until : waiting)

/** What waited waits no more. */
export function waitOver(waiting: Waiting, decided: Pick<Decided, 'changes'>): void {
  const timer = timerOf(waiting)
  if (timer) decided.changes.push(fired(timer.timer))
}

/** Has it more time left than was asked for? Then the clock was set back since: it would wait as much longer. */
const isProlonged = ({ due, wait_ms }: Wait, now: number): boolean => wait_ms !== undefined && due - now > wait_ms

/** Must somebody look at it now? Its time has come, or it has to begin anew. */
export const isDue = (wait: Wait, now: number): boolean => wait.due <= now || isProlonged(wait, now)

/** Waits that a clock which was set back has prolonged begin anew, and so does the run's time. */
export function waitAnew(run: LiveRun, decided: Decided): void {
  const now = run.graph.clock.now()
  for (const waiting of run.waiting.values()) {
    const timer = timerOf(waiting)
    if (!timer || !isProlonged(timer, now)) continue
    waitOver(waiting, decided)
    if (waiting.on === 'signal') awaitSignal(run, waiting.flight, waiting.name, timer.wait_ms, decided)
    else setTimer(run, waiting.flight, timer.wait_ms!, decided)
  }
  const latest = latestEnd(recordOf(run))
  if (run.ending || !latest || !isProlonged(latest, now)) return
  for (const { id, data } of openTimers(run.graph, run.plan))
    if (data.purpose === 'deadline' && data.wait_ms !== undefined) decided.changes.push(fired(id))
  const started_at = isoMicros(now * 1000)
  decided.changes.push(
    { kind: 'node_update', node: 'run', id: run.id, set: { started_at } },
    ...endTimer(run.graph.clock, { ...recordOf(run), started_at }),
  )
}

export const fired = (timer: string): Change => ({
  kind: 'node_update',
  node: 'timer',
  id: timer,
  set: { fired: true },
})

const CONCURRENCY = 32

/** How many more steps may be under way: none in a process that closes. */
export const room = ({ leaving, options, flying }: LiveRun): number =>
  leaving ? 0 : (options.concurrency ?? CONCURRENCY) - flying.size

/** When a run is ended at the latest, and why: at its deadline, or when its budget of time is used up, which counts from its start. */
export function latestEnd({ options, started_at }: Timed): LatestEnd | undefined {
  const { deadline, budget } = options as RunOptions
  const wait_ms = started_at === undefined ? undefined : budget?.wall_ms
  const ends: LatestEnd[] = []
  if (deadline !== undefined) ends.push({ due: Date.parse(deadline), wait_ms, ending: pastDeadline(deadline) })
  if (wait_ms !== undefined) ends.push({ due: Date.parse(started_at!) + wait_ms, wait_ms, ending: outOfTime(wait_ms) })
  return ends.sort((a, b) => a.due - b.due)[0]
}
type Timed = Pick<Run, 'started_at'> & { readonly options: Run['options'] | RunOptions }
interface LatestEnd extends Wait {
  readonly ending: Ending
}

/** Wakes a run that only waits when it has to end. */
export function endTimer(clock: Pick<Clock, 'uuid'>, run: Run): readonly Change[] {
  const latest = latestEnd(run)
  const { run_id: target, plan_id } = run
  return latest ? [newTimer(clock.uuid(), plan_id, { ...latest, purpose: 'deadline', target })] : []
}

const pastDeadline = (deadline: string): Ending => ({
  status: 'failed',
  reason: 'timeout',
  error: { code: 'deadline', message: `the run was to end by ${deadline}` },
})
const outOfTime = (wall_ms: number): Ending => ({
  status: 'failed',
  reason: 'resource_exhausted',
  error: { code: 'budget_exceeded', message: `the budget of ${wall_ms} ms is used up` },
})

/** When the run must be looked at next, if nothing happens before. One that is ending waits for nothing but what is under way. */
export function nextDue(run: LiveRun): number | undefined {
  if (run.ending) return undefined
  let next = latestEnd(recordOf(run))?.due
  if (run.paused) return next
  for (const waiting of run.waiting.values()) {
    const due = lacksPlace(run, waiting) ? undefined : timerOf(waiting)?.due
    if (due !== undefined && (next === undefined || due < next)) next = due
  }
  return next
}

/** What has come due, as arrivals. */
export function ring(run: LiveRun): void {
  if (run.ending) return
  const now = run.graph.clock.now()
  const latest = latestEnd(recordOf(run))
  if (latest && latest.due <= now) run.inbox.push({ kind: 'overdue', ending: latest.ending })
  else if (latest && isDue(latest, now)) run.inbox.push({ kind: 'look' })
  if (run.paused) return
  for (const [action, waiting] of run.waiting) {
    const timer = timerOf(waiting)
    if (!timer || lacksPlace(run, waiting)) continue
    if (waiting.on === 'timer' && timer.due <= now) run.inbox.push({ kind: 'due', timer: timer.timer, action })
    else if (isDue(timer, now)) run.inbox.push({ kind: 'look' })
  }
}

/** Its run is woken when there is one. What nobody has to carry out needs neither place nor room. */
function lacksPlace({ line, crowded }: LiveRun, { on, flight }: Waiting): boolean {
  if (crowded && (on === 'confirm' || flight.action.action_type !== 'wait')) return true
  return on === 'timer' && line !== undefined && line.awaits(flight.action.action_type)
}

const recordOf = ({ graph, id }: LiveRun): Run => graph.get('run', id)!.data
