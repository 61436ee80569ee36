import type { Spend } from '../ael/adapter.ts'
import { append } from '../protocol/append.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { Collab } from '../protocol/types.ts'
import type { TurnRecord } from '../psg/change.ts'
import { move } from '../psg/moves.ts'
import { takesOverActed } from './acted.ts'
import { actionOf } from './flight.ts'
import type { Decided, Flight, LiveRun } from './live.ts'
import type { NextTurn } from './modes/mode.ts'
import { NEEDS_TOKEN } from './modes/modes.ts'
import { MOST_BEGUN } from './one-commit.ts'
import { comesWithoutPlace, hasPlace, needsPlace } from './place.ts'
import { broadcastSent, mapBeginning, mapEnd, type TurnResult, turnCompleted, turnDispatched } from './profiles/map.ts'
import {
  contender,
  isExpiry,
  type LiveSession,
  nextTurns,
  putInPool,
  type Session,
  seatOf,
  sessionCloses,
  subjectOf,
} from './session.ts'
import { setOff } from './set-off.ts'
import { finishStep } from './settle-step.ts'
import {
  type ActionOutput,
  actionCompleted,
  actionEndsAtOnce,
  actionFailed,
  actionStarts,
  stepCarriedOver,
  stepStarts,
} from './steps.ts'
import { room } from './timers.ts'

/** The session begins with its run. */
export function sessionStarts(
  collab: Pick<Collab, 'status'>,
  session: Session,
  plan: string,
  decided: Pick<Decided, 'changes' | 'events'>,
): void {
  if (collab.status === 'draft') decided.changes.push(move('collab', session.collab_id, 'active'))
  decided.events.push(...mapBeginning({ session, plan }))
}

/** Gives out turns, as the session's mode says, until nobody is to begin anything more. */
export function startTurns(run: LiveRun, session: LiveSession, decided: Decided): void {
  for (let carried = 0; run.ready.size > 0; ) {
    if (carried === MOST_BEGUN) return // it looks round again after the first of them
    const step = run.ready.take()!
    if (run.carried?.has(step)) {
      stepCarriedOver(run, step, decided)
      carried++
    } else putInPool(run.graph, run.plan, session, step)
  }
  for (let next = affordable(run, session); next.length > 0; next = affordable(run, session)) {
    const broadcast = session.options.mode === 'broadcast' && next.length > 1
    if (broadcast) {
      const receivers = [...new Set(next.map((one) => seatOf(session, one.participant_id)))]
      const steps = [...new Set(next.map((one) => one.step_id))]
      decided.events.push(broadcastSent(subjectOf(run, session), receivers, steps))
    }
    const answers = new Map<string, number>()
    for (const { step_id } of next) answers.set(step_id, (answers.get(step_id) ?? 0) + 1)
    for (const one of next) begin(run, session, one, { shared: answers.get(one.step_id)! > 1, broadcast }, decided)
  }
}

/** Takes in that a participant has done what its turn was for. */
export function turnArrived(
  run: LiveRun,
  session: LiveSession,
  flight: Turning,
  output: ActionOutput,
  usage: Spend,
  decided: Decided,
): void {
  const { turn, step, action } = flight
  actionCompleted(run, flight, output, usage, decided)
  turnEnds(run, session, flight, { status: 'completed' }, decided)
  if (turn.purpose !== 'work') return
  append(session.answers, step, contender(session, { action_id: action.action_id, step_id: step, ...output }, turn))
  if (!isHeld(session, step)) finishStep(run, session, step, decided)
}

/**
 * Takes in that a turn came to nothing. Says what is left to be done about it: nothing, because the step was handed out again or others answer it;
 * or the step has failed; or it was a word about a step that failed.
 */
export function turnLost(
  run: LiveRun,
  session: LiveSession,
  flight: Turning,
  error: RunError,
  decided: Decided,
): 'nothing' | 'step' | 'word' {
  const { turn, step } = flight
  const expired = isExpiry(session, turn, error)
  const status = error.code === 'action_aborted' ? 'cancelled' : expired ? 'expired' : 'failed'
  turnEnds(run, session, flight, { status, error }, decided)
  const failed = <T>(left: T): T => {
    actionFailed(run, flight, error, decided)
    return left
  }
  if (turn.purpose !== 'work') return failed('word')
  if (isHeld(session, step)) return failed('nothing')
  if (run.ending) return 'step'
  if (expired && handsOutAgain(run, session, step)) return failed('nothing')
  if (!session.answers.has(step)) return 'step'
  failed('nothing')
  finishStep(run, session, step, decided) // the others have answered
  return 'nothing'
}

/** The session ends with its run; whoever still had a turn has had it. */
export function sessionEnds(
  run: LiveRun,
  session: LiveSession,
  status: string,
  started: boolean,
  decided: Decided,
): void {
  for (const waiting of run.waiting.values())
    if (isTurning(waiting.flight)) turnEnds(run, session, waiting.flight, { status: 'cancelled' }, decided)
  decided.changes.push(...sessionCloses(run.graph, session.options, status))
  if (started) decided.events.push(mapEnd(subjectOf(run, session), status, session.turns))
}

/** A flight that is somebody's turn. */
export type Turning = Flight & { readonly turn: TurnRecord }
export const isTurning = (flight: Flight): flight is Turning => flight.turn !== undefined

/**
 * What the mode wants, as far as there is room; several answers to one step begin together or not at all. Where there are only so many places, one step
 * after another: each takes one.
 */
function affordable(run: LiveRun, session: LiveSession): readonly NextTurn[] {
  const left = room(run)
  const chosen: NextTurn[] = []
  const steps = new Set<string>()
  for (const one of left > 0 ? nextTurns(session) : []) {
    const isNew = !steps.has(one.step_id)
    if (isNew && (chosen.length >= left || (run.line && (steps.size > 0 || !findsPlace(run, session, one))))) continue
    chosen.push(one)
    steps.add(one.step_id)
  }
  return chosen
}

/** A word that nobody has to carry out needs none. */
function findsPlace(run: LiveRun, session: LiveSession, turn: NextTurn): boolean {
  const binding = bindingOfTurn(run, session, turn)
  return !binding || !needsPlace(binding) || hasPlace(run, binding.action_type)
}

/** What is carried out in a turn, if anything is. */
export const bindingOfTurn = (run: LiveRun, { options }: LiveSession, { step_id, purpose }: NextTurn) =>
  purpose === 'work' ? run.bindings.get(step_id)!.data : options[purpose]

function begin(
  run: LiveRun,
  session: LiveSession,
  next: NextTurn,
  { shared, broadcast }: { readonly shared: boolean; readonly broadcast: boolean },
  decided: Decided,
): void {
  const { uuid } = run.graph.clock
  const { participant_id, step_id: step, purpose } = next
  const turn: TurnRecord = {
    turn_number: ++session.turns,
    participant_id,
    role_id: seatOf(session, participant_id).role_id,
    purpose,
    ...(NEEDS_TOKEN.has(session.options.mode) && { token_id: uuid() }),
    ...(broadcast && { broadcast }),
  }
  decided.events.push(turnDispatched(subjectOf(run, session), turn, step))
  const key = purpose !== 'work' ? `:${purpose}:${turn.turn_number}` : shared ? `:${participant_id}` : ''
  const action = actionOf(run, step, { turn, idempotency_key: `${run.plan}:${step}${key}` })
  const flight = { step, action, execution_id: uuid(), attempt: 1, turn }
  const first = !isHeld(session, step) && run.graph.get('step', step)?.data.status === 'pending'
  session.open.push({ turn_number: turn.turn_number, participant_id, step_id: step, purpose })
  if (purpose === 'work') {
    const at = session.pool.findIndex((other) => other.step_id === step)
    if (at >= 0) session.pool.splice(at, 1)
  } else if (!session.options[purpose]) {
    actionEndsAtOnce(run, flight, decided)
    return turnEnds(run, session, flight, { status: 'completed' }, decided)
  }
  if (run.line && !findsPlace(run, session, next)) return comesWithoutPlace(run, flight, decided) // others answer the step already
  if (purpose === 'work' && first) stepStarts(run, flight, decided)
  else actionStarts(run, flight, decided)
  if (session.expired.has(step)) takesOverActed(run, flight, decided)
  setOff(run, flight, decided)
}

function turnEnds(
  run: LiveRun,
  session: LiveSession,
  { turn, step }: Turning,
  result: TurnResult,
  decided: Decided,
): void {
  const at = session.open.findIndex((open) => open.turn_number === turn.turn_number)
  if (at < 0) return
  session.ended.push({ ...session.open.splice(at, 1)[0]!, failed: result.status !== 'completed' })
  decided.events.push(...turnCompleted(subjectOf(run, session), turn, step, result))
}

/** Does anybody still work on it? */
const isHeld = (session: LiveSession, step: string): boolean =>
  session.open.some((turn) => turn.step_id === step && turn.purpose === 'work')

/** The token has expired: the step goes back to those that somebody may take, under the same key. */
function handsOutAgain(run: LiveRun, session: LiveSession, step: string): boolean {
  const times = (session.expired.get(step) ?? 0) + 1
  session.expired.set(step, times)
  if (times > session.options.retakes) return false
  putInPool(run.graph, run.plan, session, step)
  return true
}
