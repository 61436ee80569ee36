import { fitted } from '../ael/action.ts'
import type { Action, ExecutorKind } from '../ael/adapter.ts'
import { wasCutOff } from '../drift/compensate.ts'
import { type Clock, isoNow } from '../protocol/clock.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { ActionRecord, EventDraft } from '../psg/change.ts'
import { ofKind } from '../psg/node.ts'
import type { GraphState } from '../psg/state.ts'
import { MOST_CUT_OFFS } from './cut-offs.ts'
import { departs } from './flight.ts'
import type { Decided, Ending, Flight, LiveRun, Undo } from './live.ts'
import { worksOf } from './outcome.ts'
import { hasPlace } from './place.ts'
import { setAction } from './set-action.ts'
import { actionAdded, attemptAgain } from './steps.ts'

/** Goes back one action at a time, last done first. All are attempted, whatever becomes of one. Whoever is leaving leaves what is left to the next. */
export function undoNext(run: LiveRun, ending: Ending, decided: Decided): void {
  if (!ending.undo || run.flying.size > 0) return
  if (run.leaving && run.undo?.left.length !== 0) return
  if (!run.undo) {
    if (completesAny(decided)) return void run.inbox.push({ kind: 'look' }) // it is taken back too, once it has landed
    run.undo = wayBack(run)
    run.abort = new AbortController() // what was aborted is over; going back has its own signal
    if (!isUnderWay(run)) begins(run, run.undo, decided)
  }
  const [flight] = run.undo.left
  if (flight && !hasPlace(run, flight.action.action_type)) return
  if (flight) {
    run.undo.left.shift()
    decided.changes.push(actionAdded(flight, { status: 'running', attempts: 0, compensates: flight.compensates! }))
    attemptAgain(run, flight, decided)
    departs(run, flight, decided)
  } else decided.events.push(told(run, 'rollback_executed', { outcomes: run.undo.outcomes as unknown as Json }))
}

/** Whoever takes a run up that is on its way back goes on with it: that it begins was told. */
const isUnderWay = ({ graph, id }: LiveRun): boolean => graph.get('run', id)!.data.phase === 'undoing'

function begins(run: LiveRun, { left }: Undo, decided: Decided): void {
  decided.changes.push({ kind: 'node_update', node: 'run', id: run.id, set: { phase: 'undoing' } })
  const steps = left.map(({ step, compensates }) => ({ step_id: step, action_id: compensates! }))
  decided.events.push(told(run, 'rollback_planned', { steps }))
}

/** Does this very tick take in that something was done, which the graph does not say yet? */
const completesAny = ({ said }: Decided): boolean =>
  [...said.values()].some(({ set }) => set.status === 'completed' || set.acted !== undefined)

/** Takes in the end of an inverse action; false when the flight was not one. */
export function undoArrived(run: LiveRun, flight: Flight, error: RunError | undefined, decided: Decided): boolean {
  if (flight.compensates === undefined || !run.undo) return false
  const { action_id } = flight.action
  setAction(decided, action_id, { status: error ? 'failed' : 'completed', ...(error && { error }) })
  run.undo.outcomes.push(outcome({ action_id: flight.compensates, step_id: flight.step }, error))
  return true
}

/** What is left to take back, and what has become of the rest: the same whether it has just begun or was cut off. */
function wayBack(run: LiveRun): Undo {
  const { clock, state } = run.graph
  const works = worksOf(state, run.plan)
  const undo: Undo = { left: [], outcomes: works.filter(isIrreversible).map(leftForGood) }
  for (const work of works) {
    const { action_id, step_id, inverse } = work
    if (!isObject(inverse)) continue
    const tried = [...waysBackOf(state, step_id, action_id)]
    const last = tried.findLast(hasEnded)
    const times = tried.length - (last ? 1 : 0)
    const error = last ? last.error : times >= MOST_CUT_OFFS ? cutOffSo(times) : undefined
    if (last || error) undo.outcomes.push(outcome(work, error))
    else
      undo.left.push({
        step: step_id,
        action: inverseOf(work, inverse as JsonObject, clock),
        execution_id: clock.uuid(),
        attempt: times + 1, // or a file that the first has deleted would be missed by the next
        compensates: action_id,
      })
  }
  return undo
}

const isIrreversible = ({ inverse }: ActionRecord): boolean => inverse === 'irreversible'
const leftForGood = ({ action_id, step_id, no_inverse }: ActionRecord): Undo['outcomes'][number] => ({
  action_id,
  step_id,
  status: 'irreversible',
  ...(no_inverse !== undefined && { reason: no_inverse }),
})
const outcome = (
  { action_id, step_id }: Pick<ActionRecord, 'action_id' | 'step_id'>,
  error: JsonObject | undefined,
): Undo['outcomes'][number] => ({ action_id, step_id, status: error ? 'failed' : 'undone', ...(error && { error }) })

/** Was an action taken back, or tried in vain? */
export function isBehind(state: GraphState, step: string, action_id: string): boolean {
  for (const way of waysBackOf(state, step, action_id)) if (hasEnded(way)) return true
  return false
}

/** Is it as if an action had never been done? */
export function isTakenBack(state: GraphState, step: string, action_id: string): boolean {
  for (const { status } of waysBackOf(state, step, action_id)) if (status === 'completed') return true
  return false
}

/** What was begun so far to take an action back. */
function* waysBackOf(state: GraphState, step: string, action_id: string): Iterable<ActionRecord> {
  for (const { data } of ofKind(state.referrers('step', step, 'EXECUTES'), 'action'))
    if (data.compensates === action_id) yield data
}

const hasEnded = (record: ActionRecord): boolean => !wasCutOff(record)

const cutOffSo = (times: number): JsonObject => ({
  code: 'interrupted',
  message: `the way back was cut off ${times} times: it may be what ends the process, so it is left to a rollback that somebody asks for`,
})

/** What takes an action back, as an action with a fresh id. The key is the action's, so that a repeat can be recognised. */
export const inverseOf = (
  { idempotency_key }: Pick<ActionRecord, 'idempotency_key'>,
  { action_type, executor_kind, params }: JsonObject,
  { uuid }: Pick<Clock, 'uuid'>,
): Action => ({
  action_id: uuid(),
  action_type: String(action_type),
  executor_kind: (executor_kind as ExecutorKind | undefined) ?? 'worker',
  params: (params as JsonObject | undefined) ?? {},
  idempotency_key: `${fitted(idempotency_key)}:undo`,
})

function told(run: LiveRun, event_type: string, more: JsonObject): EventDraft {
  const reason = String(run.ending?.error.message)
  const payload = { compensation_id: run.id, plan_id: run.plan, reason, at: isoNow(run.graph.clock), ...more }
  return { plan_id: run.plan, event: { event_type, event_family: 'compensation_plan', payload } }
}
