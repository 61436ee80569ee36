import { isoMicros } from '../protocol/clock.ts'
import type { Decided, Flight, LiveRun } from './live.ts'

/** Lets an action wait: stored, so that whoever owns the run when the time comes goes on with it. */
export function setTimer(run: LiveRun, flight: Flight, ms: number, decided: Decided): void {
  const timer = run.graph.clock.uuid()
  const due = run.graph.clock.now() + ms
  decided.changes.push({
    kind: 'node_add',
    node: 'timer',
    id: timer,
    group: run.plan,
    data: {
      timer_id: timer,
      due: isoMicros(due * 1000),
      purpose: flight.action.action_type === 'wait' ? 'wait' : 'retry',
      target: flight.action.action_id,
    },
  })
  run.waiting.set(flight.action.action_id, { on: 'timer', timer, due, flight })
}

export function timerFired(timer: string, decided: Decided): void {
  decided.changes.push({ kind: 'node_update', node: 'timer', id: timer, set: { fired: true } })
}

/** When the run must be looked at next, if nothing happens before. One that is ending waits for nothing but what is under way. */
export function nextDue(run: LiveRun): number | undefined {
  if (run.ending) return undefined
  let next = run.options.deadline === undefined ? undefined : Date.parse(run.options.deadline)
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
  if (run.options.deadline !== undefined && Date.parse(run.options.deadline) <= now)
    run.inbox.push({ kind: 'deadline' })
  for (const [action, waiting] of run.waiting) {
    if (waiting.on === 'timer' && waiting.due <= now) run.inbox.push({ kind: 'due', timer: waiting.timer, action })
    else if (waiting.on === 'confirm' && waiting.due <= now) run.inbox.push({ kind: 'look' })
  }
}
