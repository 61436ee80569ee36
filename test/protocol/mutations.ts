import fc from 'fast-check'
import { isObject, type Json, type JsonObject } from '../../src/protocol/json.ts'
import type { Kind } from '../../src/protocol/types.ts'
import { anyJson, arbitraryOf, oddText, ownMembers } from '../support/arbitraries.ts'

/** Valid documents of a kind, and the same with up to three wounds somewhere inside. */
export function mutated(kind: Kind): fc.Arbitrary<unknown> {
  const wounds = fc.array(fc.record({ where: fc.nat(), how: wound, with: replacement, name: oddText }), {
    maxLength: 3,
  })
  return fc.tuple(arbitraryOf(kind), wounds).map(([document, list]) => {
    let value = document as Json
    for (const one of list) value = wounded(value, one)
    return value
  })
}

type Wound = { where: number; how: 'replace' | 'remove' | 'add' | 'repeat' | 'spoil'; with: Json; name: string }

const wound = fc.constantFrom('replace', 'remove', 'add', 'repeat', 'spoil') as fc.Arbitrary<Wound['how']>

/** Most of them almost right: that is where two validators would differ. */
const replacement = fc.oneof(
  anyJson,
  fc.constantFrom<Json>('draft', 'pending', 'active', 'completed', 'other', 'plan', 'agent', 'graph_update', 'bulk'),
  fc.constantFrom<Json>('550e8400-e29b-41d4-a716-446655440000', '550E8400-E29B-41D4-A716-446655440000', 'urn:uuid:0'),
  fc.constantFrom<Json>('2026-01-01T00:00:00Z', '2026-01-01', '2026-01-01T00:00:00', '2026-02-30T00:00:00Z'),
  fc.constantFrom<Json>('1.0.0', '1.0', '01.0.0', '1.0.0-a', 'a.b', 'a_b', 'a@b.co', 'http://a/b'),
  fc.constantFrom<Json>([], {}, [''], [[]], [{}], [null], ['a', 'a'], { domain: '', environment: '' }),
)

function wounded(value: Json, { where, how, with: other, name }: Wound): Json {
  const places = placesIn(value)
  const at = places[where % places.length] as readonly (string | number)[]
  if (at.length === 0 && (how === 'remove' || how === 'spoil')) return value
  return edited(value, at, (found) => {
    if (how === 'remove') return undefined
    if (how === 'spoil')
      return typeof found === 'string' ? `${found}${name || ' '}` : typeof found === 'number' ? -found - 0.5 : other
    if (how === 'repeat' && Array.isArray(found)) return [...found, ...found]
    if (how === 'add' && isObject(found)) return ownMembers([...Object.entries(found as JsonObject), [name, other]])
    return other
  }) as Json
}

function placesIn(value: Json, at: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (value === null || typeof value !== 'object') return [at]
  const inside = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
  return [at, ...inside.flatMap(([step, item]) => placesIn(item as Json, [...at, step]))]
}

function edited(
  value: Json,
  at: readonly (string | number)[],
  edit: (found: Json) => Json | undefined,
): Json | undefined {
  const [step, ...rest] = at
  if (step === undefined) return edit(value)
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => {
      const now = index === step ? edited(item, rest, edit) : item
      return now === undefined ? [] : [now]
    })
  }
  const members = Object.entries(value as object).flatMap(([name, item]) => {
    const now = name === step ? edited(item, rest, edit) : item
    return now === undefined ? [] : [[name, now] as const]
  })
  return ownMembers(members)
}
