import { roughBytes } from '../protocol/json.ts'
import type { Arrival, Decided } from './live.ts'

/** A tick that begins more steps than this would fill a journal entry with their beginnings alone: the next one begins the others. */
export const MOST_BEGUN = 2_000
/** Of outputs, one question shows this much: a step may take up hundreds of them. */
export const MOST_SHOWN = 65_536
/** As many may take up the same one: a tick whose questions show more than this leaves other steps to the next. */
export const MOST_SHOWN_BYTES = 2 * 1024 * 1024
/** An entry may have four times as many bytes: a character of the text that is estimated here may need three. */
const MOST_BYTES = 8 * 1024 * 1024
/** A failure is told by the action, its segment, the events and perhaps the run. */
const TIMES_TOLD = 6

/** How many of the arrivals one commit can carry, at least one: what many steps give at the same moment may be more than an entry can hold. */
export function fitting(arrivals: readonly Arrival[], decided: Carrying): number {
  const end = arrivals.findIndex((arrival) => !fitsIn(decided, weightOf(arrival)))
  return end < 0 ? arrivals.length : end
}

/** Counts so much with what a tick takes in; false when that has to wait for the next one. */
export function fitsIn(decided: Carrying, bytes: number): boolean {
  if (decided.bytes > 0 && decided.bytes + bytes > MOST_BYTES) return false
  decided.bytes += bytes
  return true
}
type Carrying = Pick<Decided, 'bytes'>

function weightOf(arrival: Arrival): number {
  if (arrival.kind === 'failed') return arrival.error.message.length * TIMES_TOLD
  if (arrival.kind !== 'completed') return 0
  const { result, back } = arrival
  const output = result.output_ref ? 0 : roughBytes(result.output ?? null)
  return output + (back === undefined ? 0 : roughBytes(back))
}
