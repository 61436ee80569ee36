import fc from 'fast-check'
import { schemas } from '../../src/protocol/generated/schemas.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { Schema } from '../../src/protocol/schema.ts'
import type { Kind, ModuleName, Plan, ProtocolTypes, Trace } from '../../src/protocol/types.ts'

/** Any valid value of a kind, as its schema allows it: ids are unrelated, nothing refers to anything. */
export function arbitraryOf<K extends Kind>(kind: K): fc.Arbitrary<ProtocolTypes[K]> {
  return fromSchema(schemas[kind]) as fc.Arbitrary<ProtocolTypes[K]>
}

/**
 * A valid module object that also makes sense by itself: steps with ids of their own that depend on earlier steps,
 * segments below earlier segments, a root span of its own trace. `fixed` binds members: `{ context_id }`, `{ status: 'draft' }`.
 */
export function documentOf<K extends ModuleName>(
  kind: K,
  fixed: Partial<ProtocolTypes[K]> = {},
): fc.Arbitrary<ProtocolTypes[K]> {
  const any = arbitraryOf(kind).map((document) => ({ ...document, ...fixed }))
  if (kind === 'plan') return fc.tuple(any, dependencies).map(wirePlan as never)
  if (kind === 'trace') return fc.tuple(any, dependencies).map(wireTrace as never)
  return any
}

/** Text as JSON may hold it: empty, long, with quotes, controls, emoji and lone surrogates. */
export const oddText: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(
    '',
    ' ',
    '\u0000',
    '\ud800',
    '\udc00\ud800',
    '"\\\n',
    '__proto__',
    'constructor',
    'toString',
    '💥'.repeat(50),
  ),
)

/** Any JSON value, a member called __proto__ and lone surrogates included. */
export const anyJson: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom<Json>(null, true, false, 0, -0, -1, 0.5, 1e308),
    oddText,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(oddText, tie('value')), { maxLength: 4 }).map(ownMembers),
  ),
})).value

/** As JSON.parse builds it: `__proto__` becomes a member, not a prototype. */
export function ownMembers(members: readonly (readonly [string, Json])[]): JsonObject {
  const object = {}
  for (const [name, value] of members) {
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  }
  return object
}

const freeObject = fc.dictionary(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 })
const uuid = fc.uuid({ version: 4 })

function fromSchema(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.$ref === 'identifier') return uuid
  if (schema.$ref !== undefined) return fromSchema(schemas[schema.$ref])
  if (schema.allOf !== undefined) return fromSchema(schema.allOf.map(resolved).reduce(narrowed))
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => fromSchema({ type })))
  switch (schema.type) {
    case 'string':
      return textFrom(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -1000, max: 1_000_000 })
    case 'number':
      return fc.double({ min: schema.minimum ?? -1e9, max: schema.maximum ?? 1e9, noNaN: true })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return listFrom(schema)
    default:
      return objectFrom(schema)
  }
}

function textFrom({ pattern, format, minLength = 0 }: Schema): fc.Arbitrary<string> {
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern))
  switch (format) {
    case 'date-time':
      return fc
        .date({ min: new Date('2000-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
        .map((date) => date.toISOString())
    case 'uuid':
      return uuid
    case 'email':
      return fc.constantFrom('a@b.co', 'dev+ci@example.org')
    case 'uri':
      return fc.webUrl()
    default:
      return fc.string({ minLength, maxLength: 30 })
  }
}

function listFrom({ items = {}, minItems = 0, uniqueItems }: Schema): fc.Arbitrary<unknown> {
  const options = { minLength: minItems, maxLength: Math.max(minItems, 6) }
  return uniqueItems ? fc.uniqueArray(fromSchema(items), options) : fc.array(fromSchema(items), options)
}

function objectFrom(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.properties === undefined) return freeObject
  const members = Object.fromEntries(
    Object.entries(schema.properties).map(([name, member]) => [name, fromSchema(member)]),
  )
  const record = fc.record(members, { requiredKeys: [...(schema.required ?? [])], noNullPrototype: true })
  if (schema.additionalProperties === false) return record
  return fc.tuple(freeObject, record).map(([free, known]) => ({ ...withoutKnown(free, members), ...known }))
}

const withoutKnown = (free: object, members: object): object =>
  Object.fromEntries(Object.entries(free).filter(([name]) => !Object.hasOwn(members, name)))

const resolved = (schema: Schema): Schema => (schema.$ref === undefined ? schema : schemas[schema.$ref])

const narrowed = (wide: Schema, narrow: Schema): Schema => ({
  type: 'object',
  required: [...new Set([...(wide.required ?? []), ...(narrow.required ?? [])])],
  properties: { ...wide.properties, ...narrow.properties },
})

/** For each place in a list, which earlier places it refers to. */
const dependencies = fc.infiniteStream(fc.array(fc.nat(), { maxLength: 3 }))

function wirePlan([plan, stream]: [Plan, fc.Stream<number[]>]): Plan {
  const steps = plan.steps.filter((step, index) => plan.steps.findIndex((s) => s.step_id === step.step_id) === index)
  return {
    ...plan,
    steps: steps.map((step, index) => {
      if (step.dependencies === undefined) return step
      const earlier =
        index === 0 ? [] : (stream.next().value as number[]).map((n) => steps[n % index]?.step_id as string)
      return { ...step, dependencies: [...new Set(earlier)] }
    }),
  }
}

function wireTrace([trace, stream]: [Trace, fc.Stream<number[]>]): Trace {
  const { segments: all, ...head } = trace
  const root_span = { ...trace.root_span, trace_id: trace.trace_id, context_id: trace.context_id }
  if (all === undefined) return { ...head, root_span }
  const segments = all.filter((segment, index) => all.findIndex((s) => s.segment_id === segment.segment_id) === index)
  return {
    ...head,
    root_span,
    segments: segments.map(({ parent_segment_id, ...segment }, index) => {
      const [n] = stream.next().value as number[]
      if (parent_segment_id === undefined || index === 0 || n === undefined) return segment
      return { ...segment, parent_segment_id: segments[n % index]?.segment_id as string }
    }),
  }
}
