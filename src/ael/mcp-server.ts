import type { Approvers } from '../protocol/approvers.ts'
import { approversProblems } from '../protocol/check-approvers.ts'
import type { Problem } from '../protocol/errors.ts'
import { anything, type Field, flag, text, timeout, url, wholeFrom } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { blaming } from '../protocol/problem.ts'
import type { ApprovalPolicy } from './adapter.ts'
import { POLICY } from './approval.ts'
import { isHeaderName, isHeaderValue, OWN_HEADERS, partsOf, SECRET_NAME } from './header.ts'

/**
 * How a server is started or where it is, and what is made of its tools. In a file without the SDK: a config names these types, and whoever
 * writes one would have the SDK's checked along with their own.
 */
export type McpServer = McpCommand | McpUrl

/** A process that is started, and spoken to over its stdin and stdout. */
export interface McpCommand extends McpTrust, McpLimits {
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  readonly url?: undefined
  readonly headers?: undefined
}

/** A server that runs somewhere, and is spoken to by Streamable HTTP. */
export interface McpUrl extends McpTrust, McpLimits {
  /** Of http or https, without a name or a password in it. */
  readonly url: string
  /**
   * Sent with every request, to this origin only. Those that are called like a secret are kept out of everything that is stored or shown. A
   * function is asked for each request, as for a token that expires: all that it gives is kept out, and a request fails if it does, in a way
   * that may pass.
   */
  readonly headers?: McpHeaders | (() => McpHeaders | Promise<McpHeaders>)
  readonly command?: undefined
  readonly args?: undefined
  readonly env?: undefined
  readonly cwd?: undefined
}

export type McpHeaders = Readonly<Record<string, string>>

interface McpTrust {
  /** For all of its tools, or by the server's own name of each: `always_allow` when absent. */
  readonly policy?: ApprovalPolicy | ((tool: string) => ApprovalPolicy)
  /** Where its tools ask: who must agree, of whom how many, and until when; anybody within a week when absent. */
  readonly approvers?: Approvers
  /** Believes the server when it calls a tool read-only. The protocol advises against it for servers that are not yours. */
  readonly trustAnnotations?: boolean
}

interface McpLimits {
  /** For starting or reaching it and listing its tools: 15 s when nobody says otherwise. */
  readonly startMs?: number
  /** The largest message that is read of it: 10 MiB when nobody says otherwise. */
  readonly maxMessageBytes?: number
}

/** May the tools of a server be registered under this name? */
export const isNamespace = (name: string): boolean => /^[A-Za-z0-9_-]+$/.test(name)

const isText = (value: unknown): boolean => typeof value === 'string'
export const secretTexts: Field = {
  says: 'an object of texts',
  fits: (value) => isObject(value) && Object.values(value).every((one) => one === undefined || isText(one)),
  secret: true,
}

/** What the members of a server must be. */
export const MCP_SERVER: { readonly [O in keyof Required<McpServer>]: Field } = {
  command: text,
  args: { says: 'a list of texts', fits: (args) => Array.isArray(args) && args.every(isText) },
  env: secretTexts,
  cwd: text,
  url,
  headers: {
    says: `${secretTexts.says}, or a function that gives one`,
    fits: (headers) => secretTexts.fits(headers) || typeof headers === 'function',
    secret: true,
  },
  policy: {
    says: 'always_allow, ask, blocked, or a function that says one of them',
    fits: (policy) => POLICY.fits(policy) || typeof policy === 'function',
  },
  approvers: anything, // what is in it is asked below
  trustAnnotations: flag,
  startMs: timeout,
  maxMessageBytes: wholeFrom(1),
}

const OF_COMMANDS = ['args', 'env', 'cwd'] as const

/** What is wrong with a server whose members are what they must be. An option that means nothing would be one that somebody relies on. */
export function serverProblems(at: string, server: McpServer): readonly Problem[] {
  const problems: Problem[] = []
  const wrong = (key: string, rule: string, message: string) => problems.push({ path: `${at}.${key}`, rule, message })
  const { command, url, headers = {}, approvers } = server
  if (approvers !== undefined) problems.push(...approversProblems(approvers, `${at}.approvers`))
  if (command !== undefined && url !== undefined)
    wrong('url', 'exclusive', 'does not go with command: a server is started, or it is behind a URL')
  else if (url !== undefined) {
    const { protocol, username, password } = new URL(url)
    if (!/^https?:$/.test(protocol)) wrong('url', 'protocol', 'must be http or https')
    if (username !== '' || password !== '')
      wrong('url', 'credentials', 'must not hold a name or a password; give headers.authorization')
    for (const key of OF_COMMANDS)
      if (server[key] !== undefined) wrong(key, 'option', 'means nothing to a server behind a URL')
    for (const { path, rule, message } of typeof headers === 'function' ? [] : headerProblems(headers))
      wrong(`headers.${path}`, rule, message)
  } else if (command === undefined) wrong('command', 'required', 'is missing, and so is url')
  else if (server.headers !== undefined) wrong('headers', 'option', 'means nothing to a server that is started')
  return problems
}

const OURS = new Set([
  ...OWN_HEADERS,
  'accept',
  'content-type',
  'last-event-id',
  'mcp-session-id',
  'mcp-protocol-version',
])

/** What is wrong with headers, by their names. */
export function headerProblems(headers: McpHeaders): readonly Problem[] {
  const problems: Problem[] = []
  const wrong = blaming(problems)
  const seen = new Set<string>()
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    if (!isHeaderName(name)) wrong(name, 'name', 'is not a header name')
    else if (OURS.has(lower)) wrong(name, 'reserved', 'is set by the runtime')
    else if (seen.has(lower)) wrong(name, 'unique', 'is there already, in other letters')
    else if (value !== undefined && !isHeaderValue(value))
      wrong(name, 'value', 'must be one line of text without characters above U+00FF')
    seen.add(lower)
  }
  return problems
}

/** What of a server must be seen nowhere, as far as it is known before it is asked for. */
export const secretsIn = (server: McpServer): readonly string[] =>
  calledSecrets(server).flatMap(([at, value]) => (at.startsWith('headers.') ? partsOf(value) : [value]))

/** The same with where each stands, and headers whole. */
export function calledSecrets({ env = {}, headers = {}, url }: McpServer): readonly (readonly [string, string])[] {
  const query = url === undefined ? [] : new URL(url).searchParams
  const named = (at: string, values: Iterable<[string, string | undefined]>) =>
    [...values].flatMap(([name, value]) =>
      SECRET_NAME.test(name) && value !== undefined ? [[`${at}.${name}`, value] as const] : [],
    )
  const sent = typeof headers === 'function' ? [] : Object.entries(headers)
  return [...named('env', Object.entries(env)), ...named('url', query), ...named('headers', sent)]
}
