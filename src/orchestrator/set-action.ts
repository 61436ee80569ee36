import { fresh } from '../protocol/json.ts'
import type { ActionRecord, Patch } from '../psg/change.ts'
import type { Decided } from './live.ts'

/**
 * What a tick says of an action that is there already: one change, however many have something to say. Only what is said once steps begin stays by
 * itself, because that may have to be taken back.
 */
export function setAction(decided: Decided, id: string, set: Patch<ActionRecord>): void {
  const { changes, said, begins } = decided
  const known = said.get(id)
  if (known && known.at >= (begins?.changes ?? 0)) return add(known.set, set)
  const own: Patch<ActionRecord> = fresh()
  add(own, set)
  said.set(id, { set: own, at: changes.length })
  changes.push({ kind: 'node_update', node: 'action', id, set: own })
}

/** Field by field: for what is spread and assigned to, the engine makes a new kind of object every time, which takes longer than all else here. */
function add(own: { [field: string]: unknown }, set: { readonly [field: string]: unknown }): void {
  for (const field in set) own[field] = set[field]
}
