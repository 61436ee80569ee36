import { canonical, type Json, type JsonObject } from '../protocol/json.ts'
import type { AnyNode, Change, EntryBody, Kind, Stored } from './change.ts'
import { storedAfter } from './history.ts'
import { KINDS } from './kinds.ts'
import { fromStored } from './node.ts'
import type { GraphState } from './state.ts'

/** The way back, before anybody has gone it. */
export interface Restoration {
  readonly changes: readonly Change[]
  /** What somebody else changed since: it is left as it is. */
  readonly conflicts: readonly Conflict[]
}
export interface Conflict {
  readonly kind: Kind
  readonly id: string
  readonly revision: number
  readonly message: string
}

/**
 * The changes that take back what the chosen entries did, given every entry since the revision to go back to. What a run did to its own plan,
 * steps, traces and approvals is history and stays; definitions, files and the like go back to what they were before.
 */
export function restoration(
  entries: readonly { readonly revision: number; readonly body: EntryBody }[],
  state: GraphState,
  chosen: (body: EntryBody) => boolean,
): Restoration {
  const firsts = new Map<string, Stored | undefined>()
  const lasts = new Map<string, Stored | undefined>()
  const others = new Map<string, number>()
  for (const { revision, body } of entries) {
    const ours = chosen(body)
    for (const change of body.changes) {
      const known = lasts.get(change.key)
      if (!('status' in change)) {
        if (ours && !firsts.has(change.key)) firsts.set(change.key, change.before)
        lasts.set(change.key, change.after)
      } else lasts.set(change.key, storedAfter(change, known))
      if (!ours && firsts.has(change.key)) others.set(change.key, revision)
    }
  }
  const changes: Change[] = []
  const conflicts: Conflict[] = []
  for (const [key, first] of firsts) {
    const [, , kindText, ...rest] = key.split('/')
    const [kind, id] = [kindText as Kind, rest.join('/')]
    if (KINDS[kind].runState || KINDS[kind].passing) continue
    const now = state.get(kind, id)
    const back = wayBack(kind, id, first && !first.deleted ? fromStored(key, first) : undefined, now)
    if (!back) continue
    const revision = others.get(key)
    if (revision === undefined) changes.push(back)
    else
      conflicts.push({
        kind,
        id,
        revision,
        message: `${kind} ${id} was changed by somebody else at revision ${revision}`,
      })
  }
  return { changes: childrenFirst(changes), conflicts }
}

function wayBack(kind: Kind, id: string, then: AnyNode | undefined, now: AnyNode | undefined): Change | undefined {
  if (!then && !now) return undefined
  if (!then) return { kind: 'node_delete', node: kind, id }
  if (!now) {
    const { owner, at, imported, group } = then
    return {
      kind: 'node_add',
      node: kind,
      id,
      group,
      revived: true,
      ...(owner !== undefined && { owner }),
      ...(at !== undefined && { at }),
      ...(imported && { imported }),
      data: then.data,
    } as Change
  }
  const set = differences(then.data as JsonObject, now.data as JsonObject)
  return set && ({ kind: 'node_update', node: kind, id, set } as Change)
}

/** The fields that differ, except the status: where a thing stands in its life is not undone. */
function differences(then: JsonObject, now: JsonObject): { [field: string]: Json | undefined } | undefined {
  const set: { [field: string]: Json | undefined } = {}
  for (const field of new Set([...Object.keys(then), ...Object.keys(now)])) {
    if (field === 'status') continue
    const [a, b] = [then[field], now[field]]
    if (a === b || (a !== undefined && b !== undefined && canonical(a) === canonical(b))) continue
    set[field] = a
  }
  return Object.keys(set).length > 0 ? set : undefined
}

/** Parts go before what they are part of when deleted. */
function childrenFirst(changes: readonly Change[]): readonly Change[] {
  const isPart = (change: Change) =>
    change.kind === 'node_delete' && (KINDS[change.node].partOf !== undefined || change.node === 'binding')
  return [...changes.filter(isPart), ...changes.filter((change) => !isPart(change))]
}
