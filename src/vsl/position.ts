import type { Position } from './backend.ts'

/** A position made of counters, each padded so that text order is number order. */
export const sequencePosition = (...counters: readonly (number | bigint | string)[]): Position =>
  counters.map((counter) => String(counter).padStart(20, '0')).join('.')
