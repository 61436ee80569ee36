import type { Approvers } from '../protocol/approvers.ts'
import { approversProblems } from '../protocol/check-approvers.ts'
import { InvalidInput, NotFound, type Problem } from '../protocol/errors.ts'
import {
  type Fields,
  flag,
  list,
  method,
  needed,
  object,
  oneOf,
  problemsIn,
  refuseUnlessFit,
  text,
} from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import type { Json } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import { retold } from '../protocol/retold.ts'
import type { ApprovalPolicy, Asker, Call, Lack } from './adapter.ts'
import { POLICY } from './approval.ts'
import { type CompiledSchema, compileSchema, type Schema } from './schema.ts'

/** Something with a name that a plan or a model can choose to do. */
export interface Tool {
  /** `<namespace>.<name>`: two or more segments of letters, digits, - and _. */
  readonly name: string
  /** What a model reads to choose it. */
  readonly description: string
  readonly input: Schema
  readonly output?: Schema
  /** Changes nothing in the world: may be cached, repeated, and run beside others. */
  readonly readOnly?: boolean
  /** `always_allow` when absent. */
  readonly policy?: ApprovalPolicy
  /**
   * Under `ask`: what a person is asked about these arguments; `undefined` or empty asks `Run <name>?`, `null` says that these need no asking.
   * The arguments fit the schema when this is called.
   */
  requestApproval?(args: ToolArgs, asker: Asker): Question | Promise<Question>
  /** Under `ask`: who must agree, of whom how many, and until when; anybody within a week when absent. */
  readonly approvers?: Approvers
  /** Can what it does be taken back wholly, only be made up for, or neither? The first two need `inverse`. */
  readonly effect?: Effect
  /** The call that takes this one back; `undefined` when these arguments left nothing to take back. */
  inverse?(args: ToolArgs, output: Json | undefined): ToolUse | undefined
  /**
   * Gives its output whole, as what JSON can say, or a promise of it; or piece by piece, as an AsyncIterable of texts: then the pieces are streamed,
   * and the output is all of them joined.
   */
  execute(args: ToolArgs, call: ToolCall): unknown
}

/** What fits the schema of a tool. Who says which members that has is believed, also by an interface, in which the compiler finds no other index. */
// biome-ignore lint/suspicious/noExplicitAny: of any other index an interface is refused
export type ToolArgs = { readonly [name: string]: any }

export type Question = string | null | undefined
export type Effect = 'reversible' | 'compensable' | 'irreversible'

export interface ToolUse {
  readonly tool_name: string
  readonly tool_args: object
}

export interface ToolCall extends Call {
  readonly action_id: string
  /** The same at every attempt: pass it on, so that the other side can recognise a repeat. */
  readonly idempotency_key: string
}

export interface RegisteredTool extends Tool {
  readonly compiledInput: CompiledSchema
  readonly compiledOutput: CompiledSchema | undefined
}

/** Tools by name; more can come and go at any time. */
export interface ToolRegistry {
  /** Throws InvalidInput for a bad or taken name, a schema that does not compile, an effect without its inverse. */
  register(tool: Tool): void
  unregister(name: string): void
  find(name: string): RegisteredTool | undefined
  /** Throws NotFound. */
  get(name: string): RegisteredTool
  /** In the order of registration; of one namespace when it is given. */
  list(namespace?: string): RegisteredTool[]
}

export function toolRegistry(tools: readonly Tool[] = []): ToolRegistry {
  refuseUnlessFit('tools', { tools }, { tools: list })
  const known = new Map<string, RegisteredTool>()
  const registry: ToolRegistry = {
    register(tool) {
      const checked = compiled(tool)
      if (known.has(tool.name))
        throw refused(tool.name, [problem('name', 'unique', 'is registered already', tool.name)])
      known.set(tool.name, checked)
    },
    unregister(name) {
      if (!known.delete(name)) throw new NotFound('tool', name)
    },
    find: (name) => known.get(name),
    get(name) {
      const tool = known.get(name)
      if (tool === undefined) throw new NotFound('tool', name)
      return tool
    },
    list(namespace) {
      refuseUnlessFit('tools', { namespace }, { namespace: text })
      return [...known.values()].filter((tool) => namespace === undefined || tool.name.startsWith(`${namespace}.`))
    },
  }
  for (const tool of tools) registry.register(tool)
  return registry
}

const NAME = /^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+$/
/** A name that looks like a file would be taken for one. */
const FILE = /\.(?:json|ya?ml|toml)$/i

/** Is it `<namespace>.<name>`? */
export const isToolName = (name: unknown): name is string =>
  typeof name === 'string' && name.length <= 200 && NAME.test(name) && !FILE.test(name)

/** The tool of that name, if it is one and is not here. */
export const lacksTool = (tools: ToolRegistry, name: unknown): Lack | undefined =>
  isToolName(name) && tools.find(name) === undefined
    ? { what: 'tool', name, known: tools.list().map((tool) => tool.name) }
    : undefined

const TOOL: Fields = {
  name: needed({ says: '<namespace>.<name>', rule: 'namespace', fits: isToolName }),
  description: needed({ says: 'text', fits: (value) => typeof value === 'string' }),
  readOnly: flag,
  policy: POLICY,
  requestApproval: method,
  effect: oneOf('reversible', 'compensable', 'irreversible'),
  inverse: method,
  execute: needed(method),
}

/** Member by member, and its methods stay bound to it, so that an instance of a class can be a tool too. */
function compiled(tool: Tool): RegisteredTool {
  if (!object.fits(tool)) throw refused(undefined, [problem('', 'type', 'must be an object', tool)])
  const { name, description, input, output, readOnly, policy, requestApproval, approvers, effect, inverse, execute } =
    tool
  const told = { name, description, readOnly, policy, requestApproval, effect, inverse, execute }
  const problems = [...problemsIn(told, TOOL, '')]
  if (approvers !== undefined) problems.push(...approversProblems(approvers, 'approvers'))
  if ((effect === 'reversible' || effect === 'compensable') && inverse === undefined)
    problems.push(problem('inverse', 'required', `is needed for a ${effect} effect`, inverse))
  if (effect === 'irreversible' && inverse !== undefined)
    problems.push(problem('inverse', 'effect', 'contradicts an irreversible effect', inverse))
  if (problems.length > 0) throw refused(name, problems)
  return {
    name,
    description,
    input,
    ...given({ output, readOnly, policy, approvers, effect }),
    ...(requestApproval && { requestApproval: requestApproval.bind(tool) }),
    ...(inverse && { inverse: inverse.bind(tool) }),
    execute: execute.bind(tool),
    compiledInput: schemaOf(name, 'input', input),
    compiledOutput: output === undefined ? undefined : schemaOf(name, 'output', output),
  }
}

/** Told by its tool, also when it fails later on. */
const schemaOf = (name: string, member: string, schema: Schema): CompiledSchema =>
  retold(
    subjectOf(name),
    (path) => path.slice(name.length + 1),
    () => compileSchema(schema, `${name}.${member}`),
  )

/** By its name where it has one: of many tools one is wrong. */
const subjectOf = (name: unknown): string => (isToolName(name) ? `tool ${name}` : 'tool')
const refused = (name: unknown, problems: readonly Problem[]) => new InvalidInput(subjectOf(name), problems)
