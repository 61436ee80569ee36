import type { Position } from './backend.ts'
import { badPosition } from './check-input.ts'

/** A position made of counters, each padded so that text order is number order. */
export const sequencePosition = (...counters: readonly (number | bigint | string)[]): Position =>
  counters.map((counter) => String(counter).padStart(20, '0')).join('.')

/** The two counters a position was made of. */
export function countersOf(position: Position): [first: string, second: string] {
  const [, first, second] = /^(\d{20})\.(\d{20})$/.exec(position) ?? []
  if (first === undefined || second === undefined) throw badPosition(position)
  return [first, second]
}

/** The one counter a position was made of. */
export function sequenceOf(position: Position): number {
  if (!/^\d{20}$/.test(position)) throw badPosition(position)
  return Number(position)
}
