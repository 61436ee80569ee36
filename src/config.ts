import type { Adapter } from './ael/adapter.ts'
import type { FunctionSpec } from './ael/function.ts'
import type { Provider } from './ael/llm-provider.ts'
import type { Reply } from './ael/llm-reply.ts'
import { MCP_SERVER, type McpServer } from './ael/mcp-server.ts'
import type { AtOnce } from './ael/places.ts'
import type { Tool } from './ael/tool-registry.ts'
import type { BusSpec } from './bus/bus-spec.ts'
import { incomplete, type Role, unusable } from './config-check.ts'
import type { Resolver } from './orchestrator/bind.ts'
import type { RunOptions } from './orchestrator/live.ts'
import type { FolderOptions } from './orchestrator/project-folder.ts'
import { RUN_OPTIONS } from './orchestrator/submit-check.ts'
import { InvalidInput, type Problem } from './protocol/errors.ts'
import {
  amount,
  type Field,
  type Fields,
  flag,
  isField,
  list,
  members,
  method,
  needed,
  notKnown,
  object,
  oneOf,
  positive,
  problemsIn,
  text,
  texts,
  timeout,
  url,
  uuid,
  wholeFrom,
  within,
} from './protocol/fields.ts'
import { given } from './protocol/given.ts'
import { isObject } from './protocol/json.ts'
import { A_PATTERN } from './protocol/path-pattern.ts'
import { blaming } from './protocol/problem.ts'
import type { Backend, ValueStateLayer } from './vsl/backend.ts'

/** Everything a runtime can be told. `vsl` and `bus` alone are enough to move from one machine's SQLite to a cluster's Postgres and Kafka. */
export interface Config {
  /**
   * Where the graph is kept: `memory:`, `file:./state`, `sqlite:./.mplp/state.db` (the default), `redis://…`, `rediss://…`, `postgres://…`; from code
   * also a function that opens a store of your own.
   */
  readonly vsl?: string | OpenOwnStore
  /** Where events go: `redis://…`, `kafka://host:port/topic`, `ws://host:port/path`; none when absent. */
  readonly bus?: readonly BusSpec[]
  /**
   * The project's folder: file actions stay within it, and what they read and write is held against the graph. Absent: file actions stay within the
   * working directory, and nothing is held against anything.
   */
  readonly root?: string
  /**
   * Glob patterns of what no flow reads or changes, and what is not held against the graph: git's own folder and `.env` with its kin when absent. A list
   * of your own takes their place.
   */
  readonly off_limits?: readonly string[]
  /** How the project's folder is held against the graph. */
  readonly drift?: DriftConfig
  /** For runs that say nothing themselves. */
  readonly run?: RunOptions
  readonly actions?: ActionsConfig
  /** How long an owner may be silent before others take over, and how often to look for what nobody looks after. */
  readonly lease_ttl_ms?: number
  readonly patrol_ms?: number
  /** Contexts that ended longer ago are taken away, as by `mplp store trim`, by every process that stays: all of them are kept when absent. */
  readonly keep_ended_days?: number
  /**
   * 32 bytes as base64; values, journal and blobs are then encrypted. Best given as MPLP_ENCRYPTION_KEY. Of several, the first seals, and all of them
   * open: to change keys, put the new one before the old.
   */
  readonly encryption_key?: string | readonly string[]
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

export interface DriftConfig {
  /** The context whose graph knows the files; one of the folder's own when absent. */
  readonly context?: string
  /** Glob patterns of what belongs, of what does not (every `node_modules` when absent), and the names of files with git's kind of ignore rules. */
  readonly include?: readonly string[]
  readonly exclude?: readonly string[]
  readonly ignore_files?: readonly string[]
  /** Who wins where; what no rule matches is asked. */
  readonly rules?: NonNullable<FolderOptions['rules']>
  /** Content up to this many bytes is kept: 5 MiB. */
  readonly keep_bytes?: number
  /** In `mplp serve` and in a runtime of your own: notice changes as they happen, once a path was quiet for `settle_ms`, 100. */
  readonly watch?: boolean
  readonly settle_ms?: number
  /** Beside watching, or instead: look at everything this often. */
  readonly scan_every_ms?: number
}

export interface ActionsConfig {
  /** How many are under way at once in this process, by type (`llm_call`), and as `*` all together: as many as come when absent. Others wait, in order. */
  readonly at_once?: AtOnce
  /** The largest output that is kept: 16 MiB. */
  readonly max_output_bytes?: number
  /** How often a model may be asked in one action: 8. */
  readonly max_rounds?: number
}

export interface ModelConfig {
  /** From code also a provider of your own. */
  readonly provider: 'openai' | 'anthropic' | 'google' | 'compatible' | 'scripted' | Provider
  /** The environment variable that holds the key; it is read at each use and never stored. */
  readonly api_key_env?: string
  readonly base_url?: string
  /** What a million tokens cost, in a currency of your choice: `budget.cost` of a run counts by it. A model without a price costs nothing. */
  readonly price?: { readonly prompt: number; readonly completion: number }
  /** Of the scripted provider: what it says, in order. */
  readonly replies?: readonly Reply[]
}

export interface ServerConfig {
  /** Loopback when absent. */
  readonly host?: string
  readonly port?: number
  /** Needed as soon as the host is not loopback. */
  readonly tokens?: readonly { readonly token: string; readonly roles: readonly Role[] }[]
  readonly body_limit_bytes?: number
}

/** What it opens is closed when it is no longer needed, as any other store. One that only has `get` and `set` is lifted. */
export type OpenOwnStore = () => Backend | ValueStateLayer | Promise<Backend | ValueStateLayer>

/** Gives a config file its types. */
export const defineConfig = (config: Config): Config => config

/** What holds where nothing is said. */
export const DEFAULTS = {
  vsl: 'sqlite:./.mplp/state.db',
  bus: [],
  off_limits: ['**/.git', '**/.env', '**/.env.local', '**/.env.*.local'],
  lease_ttl_ms: 10_000,
  patrol_ms: 1_000,
  server: { host: '127.0.0.1', port: 7117, body_limit_bytes: 4 * 1024 * 1024 },
} as const satisfies Config

/** Later ones win; each is checked by itself, so that a message names what is really wrong, and then what they come to together. */
export function mergedConfig(...layers: readonly unknown[]): Config {
  let config: Config = {}
  for (const layer of layers) config = { ...config, ...given(checkConfig(layer)) }
  const problems = incomplete(config)
  if (problems.length > 0) throw new InvalidInput('config', problems)
  return config
}

export type EffectiveConfig = Config & Required<Pick<Config, keyof typeof DEFAULTS>>

/** With everything that holds where nothing is said. */
export const effectiveConfig = (config: Config): EffectiveConfig => ({
  ...DEFAULTS,
  ...given(config),
  server: { ...DEFAULTS.server, ...given(config.server ?? {}) },
})

/** Throws InvalidInput for unknown keys, with a suggestion, for values of the wrong type, and for those that nobody could work with. */
export function checkConfig(value: unknown): Config {
  const problems = problemsWith(value)
  if (problems.length > 0) throw new InvalidInput('config', problems)
  return value as Config
}

function problemsWith(value: unknown): readonly Problem[] {
  const misfits = problemsIn(value, FIELDS, '')
  return misfits.length > 0 ? misfits : unusable(value as Config)
}

/** `MPLP_VSL`, `MPLP_BUS` (comma separated), `MPLP_ENCRYPTION_KEY`, …: the only reading of the environment. Problems are told by the variable. */
export function configFromEnv(env: NodeJS.ProcessEnv = process.env): Config {
  const found: { [key: string]: unknown } = {}
  const problems: Problem[] = []
  const wrong = blaming(problems)
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith('MPLP_') || value === undefined || OTHER_VARIABLES.has(name)) continue
    const key = name.slice('MPLP_'.length).toLowerCase()
    if (FROM_CODE.has(key))
      throw wrongVariable(name, 'from_code', 'is code: give it in a config file in TypeScript or JavaScript')
    const field = Object.hasOwn(FIELDS, key) ? FIELDS[key] : undefined
    if (field === undefined) wrong(name, 'extra_forbidden', notKnown(key, IN_VARIABLES, variableOf))
    else if (value === '') wrong(name, 'min_length', 'is empty: unset it, or give it a value')
    else found[key] = saidFor(field, name, value)
  }
  for (const problem of problemsWith(found))
    problems.push({ ...problem, path: problem.path.replace(/^[^.[]+/, variableOf) })
  if (problems.length > 0) throw new InvalidInput('environment', problems)
  return found
}

/** What the text of a variable says for a key: of most keys JSON. */
function saidFor(field: Field | Fields, name: string, value: string): unknown {
  if (field === text || field === storing) return value
  if (field === positive || field === days) return numberOrText(value)
  const isList = field === buses || field === texts || (field === sealing && value.includes(','))
  if (isList) return value.split(SEPARATOR).map((part) => part.trim())
  return field === sealing ? value : parsed(name, value)
}

/** But not between the brokers of one Kafka. */
const SEPARATOR = /,(?<!\bkafka:\/\/[^/]*,)/

const variableOf = (key: string): string => `MPLP_${key.toUpperCase()}`

/** The variable that holds a model's key; `undefined` where none is asked for. */
export const apiKeyName = ({ provider, api_key_env }: ModelConfig): string | undefined =>
  api_key_env ?? (KEYED.includes(String(provider)) ? `${String(provider).toUpperCase()}_API_KEY` : undefined)
const KEYED = ['openai', 'anthropic', 'google']

/** A key from the environment, to be asked for each time that it is needed. */
export const secretFromEnv = (name: string): string | undefined => process.env[name]

const sealing: Field = {
  says: '32 bytes as base64, or a list of different ones',
  rule: 'length',
  fits: (value) => {
    const keys: readonly unknown[] = [value].flat()
    return keys.length > 0 && keys.every(isSealingKey) && new Set(keys).size === keys.length
  },
  secret: true,
}
export const isSealingKey = (value: unknown): value is string =>
  typeof value === 'string' && /^[\w+/-]{43}=?\s*$/.test(value)
const storing: Field = {
  says: 'text that is not empty, or from code a function that opens a store',
  fits: (value) => text.fits(value) || method.fits(value),
}
const buses: Field = {
  says: 'a list of URLs, or of objects with a url or a transport',
  fits: (value) => Array.isArray(value) && value.every(isBus),
  secret: true, // a URL may hold a password
}
const isBus = (value: unknown): boolean =>
  text.fits(value) || (isObject(value) && (text.fits(value.url) || value.transport !== undefined))
/** As JSON in a variable: a pattern may hold a comma. */
const patterns: Field = {
  says: `a list, each ${A_PATTERN.says}`,
  fits: (value) => texts.fits(value) && (value as string[]).every(A_PATTERN.fits),
}
const names: Field = {
  says: 'a list of names of files, without folders',
  fits: (value) => texts.fits(value) && (value as string[]).every((name) => !/[/\\]|^\.\.?$/.test(name)),
}

export const SERVER: { readonly [K in keyof Required<ServerConfig>]: Field } = {
  host: text,
  port: wholeFrom(0, 65_535),
  tokens: { ...list, secret: true },
  body_limit_bytes: wholeFrom(1),
}

const vendor = oneOf('openai', 'anthropic', 'google', 'compatible', 'scripted')
const speaking: Field = {
  ...vendor,
  says: `${vendor.says}, or from code a provider`,
  fits: (value) => vendor.fits(value) || isObject(value), // what it must have is asked afterwards
}

const days = within(0, 36_500)

/** What each key must be. */
const FIELDS: Fields = {
  vsl: storing,
  bus: buses,
  root: text,
  off_limits: patterns,
  drift: {
    context: uuid,
    include: texts,
    exclude: texts,
    ignore_files: names,
    rules: list,
    keep_bytes: amount,
    watch: flag,
    settle_ms: timeout,
    scan_every_ms: wholeFrom(1),
  },
  run: RUN_OPTIONS,
  actions: { at_once: { '*': wholeFrom(1) }, max_output_bytes: wholeFrom(1), max_rounds: wholeFrom(1) },
  lease_ttl_ms: positive,
  patrol_ms: positive,
  keep_ended_days: days,
  encryption_key: sealing,
  http_allow: texts,
  mcp: { '*': MCP_SERVER },
  models: {
    '*': {
      provider: needed(speaking),
      api_key_env: text,
      base_url: url,
      price: { prompt: needed(amount), completion: needed(amount) },
      replies: list,
    },
  },
  server: SERVER,
  functions: members,
  tools: list,
  adapters: list,
  resolve: method,
}

/** Every key by its path: `drift.rules`, `models.*.provider`. What is in `run` belongs to flows. */
export const CONFIG_KEYS: readonly string[] = pathsIn({ ...FIELDS, run: object })

function pathsIn(fields: Fields): readonly string[] {
  return Object.entries(fields).flatMap(([key, field]) =>
    isField(field) ? [key] : [key, ...pathsIn(field).map((inner) => `${key}.${inner}`)],
  )
}

/** What a text cannot be. */
const FROM_CODE: ReadonlySet<string> = new Set(['functions', 'tools', 'adapters', 'resolve'])
const IN_VARIABLES: readonly string[] = Object.keys(FIELDS).filter((key) => !FROM_CODE.has(key))

/** Variables of ours that are no part of the config: how tests and the command line behave. */
const OTHER_VARIABLES: ReadonlySet<string> = new Set(['MPLP_TEST_INSTALL', 'MPLP_TEST_RESULTS'])

/** What is no number stays as it was given, to be shown so. */
const numberOrText = (text: string): number | string =>
  text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text)

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw wrongVariable(name, 'json', 'must be JSON', cause)
  }
}

const wrongVariable = (path: string, rule: string, message: string, cause?: unknown): InvalidInput =>
  new InvalidInput('environment', [{ path, rule, message }], { cause })
