import { InvalidInput } from '../protocol/errors.ts'
import { anything, needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import { shown } from '../protocol/shown.ts'
import { checkProviderOptions } from './check-options.ts'
import { finalFailure } from './failure.ts'
import { partsOf, SECRET_NAME } from './header.ts'
import type { Model } from './llm-model.ts'

/** Speaks to language models of one vendor. */
export interface Provider {
  /** Throws a final ActionError when there is no key. */
  model(id: string): Promise<Model>
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
  return keyed('openai', vendors(options), async (settings, id) => {
    const { createOpenAI } = await import('@ai-sdk/openai')
    return createOpenAI(settings).chat(id)
  })
}

export function anthropicProvider(options: ProviderOptions): Provider {
  return keyed('anthropic', vendors(options), async (settings, id) => {
    const { createAnthropic } = await import('@ai-sdk/anthropic')
    return createAnthropic(settings).languageModel(id)
  })
}

export function googleProvider(options: ProviderOptions): Provider {
  return keyed('google', vendors(options), async (settings, id) => {
    const { createGoogleGenerativeAI } = await import('@ai-sdk/google')
    return createGoogleGenerativeAI(settings).languageModel(id)
  })
}

/** Whatever speaks the chat completions of OpenAI at a base URL: vLLM, Ollama, LM Studio, a gateway. It may need no key. */
export function compatibleProvider(
  options: Omit<ProviderOptions, 'apiKey'> & {
    readonly apiKey?: ApiKey
    readonly baseUrl: string
    readonly name: string
  },
): Provider {
  checkProviderOptions(options, { baseUrl: anything, name: needed(text) })
  const { name, baseUrl } = options
  if (!URL.canParse(baseUrl))
    throw new InvalidInput(`provider ${name}`, [
      { path: 'baseUrl', rule: 'url', message: 'must be a URL', found: shown(baseUrl) },
    ])
  return keyed(name, options, async (settings, id) => {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
    const own = { baseURL: baseUrl, name, includeUsage: true, supportsStructuredOutputs: true }
    return createOpenAICompatible({ ...settings, ...own }).languageModel(id)
  })
}

/** Whoever is handed no key at all is told so at the first use; the library would look into the environment by itself. */
function vendors(options: ProviderOptions): ProviderOptions {
  checkProviderOptions(options)
  return { ...options, apiKey: options.apiKey ?? '' }
}

interface Settings {
  readonly apiKey?: string
  readonly baseURL?: string
  readonly headers?: Record<string, string>
  readonly fetch: typeof fetch
}

function keyed(
  name: string,
  options: Omit<ProviderOptions, 'apiKey'> & { readonly apiKey?: ApiKey },
  make: (settings: Settings, id: string) => Promise<Model>,
): Provider {
  const { apiKey, baseUrl, headers = {}, maxResponseBytes = 16 * 1024 * 1024 } = options
  const bounded = boundedFetch(maxResponseBytes)
  const common = { fetch: bounded, headers: { ...headers }, ...(baseUrl === undefined ? {} : { baseURL: baseUrl }) }
  let used: readonly string[] = Object.entries(headers).flatMap(([key, value]) =>
    SECRET_NAME.test(key) ? partsOf(value) : [],
  )
  return {
    async model(id) {
      refuseUnlessFit('model', { id }, { id: needed(text) })
      if (apiKey === undefined) return make(common, id)
      const key = typeof apiKey === 'function' ? apiKey() : apiKey
      if (!key) throw finalFailure(`there is no key for ${name}`)
      if (!used.includes(key)) used = [...used, key]
      return make({ ...common, apiKey: key }, id)
    },
    secrets: () => used,
  }
}

/** As much of an address as is shown: the rest may be nobody's business. */
const originOf = (location: string, from: string): string =>
  URL.canParse(location, from) ? new URL(location, from).origin : 'something that is no URL'

/** Follows no redirect, which could carry the key elsewhere, and reads no more of an answer than it may. */
function boundedFetch(limit: number): typeof fetch {
  return async (input, init) => {
    const answer = await fetch(input, { ...init, redirect: 'manual' })
    const location = answer.status >= 300 && answer.status < 400 ? answer.headers.get('location') : null
    if (location !== null) {
      await answer.body?.cancel()
      throw finalFailure(
        `the provider redirects to ${originOf(location, answer.url)}, which is not followed; give the URL where it is`,
      )
    }
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
