import { firstActionOf } from '../psg/first-action.ts'
import { actionOf } from './flight.ts'
import { heldUpBy } from './held-up.ts'
import type { Decided, LiveRun } from './live.ts'
import { MOST_BEGUN, MOST_SHOWN_BYTES } from './one-commit.ts'
import { hasPlace, needsPlace } from './place.ts'
import { setOff } from './set-off.ts'
import { stepCarriedOver, stepStarts } from './steps.ts'
import { room } from './timers.ts'
import { startTurns } from './turns.ts'

/** Lets begin what waits for no other step, as far as there is room in the run and a place in the process. */
export function startReady(run: LiveRun, decided: Decided): void {
  if (run.paused || run.owner.lost.aborted || heldUpBy(run.graph, run.options)) return
  const { changes, events, departures } = decided
  decided.begins = { changes: changes.length, events: events.length, departures: departures.length }
  if (run.session) return startTurns(run, run.session, decided)
  run.ready.bringBack()
  for (let begun = 0; room(run) > 0 && run.ready.size > 0; begun++) {
    if (begun === MOST_BEGUN || decided.shown > MOST_SHOWN_BYTES) return void run.inbox.push({ kind: 'look' })
    const step = run.ready.take()!
    if (run.carried?.has(step)) {
      stepCarriedOver(run, step, decided)
      continue
    }
    if (run.line && !findsPlace(run, step)) continue
    const action = actionOf(run, step, { action_id: firstActionOf(step) })
    const flight = { step, action, execution_id: run.graph.clock.uuid(), attempt: 1 }
    stepStarts(run, flight, decided)
    setOff(run, flight, decided)
  }
}

/** What finds none is not looked at again before there is one; then one after another is. */
function findsPlace(run: LiveRun, step: string): boolean {
  const binding = run.bindings.get(step)!.data
  if (!needsPlace(binding)) return true
  const { action_type } = binding
  const found = hasPlace(run, action_type)
  if (found) run.ready.bringBack(action_type)
  else run.ready.putAside(step, action_type)
  return found
}
