import { fresh, type Json, type JsonObject } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { TraceStatus } from '../protocol/types.ts'
import type { AnyNode, EntryChange, FieldChange, Growth, Stored } from './change.ts'
import type { Delta } from './delta.ts'
import { KINDS } from './kinds.ts'
import { nodeOf } from './node.ts'
import { sameJson } from './plain.ts'

/** The short way to tell a change, where there is one: run state is never restored, so nobody needs to see all of it as it was. */
export function fieldChange(key: string, { kind, before, after, statusOnly }: Delta): FieldChange | undefined {
  if (!before || !after || !(statusOnly || (KINDS[kind].runState && before.retired === after.retired))) return undefined
  const was: Fields = fresh()
  const now: Fields = fresh()
  let grew: { [field: string]: Growth } | undefined
  const [then, since] = [before.data as JsonObject, after.data as JsonObject]
  for (const field in then) {
    if (then[field] === since[field]) continue
    const growth = growthOf(then[field]!, since[field])
    if (growth) {
      grew ??= fresh()
      grew[field] = growth
    } else {
      was[field] = then[field]!
      if (since[field] !== undefined) now[field] = since[field]
    }
  }
  for (const field in since) if (then[field] === undefined) now[field] = since[field]!
  return grew ? { key, was, now, grew } : { key, was, now }
}
type Fields = { [field: string]: Json }

/** Told whole each time, the attempts of one action would fill the journal with the square of their number. */
function growthOf(then: Json, since: Json | undefined): Growth | undefined {
  if (!Array.isArray(then) || !Array.isArray(since) || then.length === 0) return undefined
  const from = then.length
  return since.length > from && startsWith(since, then) ? { from, items: since.slice(from) } : undefined
}

/** Are the first items of a list these? */
export const startsWith = (list: readonly Json[], first: readonly Json[] = []): boolean =>
  first.every((item, i) => sameJson(item, list[i]))

export const isFieldChange = (change: EntryChange): change is FieldChange => 'now' in change

/** A status that moved, and nothing else. */
export const isMove = (change: EntryChange): change is FieldChange => {
  if (!isFieldChange(change)) return false
  const fields = fieldsOf(change)
  return fields.length === 1 && fields[0] === 'status'
}

/** The names of what a change touches. */
export const fieldsOf = ({ was, now, grew }: FieldChange): readonly string[] => Object.keys({ ...was, ...now, ...grew })

/** Does this change, of a trace, bring it to its end? */
export function endsTrace(change: EntryChange): boolean {
  const status = isFieldChange(change) ? change.now.status : change.after?.data.status
  return status !== undefined && isTerminal('trace', status as TraceStatus) // a change may leave the status as it was
}

/** A node's content after a change of fields. */
function withFields(data: JsonObject, { was, now, grew }: FieldChange): JsonObject {
  const next: Fields = { ...data, ...now }
  for (const field in was) if (!Object.hasOwn(now, field)) delete next[field]
  for (const field in grew) next[field] = grown(next[field], grew[field]!)
  return next
}

/** Also of a list that has grown by them already. */
const grown = (list: Json | undefined, { from, items }: Growth): Json => [
  ...(Array.isArray(list) ? list.slice(0, from) : []),
  ...items,
]

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
