import { type Json, setMember } from '../protocol/json.ts'
import type { Delivery } from './transport.ts'

/** A copy as a trip through JSON text would give it, in a fraction of the time, and about how many bytes that text would have. */
export function copied(delivery: Delivery): { readonly copy: Delivery; readonly bytes: number } {
  bytes = 0
  const copy = copyOf(delivery as unknown as Json) as unknown as Delivery
  return { copy, bytes }
}

let bytes = 0 // counted by one copy at a time: nothing here waits

function copyOf(value: Json): Json {
  if (typeof value === 'string') {
    bytes += value.length + 2
    return value
  }
  bytes += 4
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(copyOf)
  const copy: Record<string, Json> = {}
  // `for … in` over plain data is several times faster than Object.entries, and this runs twice for every delivery.
  for (const key in value as Record<string, Json>) {
    const member = (value as Record<string, Json>)[key]
    if (member === undefined) continue
    bytes += key.length + 4
    setMember(copy, key, copyOf(member))
  }
  return copy
}
