import type { Adapter } from './ael/adapter.ts'
import type { Blobs } from './ael/layer.ts'
import type { LlmOptions, Provider } from './ael/llm.ts'
import type { ToolRegistry } from './ael/tool-registry.ts'
import { apiKeyName, type Config, type ModelConfig, secretFromEnv } from './config.ts'
import { inConfig } from './config-check.ts'
import type { ProjectFolder } from './orchestrator/project-folder.ts'
import type { Clock } from './protocol/clock.ts'
import { given } from './protocol/given.ts'
import type { Digest } from './protocol/json.ts'

export interface Parts {
  readonly tools: ToolRegistry
  /** Of the store, which is opened once they are known to fit. */
  readonly blobs: Promise<Blobs>
  readonly clock: Clock
  readonly folder: ProjectFolder | undefined
  /** Where file actions stay within: the folder's root, if there is one. */
  readonly root: string
  /** What of it flows may do. */
  readonly kept: { readonly [may in 'mayRead' | 'mayWrite']: (path: string) => Promise<boolean> }
  readonly onError: (error: unknown) => void
}

/** The tools that it lists. */
export async function toolsOf({ tools = [] }: Config): Promise<ToolRegistry> {
  const { toolRegistry } = await import('./ael/tool-registry.ts')
  const registry = toolRegistry()
  for (const [i, tool] of tools.entries()) inConfig(`tools[${i}]`, () => registry.register(tool))
  return registry
}

/** What carries out the actions that a config knows of; those of one's own come beside them. */
export async function adaptersOf(
  config: Config,
  { tools, blobs: found, clock, folder, root, kept, onError }: Parts,
): Promise<readonly Adapter[]> {
  const { toolAdapter } = await import('./ael/tool.ts')
  const adapters: Adapter[] = [toolAdapter(tools, { clock })]
  const { functions } = config
  if (functions) {
    const { functionAdapter } = await import('./ael/function.ts')
    adapters.push(inConfig('functions', () => functionAdapter(functions)))
  }
  const { httpAdapter } = await import('./ael/http.ts')
  adapters.push(httpAdapter({ clock, ...(config.http_allow && { allow: config.http_allow }) }))
  const { fileAdapter } = await import('./ael/file.ts')
  const blobs = {
    put: async (bytes: Uint8Array, signal?: AbortSignal) => (await found).put(bytes, signal),
    get: async (digest: Digest, signal?: AbortSignal) => (await found).get(digest, signal),
  }
  if (folder) {
    const { staleCheck, tracked } = folder
    const mayWrite = async (path: string) => (await kept.mayWrite(path)) && (await folder.mayWrite(path))
    adapters.push(tracked(await fileAdapter({ root, blobs, clock, staleCheck, ...kept, mayWrite })))
  } else adapters.push(await fileAdapter({ root, blobs, clock, ...kept }))
  if (config.models) {
    const { llmAdapter } = await import('./ael/llm.ts')
    const providers = await Promise.all(
      Object.entries(config.models).map(async ([name, model]) => [name, await providerOf(name, model)] as const),
    )
    const limits = given({ maxRounds: config.actions?.max_rounds })
    const price = priceIn(config.models)
    adapters.push(llmAdapter({ providers: Object.fromEntries(providers), tools, clock, price, ...limits }))
  }
  if (config.mcp)
    adapters.push(await (await import('./ael/mcp.ts')).mcpAdapter({ servers: config.mcp, tools, clock, onError }))
  return adapters
}

const MILLION = 1_000_000

function priceIn(models: NonNullable<Config['models']>): NonNullable<LlmOptions['price']> {
  return ({ provider, prompt, completion }) => {
    const { price } = models[provider]!
    return price && (prompt * price.prompt + completion * price.completion) / MILLION
  }
}

async function providerOf(name: string, { provider, api_key_env, base_url, replies }: ModelConfig): Promise<Provider> {
  if (typeof provider !== 'string') return provider
  const { anthropicProvider, compatibleProvider, googleProvider, openAiProvider, scriptedProvider } = await import(
    './ael/llm.ts'
  )
  const keyName = apiKeyName({ provider, ...given({ api_key_env }) }) ?? ''
  const apiKey = () => secretFromEnv(keyName)
  const options = { apiKey, ...given({ baseUrl: base_url }) }
  const open = {
    openai: () => openAiProvider(options),
    anthropic: () => anthropicProvider(options),
    google: () => googleProvider(options),
    compatible: () =>
      compatibleProvider({ ...(api_key_env !== undefined && { apiKey }), baseUrl: base_url ?? '', name }),
    scripted: () => scriptedProvider(replies ?? []),
  }
  return open[provider]()
}
