import { InvalidInput } from '../protocol/errors.ts'
import { FAMILIES } from '../protocol/families.ts'
import { type Field, refuseUnlessFit, text, texts } from '../protocol/fields.ts'
import { problem } from '../protocol/problem.ts'
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
  refuseUnlessFit('filter', filter, FILTER)
  const absent = listOf(filter.family).find((family) => !FAMILIES.includes(family))
  if (absent !== undefined)
    throw new InvalidInput('filter', [
      problem('family', 'enum', `is none of ${FAMILIES.join(', ')}`, absent), // it would be silent for ever
    ])
  const asked = (Object.keys(FIELDS) as (keyof Filter)[])
    .filter((field) => filter[field] !== undefined)
    .map((field): Match => {
      const read = FIELDS[field]
      const wanted = new Set<string | undefined>(listOf(filter[field]))
      return (delivery) => wanted.has(read(delivery))
    })
  return (delivery) => asked.every((match) => match(delivery))
}

const listOf = (wanted: string | readonly string[] = []): readonly string[] =>
  typeof wanted === 'string' ? [wanted] : wanted

const some: Field = {
  says: 'text or a list of texts',
  rule: 'text',
  fits: (value) => text.fits(value) || (texts.fits(value) && (value as readonly string[]).length > 0),
}
const FILTER: { readonly [F in keyof Required<Filter>]: Field } = {
  family: some,
  type: some,
  graph: some,
  context: some,
  plan: some,
}
