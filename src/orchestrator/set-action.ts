import type { ActionRecord, Patch } from '../psg/change.ts'
import type { Decided } from './live.ts'

/**
 * What a tick says of an action that is there already: one change, however many have something to say. Only what is said once steps begin stays by
 * itself, because that may have to be taken back.
 */
export function setAction(decided: Decided, id: string, set: Patch<ActionRecord>): void {
  const { changes, said, begins } = decided
  const known = said.get(id)
  if (known && known.at >= (begins?.changes ?? 0)) return void Object.assign(known.set, set)
  const own = { ...set }
  said.set(id, { set: own, at: changes.length })
  changes.push({ kind: 'node_update', node: 'action', id, set: own })
}
