import type { Node } from '../psg/change.ts'
import { ofKind } from '../psg/node.ts'
import { MOST_CUT_OFFS } from './cut-offs.ts'
import { ends, endsWithSession, flightFailed } from './ending.ts'
import { bindingOf, departs } from './flight.ts'
import { askFor } from './gate.ts'
import { cutOffs, isEnded, setApart, takenUp } from './interrupted.ts'
import type { Decided, Flight, LiveRun, Waiting } from './live.ts'
import { hasPlace, waitsForPlace } from './place.ts'
import { startApproved } from './start-plan.ts'
import { attemptAgain, attemptWasCutOff, inverseWasCutOff } from './steps.ts'
import { latestEnd, openTimers } from './timers.ts'

/**
 * What a restart does with each action that had not ended: waits on, runs it again under the same key, or asks a person; ends it when the run is on its
 * way to its end. Done once, and not while the run is paused or its plan may not start.
 */
export function resume(run: LiveRun, decided: Decided): void {
  if (run.resumed) return
  if (!run.ending) endsAlready(run)
  if (run.paused && !run.ending) return
  if (!run.ending && isApproved(run) && !startApproved(run, decided)) return
  run.resumed = true
  const timers = new Map(openTimers(run.graph, run.plan).map((timer) => [timer.data.target, timer]))
  for (const node of ofKind(run.graph.state.nodesOf(run.plan), 'action'))
    if (!isEnded(node.data)) resumeAction(run, node, timers, decided)
}

const isApproved = ({ graph, plan }: LiveRun): boolean => graph.get('plan', plan)?.data.status === 'approved'

function resumeAction(
  run: LiveRun,
  node: Node<'action'>,
  timers: ReadonlyMap<string, Node<'timer'>>,
  decided: Decided,
): void {
  const { action_id, attempts, compensates, status } = node.data
  const flight = takenUp(run, node.data)
  if (compensates !== undefined) return inverseWasCutOff(run, flight, setApart(run, flight), decided) // the way back attempts it anew
  const waiting = status === 'waiting' ? waitOf(run, node, flight, timers) : undefined
  if (waiting) return void run.waiting.set(action_id, waiting)
  attemptWasCutOff(run, flight, setApart(run, flight), decided)
  if (run.ending)
    return void flightFailed(run, flight, 'failed', { code: 'interrupted', message: 'it was cut off' }, decided)
  const again: Flight = { ...flight, execution_id: run.graph.clock.uuid(), attempt: attempts + 1 }
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

/** What is over by now is not taken up: nothing that was cut off is tried once more only to be stopped. */
function endsAlready(run: LiveRun): void {
  const { graph, session } = run
  if (session) endsWithSession(run, session)
  const latest = latestEnd(graph.get('run', run.id)!.data)
  if (latest && latest.due <= graph.clock.now()) ends(run, latest.ending)
}

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
