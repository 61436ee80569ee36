import type { Adapter } from './ael/adapter.ts'
import type { FunctionSpec } from './ael/function.ts'
import type { McpServer } from './ael/mcp.ts'
import type { Tool } from './ael/tool-registry.ts'
import type { BusSpec } from './bus/bus.ts'
import type { Resolver } from './orchestrator/bind.ts'
import type { RunOptions } from './orchestrator/live.ts'
import { InvalidInput, type Problem } from './protocol/errors.ts'
import { isObject } from './protocol/json.ts'
import { shown } from './protocol/shown.ts'

/** Everything a runtime can be told. `vsl` and `bus` alone are enough to move from one machine's SQLite to a cluster's Postgres and Kafka. */
export interface Config {
  /** Where the graph is kept: `memory:`, `file:./state`, `sqlite:./.mplp/state.db` (the default), `redis://…`, `rediss://…`, `postgres://…`. */
  readonly vsl?: string
  /** Where events go: `redis://…`, `kafka://host:port/topic`, `ws://host:port/path`; none when absent. */
  readonly bus?: readonly BusSpec[]
  /** The folder that file actions may touch: the working directory when absent. */
  readonly root?: string
  /** For runs that say nothing themselves. */
  readonly run?: RunOptions
  /** How long an owner may be silent before others take over, and how often to look for what nobody looks after. */
  readonly lease_ttl_ms?: number
  readonly patrol_ms?: number
  /** 32 bytes as base64; values, journal and blobs are then encrypted. Best given as MPLP_ENCRYPTION_KEY. */
  readonly encryption_key?: string
  /** Private and local addresses that HTTP actions may reach all the same. */
  readonly http_allow?: readonly string[]
  /** Model Context Protocol servers, by namespace. */
  readonly mcp?: { readonly [namespace: string]: McpServer }
  readonly models?: { readonly [name: string]: ModelConfig }
  readonly server?: ServerConfig
  /** From code only. */
  readonly functions?: { readonly [name: string]: FunctionSpec }
  readonly tools?: readonly Tool[]
  readonly adapters?: readonly Adapter[]
  readonly resolve?: Resolver
}

export interface ModelConfig {
  readonly provider: 'openai' | 'anthropic' | 'google' | 'compatible' | 'scripted'
  /** The environment variable that holds the key; it is read at each use and never stored. */
  readonly api_key_env?: string
  readonly base_url?: string
  /** Of the scripted provider: what it says, in order. */
  readonly replies?: readonly string[]
}

export interface ServerConfig {
  /** Loopback when absent. */
  readonly host?: string
  readonly port?: number
  /** Needed as soon as the host is not loopback. */
  readonly tokens?: readonly {
    readonly token: string
    readonly roles: readonly ('read' | 'run' | 'decide' | 'admin')[]
  }[]
  readonly body_limit_bytes?: number
}

/** Gives a config file its types. */
export const defineConfig = (config: Config): Config => config

/** Where nothing else is said. */
const DEFAULTS = { vsl: 'sqlite:./.mplp/state.db', bus: [], root: '.' } as const

/** Later ones win; each is checked by itself, so that a message names what is really wrong. */
export function mergedConfig(...layers: readonly unknown[]): Config {
  let config: Config = DEFAULTS
  for (const layer of layers) config = { ...config, ...checkConfig(layer) }
  return config
}

/** Throws InvalidInput for unknown keys, with a suggestion, and for values of the wrong type. */
function checkConfig(value: unknown): Config {
  if (!isObject(value))
    throw new InvalidInput('config', [{ path: '', rule: 'type', message: 'must be an object', found: shown(value) }])
  const problems: Problem[] = []
  for (const [key, found] of Object.entries(value)) {
    const expected = FIELDS[key]
    if (!expected) {
      const near = nearest(key)
      problems.push({
        path: key,
        rule: 'extra_forbidden',
        message: `is not known${near === undefined ? '' : `; did you mean ${near}?`}`,
      })
    } else if (found !== undefined && !CHECKS[expected](found))
      problems.push({ path: key, rule: 'type', message: `must be ${SAYS[expected]}`, found: shown(found) })
  }
  if (problems.length > 0) throw new InvalidInput('config', problems)
  return value as Config
}

/** `MPLP_VSL`, `MPLP_BUS` (comma separated), `MPLP_ENCRYPTION_KEY`, …: the only reading of the environment. */
export function configFromEnv(env: NodeJS.ProcessEnv = process.env): Config {
  const found: { [key: string]: unknown } = {}
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('MPLP_') || text === undefined || OTHER_VARIABLES.has(name)) continue
    const key = name.slice('MPLP_'.length).toLowerCase()
    const kind = FIELDS[key]
    found[key] =
      kind === 'list'
        ? text.split(',').map((part) => part.trim())
        : kind === 'number'
          ? Number(text)
          : kind === 'object'
            ? parsed(name, text)
            : text
  }
  return checkConfig(found)
}

/** A key from the environment at the time it is needed. */
export const secretFromEnv =
  (name: string, env: NodeJS.ProcessEnv = process.env) =>
  (): string | undefined =>
    env[name]

/** The config as it may be shown: secrets and passwords in URLs are covered. */
export function maskedConfig(config: Config): { readonly [key: string]: unknown } {
  const text = JSON.stringify(config, (key, value) => {
    if (typeof value === 'function') return '(code)'
    if (/key$|token$|password|secret/i.test(key) && typeof value === 'string') return '***'
    return typeof value === 'string' ? value.replace(/(\/\/[^:/@]*:)[^@/]+@/, '$1***@') : value
  })
  return JSON.parse(text)
}

type FieldKind = 'text' | 'number' | 'list' | 'object' | 'function'

const FIELDS: { readonly [key: string]: FieldKind } = {
  vsl: 'text',
  bus: 'list',
  root: 'text',
  run: 'object',
  lease_ttl_ms: 'number',
  patrol_ms: 'number',
  encryption_key: 'text',
  http_allow: 'list',
  mcp: 'object',
  models: 'object',
  server: 'object',
  functions: 'object',
  tools: 'list',
  adapters: 'list',
  resolve: 'function',
}

const CHECKS: { readonly [K in FieldKind]: (value: unknown) => boolean } = {
  text: (value) => typeof value === 'string' && value !== '',
  number: (value) => typeof value === 'number' && Number.isFinite(value) && value > 0,
  list: Array.isArray,
  object: isObject,
  function: (value) => typeof value === 'function',
}
const SAYS: { readonly [K in FieldKind]: string } = {
  text: 'text that is not empty',
  number: 'a number above 0',
  list: 'a list',
  object: 'an object',
  function: 'a function',
}

/** Variables of ours that are no part of the config: how tests and the command line behave. */
const OTHER_VARIABLES: ReadonlySet<string> = new Set(['MPLP_TEST_INSTALL', 'MPLP_TEST_RESULTS'])

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new InvalidInput('environment', [{ path: name, rule: 'json', message: 'must be JSON', found: shown(text) }], {
      cause,
    })
  }
}

/** The known key that differs least, if it differs little. */
function nearest(key: string): string | undefined {
  const [best] = Object.keys(FIELDS)
    .map((known) => ({ known, distance: distance(key.toLowerCase(), known) }))
    .sort((a, b) => a.distance - b.distance)
  return best && best.distance <= 3 ? best.known : undefined
}

/** Levenshtein's. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
    row = next
  }
  return row[b.length]!
}
