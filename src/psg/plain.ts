import { InvalidInput } from '../protocol/errors.ts'
import { canonical, isPlain, type Json, recordFor, setMember } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'

/**
 * A frozen copy, so that neither who gave a value nor who reads it can change what the graph holds. Refuses what JSON would change or drop; a
 * member that is `undefined` counts as absent.
 */
export function plain(value: unknown, path: string, subject = 'commit'): Json {
  try {
    return copied(value, undefined)
  } catch {
    return refusing(value, path, subject)
  }
}

/** Goes the same way again, this time noting where it is: that would cost every copy more than the copying. */
function refusing(value: unknown, path: string, subject: string): Json {
  const way: Way = []
  try {
    return copied(value, way)
  } catch (error) {
    if (error instanceof NotJson) throw refused(subject, way.reduce<string>(joined, path), error.message)
    if (error instanceof RangeError)
      throw refused(
        subject,
        way.slice(0, 1).reduce<string>(joined, path),
        'something that contains itself, or is nested too deeply',
      )
    throw error
  }
}

/** Freezes a value that is JSON already, and nobody else's. */
export function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const name in value) frozen(value[name])
  return Object.freeze(value)
}

/** Do two values say the same, in whatever order their members stand? */
export const sameJson = (a: Json | undefined, b: Json | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && canonical(a) === canonical(b))

class NotJson extends Error {}

/** Where the copying is; when it stops at a flaw, it stays there. */
type Way = (string | number)[]

function copied(value: unknown, way: Way | undefined): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value === 0 ? 0 : value // JSON knows no -0
    throw new NotJson(String(value))
  }
  if (typeof value !== 'object') throw new NotJson(shown(value))
  return Object.freeze(Array.isArray(value) ? copiedList(value, way) : copiedObject(value, way))
}

function copiedList(list: readonly unknown[], way: Way | undefined): Json[] {
  const copy = [...list] // as long as it has to be, where pushing would leave room for sixteen more
  for (let i = 0; i < copy.length; i++) {
    way?.push(i)
    copy[i] = copied(copy[i], way)
    way?.pop()
  }
  return copy as Json[]
}

function copiedObject(object: object, way: Way | undefined): { [name: string]: Json } {
  if (!isPlain(object)) throw new NotJson(`an instance of ${object.constructor?.name ?? 'a class'}`)
  const names = Object.keys(object)
  const copy = recordFor<Json>(names)
  for (const name of names) {
    const member = (object as { [name: string]: unknown })[name]
    if (member === undefined) continue
    way?.push(name)
    const kept = copied(member, way)
    way?.pop()
    setMember(copy, name, kept)
  }
  return copy
}

const joined = (path: string, part: string | number): string =>
  typeof part === 'number' ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`

const refused = (subject: string, path: string, found: string): InvalidInput =>
  new InvalidInput(subject, [{ path, rule: 'json', message: 'is not JSON', found }])
