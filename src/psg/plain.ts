import { InvalidInput } from '../protocol/errors.ts'
import { isPlain, type Json, recordFor, setMember } from '../protocol/json.ts'
import { UNREADABLE } from '../protocol/json-copy.ts'
import { endless, MOST_LEVELS, type Way } from '../protocol/levels.ts'
import { shown } from '../protocol/shown.ts'

/**
 * A frozen copy, so that neither who gave a value nor who reads it can change what the graph holds. Refuses what JSON would change or drop, and what is
 * nested in more levels than `most`; a member that is `undefined` counts as absent.
 */
export function plain(value: unknown, path: string, subject = 'commit', most = MOST_LEVELS): Json {
  try {
    return copied(value, undefined, most)
  } catch {
    return refusing(value, path, subject, most)
  }
}

/** An output may be as deep as anything that is given; what a node or an event puts around it comes on top. */
export const MOST_LEVELS_KEPT = MOST_LEVELS + 24

/** Goes the same way again, this time noting where it is: that would cost every copy more than the copying. */
function refusing(value: unknown, path: string, subject: string, most: number): Json {
  const way: Way = []
  try {
    return copied(value, way, most)
  } catch (error) {
    if (error instanceof NotJson) throw refused(subject, pathOf(way, path), error.message)
    if (error instanceof TooDeep) throw tooDeep(value, way, path, subject, most)
    throw unreadable(subject, pathOf(way, path), error)
  }
}

/** The refusal of a value for what lies at the end of a way, or for something on it that contains itself. */
export function tooDeep(value: unknown, way: Way, path: string, subject: string, most = MOST_LEVELS): InvalidInput {
  const { place = way.slice(0, MOST_NAMED), message } = endless(value, way, most)
  return new InvalidInput(subject, [{ path: pathOf(place, path), rule: 'json', message }])
}
/** Enough to tell one step's params from another's. */
const MOST_NAMED = 3

/** A frozen copy that is not copied again: a list that grows item by item would be copied whole each time. */
export function item<T>(value: T): T {
  if (ITEMS.has(value as object)) return value
  const copy = plain(value, '') as object
  ITEMS.add(copy)
  return copy as T
}
const ITEMS = new WeakSet<object>()

/** Freezes a value that is JSON already, and nobody else's. */
export function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const name in value) frozen(value[name])
  return Object.freeze(value)
}

/** Do two values say the same, in whatever order their members stand? */
export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (isList(a) || isList(b))
    return isList(a) && isList(b) && a.length === b.length && a.every((item, i) => sameJson(item, b[i]))
  let others = 0
  for (const name in b) if (b[name] !== undefined) others++
  for (const name in a) {
    if (a[name] === undefined) continue
    if (!Object.hasOwn(b, name) || !sameJson(a[name], b[name])) return false
    others--
  }
  return others === 0
}
const isList = (value: Json): value is readonly Json[] => Array.isArray(value)

class NotJson extends Error {}
class TooDeep extends Error {}

/** The way is where the copying is; when it stops at a flaw, it stays there. */
function copied(value: unknown, way: Way | undefined, levels: number): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value === 0 ? 0 : value // JSON knows no -0
    throw new NotJson(String(value))
  }
  if (typeof value !== 'object') throw new NotJson(shown(value))
  if (levels === 0) throw new TooDeep()
  return Object.freeze(Array.isArray(value) ? copiedList(value, way, levels - 1) : copiedObject(value, way, levels - 1))
}

function copiedList(list: readonly unknown[], way: Way | undefined, levels: number): Json[] {
  const copy = [...list] // as long as it has to be, where pushing would leave room for sixteen more
  for (let i = 0; i < copy.length; i++) {
    way?.push(i)
    if (!ITEMS.has(copy[i] as object)) copy[i] = copied(copy[i], way, levels)
    way?.pop()
  }
  return copy as Json[]
}

function copiedObject(object: object, way: Way | undefined, levels: number): { [name: string]: Json } {
  if (!isPlain(object)) throw new NotJson(`an instance of ${object.constructor?.name ?? 'a class'}`)
  const names = Object.keys(object)
  const copy = recordFor<Json>(names)
  for (const name of names) {
    way?.push(name)
    const member = (object as { [name: string]: unknown })[name]
    if (member !== undefined) setMember(copy, name, copied(member, way, levels))
    way?.pop()
  }
  return copy
}

const pathOf = (way: Way, path: string): string => way.reduce<string>(joined, path)
const joined = (path: string, part: string | number): string =>
  typeof part === 'number' ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`

const refused = (subject: string, path: string, found: string): InvalidInput =>
  new InvalidInput(subject, [{ path, rule: 'json', message: 'is not JSON', found }])
const unreadable = (subject: string, path: string, cause: unknown): InvalidInput =>
  new InvalidInput(subject, [{ path, rule: 'json', message: UNREADABLE }], { cause })
