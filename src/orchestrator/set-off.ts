import { bindingOf, departs } from './flight.ts'
import { askBefore, askFor } from './gate.ts'
import type { Decided, Flight, LiveRun } from './live.ts'
import { setAction } from './set-action.ts'
import { awaitSignal, setTimer } from './timers.ts'

/** An action begins: it is put up for approval, waits, or takes off. */
export function setOff(run: LiveRun, flight: Flight, decided: Decided): void {
  const binding = bindingOf(run, flight)
  if (askBefore(binding)) askFor(run, flight, binding, decided)
  else goesOn(run, flight, decided)
}

/** The same once nobody is left to be asked. */
export function goesOn(run: LiveRun, flight: Flight, decided: Decided): void {
  if (flight.action.action_type === 'wait') waits(run, flight, decided)
  else departs(run, flight, decided)
}

/** The one kind of action that nobody carries out: it ends when a signal comes or its time is over. */
function waits(run: LiveRun, flight: Flight, decided: Decided): void {
  const { signal, ms } = flight.action.params
  setAction(decided, flight.action.action_id, { status: 'waiting' })
  if (typeof signal === 'string') awaitSignal(run, flight, signal, bindingOf(run, flight).timeout_ms, decided)
  else setTimer(run, flight, Number(ms ?? 0), decided)
  run.inbox.push({ kind: 'look' })
}
