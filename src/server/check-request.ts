import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { Body } from './route.ts'

/** A parameter that nobody reads would be taken for one that was minded, and of two values for one name either could be meant. */
export function checkQuery(query: object, known: readonly string[]): void {
  const twice = known.filter((path) => Array.isArray((query as { readonly [name: string]: unknown })[path]))
  const problems = twice.map((path) => ({ path, rule: 'once', message: 'is given more than once' }))
  refuseAny('query', [...unknownIn(query, known), ...problems])
}

/** The body as its schema's `properties` have it. One that is only named by its kind is looked at by those who take it. */
export function bodyOf(body: unknown, schema: Body): unknown {
  const { properties } = schema
  if (!properties) return body
  const fields = isNeeded(schema) ? body : (body ?? {})
  if (!isObject(fields))
    throw new InvalidInput('body', [{ path: '', rule: 'type', message: 'must be an object', found: shown(body) }])
  refuseAny('body', unknownIn(fields, Object.keys(properties)))
  return fields
}

/** May it not be left out? */
export const isNeeded = ({ $ref, required, anyOf }: Body): boolean =>
  $ref !== undefined || required !== undefined || anyOf !== undefined

function unknownIn(given: object, known: readonly string[]): readonly Problem[] {
  const message = `is not known; ${known.length === 0 ? 'there is none here' : `known are ${known.join(', ')}`}`
  const unknown = Object.keys(given).filter((path) => !known.includes(path))
  return unknown.map((path) => ({ path, rule: 'extra_forbidden', message }))
}

function refuseAny(what: string, problems: readonly Problem[]): void {
  if (problems.length > 0) throw new InvalidInput(what, problems)
}
