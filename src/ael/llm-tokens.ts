import type { TokenUsage } from './adapter.ts'

/** About as many as text usually has: for what nobody has counted yet, or does not tell. */
export const tokensIn = (text: string): number => Math.ceil(text.length / 4)

/**
 * What a server says that a round has used. What it leaves out, or cannot mean, is reckoned: it would be free, and no budget would ever hold. Libraries
 * put 0 for what a server left out, which no prompt takes, and nothing that was said.
 */
export function usageOf(
  told: { readonly [part in 'inputTokens' | 'outputTokens']?: number | undefined },
  asked: () => string,
  said: string,
): TokenUsage {
  const prompt = countIn(told.inputTokens) ?? tokensIn(asked())
  const completion = countIn(told.outputTokens) ?? tokensIn(said)
  return { prompt, completion, total: prompt + completion }
}

const countIn = (count: number | undefined): number | undefined =>
  Number.isSafeInteger(count) && count! > 0 ? count : undefined
