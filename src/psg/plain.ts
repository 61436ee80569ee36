import { InvalidInput } from '../protocol/errors.ts'
import { canonical, isPlain, type Json } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'

/**
 * A frozen copy, so that neither who gave a value nor who reads it can change what the graph holds. Refuses what JSON would change or drop; a
 * member that is `undefined` counts as absent.
 */
export function plain(value: unknown, path: string, subject = 'commit'): Json {
  const way: (string | number)[] = []
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

/** `way` holds where the copying is; when it stops at a flaw, it stays there. */
function copied(value: unknown, way: (string | number)[]): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value === 0 ? 0 : value // JSON knows no -0
    throw new NotJson(String(value))
  }
  if (typeof value !== 'object') throw new NotJson(shown(value))
  return Object.freeze(Array.isArray(value) ? copiedList(value, way) : copiedObject(value, way))
}

function copiedList(list: readonly unknown[], way: (string | number)[]): Json[] {
  const copy: Json[] = []
  for (let i = 0; i < list.length; i++) {
    way.push(i)
    copy.push(copied(list[i], way))
    way.pop()
  }
  return copy
}

function copiedObject(object: object, way: (string | number)[]): { [name: string]: Json } {
  if (!isPlain(object)) throw new NotJson(`an instance of ${object.constructor?.name ?? 'a class'}`)
  const names = Object.keys(object)
  const copy: { [name: string]: Json } = names.length > RECORD ? manyNamed() : {}
  for (const name of names) {
    const member = (object as { [name: string]: unknown })[name]
    if (member === undefined) continue
    way.push(name)
    const kept = copied(member, way)
    way.pop()
    if (name === '__proto__') Object.defineProperty(copy, name, { value: kept, enumerable: true })
    else copy[name] = kept
  }
  return copy
}

/** Above this its names are more likely ids than those of fields. */
const RECORD = 24
/** An object like any other, but held as a table of names: the engine would make a kind of object anew for every name, to throw it away. */
const manyNamed = (): { [name: string]: Json } => Object.setPrototypeOf(Object.create(null), Object.prototype)

const joined = (path: string, part: string | number): string =>
  typeof part === 'number' ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`

const refused = (subject: string, path: string, found: string): InvalidInput =>
  new InvalidInput(subject, [{ path, rule: 'json', message: 'is not JSON', found }])
