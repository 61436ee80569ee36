import { isObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import { finalFailure } from './failure.ts'
import type { Model } from './llm-model.ts'

/**
 * The same model, whose answers are looked at before the library reads them: of a part that is missing it would fail with a bare TypeError, which is
 * tried again, or make an empty text. What the answer has cost need not be said: it is reckoned then.
 */
export function checkedModel(given: Model, provider: string): Model {
  if (typeof given === 'string') return given // behind the library's gateway, which answers as it must
  const model = given as unknown as Foreign
  const refuse: Refuse = (what, found, must) =>
    finalFailure(`provider ${provider}: ${what} is ${shown(found)}, and must be ${must}`)
  if (!isObject(model)) throw refuse('what model() gave', model, 'a model of the AI SDK')
  for (const method of ['doGenerate', 'doStream'] as const)
    if (typeof model[method] !== 'function') throw refuse(`${method} of its model`, model[method], 'a function')
  if (!['v2', 'v3'].includes(String(model.specificationVersion)))
    throw refuse('specificationVersion of its model', model.specificationVersion, 'v2 or v3')
  const answers = checksOf(String(model.specificationVersion), refuse)
  return {
    specificationVersion: model.specificationVersion as 'v2', // or v3: whatever is said is passed on
    provider: String(model.provider),
    modelId: String(model.modelId),
    supportedUrls: (model.supportedUrls ?? {}) as object,
    doGenerate: async (options: never) => answers.whole(await model.doGenerate(options)),
    doStream: async (options: never) => answers.streamed(await model.doStream(options)),
  }
}

interface Foreign {
  readonly [field: string]: unknown
  doGenerate(options: never): unknown
  doStream(options: never): unknown
}
type Refuse = (what: string, found: unknown, must: string) => Error
type Fields = { readonly [field: string]: unknown }

function checksOf(version: string, refuse: Refuse) {
  const ended = (answer: Fields, at: string): Fields => {
    const reason = version === 'v2' ? answer.finishReason : Object(answer.finishReason).unified
    const field = version === 'v2' ? 'finishReason' : 'finishReason.unified'
    if (typeof reason !== 'string') throw refuse(at + field, reason, 'text')
    return { ...answer, usage: usageIn(answer.usage, version) }
  }
  const part = (given: unknown, at: string): Fields => {
    if (!isObject(given)) throw refuse(at, given, 'an object with a type')
    if (typeof given.type !== 'string') throw refuse(`${at}.type`, given.type, 'text')
    for (const field of TEXTS.get(given.type) ?? [])
      if (typeof given[field] !== 'string') throw refuse(`${at}.${field}`, given[field], 'text')
    return given
  }
  const checkWarnings = ({ warnings = [] }: Fields, at: string): void => {
    if (!Array.isArray(warnings)) throw refuse(`${at}warnings`, warnings, 'a list')
  }
  const inStream = () => {
    let isOver = false
    return (given: unknown): Fields => {
      const told = part(given, 'a part of its stream')
      if (told.type === 'stream-start') checkWarnings(told, 'the start of its stream: ')
      if (isOver && (told.type === 'finish' || TEXTS.has(told.type)))
        throw refuse('what follows the end of its stream', told.type, 'nothing') // the library would put both answers together
      if (told.type !== 'finish') return told
      isOver = true
      return ended(told, 'the end of its stream: ')
    }
  }
  return {
    whole(answer: unknown): Fields {
      if (!isObject(answer)) throw refuse('its answer', answer, 'an object')
      const { content } = answer
      if (!Array.isArray(content)) throw refuse('content', content, 'a list')
      for (const [i, given] of content.entries()) part(given, `content[${i}]`)
      checkWarnings(answer, '')
      return ended(answer, '')
    },
    streamed(answer: unknown): Fields {
      const { stream } = Object(answer) as { readonly stream?: ReadableStream }
      if (typeof stream?.pipeThrough !== 'function') throw refuse('stream', stream, 'a ReadableStream')
      const checked = inStream()
      const checking = new TransformStream({ transform: (given, to) => to.enqueue(checked(given)) })
      return { ...(answer as Fields), stream: stream.pipeThrough(checking) }
    },
  }
}

/** What is read of each kind of part. */
const TEXTS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['text', ['text']],
  ['reasoning', ['text']],
  ['text-delta', ['id', 'delta']],
  ['reasoning-delta', ['id', 'delta']],
  ['tool-call', ['toolCallId', 'toolName', 'input']],
])

const usageIn = (told: unknown, version: string): Fields => {
  const usage = Object(told) as Fields
  if (version === 'v2') return usage
  return { ...usage, inputTokens: Object(usage.inputTokens), outputTokens: Object(usage.outputTokens) }
}
