import { RuleViolation } from '../protocol/errors.ts'
import { ofKind } from '../psg/node.ts'
import { land, UNWISHED } from './land.ts'
import type { Decided, Flight, LiveRun } from './live.ts'
import { scheduleOf } from './take-up.ts'

/**
 * Commits what a tick decided; false when the run is no longer ours. When its context or session has been suspended since the tick looked, or somebody
 * has asked to cancel or pause the run, no step may begin: then the rest lands without it, since what arrived would be lost and done again.
 */
export async function landTick(run: LiveRun, decided: Decided): Promise<boolean> {
  try {
    return await land(run, decided)
  } catch (error) {
    if (!decided.begins || !(error === UNWISHED || isSuspended(error))) throw error
    takeBack(run, decided, decided.begins)
    run.held = true // it looked too early to know, and by now that may be over again
  }
  const landed = await land(run, decided)
  const actions = [...ofKind(run.graph.state.nodesOf(run.plan), 'action')]
  Object.assign(run, scheduleOf(run, actions))
  return landed
}

/** What was to take off and does not needs no place. */
export function staysHere({ layer }: LiveRun, departures: readonly Flight[]): void {
  for (const { execution_id } of departures) layer.places?.leave(execution_id)
}

const isSuspended = (error: unknown): boolean =>
  error instanceof RuleViolation && error.violations.every(({ rule }) => rule === 'guard.step.context')

function takeBack(
  run: LiveRun,
  { changes, events, departures }: Decided,
  begins: NonNullable<Decided['begins']>,
): void {
  events.splice(begins.events)
  staysHere(run, departures.splice(begins.departures))
  for (const change of changes.splice(begins.changes)) {
    if (change.kind !== 'node_add' || change.node !== 'action') continue
    run.flying.delete(change.id)
    run.waiting.delete(change.id)
  }
}
