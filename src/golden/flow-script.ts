import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { lifecycles } from '../protocol/lifecycle.ts'
import { valueIn } from '../protocol/paths.ts'
import { DOCUMENT_KINDS } from '../psg/document.ts'
import { VERBS } from './acts.ts'
import type { Answers, Capability } from './driver.ts'
import { invalid, type Source } from './flow-files.ts'
import { type Inputs, isCounted, kindOfFile } from './inputs.ts'
import { isAnswer, slipIn } from './slips.ts'

/** One act of a script: a verb and what it needs; `refused` names the rules that must refuse it. */
export interface Act {
  readonly verb: string
  readonly given: Json
  readonly refused?: readonly string[]
  /** Where it stands: `script.yaml:7`. */
  readonly at: string
}

/** What a script says, with inputs put in for their names. Throws InvalidInput with file and line. */
export function scriptIn(
  source: Source,
  input: Inputs,
  needs: readonly Capability[],
): { readonly acts: readonly Act[]; readonly answers: Answers; readonly unused: readonly string[] } {
  const { value, at } = source
  if (!isObject(value)) throw invalid(at(), 'type', 'must be a map with acts and answers')
  const { acts, answers = {}, ...rest } = value
  for (const key of Object.keys(rest)) throw invalid(at(key), 'extra_forbidden', `${key} is not part of a script`)
  if (!Array.isArray(acts) || acts.length === 0)
    throw invalid(at('acts'), 'min_items', 'acts must be a list with at least one act')
  const read = acts.map((act, i) => actIn(act, i, source, input, needs))
  checkAnswers(answers, read, source)
  const used = new Set([...namesIn(acts as Json), ...read.flatMap(({ verb, given }) => loaded(verb, given, input))])
  const unused = Object.keys(input).filter((name) => !used.has(name))
  return { acts: read, answers: answers as unknown as Answers, unused }
}

/** The inputs that `$name` and `$name.path` stand for, as values and as keys. */
function namesIn(value: Json): readonly string[] {
  if (typeof value === 'string') return isInput(value) ? [value.slice(1).split('.')[0]!] : []
  if (Array.isArray(value)) return value.flatMap(namesIn)
  return isObject(value)
    ? Object.entries(value).flatMap(([key, item]) => [...namesIn(key), ...namesIn(item as Json)])
    : []
}

const loaded = (verb: string, given: Json, input: Inputs): readonly string[] =>
  verb === 'load' ? ((given as readonly string[] | null) ?? Object.keys(input).filter(kindOfFile)) : []

const isInput = (text: string): boolean => /^\$[a-z]/.test(text)

function actIn(act: unknown, i: number, { at }: Source, input: Inputs, needs: readonly Capability[]): Act {
  const where = at('acts', i)
  const entry: { [key: string]: unknown } = typeof act === 'string' ? { [act]: null } : isObject(act) ? act : {}
  const { refused, ...verbs } = entry
  const [name, second] = Object.keys(verbs)
  if (name === undefined || second !== undefined) throw invalid(where, 'one_verb', 'an act has one verb')
  const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined
  if (!verb) throw invalid(where, 'enum', `${name} is not a verb; known are ${Object.keys(VERBS).join(', ')}`)
  if (verb.needs && !verb.needs.some((need) => needs.includes(need)))
    throw invalid(where, 'needs', `${name} needs ${verb.needs.join(' or ')}, which flow.yaml does not name`)
  if (refused !== undefined && !verb.refusable)
    throw invalid(where, 'refused', `${name} is nothing that a runtime refuses`)
  const given = withInputs((verbs[name] ?? null) as Json, input, where)
  const slip = slipIn(name, given)
  if (slip !== undefined) throw invalid(where, 'script', slip)
  const problem = PROBLEMS[name]?.(given, input)
  if (problem !== undefined && (refused === undefined || name === 'load')) throw invalid(where, 'script', problem)
  const rules = refused === undefined ? undefined : texts(refused, at('acts', i, 'refused'), 'refused')
  return { verb: name, given, at: where, ...(rules && { refused: rules }) }
}

/**
 * What no runtime could do, whatever it is: told before anything runs, unless the flow wants to see it refused. An input that is not there reaches no
 * runtime, which would then refuse something else.
 */
const PROBLEMS: { readonly [verb: string]: (given: Json, input: Inputs) => string | undefined } = {
  load(given, input) {
    if (given === null) return undefined
    if (!Array.isArray(given)) return 'load takes a list of input names, or nothing for all of them'
    const missing = given.find((name) => typeof name !== 'string' || !Object.hasOwn(input, name))
    return missing === undefined ? undefined : `there is no input/${String(missing)}.json`
  },
  submit(given) {
    if (!isObject(given) || !isObject(given.plan)) return 'submit takes a flow: context, plan, bindings'
    const { steps = [] } = given.plan as { steps?: Json }
    const known = new Set(Array.isArray(steps) ? steps.map((step) => (Object(step) as JsonObject).step_id) : [])
    const bound = Object.keys(Object((given.bindings as JsonObject | undefined)?.steps))
    const absent = bound.find((step) => !known.has(step))
    return absent === undefined ? undefined : `step ${absent} is bound, but the plan has no such step`
  },
  settle: (given) => (given === null || given === 'ended' || given === 'waiting' ? undefined : 'is ended or waiting'),
  forbidden(given) {
    const { kind, id, from } = Object(given) as { kind?: string; id?: string; from?: string }
    if (typeof id !== 'string') return 'forbidden takes kind, id and from'
    const life = kind !== undefined && Object.hasOwn(lifecycles, kind) && lifecycles[kind as keyof typeof lifecycles]
    return life && from !== undefined && Object.hasOwn(life, from) ? undefined : `${kind} has no status ${from}`
  },
  expect(given) {
    const keys = Object.keys(given as JsonObject)
    if (keys.length === 0) return 'expect names nothing: it would hold for any runtime'
    const unknown = keys.find((key) => !EXPECTED.includes(key) && !isCounted(key))
    return unknown === undefined
      ? undefined
      : `${unknown} is nothing to expect; known are ${[...DOCUMENT_KINDS, ...EXPECTED].join(', ')}`
  },
  told(given) {
    if (Array.isArray(given)) return given.length > 0 ? undefined : 'told names nothing: it would hold for any runtime'
    const { among, events } = Object(given) as { among?: Json; events?: Json }
    return typeof among === 'string' && Array.isArray(events) ? undefined : 'takes a list, or a map of among and events'
  },
}
const EXPECTED = ['steps', 'files', 'findings', 'breaches']

/** An answer that nobody can ask for is a slip of the pen. */
function checkAnswers(answers: unknown, acts: readonly Act[], { at }: Source): void {
  if (!isObject(answers)) throw invalid(at('answers'), 'type', 'answers must be a map of lists')
  const called = new Set<string>()
  for (const { given } of acts) collectCalls(given, called)
  for (const [name, list] of Object.entries(answers)) {
    if (!Array.isArray(list) || list.length === 0 || !list.every(isAnswer))
      throw invalid(
        at('answers', name),
        'answer',
        `${name} must be a list of output, error (a text, with retryable or not), hang (true) or late`,
      )
    if (!called.has(name)) throw invalid(at('answers', name), 'answer', `no step of the script calls ${name}`)
  }
}

function collectCalls(value: Json, into: Set<string>): void {
  if (Array.isArray(value)) for (const item of value) collectCalls(item, into)
  else if (isObject(value)) {
    const { action_type, params } = value as JsonObject
    if (typeof action_type === 'string') {
      const { name, tool_name } = Object(params) as { name?: Json; tool_name?: Json }
      into.add(String(name ?? tool_name ?? action_type))
    }
    for (const item of Object.values(value)) collectCalls(item as Json, into)
  }
}

/** `$file` stands for an input document, `$file.path` for a value in it; `$$` for a dollar. */
function withInputs(value: Json, input: Inputs, where: string): Json {
  if (typeof value === 'string' && value.startsWith('$$')) return value.slice(1)
  if (typeof value === 'string' && isInput(value)) {
    const found = valueIn(input, value.slice(1).split('.'))
    if (found === undefined) throw invalid(where, 'reference', `${value} leads nowhere in input/`)
    return found
  }
  if (Array.isArray(value)) return value.map((item) => withInputs(item, input, where))
  if (!isObject(value)) return value
  const put = ([key, item]: readonly [string, unknown]) =>
    [isCallTime(key) ? key : String(withInputs(key, input, where)), withInputs(item as Json, input, where)] as const
  return Object.fromEntries(Object.entries(value).map(put))
}

/** Words of bindings that are resolved when the step is dispatched, not here. */
const isCallTime = (key: string): boolean => key === '$from' || key === '$turn'

export function texts(value: unknown, where: string, what: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw invalid(where, 'type', `${what} must be a list of texts`)
}
