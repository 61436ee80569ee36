import { providerProblems } from './ael/check-provider.ts'
import { checkAllow } from './ael/http-guard.ts'
import { replyProblems } from './ael/llm-reply.ts'
import { isNamespace, serverProblems } from './ael/mcp-server.ts'
import { checkBuses } from './bus/bus-spec.ts'
import type { Config, ModelConfig } from './config.ts'
import { InvalidInput, type Problem } from './protocol/errors.ts'
import { isObject } from './protocol/json.ts'
import { blaming } from './protocol/problem.ts'
import { retold } from './protocol/retold.ts'
import { pathUnder } from './protocol/under.ts'
import { checkStoreUrl } from './vsl/vsl.ts'

/** The first of them that is there is read. */
export const CONFIG_FILES: readonly string[] = [
  'mplp.config.ts',
  'mplp.config.js',
  'mplp.config.mjs',
  'mplp.config.json',
]

/** Everything in a config that has the right type and that nobody could work with, asked of those who would have to; nothing is opened for it. */
export const unusable = ({ vsl, bus, http_allow, mcp = {}, models = {}, server = {} }: Config): readonly Problem[] => [
  ...problemsOf(typeof vsl === 'string' ? vsl : undefined, checkStoreUrl, () => 'vsl'),
  ...problemsOf(bus, checkBuses, (path) => `bus${path}`),
  ...problemsOf(http_allow, checkAllow, (path) => `http_${path}`),
  ...Object.keys(mcp).flatMap(unnamed),
  ...Object.entries(mcp).flatMap(([namespace, server]) => serverProblems(`mcp.${namespace}`, server)),
  ...Object.entries(models).flatMap(([name, model]) => modelProblems(`models.${name}`, model)),
  ...tokenProblems(server.tokens ?? []),
]

/** What a config says that needs something which it does not say. */
export const incomplete = ({ root, drift = {}, models, actions }: Config): readonly Problem[] => [
  ...(root === undefined && Object.values(drift).some((value) => value !== undefined)
    ? [{ path: 'drift', rule: 'needs', message: 'needs root, the folder that is to be held against the graph' }]
    : []),
  ...(models === undefined && actions?.max_rounds !== undefined
    ? [{ path: 'actions.max_rounds', rule: 'needs', message: 'needs models, which are to be asked' }]
    : []),
]

/** What a part of the config comes to for those who use it. What they find wrong is told by its place in the config: throws InvalidInput. */
export const inConfig = <T>(at: string, use: () => T): T => retold('config', (path) => pathUnder(at, path), use)

function problemsOf<T>(
  value: T | undefined,
  check: (value: T) => void,
  named: (path: string) => string,
): readonly Problem[] {
  try {
    if (value !== undefined) check(value)
    return []
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return error.problems.map((problem) => ({ ...problem, path: named(problem.path) }))
  }
}

const unnamed = (namespace: string): readonly Problem[] =>
  isNamespace(namespace)
    ? []
    : [{ path: `mcp.${namespace}`, rule: 'namespace', message: 'must be named by letters, digits, - and _' }]

/** An option that means nothing to a provider would be one that somebody relies on. */
function modelProblems(at: string, { provider, api_key_env, base_url, replies }: ModelConfig): readonly Problem[] {
  const problems: Problem[] = []
  const isOwn = typeof provider !== 'string'
  if (isOwn) problems.push(...providerProblems(provider, `${at}.provider`))
  const name = isOwn ? 'a provider of your own' : provider
  const wrong = (key: string, rule: string, message: string) => problems.push({ path: `${at}.${key}`, rule, message })
  const isScripted = provider === 'scripted'
  if (provider === 'compatible' && base_url === undefined)
    wrong('base_url', 'required', 'is missing; compatible servers are found by it')
  if (base_url !== undefined && !/^https?:/.test(base_url)) wrong('base_url', 'protocol', 'must be http or https')
  const isAlone = isScripted || isOwn
  if (isAlone && base_url !== undefined) wrong('base_url', 'option', `means nothing to ${name}`)
  if (isAlone && api_key_env !== undefined) wrong('api_key_env', 'option', `means nothing to ${name}`)
  if (!isScripted && replies !== undefined) wrong('replies', 'option', `means nothing to ${name}`)
  return [...problems, ...(replies ?? []).flatMap((reply, i) => replyProblems(reply, `${at}.replies[${i}]`))]
}

/** What a token allows. `admin` allows everything, and each of them to read. */
const ROLES = ['read', 'run', 'decide', 'admin'] as const
export type Role = (typeof ROLES)[number]
const SHORTEST_TOKEN = 16

/** What is wrong with the tokens of a server; none is shown. */
export function tokenProblems(tokens: unknown): readonly Problem[] {
  if (!Array.isArray(tokens)) return [{ path: 'server.tokens', rule: 'list', message: 'must be a list' }]
  const problems: Problem[] = []
  const wrong = blaming(problems)
  const places = new Map<string, number>()
  for (const [i, given] of tokens.entries()) {
    const { token, roles, ...others } = isObject(given) ? given : {}
    if (Object.keys(others).length > 0)
      // not named: where one is misplaced it may be the token
      wrong(`server.tokens[${i}]`, 'extra_forbidden', 'may hold token and roles, and nothing else')
    // Of other characters in a header each client makes other bytes.
    if (typeof token !== 'string' || token.length < SHORTEST_TOKEN || !/^[!-~]*$/.test(token))
      wrong(
        `server.tokens[${i}].token`,
        'length',
        `must be text of at least ${SHORTEST_TOKEN} characters of ASCII without spaces`,
      )
    else if (places.has(token))
      // or it would depend on their order what it allows
      wrong(
        `server.tokens[${i}].token`,
        'unique',
        `is that of tokens[${places.get(token)}] too; name all of its roles there`,
      )
    else places.set(token, i)
    if (!Array.isArray(roles) || roles.length === 0 || !roles.every((role) => ROLES.includes(role)))
      wrong(`server.tokens[${i}].roles`, 'enum', `must name some of ${ROLES.join(', ')}`)
  }
  return problems
}
