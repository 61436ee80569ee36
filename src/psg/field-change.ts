import { fresh, type Json, type JsonObject } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { TraceStatus } from '../protocol/types.ts'
import type { AnyNode, EntryChange, FieldChange, Stored } from './change.ts'
import type { Delta } from './delta.ts'
import { KINDS } from './kinds.ts'
import { nodeOf } from './node.ts'

/** The short way to tell a change, where there is one: run state is never restored, so nobody needs to see all of it as it was. */
export function fieldChange(key: string, { kind, before, after, statusOnly }: Delta): FieldChange | undefined {
  if (!before || !after || !(statusOnly || (KINDS[kind].runState && before.retired === after.retired))) return undefined
  const was: Fields = fresh()
  const now: Fields = fresh()
  const [then, since] = [before.data as JsonObject, after.data as JsonObject]
  for (const field in then) if (then[field] !== since[field]) was[field] = then[field]!
  for (const field in since) if (then[field] !== since[field]) now[field] = since[field]!
  return { key, was, now }
}
type Fields = { [field: string]: Json }

export const isFieldChange = (change: EntryChange): change is FieldChange => 'now' in change

/** A status that moved, and nothing else. */
export const isMove = (change: EntryChange): change is FieldChange => {
  if (!isFieldChange(change)) return false
  const fields = Object.keys({ ...change.was, ...change.now })
  return fields.length === 1 && fields[0] === 'status'
}

/** Does this change, of a trace, bring it to its end? */
export function endsTrace(change: EntryChange): boolean {
  const status = isFieldChange(change) ? change.now.status : change.after?.data.status
  return status !== undefined && isTerminal('trace', status as TraceStatus) // a change may leave the status as it was
}

/** A node's content after a change of fields. */
function withFields(data: JsonObject, { was, now }: FieldChange): JsonObject {
  const next: Fields = { ...data, ...now }
  for (const field in was) if (!Object.hasOwn(now, field)) delete next[field]
  return next
}

/** The value of a key after a change, given the value before it. */
export function storedAfter(change: EntryChange, before: Stored | undefined): Stored | undefined {
  if (!isFieldChange(change)) return change.after
  return before && { ...before, data: withFields(before.data, change) }
}

/** A value as a change leaves it. Those that were taken on already, and are again in their order, end up the same. */
export function takeOn(values: Map<string, Stored>, change: EntryChange): void {
  const after = storedAfter(change, values.get(change.key))
  if (after) values.set(change.key, after)
}

/** A node after a change of fields. */
export const nodeWithFields = (node: AnyNode, change: FieldChange): AnyNode =>
  nodeOf(node, withFields(node.data as JsonObject, change))
