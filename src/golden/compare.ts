import { isObject, type Json, type JsonObject } from '../protocol/json.ts'

/** The first place where two values differ, in words; `undefined` when they are equal. Fields named in `volatile` need only be there. */
export function firstDifference(
  expected: Json,
  actual: Json,
  volatile: ReadonlySet<string>,
  path = '',
): string | undefined {
  const here = path === '' ? 'the value' : path
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual)) return `${here} must be a list, found ${brief(actual)}`
    for (let i = 0; i < Math.max(expected.length, actual.length); i++) {
      if (i >= actual.length) return `${path}[${i}] is missing: ${brief(expected[i]!)}`
      if (i >= expected.length) return `${path}[${i}] is one too many: ${brief(actual[i]!)}`
      const inner = firstDifference(expected[i]!, actual[i]!, volatile, `${path}[${i}]`)
      if (inner !== undefined) return inner
    }
    return undefined
  }
  if (isObject(expected)) {
    if (!isObject(actual)) return `${here} must be an object, found ${brief(actual)}`
    return inObjects(expected as JsonObject, actual as JsonObject, volatile, path)
  }
  return expected === actual ? undefined : `${here} must be ${brief(expected)}, found ${brief(actual)}`
}

/** The same, but only for what the wanted value speaks of: a document may have more fields than that. What `ignored` names need only be there. */
export function firstMiss(
  wanted: Json,
  found: Json,
  path = '',
  ignored: (path: string) => boolean = () => false,
): string | undefined {
  if (!isObject(wanted) || !isObject(found)) {
    if (!Array.isArray(wanted) || !Array.isArray(found) || wanted.length !== found.length)
      return firstDifference(wanted, found, new Set(), path)
    for (const [i, item] of wanted.entries()) {
      const inner = firstMiss(item, found[i]!, `${path}[${i}]`, ignored)
      if (inner !== undefined) return inner
    }
    return undefined
  }
  for (const [key, value] of Object.entries(wanted as JsonObject)) {
    const at = path === '' ? key : `${path}.${key}`
    if (!Object.hasOwn(found, key) || found[key] === undefined) return `${at} is missing: ${brief(value)}`
    if (ignored(at)) continue
    const inner = firstMiss(value, (found as JsonObject)[key]!, at, ignored)
    if (inner !== undefined) return inner
  }
  return undefined
}

/** As the protocol's own harness compares: what it leaves out differs between any two runs. */
export const firstUnlike = (wanted: Json, found: Json): string | undefined =>
  firstMiss(wanted, found, '', (path) => LEFT_OUT.some((name) => path === name || path.endsWith(`.${name}`)))

const LEFT_OUT = [
  ...['context_id', 'plan_id', 'confirm_id', 'trace_id', 'step_id', 'span_id', 'target_id', 'role_id', 'run_id'],
  ...['meta.created_at', 'meta.updated_at', 'requested_at', 'started_at', 'finished_at', 'timestamp', 'correlation_id'],
]

function inObjects(
  expected: JsonObject,
  actual: JsonObject,
  volatile: ReadonlySet<string>,
  path: string,
): string | undefined {
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const at = path === '' ? key : `${path}.${key}`
    if (actual[key] === undefined) return `${at} is missing: ${brief(expected[key]!)}`
    if (!(key in expected)) return `${at} is one too many: ${brief(actual[key]!)}`
    if (volatile.has(key)) continue
    const inner = firstDifference(expected[key]!, actual[key]!, volatile, at)
    if (inner !== undefined) return inner
  }
  return undefined
}

const brief = (value: Json): string => {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length <= 100 ? text : `${text.slice(0, 97)}…`
}
