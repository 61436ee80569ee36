import type { LanguageModel } from 'ai'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { clock as clockField, needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import { shown } from '../protocol/shown.ts'
import { finalFailure, finalFrom, passingFailure } from './failure.ts'
import type { Provider } from './llm-provider.ts'
import { type Reply, type ReplyParts, replyProblems } from './llm-reply.ts'
import { tokensIn } from './llm-tokens.ts'
import { wireName } from './wire-name.ts'

export interface ScriptedRequest {
  readonly model: string
  /** How often the model has spoken in this conversation. */
  readonly turn: number
  readonly messages: readonly { readonly role: string; readonly text: string }[]
}

/** By turn, or by whatever was said. */
export type Script = readonly Reply[] | ((request: ScriptedRequest) => Reply | Promise<Reply>)

/**
 * A provider without a network: the same conversation always gets the same reply, also after a restart. `scripts` is one script for every model,
 * or one per model.
 */
export function scriptedProvider(
  scripts: Script | Readonly<Record<string, Script>>,
  options: { clock?: Clock } = {},
): Provider {
  refuseUnlessFit('provider', options, { clock: clockField })
  const { clock = systemClock } = options
  checkScripts(scripts)
  const failed = new Map<string, number>() // how many errors of a script were used up

  const scriptOf = (model: string): Script => {
    if (Array.isArray(scripts) || typeof scripts === 'function') return scripts as Script
    const script = Object.hasOwn(scripts, model) ? (scripts as Readonly<Record<string, Script>>)[model] : undefined
    if (script === undefined) throw finalFailure(`there is no script for model ${model}`)
    return script
  }
  const replyTo = async (request: ScriptedRequest, signal: AbortSignal | undefined): Promise<ReplyParts> => {
    const script = scriptOf(request.model)
    const skipped = failed.get(request.model) ?? 0
    const reply = typeof script === 'function' ? await script(request) : script[request.turn + skipped]
    if (reply === undefined)
      throw finalFailure(`the script of ${request.model} has no reply for turn ${request.turn + 1}`)
    const parts = typeof reply === 'string' ? { text: reply } : reply
    if (typeof parts !== 'object' || parts === null)
      throw finalFailure(
        `the script of ${request.model} has ${shown(reply)} for turn ${request.turn + 1}, which is neither text nor an object`,
      )
    const problems = replyProblems(parts, '')
    if (problems.length > 0)
      throw finalFrom(new InvalidInput(`the reply of ${request.model} for turn ${request.turn + 1}`, problems))
    if (parts.delay_ms !== undefined) await clock.sleep(parts.delay_ms, signal)
    if (parts.error === undefined) return parts
    failed.set(request.model, skipped + 1)
    throw scriptedFailure(parts.error)
  }

  return {
    async model(id) {
      refuseUnlessFit('model', { id }, { id: needed(text) })
      return scriptedModel(id, (options) => replyTo(requestOf(id, options.prompt), options.abortSignal))
    },
    secrets: () => NONE,
  }
}

const NONE: readonly string[] = []

const isScript = (script: unknown): boolean => Array.isArray(script) || typeof script === 'function'

/** A text would be taken for a list of its letters. */
function checkScripts(scripts: unknown): void {
  if (isScript(scripts)) return
  const wrong = isObject(scripts) ? Object.entries(scripts).filter(([, script]) => !isScript(script)) : [['', scripts]]
  const problems = wrong.map(([path, script]) =>
    problem(String(path), 'type', 'must be a list of replies or a function', script),
  )
  if (problems.length > 0) throw new InvalidInput('scripts', problems)
}

type ModelV3 = Extract<LanguageModel, { specificationVersion: 'v3' }>
type CallOptions = Parameters<ModelV3['doGenerate']>[0]
type Generated = Awaited<ReturnType<ModelV3['doGenerate']>>
type StreamPart = Awaited<ReturnType<ModelV3['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never

function scriptedFailure({ message, retryable = false, retry_after_ms }: NonNullable<ReplyParts['error']>) {
  if (!retryable) return finalFailure(message)
  return passingFailure(message, retry_after_ms === undefined ? {} : { retryAfterMs: retry_after_ms })
}

function requestOf(model: string, prompt: CallOptions['prompt']): ScriptedRequest {
  const messages = prompt.map(({ role, content }) => ({
    role,
    text: typeof content === 'string' ? content : textOf(content),
  }))
  return { model, messages, turn: turnOf(prompt) }
}

/** How often the model has spoken before. */
const turnOf = (prompt: CallOptions['prompt']): number => prompt.filter(({ role }) => role === 'assistant').length

const textOf = (parts: readonly object[]): string =>
  parts
    .map((part) => ('text' in part ? String(part.text) : 'output' in part ? JSON.stringify(part.output) : ''))
    .filter((text) => text !== '')
    .join('\n')

function scriptedModel(id: string, reply: (options: CallOptions) => Promise<ReplyParts>): ModelV3 {
  return {
    specificationVersion: 'v3',
    provider: 'scripted',
    modelId: id,
    supportedUrls: {},
    doGenerate: async (options) => generated(await reply(options), options),
    async doStream(options) {
      const parts = streamed(generated(await reply(options), options))
      return { stream: new ReadableStream({ start: (controller) => enqueueAll(controller, parts) }) }
    },
  }
}

function generated(parts: ReplyParts, { prompt }: CallOptions): Generated {
  const { text, object, reasoning, tool_calls = [] } = parts
  const said = text ?? (object === undefined ? '' : JSON.stringify(object))
  const turn = turnOf(prompt)
  const calls = tool_calls.map(({ tool, args }, index) => ({
    type: 'tool-call' as const,
    toolCallId: `call-${turn + 1}-${index + 1}`,
    toolName: wireName(tool),
    input: JSON.stringify(args),
  }))
  const { prompt: input, completion: output } = parts.usage ?? {
    prompt: tokensIn(JSON.stringify(prompt)),
    completion: tokensIn(said + JSON.stringify(tool_calls)),
  }
  return {
    content: [
      ...(reasoning === undefined ? [] : [{ type: 'reasoning' as const, text: reasoning }]),
      ...(said === '' ? [] : [{ type: 'text' as const, text: said }]),
      ...calls,
    ],
    finishReason: { unified: calls.length > 0 ? 'tool-calls' : 'stop', raw: 'scripted' },
    usage: {
      inputTokens: { total: input, noCache: input, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: output, text: output, reasoning: undefined },
    },
    warnings: [],
  }
}

function streamed({ content, finishReason, usage }: Generated): StreamPart[] {
  const parts: StreamPart[] = [{ type: 'stream-start', warnings: [] }]
  for (const [index, part] of content.entries()) {
    const id = String(index)
    if (part.type === 'text') {
      const deltas = part.text.match(/\s*\S+\s*/g) ?? [part.text]
      parts.push({ type: 'text-start', id }, ...deltas.map((delta) => ({ type: 'text-delta' as const, id, delta })), {
        type: 'text-end',
        id,
      })
    } else if (part.type === 'reasoning')
      parts.push(
        { type: 'reasoning-start', id },
        { type: 'reasoning-delta', id, delta: part.text },
        { type: 'reasoning-end', id },
      )
    else if (part.type === 'tool-call') parts.push(part)
  }
  return [...parts, { type: 'finish', finishReason, usage }]
}

function enqueueAll(controller: ReadableStreamDefaultController<StreamPart>, parts: readonly StreamPart[]): void {
  for (const part of parts) controller.enqueue(part)
  controller.close()
}
