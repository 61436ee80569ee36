import { types } from 'node:util'
import { InvalidInput } from './errors.ts'
import { isPlain, type Json, recordFor, setMember } from './json.ts'
import { endless, MOST_LEVELS, type Way } from './levels.ts'
import { shownPath } from './shown.ts'

/**
 * The copy that going through JSON text would make, `toJSON` and all; `undefined` for what has no text. Throws InvalidInput for a value that would
 * come back as another one: it names the place in `whole`, and says what to give instead.
 */
export function jsonCopy(value: unknown, subject: string, whole: string): Json | undefined {
  const way: Way = [] // where the copying is; when it stops at a flaw, it stays there
  try {
    return copied(value, way)
  } catch (cause) {
    const { place = [], message } =
      cause instanceof TooDeep ? endless(value, way) : { place: way, message: flaw(cause) }
    const problem = { path: shownPath([whole, ...place]), rule: 'json', message }
    throw new InvalidInput(subject, [problem], cause instanceof Untold ? undefined : { cause })
  }
}

class Untold extends Error {}
class TooDeep extends Untold {}

function copied(value: unknown, way: Way): Json | undefined {
  const told = typeof value === 'object' || typeof value === 'bigint' ? toldBy(value, way) : value
  if (typeof told !== 'object' || told === null) return primitive(told)
  if (way.length >= MOST_LEVELS) throw new TooDeep()
  if (Array.isArray(told)) return copiedList(told, way)
  if (isPlain(told)) return copiedObject(told, way)
  if (types.isBoxedPrimitive(told)) return primitive(told.valueOf())
  refuseLoss(told)
  return copiedObject(told, way)
}

function primitive(value: unknown): Json | undefined {
  switch (typeof value) {
    case 'number':
      if (Number.isFinite(value)) return value === 0 ? 0 : value // JSON knows no -0
      throw new Untold(`is ${value}, which JSON would make null; give null or text instead`)
    case 'bigint':
      throw new Untold('is a bigint, which JSON does not know; give text or a number instead')
    case 'function':
    case 'symbol':
      throw new Untold(`is a ${typeof value}, which JSON would leave out; leave it out, or give text instead`)
    default:
      return value as null | undefined | string | boolean
  }
}

function copiedList(list: readonly unknown[], way: Way): Json[] {
  const copy: Json[] = []
  for (let i = 0; i < list.length; i++) {
    way.push(i)
    copy.push(copied(list[i], way) ?? null)
    way.pop()
  }
  return copy
}

function copiedObject(object: object, way: Way): Json {
  const names = Object.keys(object)
  const copy = recordFor<Json>(names)
  for (const name of names) {
    way.push(name)
    const kept = copied((object as { [name: string]: unknown })[name], way)
    way.pop()
    if (kept !== undefined) setMember(copy, name, kept)
  }
  return copy
}

/** What something says of itself, where it does. */
function toldBy(value: object | bigint | null, way: Way): unknown {
  const toJSON = (value as { toJSON?: unknown } | null)?.toJSON
  if (typeof toJSON !== 'function') return value
  if (isBytes(value)) throw new Untold(BYTES)
  if (types.isDate(value) && Number.isNaN(value.getTime()))
    throw new Untold('is no valid date, which JSON would make null; give null or text instead')
  return toJSON.call(value, String(way.at(-1) ?? ''))
}

const isBytes = (value: unknown): boolean => ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)
const BYTES = 'holds bytes, which JSON does not know; give text instead, such as their base64'

/** What these hold is not in fields of their own, which are all that JSON tells. */
const LOSSES: readonly (readonly [(value: unknown) => boolean, string])[] = [
  [isBytes, BYTES],
  [types.isMap, 'is a Map, of which JSON tells nothing; give Object.fromEntries of it, or a list'],
  [types.isSet, 'is a Set, of which JSON tells nothing; give a list'],
  [types.isPromise, 'is a promise, of which JSON tells nothing; await it'],
  [types.isNativeError, 'is an error, whose message JSON does not tell; throw it, or give its message'],
]

function refuseLoss(value: object): void {
  const loss = LOSSES.find(([fits]) => fits(value))
  if (loss) throw new Untold(loss[1])
  if (Object.keys(value).length > 0) return
  const { name } = Object(value.constructor) as { name?: unknown }
  throw new Untold(
    `is ${name ? `an instance of ${String(name)}` : 'an object'} without fields of its own, of which JSON tells nothing; give a plain object, or its class a toJSON`,
  )
}

/** Said of what threw while it was copied. */
export const UNREADABLE = 'throws when it is read; give a copy of what it holds'
const flaw = (cause: unknown): string => (cause instanceof Untold ? cause.message : UNREADABLE)
