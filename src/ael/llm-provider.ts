import type { LanguageModel } from 'ai'
import { InvalidInput } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { finalFailure } from './failure.ts'

/** Speaks to language models of one vendor. */
export interface Provider {
  /** Throws a final ActionError when there is no key. */
  model(id: string): Promise<LanguageModel>
  /** Every key it has used so far. */
  secrets(): readonly string[]
}

/** A key, or where to look for it at each use: never a parameter of an action. */
export type ApiKey = string | (() => string | undefined)

export interface ProviderOptions {
  readonly apiKey: ApiKey
  readonly baseUrl?: string
  readonly headers?: Readonly<Record<string, string>>
  /** 16 MiB when absent. */
  readonly maxResponseBytes?: number
}

/** OpenAI, by its chat completions: nothing of a conversation is kept there. */
export function openAiProvider(options: ProviderOptions): Provider {
  return keyed('openai', options, async (settings, id) => {
    const { createOpenAI } = await import('@ai-sdk/openai')
    return createOpenAI(settings).chat(id)
  })
}

export function anthropicProvider(options: ProviderOptions): Provider {
  return keyed('anthropic', options, async (settings, id) => {
    const { createAnthropic } = await import('@ai-sdk/anthropic')
    return createAnthropic(settings).languageModel(id)
  })
}

export function googleProvider(options: ProviderOptions): Provider {
  return keyed('google', options, async (settings, id) => {
    const { createGoogleGenerativeAI } = await import('@ai-sdk/google')
    return createGoogleGenerativeAI(settings).languageModel(id)
  })
}

/** Whatever speaks the chat completions of OpenAI at a base URL: vLLM, Ollama, LM Studio, a gateway. `apiKey` may be left out. */
export function compatibleProvider(
  options: Omit<ProviderOptions, 'apiKey'> & {
    readonly apiKey?: ApiKey
    readonly baseUrl: string
    readonly name: string
  },
): Provider {
  const { name, baseUrl, apiKey = NO_KEY } = options
  if (!URL.canParse(baseUrl))
    throw new InvalidInput(`provider ${name}`, [
      { path: 'baseUrl', rule: 'url', message: 'must be a URL', found: shown(baseUrl) },
    ])
  return keyed(name, { ...options, apiKey }, async ({ apiKey: key, ...settings }, id) => {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
    const own = { ...settings, baseURL: baseUrl, name, includeUsage: true, supportsStructuredOutputs: true }
    return createOpenAICompatible(key === NO_KEY ? own : { ...own, apiKey: key }).languageModel(id)
  })
}

const NO_KEY = 'none'

interface Settings {
  readonly apiKey: string
  readonly baseURL?: string
  readonly headers?: Record<string, string>
  readonly fetch: typeof fetch
}

function keyed(
  name: string,
  options: ProviderOptions,
  make: (settings: Settings, id: string) => Promise<LanguageModel>,
): Provider {
  const { apiKey, baseUrl, headers, maxResponseBytes = 16 * 1024 * 1024 } = options
  const bounded = boundedFetch(maxResponseBytes)
  let used: readonly string[] = Object.values(headers ?? {})
  return {
    model(id) {
      const key = typeof apiKey === 'function' ? apiKey() : apiKey
      // An empty key would make the library look into the environment by itself.
      if (!key) throw finalFailure(`there is no key for ${name}`)
      if (key !== NO_KEY && !used.includes(key)) used = [...used, key]
      return make(
        {
          apiKey: key,
          fetch: bounded,
          ...(baseUrl && { baseURL: baseUrl }),
          ...(headers && { headers: { ...headers } }),
        },
        id,
      )
    },
    secrets: () => used,
  }
}

/** Follows no redirect, which could carry the key elsewhere, and reads no more of an answer than it may. */
function boundedFetch(limit: number): typeof fetch {
  return async (input, init) => {
    const answer = await fetch(input, { ...init, redirect: 'error' })
    if (answer.body === null) return answer
    let bytes = 0
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length
        if (bytes > limit) controller.error(finalFailure(`the model's answer is above ${limit} bytes`))
        else controller.enqueue(chunk)
      },
    })
    const { status, statusText, headers } = answer
    return new Response(answer.body.pipeThrough(counted), { status, statusText, headers })
  }
}
