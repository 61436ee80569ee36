import { InvalidInput } from './errors.ts'
import { isObject, type Json } from './json.ts'
import { problem } from './problem.ts'

/** One step of a path: a property, a place in an array, or every place of it. */
export type PathStep = string | number | typeof EVERY
export type Path = readonly PathStep[]
export const EVERY = Symbol('[*]')

/** `steps[*].step_id`, `decisions[0]`, `meta.tags`; anything else in brackets is an error. */
export function parsePath(text: string): Path {
  if (typeof text !== 'string') throw badPath(text)
  const steps: PathStep[] = []
  for (const part of text.split('.')) {
    const [, name, brackets] = PART.exec(part) ?? []
    if (name === undefined || brackets === undefined) throw badPath(text)
    steps.push(name)
    for (const [, inside] of brackets.matchAll(BRACKET)) steps.push(inside === '*' ? EVERY : Number(inside))
  }
  return steps
}

/**
 * Visits every place a path leads to, with what is there and where exactly that is; `at` is good during the visit only. `[*]` leads to each item of an
 * array, of which there may be none; a step that cannot be taken leads to one place with nothing in it.
 */
export function eachPlace(root: unknown, path: Path, visit: (value: unknown, at: SinglePath) => void): void {
  if (isSingle(path)) return visit(valueAt(root, path), path)
  const at: (string | number)[] = []
  const go = (value: unknown): void => {
    const step = path[at.length]
    if (step === undefined) visit(value, at)
    else if (step !== EVERY) to(step, taken(value, step))
    else if (Array.isArray(value)) value.forEach((item, index) => void to(index, item))
  }
  const to = (step: string | number, value: unknown): void => {
    at.push(step)
    go(value)
    at.pop()
  }
  go(root)
}

/** A path without `[*]`. */
export type SinglePath = readonly (string | number)[]
export const isSingle = (path: Path): path is SinglePath => !path.includes(EVERY)

export function valueAt(root: unknown, path: SinglePath): unknown {
  let value = root
  for (const step of path) value = taken(value, step)
  return value
}

/** What the parts of `a.0.b` lead to: members of objects, places in lists. */
export function valueIn(root: Json | undefined, parts: readonly string[]): Json | undefined {
  let value: unknown = root
  for (const part of parts) value = taken(value, Array.isArray(value) && /^\d+$/.test(part) ? Number(part) : part)
  return value as Json | undefined
}

const PART = /^([^.[\]\s]+)((?:\[(?:\*|\d+)\])*)$/
const BRACKET = /\[(\*|\d+)\]/g

function taken(value: unknown, step: string | number): unknown {
  if (typeof step === 'number') return Array.isArray(value) ? value[step] : undefined
  return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined
}

const badPath = (text: string): InvalidInput =>
  new InvalidInput('path', [problem('', 'path_grammar', 'is not a path: names, dots, [n] and [*]', text)])
