import type { Config } from '../config.ts'
import { isObject, isPlain } from '../protocol/json.ts'

/** The config as it may be shown: keys, tokens and passwords are covered, also those in URLs, and what is code is only named. */
export const maskedConfig = (config: Config): { readonly [key: string]: unknown } =>
  masked(config, '') as { readonly [key: string]: unknown }

function masked(value: unknown, key: string): unknown {
  if (Array.isArray(value)) return value.map((one, i) => (SECRET_FLAG.test(value[i - 1]) ? '***' : masked(one, key)))
  if (typeof value === 'function') return '(code)'
  if (typeof value === 'string') return SECRET.test(key) ? '***' : withoutPasswords(value)
  if (!isObject(value)) return value
  const entries = Object.entries(value)
  const isCode = key !== '' && entries.some(([name, inner]) => typeof inner === 'function' && !MAY_BE_CODE.has(name))
  if (!isPlain(value) || (isCode && !MAY_BE_CODE.has(key)))
    return `(code) ${String(value.name ?? value.action_type ?? '')}`.trimEnd()
  return Object.fromEntries(entries.map(([name, inner]) => [name, MOSTLY_KEYS.has(key) ? '***' : masked(inner, name)]))
}
const SECRET = /(key|token|password|secret|authorization)$/i
/** In a list of arguments, what stands behind it is one. */
const SECRET_FLAG = /^--?[\w-]*(key|token|password|secret|authorization)$/i
/** What a server is started with, and what it is sent. */
const MOSTLY_KEYS: ReadonlySet<string> = new Set(['env', 'headers'])
/** Where a function stands among plain values. */
const MAY_BE_CODE: ReadonlySet<string> = new Set(['functions', 'resolve', 'policy', 'headers'])

const withoutPasswords = (text: string): string =>
  text
    .replace(/(\/\/[^:/@\s]*:)[^/\s]+@/g, '$1***@') // up to the last @: a password may hold one
    .replace(/((?:[?&]|^--?)[^=&]*(?:key|token|pass|secret|auth|credential|signature)[^=&]*=)[^&]+/gi, '$1***')
