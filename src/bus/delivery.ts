import { Corrupt, InvalidInput, type Problem } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import type { After, Delivery, Place } from './transport.ts'

/** Does this place stand after that one? */
export const isAfter = (place: Place, after: After): boolean => order(place, after) > 0

/** Does this place stand before that one? */
export const isBefore = (place: Place, after: After): boolean => order(place, after) < 0

/** Every delivery of a commit stands at the commit's own place. */
function order({ position, index }: Place, after: After): number {
  const other = typeof after === 'string' ? after : after.position
  if (position !== other) return position < other ? -1 : 1
  return typeof after === 'string' ? 0 : index - after.index
}

/** Is it the delivery that stands at that place, or, where the place is a whole commit's, one of that commit? */
export const isAt = (place: Place, at: After): boolean =>
  typeof at === 'string'
    ? place.position === at
    : place.position === at.position &&
      place.graph_id === at.graph_id &&
      place.revision === at.revision &&
      place.index === at.index

/** For a place that a carrier has not come to: who waited behind it would miss all that comes until then. */
export const aheadOf = (where: string, after: After): InvalidInput =>
  new InvalidInput('subscription', [
    {
      path: 'after',
      rule: 'position',
      message: `is ahead of ${where}, as after an older backup was put back; begin without it, or come back once the relay has brought as much`,
      found: typeof after === 'string' ? after : after.position,
    },
  ])

export const placeOf = ({ position, graph_id, revision, index }: Place): Place => ({
  position,
  graph_id,
  revision,
  index,
})

/** Refuses a batch that holds anything but deliveries; the events themselves were validated when they were committed. */
export function checkBatch(batch: readonly Delivery[]): void {
  if (!Array.isArray(batch))
    throw new InvalidInput('batch', [{ path: '', rule: 'list', message: 'is not a list', found: typeof batch }])
  for (const [i, delivery] of batch.entries()) {
    const problems = deliveryProblems(delivery, `[${i}]`)
    if (problems.length > 0) throw new InvalidInput('batch', problems)
  }
}

/** The delivery in a carrier's message; throws Corrupt, naming `where`, when it holds something else. */
export function readDelivery(text: string, where: string): Delivery {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new Corrupt(where, 'it is no JSON; look for another program that writes there', { cause })
  }
  return asDelivery(value, where)
}

export function asDelivery(value: unknown, where: string): Delivery {
  const [problem] = deliveryProblems(value, '')
  if (problem) {
    const what = problem.path === '' ? 'it' : `its ${problem.path}`
    throw new Corrupt(where, `${what} ${problem.message}; look for another program that writes there`)
  }
  return value as Delivery
}

/** What is wrong with what should be a position, a place, or nothing. */
export function checkAfter(after: unknown): Problem[] {
  if (after === undefined || typeof after === 'string') return []
  if (!isObject(after))
    return [{ path: 'after', rule: 'place', message: 'is neither a position nor a place', found: typeof after }]
  return placeProblems(after, 'after.')
}

function deliveryProblems(value: unknown, path: string): Problem[] {
  if (!isObject(value)) return [{ path, rule: 'delivery', message: 'is no delivery', found: typeof value }]
  const at = path === '' ? '' : `${path}.`
  const problems = placeProblems(value, at)
  if (typeof value.context_id !== 'string') problems.push(misfit(`${at}context_id`, value.context_id))
  if (value.plan_id !== undefined && typeof value.plan_id !== 'string')
    problems.push(misfit(`${at}plan_id`, value.plan_id))
  if (!isObject(value.event)) return [...problems, misfit(`${at}event`, value.event, 'is no event')]
  for (const field of ['event_id', 'event_type', 'timestamp'] as const) {
    if (typeof value.event[field] !== 'string') problems.push(misfit(`${at}event.${field}`, value.event[field]))
  }
  return problems
}

function placeProblems(value: Record<string, unknown>, at: string): Problem[] {
  const problems: Problem[] = []
  if (typeof value.position !== 'string' || value.position === '')
    problems.push(misfit(`${at}position`, value.position))
  if (typeof value.graph_id !== 'string') problems.push(misfit(`${at}graph_id`, value.graph_id))
  for (const field of ['revision', 'index'] as const) {
    const found = value[field]
    if (!Number.isSafeInteger(found) || (found as number) < 0)
      problems.push({ path: `${at}${field}`, rule: 'count', message: 'is not a whole number', found: String(found) })
  }
  return problems
}

const misfit = (path: string, found: unknown, message = 'is not text'): Problem => ({
  path,
  rule: 'delivery',
  message,
  found: typeof found,
})
