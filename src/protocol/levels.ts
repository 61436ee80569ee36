/** Whatever walks through a value later must not run out of stack on it: a commit that is refused for it would take its whole run along. */
export const MOST_LEVELS = 1_000

/** The names and numbers that lead to a place in a value. */
export type Way = (string | number)[]

/** The way to something in a value that is nested more deeply than that; `undefined` when there is nothing. */
export function tooDeepIn(value: unknown): Way | undefined {
  const way: Way = []
  return goesTooDeep(value, way) ? way : undefined
}

function goesTooDeep(value: unknown, way: Way): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (way.length >= MOST_LEVELS) return true
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (leadsTooDeep(i, value[i], way)) return true
    return false
  }
  for (const name of Object.keys(value))
    if (leadsTooDeep(name, (value as { [name: string]: unknown })[name], way)) return true
  return false
}

function leadsTooDeep(part: string | number, value: unknown, way: Way): boolean {
  way.push(part)
  if (goesTooDeep(value, way)) return true
  way.pop()
  return false
}

/** What is to be told of a way that did not end: that it is too long, or, with the place, that something comes by for the second time. */
export function endless(value: unknown, way: Way, most = MOST_LEVELS): Endless {
  const passed = new Set<unknown>([value])
  let at = value
  for (const [i, part] of way.entries()) {
    at = Object(at)[part]
    if (typeof at !== 'object') break // it says itself by a toJSON, which is not called twice
    if (passed.has(at)) return { place: way.slice(0, i + 1), message: 'contains itself; leave it out there' }
    passed.add(at)
  }
  return { message: `is nested more than ${most} levels deep; give less, or text` }
}

interface Endless {
  readonly place?: Way
  readonly message: string
}
