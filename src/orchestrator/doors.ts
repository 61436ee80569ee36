import { type Field, guarded, needed } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import type { CollabMode } from '../protocol/types.ts'
import type { Mode } from './modes/mode.ts'
import { modes as known } from './modes/modes.ts'

// For callers whom nobody has checked. Inside, where every change of a session asks, modes are called as they are.

const areObjects = (value: unknown): boolean => Array.isArray(value) && value.every(isObject)
const isSeat = (value: unknown): boolean => isObject(value) && Array.isArray(value.names)
const isBoard = (value: unknown): boolean =>
  isObject(value) &&
  Array.isArray(value.seats) &&
  [...value.seats, value.coordinator].every(isSeat) &&
  [value.open, value.ended, value.ready].every(areObjects)
const board: Field = needed({ says: 'a board: seats, coordinator, open, ended, ready', fits: isBoard })

/** Each decides whose turn it is, in its own way. */
export const modes = Object.fromEntries(
  Object.entries(known).map(([name, mode]) => [name, guarded('mode', { board }, mode)]),
) as { readonly [M in CollabMode]: Mode }
