import type {
  CallSettings,
  JSONSchema7,
  LanguageModel,
  LanguageModelUsage,
  ModelMessage,
  ToolChoice,
  ToolSet,
} from 'ai'
import type { Json, JsonObject } from '../protocol/json.ts'
import { MOST_LEVELS, tooDeepIn } from '../protocol/levels.ts'
import { eitherOf } from '../protocol/on-abort.ts'
import type { TokenUsage } from './adapter.ts'
import { passingFailure } from './failure.ts'
import type { Model } from './llm-model.ts'
import { usageOf } from './llm-tokens.ts'
import type { RegisteredTool } from './tool-registry.ts'
import { wireName } from './wire-name.ts'

/** One question to a model. */
export interface RoundRequest {
  readonly model: Model
  readonly messages: readonly Json[]
  /** By wire name. */
  readonly tools: ReadonlyMap<string, RegisteredTool>
  /** What the last answer is asked to be. */
  readonly schema: JsonObject | undefined
  readonly params: JsonObject
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Absent: the answer comes in one piece. */
  readonly onDelta: ((delta: string) => void) | undefined
  /** Told of a stream all that is paid for: what is said, what is thought, and what is put together to call tools with. */
  readonly onHeard: (delta: string) => void
}

/** What the model answered. */
export interface RoundAnswer {
  readonly text: string
  readonly reasoning: string
  /** `error` says why a call cannot be carried out: no such tool, arguments that are no JSON. */
  readonly toolCalls: readonly {
    readonly id: string
    readonly name: string
    readonly args: Json
    readonly error?: string
  }[]
  readonly finishReason: string
  /** The same in the words of the server. */
  readonly rawFinishReason: string | undefined
  readonly usage: TokenUsage
  /** The answer as messages of the conversation. */
  readonly messages: readonly Json[]
  readonly warnings: readonly string[]
}

/** Asks once: the library's own retries and its tool loop are off. Throws whatever the library throws. */
export async function askedOnce(request: RoundRequest): Promise<RoundAnswer> {
  const failed = new AbortController()
  const { signal, unlink } = eitherOf(request.signal, failed.signal)
  try {
    return await answered({ ...request, signal })
  } catch (error) {
    failed.abort() // the library lets go of a stream that it cannot read on, and not of its connection
    throw error
  } finally {
    unlink()
  }
}

async function answered(request: RoundRequest): Promise<RoundAnswer> {
  const { generateText, streamText, jsonSchema, Output } = await library()
  const { model, messages, tools, schema, params, headers, signal, onDelta, onHeard } = request
  const described = (json: JsonObject) => jsonSchema(json as JSONSchema7)
  const options = {
    ...settings(params),
    model: model as LanguageModel,
    messages: messages as unknown as ModelMessage[],
    allowSystemInMessages: true, // they come from the action's author, not from a user
    maxRetries: 0,
    abortSignal: signal,
    headers: { ...headers },
    ...(tools.size > 0 && { tools: offered(tools, described), ...choiceOf(params.tool_choice) }),
    // Only asks for the shape: what comes back is checked by us, so that its cost is known even when it does not fit.
    ...(schema && {
      output: { ...Output.object({ schema: described(schema) }), parseCompleteOutput: async () => null },
    }),
  }
  if (onDelta === undefined) return answerOf(request, await generateText(options))

  const result = streamText({ ...options, onError: () => undefined })
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta' || part.type === 'reasoning-delta') onHeard(part.text)
    else if (part.type === 'tool-input-delta') onHeard(part.delta)
    if (part.type === 'text-delta') onDelta(part.text)
    else if (part.type === 'error') throw part.error
    else if (part.type === 'abort') throw signal.reason
    // A connection that was cut between two events looks like the end of the stream, but for the missing reason. Older models never say it as their
    // server did, but what it comes to.
    else if (part.type === 'finish-step' && part.rawFinishReason === undefined && part.finishReason === 'other')
      throw passingFailure('the stream ended early')
  }
  return answerOf(request, {
    text: await result.text,
    reasoningText: await result.reasoningText,
    toolCalls: await result.toolCalls,
    finishReason: await result.finishReason,
    rawFinishReason: await result.rawFinishReason,
    usage: await result.usage,
    response: await result.response,
    warnings: await result.warnings,
  })
}

async function library() {
  const slots = globalThis as { AI_SDK_LOG_WARNINGS?: unknown }
  slots.AI_SDK_LOG_WARNINGS ??= false // they are part of our answer; nobody asked for them on the console
  return import('ai')
}

/** Offered without `execute`: the library hands the calls back to us. */
const offered = (tools: RoundRequest['tools'], described: (json: JsonObject) => unknown): ToolSet =>
  Object.fromEntries(
    [...tools].map(([name, { description, compiledInput }]) => [
      name,
      { description, inputSchema: described(compiledInput.json ?? { type: 'object' }) },
    ]),
  ) as ToolSet

const SETTINGS = {
  max_tokens: 'maxOutputTokens',
  temperature: 'temperature',
  top_p: 'topP',
  top_k: 'topK',
  stop: 'stopSequences',
  seed: 'seed',
  provider_options: 'providerOptions',
} as const

const settings = (params: JsonObject): CallSettings =>
  Object.fromEntries(
    Object.entries(SETTINGS).flatMap(([ours, theirs]) => (params[ours] === undefined ? [] : [[theirs, params[ours]]])),
  )

const CHOICES = ['auto', 'none', 'required'] as const

/** `auto`, `none`, `required`, or the one tool that must be called. */
function choiceOf(choice: Json | undefined): { toolChoice?: ToolChoice<ToolSet> } {
  if (typeof choice !== 'string') return {}
  const known = CHOICES.find((name) => name === choice)
  return { toolChoice: known ?? { type: 'tool', toolName: wireName(choice) } }
}

interface LibraryResult {
  readonly text: string
  readonly reasoningText: string | undefined
  readonly toolCalls: readonly LibraryToolCall[]
  readonly finishReason: string
  readonly rawFinishReason: string | undefined
  readonly usage: LanguageModelUsage
  readonly response: { readonly messages: readonly ModelMessage[] }
  readonly warnings: readonly object[] | undefined
}

interface LibraryToolCall {
  readonly toolCallId: string
  readonly toolName: string
  readonly input: unknown
  readonly invalid?: boolean | undefined
  readonly error?: unknown
}

function answerOf(asked: RoundRequest, result: LibraryResult): RoundAnswer {
  const { text, reasoningText = '', toolCalls, finishReason, rawFinishReason, usage, response, warnings = [] } = result
  // Its own verdicts on calls it could not parse are left out: every call gets its result from us.
  const said = JSON.stringify(response.messages.filter(({ role }) => role === 'assistant').map(flattened))
  const isEmpty = text === '' && reasoningText === '' && toolCalls.length === 0
  return {
    text,
    reasoning: reasoningText,
    toolCalls: toolCalls.map(callOf),
    finishReason,
    rawFinishReason,
    usage: usageOf(usage, { ...asked, tools: asked.tools.values() }, isEmpty ? '' : said),
    messages: JSON.parse(said),
    warnings: warnings.map((warning) => JSON.stringify(warning)),
  }
}

function callOf({ toolCallId, toolName, input, invalid, error }: LibraryToolCall): RoundAnswer['toolCalls'][number] {
  if (isTooDeep(input)) return { id: toolCallId, name: toolName, args: {}, error: TOO_DEEP }
  const call = { id: toolCallId, name: toolName, args: (input ?? {}) as Json }
  return invalid ? { ...call, error: error instanceof Error ? error.message : 'the call cannot be read' } : call
}

/** So deep that the conversation, with it inside, could not be kept. */
const isTooDeep = (input: unknown): boolean => tooDeepIn({ messages: [{ content: [{ input }] }] }) !== undefined
const TOO_DEEP = `the arguments are nested too deeply, more than about ${MOST_LEVELS} levels; make them flatter`

const flattened = (message: ModelMessage): object =>
  Array.isArray(message.content)
    ? {
        ...message,
        content: message.content.map((part) =>
          'input' in part && isTooDeep(part.input) ? { ...part, input: {} } : part,
        ),
      }
    : message
