import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Tool as McpTool } from '@modelcontextprotocol/sdk/types.js'
import type { Clock } from '../protocol/clock.ts'
import { ActionError, InvalidInput, MplpError, type Problem, TooLarge } from '../protocol/errors.ts'
import { given } from '../protocol/given.ts'
import { type Json, roughBytes } from '../protocol/json.ts'
import { shownPath } from '../protocol/shown.ts'
import { VERSION } from '../protocol/version.ts'
import { finalFrom, timedOut } from './failure.ts'
import { inTime } from './in-time.ts'
import { mcpHttp } from './mcp-http.ts'
import { mcpProcess } from './mcp-process.ts'
import type { McpServer } from './mcp-server.ts'
import type { McpWire } from './mcp-wire.ts'

export interface McpLinkOptions {
  readonly namespace: string
  readonly server: McpServer
  readonly startMs: number
  readonly maxMessageBytes: number
  readonly clock: Clock
  /** Told which tools cannot be used. */
  readonly onError: (error: unknown) => void
  /** Told what must be seen nowhere and was not known at the start. */
  readonly onSecrets: (values: readonly string[]) => void
}

/** A server that is spoken to, from its start to its end. */
export interface McpLink {
  readonly client: Client
  readonly wire: McpWire
  /** Resolves when the wire is gone. */
  readonly ended: Promise<void>
  /** Resolves when the tools are listed that it has said to have. */
  listed(): Promise<void>
  inHand: number
  /** Ends as soon as nothing is in hand. */
  tainted: boolean
}

/** `found` is told the tools, at the start and when the server says that they are others. */
export async function openLink(
  options: McpLinkOptions,
  found: (tools: readonly McpTool[]) => Promise<void>,
): Promise<McpLink> {
  const { namespace, startMs, clock, onError } = options
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js')

  const wire = await wireTo(options)
  const client = new Client({ name: 'mplp-runtime', version: VERSION })
  const ended = new Promise<void>((resolve) => {
    client.onclose = resolve
  })
  const list = async () => found(await toolsOf(client, options))
  let listed = Promise.resolve()
  let isAsked = false
  const listAnew = () => {
    isAsked = false
    return list()
  }
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    if (isAsked) return // a server may say so a hundred times before it is asked once
    isAsked = true
    listed = listed.then(listAnew).catch((error) => {
      if (wire.isAlive) onError(error) // one that died is asked again when it is started again
    })
  })
  const [began, failed] =
    options.server.url === undefined ? ['starting', 'did not start'] : ['reaching', 'cannot be used']
  const begin = async () => {
    await client.connect(wire, { timeout: startMs })
    listed = list()
    await listed
  }
  try {
    await inTime(begin(), startMs, `${began} it and listing its tools`, clock)
  } catch (error) {
    await wire.kill()
    if (error instanceof MplpError && !(error instanceof ActionError)) throw error
    throw linkFailure(error, wire, options, `the MCP server ${namespace} ${failed}`, `what ${namespace} says`)
  }
  return { client, wire, ended, listed: () => listed, inHand: 0, tainted: false }
}

async function wireTo({ server, ...options }: McpLinkOptions): Promise<McpWire> {
  if (server.url !== undefined) return mcpHttp(server, options)
  const { getDefaultEnvironment } = await import('@modelcontextprotocol/sdk/client/stdio.js')
  return mcpProcess(server, getDefaultEnvironment(), options.maxMessageBytes)
}

/** What an error that came through the wire is to whoever attempted it: `did` what, and for the sake of which `message`. */
export function linkFailure(
  error: unknown,
  wire: McpWire,
  { namespace, maxMessageBytes }: McpLinkOptions,
  did: string,
  message: string,
): ActionError {
  const { reason, tooLarge, retryable, retryAfterMs } = wire.told(error)
  if (tooLarge) {
    const remedy = `ask for less, or raise maxMessageBytes of the MCP server ${namespace}`
    return finalFrom(new TooLarge(message, maxMessageBytes + 1, maxMessageBytes, remedy))
  }
  return new ActionError('action_failed', `${did}: ${reason}`, { retryable, ...given({ retryAfterMs }), cause: error })
}

/** Not by the library's own `listTools`, which refuses all of them for the sake of one whose shape or output schema it cannot read. */
async function toolsOf(client: Client, { namespace, startMs, clock, onError }: McpLinkOptions): Promise<McpTool[]> {
  const { PaginatedResultSchema, ToolSchema } = await import('@modelcontextprotocol/sdk/types.js')
  const found: McpTool[] = []
  const cursors = new Set<string>()
  let [offers, bytes] = [0, 0]
  const until = clock.now() + startMs
  for (let cursor: string | undefined; ; ) {
    const params = cursor === undefined ? {} : { cursor }
    const timeout = Math.min(until - clock.now(), startMs) // a clock that was set back gives no time
    if (timeout <= 0) throw timedOut(`listing the tools of ${namespace}`, startMs)
    const page = await client.request({ method: 'tools/list', params }, PaginatedResultSchema, { timeout })
    if (!Array.isArray(page.tools)) throw new Error('its list of tools is none')
    offers += page.tools.length
    bytes += roughBytes(page.tools as readonly Json[])
    if (offers > MOST_TOOLS || bytes > MOST_BYTES) throw new Error(TOO_MANY)
    for (const offered of page.tools as readonly unknown[]) {
      const { data, error } = ToolSchema.safeParse(offered)
      if (data) found.push(data)
      else onError(leftOut(`${namespace}.${String(Object(offered).name)}`, error.issues.map(problemOf), error))
    }
    cursor = page.nextCursor
    if (cursor === undefined) return found
    if (cursors.has(cursor) || cursors.size === MOST_PAGES) throw new Error('its list of tools has no end')
    cursors.add(cursor)
  }
}
const MOST_PAGES = 1_000
/** All of a list is held at once, and each tool of it takes its time to be made. */
const MOST_TOOLS = 10_000
const MOST_BYTES = 64 * 1024 * 1024
const TOO_MANY = 'its list of tools is larger than 10,000 tools or 64 MiB'

/** A tool that nobody can use. */
export const leftOut = (tool: string, problems: readonly Problem[], cause: unknown): InvalidInput =>
  new InvalidInput(`the tool ${tool}, which is left out,`, problems, { cause })

const problemOf = ({ path, code, message }: Issue): Problem => ({
  path: shownPath(path.map((step) => (typeof step === 'number' ? step : String(step)))),
  rule: code,
  message,
})
interface Issue {
  readonly path: readonly PropertyKey[]
  readonly code: string
  readonly message: string
}
