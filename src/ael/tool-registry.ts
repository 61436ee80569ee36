import { InvalidInput, NotFound, type Problem } from '../protocol/errors.ts'
import { list, refuseUnlessFit, text } from '../protocol/fields.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { ApprovalPolicy, Asker, Call } from './adapter.ts'
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
  readonly requestApproval?: (args: JsonObject, asker: Asker) => Question | Promise<Question>
  /** Can what it does be taken back wholly, only be made up for, or neither? The first two need `inverse`. */
  readonly effect?: Effect
  /** The call that takes this one back; `undefined` when these arguments left nothing to take back. */
  readonly inverse?: (args: JsonObject, output: Json | undefined) => ToolUse | undefined
  /** Gives its output whole, or piece by piece: then the pieces are streamed, and the output is all of them joined. */
  execute(args: JsonObject, call: ToolCall): Json | undefined | Promise<Json | undefined> | AsyncIterable<string>
}

export type Question = string | null | undefined
export type Effect = 'reversible' | 'compensable' | 'irreversible'

export interface ToolUse {
  readonly tool_name: string
  readonly tool_args: JsonObject
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
      if (known.has(tool.name)) throw refused([problem('name', 'unique', 'is registered already', tool.name)])
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

const POLICIES: readonly unknown[] = ['always_allow', 'ask', 'blocked', undefined]
const EFFECTS: readonly unknown[] = ['reversible', 'compensable', 'irreversible', undefined]

function compiled(tool: Tool): RegisteredTool {
  if (!isObject(tool)) throw refused([problem('', 'type', 'must be an object', tool)])
  const { name, description, policy, effect, inverse } = tool as Tool
  const problems: Problem[] = []
  if (!isToolName(name)) problems.push(problem('name', 'namespace', 'must be <namespace>.<name>', name))
  if (typeof description !== 'string') problems.push(problem('description', 'type', 'must be text', description))
  if (!POLICIES.includes(policy))
    problems.push(problem('policy', 'enum', 'must be always_allow, ask or blocked', policy))
  if (!EFFECTS.includes(effect))
    problems.push(problem('effect', 'enum', 'must be reversible, compensable or irreversible', effect))
  if ((effect === 'reversible' || effect === 'compensable') && inverse === undefined)
    problems.push(problem('inverse', 'required', `is needed for a ${effect} effect`, inverse))
  if (effect === 'irreversible' && inverse !== undefined)
    problems.push(problem('inverse', 'effect', 'contradicts an irreversible effect', inverse))
  if (typeof (tool as Tool).execute !== 'function')
    problems.push(problem('execute', 'type', 'must be a function', undefined))
  if (problems.length > 0) throw refused(problems)
  return {
    ...(tool as Tool),
    execute: (tool as Tool).execute.bind(tool),
    compiledInput: compileSchema(tool.input, 'input'),
    compiledOutput: tool.output === undefined ? undefined : compileSchema(tool.output, 'output'),
  }
}

const refused = (problems: readonly Problem[]): InvalidInput => new InvalidInput('tool', problems)
const problem = (path: string, rule: string, message: string, found: unknown): Problem => ({
  path,
  rule,
  message,
  found: shown(found),
})
