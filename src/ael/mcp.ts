import { type Clock, systemClock } from '../protocol/clock.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { clock as clockField, type Fields, method, needed, problemsIn } from '../protocol/fields.ts'
import { problem } from '../protocol/problem.ts'
import { reporter } from '../protocol/reporter.ts'
import type { Adapter } from './adapter.ts'
import { registry } from './check-options.ts'
import { type McpConnection, mcpConnection } from './mcp-connection.ts'
import { changingSecrets } from './mcp-headers.ts'
import { isNamespace, MCP_SERVER, type McpServer, secretsIn, serverProblems } from './mcp-server.ts'
import { redactor } from './redact.ts'
import { toolAdapter } from './tool.ts'
import type { ToolRegistry } from './tool-registry.ts'

export type { McpCommand, McpHeaders, McpServer, McpUrl } from './mcp-server.ts'

export interface McpOptions {
  /** By namespace: the tools of `files` are registered as `files.<name>`. */
  readonly servers: Readonly<Record<string, McpServer>>
  readonly tools: ToolRegistry
  /** For starting or reaching a server that does not say itself, and listing its tools: 15 s when absent. */
  readonly startMs?: number
  /** Of a server that does not say itself: 10 MiB when absent. */
  readonly maxMessageBytes?: number
  /** Told which tools cannot be used and are left out; a warning of the process when absent. */
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
}

/**
 * Starts the servers, or reaches those that are behind a URL, and lists their tools into the registry, where `tool_call` finds them. The adapter
 * itself does `mcp_call`, which has the same params and reaches these servers' tools only; register it with the layer, so that closing the layer
 * ends the servers.
 */
export async function mcpAdapter(options: McpOptions): Promise<Adapter> {
  checkOptions(options)
  const { servers, tools, startMs = 15_000, maxMessageBytes = 10 * 1024 * 1024, clock = systemClock } = options
  const secrets = changingSecrets(Object.values(servers).flatMap(secretsIn))
  const redact = redactor(secrets.all) // the layer does it too, but is not there yet
  const report = reporter(options.onError)
  const onError = (error: unknown) => report(redact.error(error))
  const limitsOf = (server: McpServer) => ({
    startMs: server.startMs ?? startMs,
    maxMessageBytes: server.maxMessageBytes ?? maxMessageBytes,
  })
  const connections: McpConnection[] = Object.entries(servers).map(([namespace, server]) =>
    mcpConnection({ namespace, server, tools, clock, onError, onSecrets: secrets.add, ...limitsOf(server) }),
  )
  const close = async () => {
    await Promise.all(connections.map((connection) => connection.close()))
  }
  try {
    await Promise.all(connections.map((connection) => connection.open()))
  } catch (error) {
    await close()
    throw redact.error(error)
  }
  const owned = (name: string) => connections.some((connection) => connection.owns(name))
  return { ...toolAdapter(restricted(tools, owned), { clock }), action_type: 'mcp_call', secrets: secrets.all, close }
}

const restricted = (tools: ToolRegistry, owned: (name: string) => boolean): ToolRegistry => ({
  register: (tool) => tools.register(tool),
  unregister: (name) => tools.unregister(name),
  find: (name) => (owned(name) ? tools.find(name) : undefined),
  get: (name) => tools.get(owned(name) ? name : `${name} of an MCP server`),
  list: (namespace) => tools.list(namespace).filter(({ name }) => owned(name)),
})

const OPTIONS: Fields = {
  servers: { '*': MCP_SERVER },
  startMs: MCP_SERVER.startMs,
  maxMessageBytes: MCP_SERVER.maxMessageBytes,
  tools: needed(registry),
  onError: method,
  clock: clockField,
}

/** What no attempt could start must not look like a server that might start later. */
function checkOptions(options: McpOptions): void {
  const { servers = null, ...rest } = Object(options) as Partial<McpOptions>
  const problems = [...problemsIn({ servers, ...rest }, OPTIONS, '')]
  for (const namespace of Object.keys(Object(servers)))
    if (!isNamespace(namespace))
      problems.push(problem(`servers.${namespace}`, 'namespace', 'must be letters, digits, - and _', namespace))
  if (problems.length === 0)
    for (const [namespace, server] of Object.entries(Object(servers) as McpOptions['servers']))
      problems.push(...serverProblems(`servers.${namespace}`, server))
  if (problems.length > 0) throw new InvalidInput('mcp options', problems)
}
