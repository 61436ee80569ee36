import { InvalidInput, type Problem } from './errors.ts'
import { isObject, isPlain } from './json.ts'
import { problem } from './problem.ts'
import { shown } from './shown.ts'

/** What a member must be. */
export interface Field {
  /** Behind "must be". */
  readonly says: string
  readonly fits: (value: unknown) => boolean
  /** The rule that a value breaks which does not fit: `type` when absent. */
  readonly rule?: string
  /** It must be there. */
  readonly needed?: true
  /** Is never shown. */
  readonly secret?: true
}

/** What the members of an object must be; `*` stands for every other. */
export type Fields = { readonly [name: string]: Field | Fields }

export const text: Field = {
  says: 'text that is not empty',
  fits: (value) => typeof value === 'string' && value !== '',
}
export const anything: Field = { says: 'anything', fits: () => true }
export const flag: Field = { says: 'true or false', fits: (value) => typeof value === 'boolean' }
export const object: Field = { says: 'an object', fits: isObject }
/** What is read by the names of its members: a Map, a promise or an instance with methods only would count as empty. */
export const members: Field = {
  says: 'a plain object',
  fits: (value) => isObject(value) && (isPlain(value) || Object.keys(value).length > 0),
}
export const list: Field = { says: 'a list', fits: Array.isArray }
export const objects: Field = {
  says: 'a list of objects',
  fits: (value) => Array.isArray(value) && value.every(isObject),
}
export const texts: Field = {
  says: 'a list of texts that are not empty',
  fits: (value) => Array.isArray(value) && value.every(text.fits),
}
export const positive: Field = {
  says: 'a number above 0',
  fits: (value) => Number.isFinite(value) && Number(value) > 0,
}
export const amount: Field = {
  says: 'a number of at least 0',
  fits: (value) => Number.isFinite(value) && Number(value) >= 0,
}
export const count: Field = {
  says: 'a whole number above 0',
  rule: 'count',
  fits: (value) => Number.isSafeInteger(value) && Number(value) > 0,
}
export const time: Field = {
  says: 'a date and time with a zone',
  rule: 'format',
  fits: (value) =>
    typeof value === 'string' &&
    (PLAIN_TIME.test(value) || (TIME.test(value) && !Number.isNaN(Date.parse(value)) && isDay(value))),
}
/** What needs no calendar to be a date and time: our own stamps, above all. */
export const PLAIN_TIME = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z$/
const TIME = /^\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/
/** Node takes the 30th of February for the 2nd of March. */
const isDay = (time: string): boolean =>
  time.slice(8, 10) <= '28' || new Date(time.slice(0, 10)).toISOString().startsWith(time.slice(0, 10))

export const uuid: Field = {
  says: 'a UUID v4 in lower case',
  rule: 'pattern',
  fits: (value) => typeof value === 'string' && UUID.test(value),
}
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

export const url: Field = {
  says: 'a URL',
  rule: 'format',
  fits: (value) => typeof value === 'string' && URL.canParse(value),
  secret: true, // it may hold a password
}

export const oneOf = (...values: readonly string[]): Field => ({
  says: `one of ${values.join(', ')}`,
  rule: 'enum',
  fits: (value) => values.includes(value as string),
})
export const within = (least: number, most: number): Field => ({
  says: `a number from ${least} to ${most}`,
  rule: 'range',
  fits: (value) => typeof value === 'number' && value >= least && value <= most,
})
export const wholeFrom = (least: number, most = Number.MAX_SAFE_INTEGER): Field => ({
  says: most === Number.MAX_SAFE_INTEGER ? `a whole number from ${least}` : `a whole number from ${least} to ${most}`,
  rule: 'range',
  fits: (value) => Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most,
})
export const method: Field = { says: 'a function', fits: (value) => typeof value === 'function' }
export const having = (says: string, ...methods: readonly string[]): Field => ({
  says,
  fits: (value) => methods.every((name) => typeof Object(value)[name] === 'function'),
})
export const clock = having('a clock', 'now', 'uuid', 'random', 'sleep')
export const signal = having('an AbortSignal', 'addEventListener', 'throwIfAborted')
export const needed = (field: Field): Field => ({ ...field, needed: true })

/** Beyond this a timer of Node fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1
/** How long something may take while a process waits for it. */
export const duration = within(0, LONGEST_TIMER_MS)
export const timeout = within(1, LONGEST_TIMER_MS)

/** Throws InvalidInput for an object with members that are not known, not there or not what they must be. */
export function refuseUnlessFit(what: string, given: unknown, fields: Fields): void {
  const problems = problemsIn(given, fields, '')
  if (problems.length > 0) throw new InvalidInput(what, problems)
}

/** A function for callers whom nobody has checked: its arguments, in their order, must be what the fields say. Throws InvalidInput. */
export function guarded<F extends (...args: never[]) => unknown>(what: string, args: Fields, inner: F): F {
  const names = Object.keys(args)
  return ((...given: never[]) => {
    refuseUnlessFit(what, Object.fromEntries(names.map((name, i) => [name, given[i]])), args)
    return inner(...given)
  }) as F
}

/** Of so many problems each is told; what is wrong throughout would be compared with what is right for minutes. */
const MOST_PROBLEMS = 100

/** What is wrong with an object by its fields: of the wrong type, not known (with a suggestion), not there. */
export function problemsIn(value: unknown, fields: Fields, at: string): readonly Problem[] {
  const refused = ({ says }: Field) => [problem(at, 'type', `must be ${says}`, value)]
  if (!isObject(value)) return refused(object)
  if (!members.fits(value)) return refused(members)
  const problems: Problem[] = []
  const pathTo = (name: string) => (at === '' ? name : `${at}.${name}`)
  for (const name of Object.keys(fields)) {
    const field = fields[name]!
    if (value[name] === undefined && isField(field) && field.needed)
      problems.push({ path: pathTo(name), rule: 'required', message: 'is missing' })
  }
  for (const name of Object.keys(value)) {
    if (problems.length >= MOST_PROBLEMS) break
    const found = value[name]
    const field = Object.hasOwn(fields, name) ? fields[name]! : fields['*']
    if (field === undefined) {
      problems.push({ path: pathTo(name), rule: 'extra_forbidden', message: notAmong(name, Object.keys(fields)) })
    } else if (found === undefined) continue
    else if (!isField(field)) problems.push(...problemsIn(found, field, pathTo(name)))
    else if (!field.fits(found)) {
      const { rule = 'type', says, secret } = field
      problems.push({ path: pathTo(name), rule, message: `must be ${says}`, found: secret ? '***' : shown(found) })
    }
  }
  return problems
}

export const isField = (field: Field | Fields): field is Field => typeof field.fits === 'function'

/** What is said of a name that is none of those that are known; `called` is how whoever gave it calls the one that may be meant. */
export function notKnown(name: string, names: readonly string[], called = (near: string) => near): string {
  return `is not known${perhaps(name, names, called)}`
}

/** So many names can be read at a glance. */
const MOST_NAMED = 16

/** The same of a field; where nothing is like it, it says which there are. */
function notAmong(name: string, names: readonly string[]): string {
  const near = perhaps(name, names)
  const all = near === '' && names.length <= MOST_NAMED ? `; known are ${names.join(', ')}` : ''
  return `is not known${near}${all}`
}

/** Asks whether the known name that differs least was meant, if it differs little. */
export function perhaps(name: string, names: readonly string[], called = (near: string) => near): string {
  const near = nearest(name, names)
  return near === undefined ? '' : `; did you mean ${called(near)}?`
}

/** Wrong names are compared with so many that are right; whoever got all of a long flow wrong would wait for minutes, and a server with him. */
const MOST_COMPARED = 10_000

/** Gives the names to compare a wrong one with, until that were enough. */
export function comparedSparingly(): (names: readonly string[]) => readonly string[] {
  let compared = 0
  return (names) => {
    if (compared >= MOST_COMPARED) return []
    compared += names.length
    return names
  }
}

/** The known name that differs least, if it differs little. */
function nearest(name: string, names: readonly string[]): string | undefined {
  if (name.length > LONGEST_COMPARED) return undefined
  const [best] = names
    .filter((known) => Math.abs(known.length - name.length) <= MOST_SLIPS) // a long name is not looked at letter by letter
    .map((known) => ({ known, distance: distance(name.toLowerCase(), known) }))
    .filter(({ known, distance }) => distance <= slipsIn(Math.min(name.length, known.length)))
    .sort((a, b) => a.distance - b.distance)
  return best?.known
}

/** In a name of so many letters: one for another is no slip where there is but one. */
const slipsIn = (letters: number): number => Math.min(MOST_SLIPS, Math.ceil(letters / 2), letters - 1)

const MOST_SLIPS = 3
/** Comparing takes the square of it. */
const LONGEST_COMPARED = 50

/** Levenshtein's. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
    row = next
  }
  return row[b.length]!
}
