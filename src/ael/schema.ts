import type { Ajv, ErrorObject, ValidateFunction } from 'ajv'
import { type ActionError, InvalidInput, type Problem } from '../protocol/errors.ts'
import { needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import { fullFormats } from '../protocol/formats.ts'
import { canonical, isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { required } from '../protocol/required.ts'
import { shown, shownPath } from '../protocol/shown.ts'
import { CutShort, cutShort } from './cut-short.ts'
import { finalFailure, passingFailure, toActionError } from './failure.ts'
import { isThenable } from './promised.ts'

/** A JSON Schema (2020-12, or draft-07 when `$schema` says so), or anything that speaks Standard Schema. */
export type Schema = JsonObject | StandardSchema

export interface StandardSchema {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult | Promise<StandardResult>
    /** Newer libraries can say themselves as JSON Schema. */
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => Record<string, unknown> }
  }
}

type StandardResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export interface CompiledSchema {
  /** Empty when the value fits. Never changes the value. */
  problems(value: unknown): readonly Problem[] | Promise<readonly Problem[]>
  /** What a model can be shown; absent for a Standard Schema that cannot say itself as JSON Schema. */
  readonly json: JsonObject | undefined
}

/** Throws InvalidInput, naming `path`, when the schema does not compile. */
export function compileSchema(schema: Schema, path: string): CompiledSchema {
  refuseUnlessFit('schema', { path }, { path: needed(text) })
  if (isStandard(schema)) return fromStandard(schema, path)
  if (!isObject(schema)) throw refused(path, 'must be a JSON Schema or a Standard Schema', shown(schema))
  return fromJsonSchema(schema, path)
}

const isStandard = (schema: Schema): schema is StandardSchema =>
  '~standard' in Object(schema) && isObject((schema as StandardSchema)['~standard'])

function fromStandard(schema: StandardSchema, path: string): CompiledSchema {
  const standard = schema['~standard']
  if (typeof standard.validate !== 'function') throw refused(`${path}.~standard.validate`, 'must be a function')
  const answered = (result: StandardResult): readonly Problem[] => {
    if (!isResult(result)) throw finalFailure(`${path}: its schema gave ${shown(result)}, neither a value nor issues`)
    const { issues } = result
    if (!issues) return []
    return issues.length === 0 ? [problemIn(undefined, standard)] : issues.map((issue) => problemIn(issue, standard))
  }
  return {
    problems(value) {
      let result: StandardResult | Promise<StandardResult>
      try {
        result = standard.validate(value)
      } catch (error) {
        throw thrownBy(path, error)
      }
      if (!isThenable(result)) return answered(result)
      return Promise.resolve(result).then(answered, (error) => Promise.reject(thrownBy(path, error)))
    },
    json: saidAsJson(standard),
  }
}

/** A verdict such as `false` is none: whatever it was about would pass. */
const isResult = (result: unknown): boolean =>
  typeof result === 'object' &&
  result !== null &&
  ('issues' in result && result.issues ? Array.isArray(result.issues) : 'value' in result)

/** It may have asked somebody, and get an answer the next time. */
function thrownBy(path: string, cause: unknown): ActionError {
  const { message, retryable } = toActionError(cause)
  return (retryable ? passingFailure : finalFailure)(`${path}: its schema failed: ${message}`, { cause })
}

function problemIn(issue: Partial<StandardIssue> | undefined, { vendor }: StandardSchema['~standard']): Problem {
  const { path, message } = Object(issue) as Partial<StandardIssue>
  return {
    path: shownPath((Array.isArray(path) ? path : []).map((step) => keyOf(isObject(step) ? step.key : step))),
    rule: String(vendor),
    message: typeof message === 'string' ? message : 'is refused without a reason',
  }
}

/** A library throws when it has no words for one of its types: the schema can be checked all the same, only not shown. */
function saidAsJson({ jsonSchema }: StandardSchema['~standard']): JsonObject | undefined {
  try {
    return jsonSchema?.input({ target: 'draft-07' }) as JsonObject | undefined
  } catch {
    return undefined
  }
}

const keyOf = (key: unknown): string | number => (typeof key === 'number' ? key : String(key))

/** Equal schemas share a validator: ten thousand tools of one server are often variations of a few. */
const compiled = new Map<string, CompiledSchema>()
let characters = 0
/** As much as one server's list of tools may have: who changes its list again and again would fill the memory. */
const [MOST_COMPILED, MOST_CHARACTERS] = [10_000, 64 * 1024 * 1024]

function fromJsonSchema(schema: JsonObject, path: string): CompiledSchema {
  const text = textOf(schema, path)
  const known = compiled.get(text)
  if (known !== undefined) return known
  const json: JsonObject = JSON.parse(text)
  const validate = compile(json, path)
  const isQuick = text.length <= QUICK_CHARACTERS && !SLOW_WORDS.test(text)
  const made: CompiledSchema = {
    problems(value = null) {
      // JSON has no word for nothing
      const fits = isQuick && isSmall(value) ? validate(value) : inTime(() => validate(value), path)
      return fits ? [] : named(validate.errors ?? [], value)
    },
    json,
  }
  characters += text.length
  if (compiled.size >= MOST_COMPILED || characters > MOST_CHARACTERS) {
    compiled.clear()
    characters = text.length
  }
  compiled.set(text, made)
  return made
}

/** With these, or where both schema and value are large, there is no telling how long it takes: others may have written either. */
const SLOW_WORDS = /"(?:pattern|patternProperties|uniqueItems|\$ref|\$dynamicRef)":/
const QUICK_CHARACTERS = 16_384
const FEW_PARTS = 4_096
/** All else waits meanwhile: below the time after which others take our runs for left, and before problems by the million fill the memory. */
const [COMPILED_MS, VALIDATED_MS] = [5_000, 2_000]

function inTime<T>(validate: () => T, path: string): T {
  try {
    return cutShort(VALIDATED_MS, validate)
  } catch (error) {
    throw error instanceof CutShort ? finalFailure(`${path}: its schema ${error.message}`, { cause: error }) : error
  }
}

function isSmall(value: unknown): boolean {
  let left = FEW_PARTS
  const fits = (part: unknown): boolean => {
    left -= typeof part === 'string' ? part.length + 1 : 1 // some formats take the square of a text's length
    return left >= 0 && (typeof part !== 'object' || part === null || Object.values(part).every(fits))
  }
  return fits(value)
}

/** What comes from code may hold functions, or itself. */
function textOf(schema: JsonObject, path: string): string {
  try {
    return canonical(schema)
  } catch {
    throw refused(path, 'must be JSON: without code in it, and not part of itself')
  }
}

/** Without `inlineRefs`: what is referred to a thousand times would be compiled as often. */
const OPTIONS = { strict: false, allErrors: true, logger: false, inlineRefs: false } as const
// Half of what a runtime without schemas of its own would load: it comes with the first one.
const draft7 = once(() => {
  const { Ajv } = required('ajv') as typeof import('ajv')
  return ready(new Ajv({ ...OPTIONS, formats: fullFormats }))
})
const draft2020 = once(() => {
  const { Ajv2020 } = required('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')
  return ready(new Ajv2020({ ...OPTIONS, formats: fullFormats }))
})

/** With the schema of schemas compiled, before anybody's can take the place of a part of it. */
function ready(ajv: Ajv): Ajv {
  ajv.validateSchema({})
  return ajv
}

/** Without `$async`, a word of the library and not of JSON Schema: the verdict would be a promise, and its rejection nobody's to catch. */
function compile({ $async: _, ...given }: JsonObject, path: string): ValidateFunction {
  try {
    return isDraft7(given) ? byItself(draft7(), { ...given, $schema: DRAFT_7 }) : byItself(draft2020(), given)
  } catch (error) {
    if (error instanceof EvalError) throw refused(path, NO_CODE)
    throw refused(path, `does not compile: ${error instanceof Error ? error.message : 'unknown reason'}`)
  }
}

/** With names of its own: one that calls itself like another, or like the schema of schemas, would be taken for it by all that come later. */
function byItself(ajv: Ajv, schema: JsonObject): ValidateFunction {
  const { refs, schemas } = ajv
  Object.assign(ajv, { refs: { ...refs }, schemas: { ...schemas } })
  try {
    return cutShort(COMPILED_MS, () => ajv.compile(schema))
  } finally {
    ajv.removeSchema(schema) // it would keep every schema it ever saw
    Object.assign(ajv, { refs, schemas })
  }
}

const NO_CODE =
  'cannot be compiled where node makes no code of text: give a schema of zod or another library that speaks Standard Schema, or start node without --disallow-code-generation-from-strings'

const DRAFT_7 = 'http://json-schema.org/draft-07/schema#'
const isDraft7 = ({ $schema }: JsonObject): boolean => typeof $schema === 'string' && $schema.includes('draft-07')

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

const MOST_PROBLEMS = 100

const named = (errors: readonly ErrorObject[], value: unknown): Problem[] =>
  errors.slice(0, MOST_PROBLEMS).map((error) => problemOf(error, value))

function problemOf({ instancePath, keyword, message, params }: ErrorObject, root: unknown): Problem {
  const steps = instancePath.split('/').slice(1).map(unescaped)
  const found = steps.reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], root)
  const missing = keyword === 'required' ? [String(params.missingProperty)] : []
  const extra = keyword === 'additionalProperties' ? [String(params.additionalProperty)] : []
  const path = shownPath([...steps, ...missing, ...extra].map((step) => (/^\d+$/.test(step) ? Number(step) : step)))
  if (missing.length > 0) return { path, rule: keyword, message: 'is required' }
  if (extra.length > 0) return { path, rule: keyword, message: 'is not allowed here' }
  return { path, rule: keyword, message: message ?? `breaks ${keyword}`, found: shown(found as Json) }
}

const unescaped = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~')

const refused = (path: string, message: string, found?: string): InvalidInput =>
  new InvalidInput('schema', [{ path, rule: 'schema', message, ...(found === undefined ? {} : { found }) }])
