import type { JsonObject } from '../protocol/json.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { bindingOf } from './flight.ts'
import type { Decided, Ending, Flight, LiveRun } from './live.ts'
import type { LiveSession, SessionAsked } from './session.ts'
import { stepFailed } from './steps.ts'
import { isTurning, turnLost } from './turns.ts'

/** The first reason to end counts; what is under way is told to stop. */
export function ends(run: LiveRun, ending: Ending): void {
  if (run.ending) return
  run.ending = {
    ...ending,
    ...(run.options.on_failure === 'compensate' && ending.status === 'failed' && { undo: true }),
  }
  run.abort.abort(new Error(ending.error.message))
}

/** Somebody has ended the session: what its run has left to do is nobody's turn any more. */
export function endsWithSession(run: LiveRun, { options }: LiveSession): void {
  if (!sessionHasEnded(run.graph, options)) return
  const { collab_id } = options
  const message = `the session ${collab_id} was ended before its run`
  ends(run, { status: 'cancelled', reason: 'user_cancel', error: { code: 'session_ended', message } })
}

export function sessionHasEnded(graph: ProjectGraph, { collab_id }: SessionAsked): boolean {
  const status = graph.get('collab', collab_id)?.data.status // an ended one may not be in memory
  return status !== 'draft' && status !== 'active' && status !== 'suspended'
}

/** A run that goes on to its end only later says so in the graph: whoever takes it up then does not begin anything new. */
export function keepEnding(run: LiveRun, decided: Decided): void {
  if (!run.ending || isKept(run)) return
  const ending = run.ending as unknown as JsonObject
  decided.changes.push({ kind: 'node_update', node: 'run', id: run.id, set: { ending } })
}

export const isKept = (run: LiveRun): boolean => run.graph.get('run', run.id)!.data.ending !== undefined

/** What a run says in which steps failed that let the others go on. */
export const stepsFailed = ({ failed }: LiveRun): RunError => ({
  code: 'step_failed',
  message: `${failed} of the plan's steps failed`,
})

/** The run fails of what became of a flight, and takes back what it did where that one's binding says so. */
export function failsOf(run: LiveRun, flight: Flight, error: RunError): void {
  ends(run, {
    status: 'failed',
    reason: error.code === 'budget_exceeded' ? 'resource_exhausted' : 'failure',
    error: { ...error, step_id: flight.step },
    ...(bindingOf(run, flight).on_failure === 'compensate' && { undo: true }),
  })
}

/** True when what failed was the step. A turn may have come to nothing without that; and a word about a step is not the step. */
export function flightFailed(
  run: LiveRun,
  flight: Flight,
  to: 'failed' | 'skipped',
  error: RunError,
  decided: Decided,
): boolean {
  const left = run.session && isTurning(flight) ? turnLost(run, run.session, flight, error, decided) : 'step'
  if (left === 'step') stepFailed(run, flight, to, error, decided)
  const policy = bindingOf(run, flight).on_failure ?? 'fail'
  if (left === 'word' && (policy === 'fail' || policy === 'compensate')) failsOf(run, flight, error)
  return left === 'step'
}
