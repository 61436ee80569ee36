import type { BindingSpec } from './bind.ts'
import { askBefore } from './gate.ts'
import type { Decided, Flight, LiveRun } from './live.ts'
import { setAction } from './set-action.ts'
import { actionAdded } from './steps.ts'
import { setTimer } from './timers.ts'

/** Has the process a place for it? If not, the run is woken when there is one. */
export const hasPlace = ({ line }: LiveRun, action_type: string): boolean => line === undefined || line.has(action_type)

/** Does it need one to begin? What a person is asked about first does not, and a wait never does. */
export const needsPlace = (binding: BindingSpec): boolean => binding.action_type !== 'wait' && !askBefore(binding)

/** A new action whose step is under way already: it is on record, and its first attempt is made once there is a place. */
export function comesWithoutPlace(run: LiveRun, flight: Flight, decided: Decided): void {
  decided.changes.push(actionAdded(flight, { status: 'waiting', attempts: 0 }))
  setTimer(run, { ...flight, attempt: 0 }, 0, decided)
}

/** The same of one that was there before: it waits as for a time that has come. */
export function waitsForPlace(run: LiveRun, flight: Flight, decided: Decided): void {
  setAction(decided, flight.action.action_id, { status: 'waiting' })
  setTimer(run, flight, 0, decided)
}
