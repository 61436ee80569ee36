import { type Clock, systemClock } from '../protocol/clock.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import {
  anything,
  clock as clockField,
  type Field,
  type Fields,
  flag,
  method,
  needed,
  oneOf,
  problemsIn,
  text,
  timeout,
  wholeFrom,
} from '../protocol/fields.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { blaming } from '../protocol/problem.ts'
import { shown } from '../protocol/shown.ts'
import type { Adapter, Spend, TokenUsage } from './adapter.ts'
import { isBase64 } from './base64.ts'
import { registry } from './check-options.ts'
import { keysOf, providerProblems } from './check-provider.ts'
import { conversation } from './llm-conversation.ts'
import type { Provider } from './llm-provider.ts'
import { tokensAsked, tokensIn } from './llm-tokens.ts'
import { gathered } from './redact.ts'
import { compileSchema } from './schema.ts'
import { isToolName, lacksTool, type RegisteredTool, type ToolRegistry, toolRegistry } from './tool-registry.ts'
import { wireName } from './wire-name.ts'

export type {
  CurrentModel,
  MessagePart,
  Model,
  ModelAnswer,
  ModelContent,
  ModelEnd,
  ModelMessage,
  ModelPart,
  ModelRequest,
  ModelTool,
  ModelToolCall,
} from './llm-model.ts'
export {
  type ApiKey,
  anthropicProvider,
  compatibleProvider,
  googleProvider,
  openAiProvider,
  type Provider,
  type ProviderOptions,
} from './llm-provider.ts'
export type { Reply, ReplyParts } from './llm-reply.ts'
export { type Script, type ScriptedRequest, scriptedProvider } from './llm-scripted.ts'

export interface LlmOptions {
  /** By name; an action that names none gets the first. */
  readonly providers: Readonly<Record<string, Provider>>
  /** Where the tools are that an action lets the model choose from. */
  readonly tools?: ToolRegistry
  /** What tokens cost, in a currency of your choice; nothing is charged but tokens when absent, or when it says `undefined`. */
  readonly price?: (usage: { readonly provider: string; readonly model: string } & TokenUsage) => number | undefined
  /** How often a model may be asked in one action: 8 when absent. An action may ask for fewer. */
  readonly maxRounds?: number
  /** Of a tool's output, how much a model is shown: 32,768 characters when absent. */
  readonly maxToolResultChars?: number
  /** For actions that name no time: 2 minutes when absent, for several rounds fit into one. */
  readonly timeoutMs?: number
  readonly clock?: Clock
}

/**
 * Does `llm_call`: params `{ provider?, model, messages, system?, tools?, tool_choice?, max_rounds?, schema?, stream?, max_tokens?,
 * temperature?, top_p?, top_k?, stop?, seed?, provider_options? }`. Gives `{ text, object?, reasoning?, model, finish_reason, rounds,
 * tool_calls? }`. Each tool that the model chooses is an action of its own: it passes the same admission, and a failure is told to the model.
 */
export function llmAdapter(options: LlmOptions): Adapter {
  checkOptions(options)
  const { providers, price, tools = toolRegistry(), maxRounds = 8, maxToolResultChars = 32_768 } = options
  const { clock = systemClock, timeoutMs = 120_000 } = options
  const names = Object.keys(providers)
  const fields: Fields = { ...PARAMS, provider: oneOf(...names), max_rounds: wholeFrom(1, maxRounds) }

  const providerOf = (params: JsonObject): string => String(params.provider ?? names[0])
  const offered = (params: JsonObject): RegisteredTool[] => namesIn(params).flatMap((name) => tools.find(name) ?? [])
  const cost = (params: JsonObject, usage: TokenUsage) =>
    price?.({ provider: providerOf(params), model: String(params.model), ...usage })

  return {
    action_type: 'llm_call',
    executor_kind: 'llm',
    timeoutMs,
    secrets: gathered(() => Object.values(providers).map(keysOf)),
    label: (params) => String(params.model),
    lacks({ provider, ...params }) {
      if (typeof provider === 'string' && !names.includes(provider))
        return { what: 'provider', name: provider, known: names }
      return namesIn(params).flatMap((name) => lacksTool(tools, name) ?? [])[0]
    },
    readOnly: (params) => offered(params).every((tool) => tool.readOnly),

    check(params) {
      const problems = [...problemsIn(params, fields, ''), ...messageProblems(params), ...toolProblems(params, tools)]
      if (problems.length > 0) throw new InvalidInput('llm_call', problems)
      if (params.schema !== undefined) compileSchema(params.schema as JsonObject, 'schema')
    },

    estimate(params): Spend {
      const { messages, system = '', schema } = params
      const prompt = tokensAsked({ messages, tools: offered(params), schema }) + tokensIn(String(system))
      const completion = typeof params.max_tokens === 'number' ? params.max_tokens : UNSAID_TOKENS
      const most = cost(params, { prompt, completion, total: prompt + completion })
      return { tokens: prompt + completion, ...(most === undefined ? {} : { cost: most }) }
    },

    execute: (action, call) =>
      conversation({
        action,
        call,
        provider: providers[providerOf(action.params)] as Provider,
        providerName: providerOf(action.params),
        tools: new Map(offered(action.params).map((tool) => [wireName(tool.name), tool])),
        schema:
          action.params.schema === undefined ? undefined : compileSchema(action.params.schema as JsonObject, 'schema'),
        cost: (usage) => cost(action.params, usage),
        maxRounds: Math.min(maxRounds, Number(action.params.max_rounds ?? maxRounds)),
        maxToolResultChars,
        clock,
      }),

    inverse: () => 'none_needed', // what was said cannot be unsaid, but changed nothing either
  }
}

function checkOptions(options: LlmOptions): void {
  const { providers } = Object(options) as Partial<LlmOptions>
  const problems = [...problemsIn(options, OPTIONS, '')]
  const given = Object.entries(Object(providers))
  if (given.length === 0)
    problems.push({ path: 'providers', rule: 'required', message: 'must name one at least', found: shown(providers) })
  for (const [name, provider] of given) problems.push(...providerProblems(provider, `providers.${name}`))
  if (problems.length > 0) throw new InvalidInput('llm options', problems)
}

const OPTIONS: { readonly [O in keyof Required<LlmOptions>]: Field } = {
  providers: anything, // looked at above
  tools: registry,
  price: method,
  maxRounds: wholeFrom(1),
  maxToolResultChars: wholeFrom(1),
  timeoutMs: timeout,
  clock: clockField,
}

/** What a model may answer when nobody limits it; for the budget only. */
const UNSAID_TOKENS = 4_096

const namesIn = ({ tools = [] }: JsonObject): string[] => (Array.isArray(tools) ? tools.map(String) : [])

const ROLES = ['system', 'user', 'assistant']
const isText = (value: unknown): boolean => typeof value === 'string'
const number: Field = { says: 'a number', fits: (value) => typeof value === 'number' }

const PARAMS: Fields = {
  model: needed(text),
  system: { says: 'text', fits: isText },
  temperature: number,
  top_p: number,
  top_k: number,
  max_tokens: wholeFrom(1),
  seed: { says: 'a whole number', fits: Number.isInteger },
  stop: { says: 'a list of texts', fits: (value) => Array.isArray(value) && value.every(isText) },
  stream: flag,
  schema: { says: 'a JSON Schema', fits: isObject },
  provider_options: {
    says: 'an object of objects, by provider',
    fits: (value) => isObject(value) && Object.values(value).every(isObject),
  },
  '*': anything,
}

function messageProblems({ messages }: JsonObject): Problem[] {
  const problems: Problem[] = []
  const blame = blaming(problems)
  if (!Array.isArray(messages) || messages.length === 0)
    blame('messages', 'type', 'must be a list of messages', messages)
  else
    for (const [i, message] of messages.entries()) {
      const { role, content } = isObject(message) ? message : {}
      if (!ROLES.includes(String(role)))
        blame(`messages[${i}].role`, 'enum', `must be one of ${ROLES.join(', ')}`, role)
      if (role === 'system' && typeof content !== 'string')
        blame(`messages[${i}].content`, 'type', 'must be text', content)
      else if (!isContent(content))
        blame(`messages[${i}].content`, 'type', 'must be text, or parts of text and base64 files', content)
    }
  return problems
}

/** A URL in a message would be fetched behind the back of the layer. */
const isContent = (content: unknown): boolean =>
  typeof content === 'string' ||
  (Array.isArray(content) &&
    content.every(
      (part) =>
        isObject(part) &&
        ((part.type === 'text' && typeof part.text === 'string') ||
          (part.type === 'file' && typeof part.mediaType === 'string' && isBase64(part.data))),
    ))

function toolProblems(params: JsonObject, tools: ToolRegistry): Problem[] {
  const { tools: names = [], tool_choice } = params
  if (!Array.isArray(names))
    return [{ path: 'tools', rule: 'type', message: 'must be a list of names', found: shown(names) }]
  const wire = new Set<string>()
  const problems = names.flatMap((name: Json, i): Problem[] => {
    const path = `tools[${i}]`
    if (!isToolName(name))
      return [{ path, rule: 'namespace', message: 'must be <namespace>.<name>', found: shown(name) }]
    const tool = tools.find(name)
    if (tool === undefined) return [{ path, rule: 'known', message: 'is not a registered tool', found: name }]
    if (tool.compiledInput.json === undefined)
      return [{ path, rule: 'schema', message: 'has an input schema that a model cannot be shown', found: name }]
    const known = wire.has(wireName(name))
    wire.add(wireName(name))
    return known ? [{ path, rule: 'unique', message: 'sounds like another one to a model', found: name }] : []
  })
  const choices: readonly Json[] = names.length > 0 ? ['auto', 'none', 'required', ...names] : ['auto', 'none']
  const message = names.length > 0 ? 'must be auto, none, required or one of the tools' : 'needs tools to choose from'
  if (tool_choice !== undefined && !choices.includes(tool_choice))
    problems.push({ path: 'tool_choice', rule: 'enum', message, found: shown(tool_choice) })
  return problems
}
