import { InvalidInput } from './errors.ts'
import type { Json } from './json.ts'
import { isSingle, parsePath, type SinglePath, valueAt } from './paths.ts'
import { problem } from './problem.ts'
import { shownPath } from './shown.ts'

/** One rule of the invariant language. */
export type Rule =
  | {
      readonly name: 'uuid-v4' | 'non-empty-string' | 'exists' | 'iso-datetime' | 'positive-integer' | 'optional-string'
    }
  | { readonly name: 'eq'; readonly literal: Json }
  | { readonly name: 'eq'; readonly path: SinglePath }
  | { readonly name: 'min-length'; readonly length: number }
  | { readonly name: 'enum' | 'one-of'; readonly values: readonly Json[] }
  | { readonly name: 'if'; readonly condition: Condition; readonly rule: Rule }

/** `status == "rejected"`, `status != "draft"` or `exists(reason)`. */
export type Condition =
  | { readonly operator: '==' | '!='; readonly path: SinglePath; readonly literal: Json }
  | { readonly operator: 'exists'; readonly path: SinglePath }

/** Throws InvalidInput for a rule it does not know: in the protocol's harness such a rule passes, and checks nothing. */
export function parseRule(text: string): Rule {
  if (typeof text !== 'string' || text.length > LONGEST) throw unknownRule(text)
  const [, name, inside] = CALL.exec(text.trim()) ?? []
  switch (name) {
    case 'uuid-v4':
    case 'non-empty-string':
    case 'exists':
    case 'iso-datetime':
    case 'positive-integer':
    case 'optional-string':
      if (inside === undefined) return { name }
      break
    case 'eq':
      if (inside?.startsWith('"')) return { name, literal: literalIn(inside, text) }
      if (inside) return { name, path: onePlace(inside, text) }
      break
    case 'min-length':
      if (inside !== undefined && /^\d{1,9}$/.test(inside)) return { name, length: Number(inside) }
      break
    case 'enum':
      if (inside) return { name, values: inside.split(',').map((value) => value.trim()) }
      break
    case 'one-of': {
      const values = literalIn(inside ?? '', text)
      if (Array.isArray(values)) return { name, values }
      break
    }
    case 'if': {
      const comma = topLevelComma(inside ?? '')
      if (inside === undefined || comma === -1) break
      return { name, condition: parseCondition(inside.slice(0, comma)), rule: parseRule(inside.slice(comma + 1)) }
    }
  }
  throw unknownRule(text)
}

/** Throws InvalidInput for anything but the three forms above. */
export function parseCondition(text: string): Condition {
  const [, operand] = /^\s*exists\(([^()]+)\)\s*$/.exec(text) ?? []
  if (operand !== undefined) return { operator: 'exists', path: onePlace(operand, text) }
  const [, left, operator, right] = /^\s*([^=!\s]+)\s*(==|!=)\s*(.+?)\s*$/s.exec(text) ?? []
  if (left === undefined || right === undefined) throw unknownRule(text)
  return { operator: operator as '==' | '!=', path: onePlace(left, text), literal: literalIn(right, text) }
}

/** Is the condition true of this object? */
export function applies(condition: Condition, subject: unknown): boolean {
  const value = valueAt(subject, condition.path)
  if (condition.operator === 'exists') return value !== undefined && value !== null
  return (value === condition.literal) === (condition.operator === '==')
}

/** What is wrong with a value; undefined if nothing is. `root` answers eq(path), `subject` the condition of an if. */
export function complaint(rule: Rule, value: unknown, subject: unknown, root: unknown): string | undefined {
  switch (rule.name) {
    case 'uuid-v4':
      return typeof value === 'string' && UUID_V4.test(value) ? undefined : 'must be a UUID v4'
    case 'non-empty-string':
      return typeof value === 'string' && value.trim() !== '' ? undefined : 'must be a string that is not blank'
    case 'exists':
      return value !== undefined && value !== null ? undefined : 'must be there'
    case 'iso-datetime':
      return typeof value === 'string' && !Number.isNaN(Date.parse(value)) ? undefined : 'must be an ISO date-time'
    case 'positive-integer':
      return Number.isInteger(value) && (value as number) > 0 ? undefined : 'must be a positive integer'
    case 'optional-string':
      return value === undefined || typeof value === 'string' ? undefined : 'must be a string where it is there'
    case 'eq': {
      const other = 'path' in rule ? valueAt(root, rule.path) : rule.literal
      if (other !== undefined && value === other) return undefined
      return `must equal ${'path' in rule ? shownPath(rule.path) : JSON.stringify(rule.literal)}`
    }
    case 'min-length':
      return lengthOf(value) >= rule.length ? undefined : `must have a length of at least ${rule.length}`
    case 'enum':
    case 'one-of':
      return rule.values.includes(value as Json) ? undefined : `must be one of ${rule.values.join(', ')}`
    case 'if':
      return applies(rule.condition, subject) ? complaint(rule.rule, value, subject, root) : undefined
    default:
      rule satisfies never
  }
}

const LONGEST = 10_000 // an `if` may hold an `if`: without an end, a long enough rule would use up the stack
const CALL = /^([a-z][a-z0-9-]*)(?:\((.*)\))?$/s
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i
const lengthOf = (value: unknown): number => (typeof value === 'string' || Array.isArray(value) ? value.length : -1)

function literalIn(text: string, rule: string): Json {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw unknownRule(rule, cause)
  }
}

/** A path that leads to one place, as arguments must. */
function onePlace(text: string, rule: string): SinglePath {
  const path = parsePath(text.trim())
  if (isSingle(path)) return path
  throw unknownRule(rule)
}

function topLevelComma(text: string): number {
  let depth = 0
  let quoted = false
  for (let index = 0; index < text.length; index++) {
    const char = text[index]
    if (quoted) {
      if (char === '\\') index++
      else if (char === '"') quoted = false
    } else if (char === '"') quoted = true
    else if (char === '(' || char === '[') depth++
    else if (char === ')' || char === ']') depth--
    else if (char === ',' && depth === 0) return index
  }
  return -1
}

function unknownRule(text: string, cause?: unknown): InvalidInput {
  const problems = [problem('', 'rule_grammar', 'is not a rule of the invariant language', text)]
  return new InvalidInput('rule', problems, cause === undefined ? undefined : { cause })
}
