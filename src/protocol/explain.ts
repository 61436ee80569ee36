import type { Problem } from './errors.ts'
import { fullFormats } from './formats.ts'
import { schemas } from './generated/schemas.ts'
import { isObject } from './json.ts'
import { problem } from './problem.ts'
import type { Schema, TypeName } from './schema.ts'
import { counted, shownPath } from './shown.ts'
import type { Kind } from './types.ts'

/**
 * Everything that is wrong with a value, at most `limit` problems. Slower than the compiled validators, which only
 * say yes or no; it goes no deeper than the schema does, so neither a deep nor a cyclic value can exhaust it.
 */
export function explain(kind: Kind, value: unknown, limit: number): Problem[] {
  const report: Report = { path: [], found: new Map(), limit }
  walk(report, schemas[kind], value)
  return [...report.found.values()]
}

interface Report {
  /** Where the walk is now. */
  readonly path: (string | number)[]
  /** By path and rule: two branches of an allOf may complain of the same thing. */
  readonly found: Map<string, Problem>
  readonly limit: number
}

function walk(report: Report, schema: Schema, value: unknown): void {
  if (report.found.size >= report.limit) return
  if (schema.$ref !== undefined) {
    walk(report, schemas[schema.$ref], value)
    return
  }
  const types = typeof schema.type === 'string' ? [schema.type] : schema.type
  if (types !== undefined && !types.some((type) => isOfType(type, value))) {
    blame(report, 'type', `must be ${types.map((type) => ARTICLED[type]).join(' or ')}`, value)
    return
  }
  if (schema.const !== undefined && value !== schema.const) blame(report, 'const', `must be ${schema.const}`, value)
  if (schema.enum !== undefined && !schema.enum.includes(value as string)) {
    blame(report, 'enum', `must be one of ${schema.enum.join(', ')}`, value)
  }
  if (typeof value === 'string') walkString(report, schema, value)
  else if (typeof value === 'number') walkNumber(report, schema, value)
  else if (Array.isArray(value)) walkArray(report, schema, value)
  else if (isObject(value)) walkObject(report, schema, value)
  for (const branch of schema.allOf ?? []) walk(report, branch, value)
}

function walkString(report: Report, schema: Schema, value: string): void {
  if (schema.minLength !== undefined && value.length < schema.minLength) {
    blame(report, 'min_length', 'must not be empty', value)
  }
  if (schema.pattern !== undefined && !patternOf(schema.pattern).test(value)) {
    blame(report, 'pattern', `must be ${schema.description ?? `like ${schema.pattern}`}`, value)
  }
  if (schema.format !== undefined && !isOfFormat(schema.format, value)) {
    blame(report, 'format', `must be ${FORMATS[schema.format]}`, value)
  }
}

function walkNumber(report: Report, { minimum, maximum }: Schema, value: number): void {
  if (minimum !== undefined && value < minimum) blame(report, 'minimum', `must be at least ${minimum}`, value)
  if (maximum !== undefined && value > maximum) blame(report, 'maximum', `must be at most ${maximum}`, value)
}

function walkArray(report: Report, schema: Schema, value: readonly unknown[]): void {
  if (schema.minItems !== undefined && value.length < schema.minItems) {
    blame(report, 'min_items', `must have at least ${counted(schema.minItems, 'item')}`, value)
  }
  if (schema.uniqueItems) {
    const twin = firstTwin(value)
    if (twin !== undefined) below(report, twin, () => blame(report, 'unique_items', 'is there twice', value[twin]))
  }
  const { items } = schema
  if (items === undefined) return
  for (let index = 0; index < value.length && report.found.size < report.limit; index++) {
    below(report, index, () => walk(report, items, value[index]))
  }
}

function walkObject(report: Report, schema: Schema, value: Readonly<Record<string, unknown>>): void {
  const properties = schema.properties ?? {}
  for (const key of schema.required ?? []) {
    if (value[key] === undefined) below(report, key, () => blame(report, 'required', 'is required'))
  }
  for (const [key, property] of Object.entries(properties)) {
    if (value[key] !== undefined) below(report, key, () => walk(report, property, value[key]))
  }
  if (schema.additionalProperties !== false) return
  for (const key in value) {
    if (report.found.size >= report.limit) return
    if (!Object.hasOwn(properties, key)) {
      below(report, key, () => blame(report, 'extra_forbidden', 'is not allowed here', value[key]))
    }
  }
}

function below(report: Report, step: string | number, visit: () => void): void {
  report.path.push(step)
  visit()
  report.path.pop()
}

function blame(report: Report, rule: string, message: string, ...found: [] | [unknown]): void {
  const path = shownPath(report.path)
  const key = `${path} ${rule}`
  if (report.found.size >= report.limit || report.found.has(key)) return
  report.found.set(key, problem(path, rule, message, ...found))
}

const ARTICLED: Readonly<Record<TypeName, string>> = {
  array: 'an array',
  boolean: 'a boolean',
  integer: 'an integer',
  null: 'null',
  number: 'a number',
  object: 'an object',
  string: 'a string',
}

function isOfType(type: TypeName, value: unknown): boolean {
  switch (type) {
    case 'array':
      return Array.isArray(value)
    case 'integer':
      return Number.isInteger(value)
    case 'null':
      return value === null
    case 'number':
      return Number.isFinite(value)
    case 'object':
      return isObject(value)
    default:
      return typeof value === type
  }
}

const FORMATS = {
  'date-time': 'a date-time with a time zone',
  email: 'an e-mail address',
  uri: 'a URI',
  uuid: 'a UUID',
} as const

function isOfFormat(name: keyof typeof FORMATS, value: string): boolean {
  const format = fullFormats[name]
  if (format instanceof RegExp) return format.test(value)
  const check = typeof format === 'function' ? format : (format as { validate: (text: string) => boolean }).validate
  return check(value)
}

const patterns = new Map<string, RegExp>()
function patternOf(text: string): RegExp {
  const known = patterns.get(text)
  if (known !== undefined) return known
  const pattern = new RegExp(text, 'u')
  patterns.set(text, pattern)
  return pattern
}

/** The place of the first string that was there before. */
function firstTwin(items: readonly unknown[]): number | undefined {
  const seen = new Set<unknown>()
  for (const [index, item] of items.entries()) {
    if (typeof item === 'string' && seen.has(item)) return index
    seen.add(item)
  }
  return undefined
}
