import { isoMicros } from '../protocol/clock.ts'
import type { Change, Node, Run, Timer } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'
import type { Decided, Ending, Flight, LiveRun, RunOptions } from './live.ts'

/** A stored wait of a plan. */
export const newTimer = (
  timer_id: string,
  plan: string,
  { due, purpose, target, wait_ms }: Pick<Timer, 'purpose' | 'target' | 'wait_ms'> & { readonly due: number },
): Change => ({
  kind: 'node_add',
  node: 'timer',
  id: timer_id,
  group: plan,
  data: { timer_id, due: isoMicros(due * 1000), purpose, target, ...(wait_ms !== undefined && { wait_ms }) },
})

/** The timers of a plan that have not fired. */
export const openTimers = (graph: ProjectGraph, plan: string): readonly Node<'timer'>[] =>
  [...graph.state.nodesOf(plan)].filter((node) => isKind(node, 'timer')).filter(({ data }) => !data.fired)

/** Lets an action wait: stored, so that whoever owns the run when the time comes goes on with it. */
export function setTimer(run: LiveRun, flight: Flight, ms: number, decided: Decided): void {
  const timer = run.graph.clock.uuid()
  const due = run.graph.clock.now() + ms
  const purpose = flight.action.action_type === 'wait' ? 'wait' : 'retry'
  decided.changes.push(newTimer(timer, run.plan, { due, purpose, target: flight.action.action_id, wait_ms: ms }))
  run.waiting.set(flight.action.action_id, { on: 'timer', timer, due, wait_ms: ms, flight })
}

/** Has it more time left than was asked for? Then the clock was set back since: it would wait as much longer. */
export const isProlonged = (due: number, wait_ms: number | undefined, now: number): boolean =>
  wait_ms !== undefined && due - now > wait_ms

/** Waits that a clock which was set back has prolonged begin anew. */
export function waitAnew(run: LiveRun, decided: Decided): void {
  const now = run.graph.clock.now()
  for (const waiting of run.waiting.values()) {
    if (waiting.on !== 'timer' || !isProlonged(waiting.due, waiting.wait_ms, now)) continue
    timerFired(waiting.timer, decided)
    setTimer(run, waiting.flight, waiting.wait_ms!, decided)
  }
}

export function timerFired(timer: string, decided: Pick<Decided, 'changes'>): void {
  decided.changes.push(fired(timer))
}
export const fired = (timer: string): Change => ({
  kind: 'node_update',
  node: 'timer',
  id: timer,
  set: { fired: true },
})

const CONCURRENCY = 32

/** How many more steps may be under way. */
export const room = (run: LiveRun): number => (run.options.concurrency ?? CONCURRENCY) - run.flying.size

/** When a run is ended at the latest, and why: at its deadline, or when its budget of time is used up, which counts from its start. */
export function latestEnd({ options, started_at }: Run): LatestEnd | undefined {
  const { deadline, budget } = options as RunOptions
  const ends: LatestEnd[] = []
  if (deadline !== undefined) ends.push({ at: Date.parse(deadline), ending: pastDeadline(deadline) })
  if (budget?.wall_ms !== undefined && started_at !== undefined)
    ends.push({ at: Date.parse(started_at) + budget.wall_ms, ending: outOfTime(budget.wall_ms) })
  return ends.sort((a, b) => a.at - b.at)[0]
}
interface LatestEnd {
  readonly at: number
  readonly ending: Ending
}

/** Wakes a run that only waits when it has to end. */
export function endTimer(clock: { uuid(): string }, run: Run): readonly Change[] {
  const latest = latestEnd(run)
  const { run_id: target, plan_id } = run
  return latest ? [newTimer(clock.uuid(), plan_id, { due: latest.at, purpose: 'deadline', target })] : []
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
  let next = latestEnd(recordOf(run))?.at
  if (run.paused || run.crowded) return next
  for (const waiting of run.waiting.values()) {
    const due = waiting.on === 'signal' ? undefined : waiting.due
    if (due !== undefined && (next === undefined || due < next)) next = due
  }
  return next
}

/** What has come due, as arrivals. */
export function ring(run: LiveRun): void {
  if (run.ending) return
  const now = run.graph.clock.now()
  const latest = latestEnd(recordOf(run))
  if (latest && latest.at <= now) run.inbox.push({ kind: 'overdue', ending: latest.ending })
  if (run.paused || run.crowded) return
  for (const [action, waiting] of run.waiting) {
    if (waiting.on === 'signal') continue
    if (waiting.on === 'timer' && waiting.due <= now) run.inbox.push({ kind: 'due', timer: waiting.timer, action })
    else if (waiting.due <= now || isProlonged(waiting.due, waiting.wait_ms, now)) run.inbox.push({ kind: 'look' })
  }
}

const recordOf = ({ graph, id }: LiveRun): Run => graph.get('run', id)!.data
