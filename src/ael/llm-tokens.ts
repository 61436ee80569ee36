import { isObject, type Json } from '../protocol/json.ts'
import type { TokenUsage } from './adapter.ts'
import type { RegisteredTool } from './tool-registry.ts'

/** About as many as text usually has: for what nobody has counted yet, or does not tell. */
export const tokensIn = (text: string): number => Math.ceil(text.length / 4)

/** Providers scale a large image down before they count it: none then makes many more of one, however many bytes it has. */
const IMAGE_TOKENS = 1_600

/** What a model is asked: the tools that it may choose and the shape of its answer are paid for like what is said to it. */
export interface Asked {
  readonly messages: Json | undefined
  readonly tools: Iterable<RegisteredTool>
  readonly schema: Json | undefined
}

export function tokensAsked({ messages, tools, schema }: Asked): number {
  const shown: unknown[] = [...tools].map(({ name, description, compiledInput: { json } }) => [name, description, json])
  if (schema !== undefined) shown.push(schema)
  return tokensIn(asCounted(messages)) + shown.reduce<number>((sum, one) => sum + tokensIn(JSON.stringify(one)), 0)
}

/** Messages as the text by whose letters they are reckoned. */
const asCounted = (messages: Json = ''): string =>
  JSON.stringify(messages, (_, part) =>
    isImage(part) ? { ...part, data: part.data.slice(0, 4 * IMAGE_TOKENS) } : part,
  )

const isImage = (part: unknown): part is { readonly data: string } =>
  isObject(part) && part.type === 'file' && /^image\b/i.test(String(part.mediaType)) && typeof part.data === 'string'

/**
 * What a server says that a round has used. What it leaves out, or cannot mean, is reckoned: it would be free, and no budget would ever hold. Libraries
 * put 0 for what a server left out, which no prompt takes, and nothing that was said.
 */
export function usageOf(
  told: { readonly [part in 'inputTokens' | 'outputTokens']?: number | undefined },
  asked: Asked,
  said: string,
): TokenUsage {
  const prompt = countIn(told.inputTokens) ?? tokensAsked(asked)
  const completion = countIn(told.outputTokens) ?? tokensIn(said)
  return { prompt, completion, total: prompt + completion }
}

const countIn = (count: number | undefined): number | undefined =>
  Number.isSafeInteger(count) && count! > 0 ? count : undefined
