import { hash } from 'node:crypto'
import { InvalidInput } from './errors.ts'
import { problem } from './problem.ts'

/** Any value that survives a trip through JSON text. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export type JsonObject = { readonly [key: string]: Json }

/**
 * The same as it is given to us, also by an interface, of which the compiler cannot know that it is no more than JSON: that is looked at. A date, and
 * what else becomes JSON only by a `toJSON`, is none.
 */
export type JsonGiven =
  | null
  | boolean
  | number
  | string
  | ((object | { readonly [name: string]: unknown }) & { readonly toJSON?: never })

/** `sha256:` and 64 lower-case hex digits. */
export type Digest = `sha256:${string}`

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An object that is no more than its members. Also when it comes from another realm, whose Object.prototype is not ours. */
export function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/**
 * An object like any other, for names that are ids. The engine holds whatever members were taken out of as a table of names; of an ordinary object it
 * would make a new kind for every name, and search ever more of them.
 */
export function table<T>(): { [name: string]: T } {
  const made: { first?: T; second?: T } = { first: undefined, second: undefined } as object
  delete made.first
  delete made.second
  return made as { [name: string]: T }
}

/**
 * An object like any other, for members that come one by one. What grows from `{}` shares the engine's memory of which member follows which with all
 * that do so in the process. That memory is bounded: once a service has made some thousand objects that each begin with another name, every further one
 * is a kind of its own, and a step would take twice as long.
 */
export const fresh = <T>(): { [name: string]: T } => new (Fresh as unknown as new () => { [name: string]: T })()
function Fresh(): void {}
Fresh.prototype = Object.prototype

/** Sets a member, whatever it is called. */
export function setMember<T>(object: { [name: string]: T }, name: string, value: T): void {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  else object[name] = value
}

/** An object for members of these names: they are those of things rather than of fields when there are many, or when they are as long as an id. */
export const recordFor = <T>(names: readonly string[]): { [name: string]: T } =>
  names.length > MOST_FIELDS || names[0]?.length === ID_LENGTH ? table() : fresh()
const MOST_FIELDS = 24
const ID_LENGTH = 36

/** Is this the name of a member? What only turns into its name when it is read as text is not. */
export const isNameIn = <T extends object>(table: T, name: unknown): name is keyof T =>
  typeof name === 'string' && Object.hasOwn(table, name)

/** The one text of a value: keys sorted by code unit, no spaces. Equal values have equal text. Throws InvalidInput for what is no JSON. */
export function canonical(value: Json): string {
  try {
    return textOf(value)
  } catch (cause) {
    if (cause instanceof InvalidInput) throw cause
    throw noJson(cause instanceof RangeError ? 'has no end or is nested too deeply' : 'holds what has no text', cause)
  }
}

function textOf(value: Json): string {
  if (typeof value === 'string') return quoted(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? JSON.stringify(value) : unsayable(String(value))
  if (typeof value !== 'object') return unsayable(typeof value)
  if (Array.isArray(value)) {
    let text = '['
    for (let i = 0; i < value.length; i++) text += i === 0 ? textOf(value[i]) : `,${textOf(value[i])}`
    return `${text}]`
  }
  if (!isPlain(value)) return unsayable(`an instance of ${value.constructor?.name ?? 'a class'}`)
  const object = value as JsonObject
  let text = '{'
  for (const key of sorted(Object.keys(object))) {
    const member = object[key]
    if (member === undefined) continue
    if (text.length > 1) text += ','
    text += nameText(key)
    text += textOf(member)
  }
  return `${text}}`
}

/** A name with its colon. The same few come again and again. */
function nameText(name: string): string {
  const known = NAMES.get(name)
  if (known !== undefined) return known
  const text = `${quoted(name)}:`
  if (NAMES.size < MOST_NAMES && name.length < ID_LENGTH) NAMES.set(name, text)
  return text
}
const NAMES = new Map<string, string>()
const MOST_NAMES = 1_000

/** Two that differ would have the same text: what was found for one, or agreed to of it, would be taken to be about the other. */
function unsayable(found: string): never {
  throw noJson(`holds a value that is ${found}`)
}

const noJson = (message: string, cause?: unknown): InvalidInput =>
  new InvalidInput('JSON', [{ path: '', rule: 'json', message }], { cause })

/** In place. Few are sorted as they are found, since calling upon the engine's own sort takes longer than that. */
function sorted(keys: string[]): string[] {
  if (keys.length > 16) return keys.sort()
  for (let i = 1; i < keys.length; i++) {
    const key = keys[i]!
    let at = i
    for (; at > 0 && keys[at - 1]! > key; at--) keys[at] = keys[at - 1]!
    keys[at] = key
  }
  return keys
}

/** As JSON.stringify does, which is slower where there is nothing to escape. */
const quoted = (text: string): string => (ESCAPED.test(text) ? JSON.stringify(text) : `"${text}"`)
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON escapes
const ESCAPED = /["\\\u0000-\u001f\ud800-\udfff]/

/** Near enough to the length of a value's JSON text, at a fraction of the price. */
export function roughBytes(value: Json): number {
  if (typeof value === 'string') return value.length + 2
  if (typeof value !== 'object' || value === null) return 4
  let bytes = 2
  if (Array.isArray(value)) for (let i = 0; i < value.length; i++) bytes += roughBytes(value[i]!) + 1
  else for (const key in value) bytes += key.length + 4 + roughBytes((value as JsonObject)[key]!)
  return bytes
}

/** Throws InvalidInput for what is neither text nor bytes. */
export function digestOf(bytes: string | Uint8Array): Digest {
  if (typeof bytes === 'string' || bytes instanceof Uint8Array) return `sha256:${hash('sha256', bytes, 'hex')}`
  throw new InvalidInput('content', [problem('', 'type', 'is neither text nor bytes', bytes)])
}

/** The digest of what a value says, whatever the order of its keys. */
export const digestOfJson = (value: Json): Digest => digestOf(canonical(value))

/** A UUID v4 made of a text: the same for the same text, for what two makers must name alike. Throws InvalidInput for what is no text. */
export function uuidOf(text: string): string {
  if (typeof text !== 'string') throw new InvalidInput('uuid', [problem('', 'type', 'is made of a text', text)])
  return uuidIn(hash('sha256', text, 'hex'), '8')
}

/** A UUID v4 of these hex digits; `variant` is the one that begins its fourth part. */
export const uuidIn = (hex: string, variant: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
