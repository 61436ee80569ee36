import { nextRetry, unheeded } from '../ael/with-retry.ts'
import { ActionError, ApprovalNeeded } from '../protocol/errors.ts'
import { roughBytes } from '../protocol/json.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { ConfirmStatus } from '../protocol/types.ts'
import { move } from '../psg/moves.ts'
import { runEnds } from './end.ts'
import { ends, endsWithSession, failsOf, flightFailed, isKept, keepEnding, stepsFailed } from './ending.ts'
import { bindingOf, departs } from './flight.ts'
import { askFor, goesOnAnyhow, takeVerdict, verdictOn, whyNot } from './gate.ts'
import { heldUpBy } from './held-up.ts'
import { leavesChildren } from './let-go.ts'
import type { Arrival, Asked, Decided, Ending, Flight, LiveRun, Waiting } from './live.ts'
import { fitsIn, fitting } from './one-commit.ts'
import { hasPlace } from './place.ts'
import { resume } from './recover.ts'
import { isExpiry, nextTurns } from './session.ts'
import { setAction } from './set-action.ts'
import { goesOn } from './set-off.ts'
import { conflictDecided, isSettling, type Settling } from './settle-step.ts'
import { openSignals } from './signals.ts'
import { startReady } from './start-ready.ts'
import { attemptAgain, attemptEnds, keepUsage, stepCompleted } from './steps.ts'
import { fired, ring, room, setTimer, waitAnew, waitOver } from './timers.ts'
import { isTurning, turnArrived } from './turns.ts'
import { undoArrived, undoNext } from './undo.ts'
import { untold } from './untold.ts'
import { linesTold, uses } from './usage.ts'

/**
 * One pass over a run: takes in what arrived, finds what is ready, and says what one commit must carry and which flights take off once it has
 * landed. Touches nothing but the run's own memory. Whoever is leaving takes in what arrived and starts nothing more, forward or back.
 */
export function decideTick(run: LiveRun, isLeaving = false): Decided {
  const events = run.told.splice(0)
  const decided: Decided = {
    changes: [],
    said: new Map(),
    events,
    departures: [],
    bytes: 0,
    shown: 0,
    reason: 'tick',
    end: undefined,
  }
  if (events.length > 0) {
    decided.changes.push(...linesTold(run, events))
    for (const [id, set] of untold(run)) setAction(decided, id, set)
  }
  run.looked = run.graph.revision
  run.held = heldUpBy(run.graph, run.options) !== undefined
  run.leaving = isLeaving
  if (isLeaving) run.line?.close()
  takeInRequests(run, decided)
  resume(run, decided)
  waitAnew(run, decided)
  takeInAll(run, run.inbox.splice(0, fitting(run.inbox, decided)), decided)
  if (run.crowded && room(run) > 0) takeInHeldBack(run, decided)
  if (run.session && !isOver(run)) endsWithSession(run, run.session)
  resume(run, decided) // a paused one that ends now
  if (run.ending) goBack(run, run.ending, decided)
  else if (!run.leaving) startReady(run, decided)
  if (run.failed > 0) failsInTheEnd(run)
  if (isOver(run) && !decided.carries && !leavesChildren(run, decided)) runEnds(run, decided)
  else keepEnding(run, decided)
  run.line?.settle()
  return decided
}

/** What was completed together with the failure can be taken back once both have landed. */
function goBack(run: LiveRun, ending: Ending, decided: Decided): void {
  if (isKept(run)) undoNext(run, ending, decided)
  else if (ending.undo) run.inbox.push({ kind: 'look' })
}

/** Steps failed that let the others go on: where a plan that fails takes back what it did, it does so once nothing is left to do. */
function failsInTheEnd(run: LiveRun): void {
  if (run.ending || run.options.on_failure !== 'compensate' || !isOver(run)) return
  ends(run, { status: 'failed', reason: 'failure', error: stepsFailed(run) })
  run.inbox.push({ kind: 'look' })
}

/** Whatever had its time or its approval and found no room comes before what has not begun. */
function takeInHeldBack(run: LiveRun, decided: Decided): void {
  run.crowded = false
  const left = run.inbox.length // for the next tick
  ring(run)
  takeInAll(run, [...run.inbox.splice(left), { kind: 'look' }], decided)
}

/** However often it was told to look round, it does so once, when all the rest is known. */
function takeInAll(run: LiveRun, arrivals: readonly Arrival[], decided: Decided): void {
  for (const arrival of arrivals) if (arrival.kind !== 'look') takeIn(run, arrival, decided)
  if (arrivals.some(({ kind }) => kind === 'look')) look(run, decided)
}

/** May what somebody must carry out begin? If there is no room or place for it, or its context is suspended, it is taken in once it may. */
function hasRoom(run: LiveRun, { action, settles }: Flight): boolean {
  if (action.action_type === 'wait' || settles) return true
  if (room(run) > 0 && !heldUpBy(run.graph, run.options)) return hasPlace(run, action.action_type)
  run.crowded = true
  return false
}

function takeIn(run: LiveRun, arrival: Exclude<Arrival, { kind: 'look' }>, decided: Decided): void {
  switch (arrival.kind) {
    case 'completed': {
      const { flight, result } = arrival
      hasLanded(run, flight)
      attemptEnds(run, flight, { status: 'completed', duration_ms: result.duration_ms, result }, decided)
      if (undoArrived(run, flight, undefined, decided)) return
      const output = result.output_ref
        ? { output_blob: result.output_ref.digest }
        : result.output === undefined
          ? {}
          : { output: result.output }
      const usage = {
        ...(result.token_usage && { tokens: result.token_usage.total }),
        ...(result.cost !== undefined && { cost: result.cost }),
      }
      const outcome = { ...output, ...arrival.back }
      if (run.session && isTurning(flight)) return turnArrived(run, run.session, flight, outcome, usage, decided)
      stepCompleted(run, flight, outcome, usage, decided)
      run.ready.satisfied(flight.step)
      return
    }
    case 'failed':
      hasLanded(run, arrival.flight)
      return attemptFailed(run, arrival, decided)
    case 'due': {
      const waiting = run.waiting.get(arrival.action)
      if (waiting?.on !== 'timer' || waiting.timer !== arrival.timer || run.ending || run.paused) return
      if (!hasRoom(run, waiting.flight)) return
      run.waiting.delete(arrival.action)
      decided.changes.push(fired(arrival.timer))
      return again(run, waiting.flight, decided)
    }
    case 'overdue':
      return ends(run, arrival.ending)
    default:
      arrival satisfies never
  }
}

function hasLanded({ flying, awaiting }: LiveRun, { action, execution_id }: Flight): void {
  flying.delete(action.action_id)
  if (awaiting.size > 0) awaiting.delete(execution_id) // it may have asked for another child when it was over
}

function attemptFailed(
  run: LiveRun,
  { flight, error, duration_ms }: Extract<Arrival, { kind: 'failed' }>,
  decided: Decided,
): void {
  if (error instanceof ApprovalNeeded && !run.ending) {
    if (error.spent) uses(run, flight.action.action_id, error.spent) // its attempt has not ended, and will say only what comes after
    keepUsage(run, flight, decided)
    return askFor(run, flight, error, decided)
  }
  attemptEnds(
    run,
    flight,
    { status: error.code === 'action_aborted' ? 'cancelled' : 'failed', duration_ms, error },
    decided,
  )
  const told = { code: error.code, message: error.message }
  if (undoArrived(run, flight, told, decided)) return
  if (run.ending) return void flightFailed(run, flight, 'failed', told, decided)
  const failures = (run.graph.get('action', flight.action.action_id)?.data.failures ?? 0) + 1
  const { session } = run
  const expired = session && flight.turn && isExpiry(session, flight.turn, told) // the turn is over, and with it its attempts
  const wait = expired ? undefined : nextRetry(flight.action.retry, failures, error, run.graph.clock.random())
  if (wait === undefined) {
    const why = { ...told, message: told.message + unheeded(flight.action.retry, error) }
    return stepGivenUp(run, flight, why, decided)
  }
  const now = wait === 0 && !run.leaving && !run.paused && hasRoom(run, flight)
  setAction(decided, flight.action.action_id, { failures, ...(!now && { status: 'waiting' }) })
  if (now) again(run, flight, decided)
  else setTimer(run, flight, wait, decided)
}

/** What becomes of the plan when a step has failed for good. */
function stepGivenUp(run: LiveRun, flight: Flight, error: RunError, decided: Decided): void {
  const policy = bindingOf(run, flight).on_failure ?? 'fail'
  if (!flightFailed(run, flight, policy === 'skip' ? 'skipped' : 'failed', error, decided)) return
  switch (policy) {
    case 'skip':
      return run.ready.satisfied(flight.step)
    case 'continue':
      run.failed++
      for (const dependant of run.graph.state.dependantsOf(flight.step))
        if (run.graph.get('step', dependant)?.data.status === 'pending')
          decided.changes.push(move('step', dependant, 'blocked'))
      return
    case 'fail':
    case 'compensate':
      run.failed++
      return failsOf(run, flight, error)
    default:
      policy satisfies never
  }
}

/** What others asked for or decided since the last tick. */
function look(run: LiveRun, decided: Decided): void {
  if (run.paused || run.ending) return // nothing new begins
  const going: [Asked, Verdict][] = []
  for (const waiting of run.waiting.values()) {
    if (waiting.on !== 'confirm') continue
    const verdict = verdictOn(run, waiting)
    if (verdict === 'pending') continue
    if (verdict === 'approved' || goesOnAnyhow(run, waiting)) going.push([waiting, verdict])
    else answered(run, waiting, verdict, decided)
  }
  if (run.ending) return // of one of them: what was approved beside it is not used up
  for (const [waiting, verdict] of going) if (hasRoom(run, waiting.flight)) answered(run, waiting, verdict, decided)
  takeInSignals(run, decided)
}

function takeInSignals(run: LiveRun, decided: Decided): void {
  const missed: SignalWait[] = []
  for (const [action, waiting] of run.waiting) {
    if (waiting.on !== 'signal') continue
    decided.signals ??= openSignals(run)
    const lying = decided.signals.get(waiting.name)
    const signal = lying?.[0]
    if (!signal) {
      if (waiting.until && waiting.until.due <= run.graph.clock.now()) missed.push(waiting)
      continue
    }
    if (!fitsIn(decided, roughBytes(signal.data.payload))) {
      run.inbox.push({ kind: 'look' })
      break
    }
    lying.shift()
    run.waiting.delete(action)
    waitOver(waiting, decided)
    decided.changes.push({ kind: 'node_update', node: 'signal', id: signal.id, set: { taken: true } })
    takeIn(run, cameByItself(waiting.flight, { output: signal.data.payload }), decided)
  }
  for (const waiting of missed) if (!run.ending) signalMissed(run, waiting, decided)
}
type SignalWait = Extract<Waiting, { on: 'signal' }>

/** The time to wait for a signal is over, and none has come. */
function signalMissed(run: LiveRun, waiting: SignalWait, decided: Decided): void {
  const { flight, name, until } = waiting
  run.waiting.delete(flight.action.action_id)
  waitOver(waiting, decided)
  const error = new ActionError('action_timed_out', `the signal ${name} did not come within ${until!.wait_ms} ms`)
  attemptEnds(run, flight, { status: 'failed', duration_ms: until!.wait_ms, error }, decided)
  stepGivenUp(run, flight, { code: error.code, message: error.message }, decided)
}

type Verdict = Exclude<ConfirmStatus, 'pending'>

/** A person has answered, or the time to answer is over. */
function answered(run: LiveRun, asked: Asked, verdict: Verdict, decided: Decided): void {
  const { flight } = asked
  run.waiting.delete(flight.action.action_id)
  takeVerdict(run, asked, verdict, decided)
  const settling = run.session && isSettling(flight) ? run.session : undefined
  if ((verdict === 'approved' && !settling) || goesOnAnyhow(run, asked)) return goesOn(run, flight, decided)
  const error = new ActionError('action_rejected', whyNot(run, asked, verdict))
  if (verdict !== 'approved') attemptEnds(run, flight, { status: 'failed', duration_ms: 0, error }, decided)
  if (settling && conflictDecided(run, settling, flight as Settling, verdict === 'approved', decided)) return
  stepGivenUp(run, flight, { code: error.code, message: error.message }, decided)
}

function takeInRequests(run: LiveRun, decided: Decided): void {
  const { requested, phase } = run.graph.get('run', run.id)!.data
  if (requested === undefined) return
  const pauses = requested === 'pause'
  const wakes = phase === 'paused' && !pauses && { phase: 'running' as const }
  const pausing = pauses !== run.paused && { pausing: pauses ? (true as const) : undefined }
  const set = { requested: undefined, ...pausing, ...wakes }
  const by = { kind: 'node_update', node: 'run', id: run.id, set } as const
  decided.changes.push(by)
  decided.taken = { requested, by }
  run.paused = pauses
  run.inbox.push({ kind: 'look' }) // what was answered while it was paused
  if (requested === 'cancel')
    ends(run, {
      status: 'cancelled',
      reason: 'user_cancel',
      error: { code: 'cancelled', message: 'the run was cancelled' },
    })
}

function again(run: LiveRun, flight: Flight, decided: Decided): void {
  if (flight.action.action_type === 'wait') return takeIn(run, cameByItself(flight), decided)
  const next = { ...flight, execution_id: run.graph.clock.uuid(), attempt: flight.attempt + 1 }
  attemptAgain(run, next, decided)
  departs(run, next, decided)
}

/** What was waited for has come: nobody had to carry it out. */
const cameByItself = (flight: Flight, gave: Pick<Completed['result'], 'output'> = {}): Completed => ({
  kind: 'completed',
  flight,
  result: { action_id: flight.action.action_id, status: 'completed', duration_ms: 0, ...gave },
})
type Completed = Extract<Arrival, { kind: 'completed' }>

function isOver(run: LiveRun): boolean {
  if (run.flying.size > 0 || !run.resumed) return false
  if (run.ending) return !run.ending.undo || run.undo?.left.length === 0
  const { waiting, ready } = run
  return waiting.size === 0 && ready.size + ready.aside === 0 && (!run.session || nextTurns(run.session).length === 0)
}
