import { type Field, flag, needed, oneOf, text } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import type { ApprovalPolicy } from './adapter.ts'

/**
 * How a server is started, and what is made of its tools. In a file without the SDK: a config names these types, and whoever writes one would
 * have the SDK's checked along with their own.
 */
export interface McpServer {
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** For all of its tools, or by the server's own name of each: `always_allow` when absent. */
  readonly policy?: ApprovalPolicy | ((tool: string) => ApprovalPolicy)
  /** Believes the server when it calls a tool read-only. The protocol advises against it for servers that are not yours. */
  readonly trustAnnotations?: boolean
}

/** May the tools of a server be registered under this name? */
export const isNamespace = (name: string): boolean => /^[A-Za-z0-9_-]+$/.test(name)

const isText = (value: unknown): boolean => typeof value === 'string'
const policies = oneOf('always_allow', 'ask', 'blocked')

/** What the members of a server must be. */
export const MCP_SERVER: { readonly [O in keyof Required<McpServer>]: Field } = {
  command: needed(text),
  args: { says: 'a list of texts', fits: (args) => Array.isArray(args) && args.every(isText) },
  env: {
    says: 'an object of texts',
    fits: (env) => isObject(env) && Object.values(env).every((value) => value === undefined || isText(value)),
    secret: true,
  },
  cwd: text,
  policy: {
    says: 'always_allow, ask, blocked, or a function that says one of them',
    fits: (policy) => policies.fits(policy) || typeof policy === 'function',
  },
  trustAnnotations: flag,
}
