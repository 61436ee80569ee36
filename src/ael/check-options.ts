import {
  clock,
  duration,
  type Field,
  type Fields,
  having,
  list,
  method,
  needed,
  positive,
  refuseUnlessFit,
  text,
  timeout,
  wholeFrom,
} from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { executorKind, RETRY } from './action.ts'
import type { ActionLayerOptions } from './ael.ts'
import type { FileOptions } from './file.ts'
import type { FunctionOptions } from './function.ts'
import type { HttpOptions } from './http.ts'
import type { ProviderOptions } from './llm-provider.ts'
import type { MemoryBudgetOptions } from './memory-budget.ts'
import type { CacheOptions } from './with-cache.ts'

/** Each throws InvalidInput for what nothing can be made of. */
export const checkLayerOptions = (options: unknown): void => refuseUnlessFit('layer options', options, LAYER)
export const checkCacheOptions = (options: unknown): void => refuseUnlessFit('cache options', options, CACHE)
export const checkBudgetOptions = (options: unknown): void => refuseUnlessFit('budget', options, BUDGET)
export const checkFileOptions = (options: unknown): void => refuseUnlessFit('file options', options, FILE)
export const checkFunctionOptions = (options: unknown): void => refuseUnlessFit('function options', options, FUNCTION)
export const checkHttpOptions = (options: unknown): void => refuseUnlessFit('http options', options, HTTP)
export const checkProviderOptions = (options: unknown, more: Fields = {}): void =>
  refuseUnlessFit('provider', options, { ...PROVIDER, ...more })

type Table<Options> = { readonly [O in keyof Required<Options>]: Field }

export const adapter: Field = {
  says: 'an adapter: action_type, execute',
  fits: (value) => text.fits(Object(value).action_type) && typeof Object(value).execute === 'function',
}
export const redactor = having('a redactor', 'text', 'json', 'error')
export const observer = having('an observer: started, ended', 'started', 'ended')
export const budget = having('a budget: reserve, settle, release', 'reserve', 'settle', 'release')
export const registry = having('a registry of tools', 'find', 'get', 'list', 'register')
const blobs = having('blobs: put, get', 'put', 'get')
const bytes = wholeFrom(0)
/** A key that is not set must not keep the others from being hidden. */
const secrets = list

const aboveZero: Field = { ...positive, rule: 'range' }
const CACHE: Table<CacheOptions> = {
  ttlMs: needed(aboveZero),
  maxEntries: aboveZero,
  maxBytes: aboveZero,
  types: list,
  clock,
}
const limit: Field = {
  says: 'a number of at least 0',
  rule: 'range',
  fits: (value) => typeof value === 'number' && value >= 0,
}
const BUDGET: Table<MemoryBudgetOptions> = {
  actions: limit,
  tokens: limit,
  cost: limit,
  warnAt: { says: 'above 0 and at most 1', rule: 'range', fits: (value) => Number(value) > 0 && Number(value) <= 1 },
}
const LAYER: { readonly [O in keyof Required<ActionLayerOptions>]: Field | Fields } = {
  admit: method,
  gate: method,
  budget,
  blobs,
  emit: method,
  child: method,
  adapters: list,
  secrets,
  observer,
  onDelta: method,
  retry: RETRY,
  cache: CACHE,
  timeoutMs: timeout,
  graceMs: duration,
  inlineBytes: bytes,
  maxOutputBytes: bytes,
  atOnce: { '*': wholeFrom(1) },
  maxDepth: wholeFrom(0),
  clock,
}
const FILE: Table<FileOptions> = {
  root: needed({ says: 'a folder', fits: text.fits }),
  blobs,
  staleCheck: method,
  mayWrite: method,
  mayRead: method,
  maxBytes: bytes,
  clock,
}
const FUNCTION: Table<FunctionOptions> = { action_type: text, executor_kind: executorKind }
const HTTP: Table<HttpOptions> = {
  allow: list,
  credentials: method,
  secrets,
  maxResponseBytes: bytes,
  maxRedirects: bytes,
  resolve: method,
  clock,
}
const PROVIDER: Table<ProviderOptions> = {
  apiKey: {
    says: 'a key, or a function that gives it',
    fits: (value) => typeof value === 'string' || typeof value === 'function',
    secret: true,
  },
  baseUrl: text,
  headers: { says: 'an object', fits: isObject, secret: true },
  maxResponseBytes: bytes,
}
