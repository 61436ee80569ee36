import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { FAMILIES } from '../protocol/families.ts'
import { isObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { Delivery, Filter } from './transport.ts'

type Match = (delivery: Delivery) => boolean

const FIELDS: Readonly<Record<keyof Filter, (delivery: Delivery) => string | undefined>> = {
  family: ({ event }) => event.event_family,
  type: ({ event }) => event.event_type,
  graph: ({ graph_id }) => graph_id,
  context: ({ context_id }) => context_id,
  plan: ({ plan_id }) => plan_id,
}

/** The question a filter asks. Throws InvalidInput for a field or a family that does not exist and for values that are not text. */
export function matcher(filter: Filter): Match {
  if (!isObject(filter)) throw new InvalidInput('filter', [problem('', 'filter', 'is not an object', filter)])
  const problems: Problem[] = []
  const asked: Match[] = []
  for (const [field, wanted] of Object.entries(filter) as [keyof Filter, unknown][]) {
    if (wanted === undefined) continue
    if (!Object.hasOwn(FIELDS, field)) {
      problems.push(problem(field, 'unknown_field', `is not one of ${Object.keys(FIELDS).join(', ')}`, wanted))
      continue
    }
    const values = Array.isArray(wanted) ? wanted : [wanted]
    if (values.length === 0 || !values.every((value) => typeof value === 'string' && value !== '')) {
      problems.push(problem(field, 'text', 'is neither text nor a list of texts', wanted))
      continue
    }
    const absent = field === 'family' ? values.find((value) => !FAMILIES.includes(value)) : undefined
    if (absent !== undefined)
      problems.push({ path: field, rule: 'enum', message: `is none of ${FAMILIES.join(', ')}`, found: shown(absent) }) // it would be silent for ever
    const set = new Set<string | undefined>(values)
    const read = FIELDS[field]
    asked.push((delivery) => set.has(read(delivery)))
  }
  if (problems.length > 0) throw new InvalidInput('filter', problems)
  return (delivery) => asked.every((match) => match(delivery))
}

const problem = (path: string, rule: string, message: string, found: unknown): Problem => ({
  path,
  rule,
  message,
  found: Array.isArray(found) ? `a list of ${found.length}` : typeof found,
})
