import type { Spend } from '../ael/adapter.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { ActionRecord } from '../psg/change.ts'
import { workNamed } from './acted.ts'
import { flightOf } from './flight.ts'
import type { Flight, LiveRun } from './live.ts'
import { outcomeOf } from './outcome.ts'
import { filledIn, THIS_STEP } from './references.ts'
import { settlingAction } from './settle-step.ts'
import { inverseOf } from './undo.ts'

export const isEnded = ({ status }: ActionRecord): boolean => status !== 'running' && status !== 'waiting'

/** An action that had not ended, as it was begun: for its step, to settle a conflict about it, or to take it back. */
export function takenUp(run: LiveRun, record: ActionRecord): Flight {
  const flight = flightOf(run, record)
  const { action_id, settles, compensates } = record
  if (settles?.what === 'conflict') return { ...flight, action: settlingAction(record, settles) }
  const work = compensates === undefined ? undefined : workNamed(run.graph.state, record.step_id, compensates)
  if (!work) return flight
  return { ...flight, action: { ...inverseOf(work, work.inverse as JsonObject, run.graph.clock), action_id } }
}

/** How often an action was cut off, the last time included; and how often it did something then: what only waits for children ends no process. */
export function cutOffs({ ended = [], left_waiting, execution_id }: ActionRecord): { times: number; atWork: number } {
  const earlier = ended.filter(({ attributes }) => attributes.interrupted)
  const waited = earlier.filter(({ attributes }) => attributes.only_waited).length
  const times = earlier.length + 1
  return { times, atWork: times - waited - (left_waiting === execution_id ? 1 : 0) }
}

/** What an attempt that was cut off may have used up, beside what it told on its way. Outputs that its params take from blobs are not looked at. */
export function setApart(run: LiveRun, { step, action, turn }: Flight): Spend {
  const { tokens, cost } = run.options.budget ?? {}
  if (tokens === undefined && cost === undefined) return {}
  const outputOf = (from: string) => outcomeOf(run.graph.state, from === THIS_STEP ? step : from)?.data.output
  try {
    return run.layer.estimate({ ...action, params: filledIn(action.params, outputOf, turn) })
  } catch {
    return {} // an attempt at it would be refused
  }
}
