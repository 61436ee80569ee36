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
