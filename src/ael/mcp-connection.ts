import { existsSync } from 'node:fs'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { CallToolResult, Tool as McpTool } from '@modelcontextprotocol/sdk/types.js'
import { ActionError, Closed, InvalidInput, MplpError, type Problem, TooLarge } from '../protocol/errors.ts'
import { LONGEST_TIMER_MS } from '../protocol/fields.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import { shownPath } from '../protocol/shown.ts'
import { VERSION } from '../protocol/version.ts'
import { endOf } from './excerpt.ts'
import { aborted, finalFailure, orAborted, passingFailure } from './failure.ts'
import { type McpProcess, mcpProcess } from './mcp-process.ts'
import type { McpServer } from './mcp-server.ts'
import { type RegisteredTool, type Tool, type ToolCall, type ToolRegistry, toolRegistry } from './tool-registry.ts'

export interface McpConnectionOptions {
  readonly namespace: string
  readonly server: McpServer
  readonly tools: ToolRegistry
  readonly startMs: number
  readonly maxMessageBytes: number
  /** Told which tools cannot be used. */
  readonly onError: (error: unknown) => void
}

/**
 * One server, started when it is needed. A server that dies fails the calls it had in hand, and they may be attempted again; the next call
 * starts it anew. An aborted call ends it too, once nothing else is in hand: the protocol can ask a server to stop, but only the end of the
 * process makes sure that it has.
 */
export interface McpConnection {
  open(): Promise<void>
  owns(tool: string): boolean
  close(): Promise<void>
}

export function mcpConnection(options: McpConnectionOptions): McpConnection {
  const { namespace, tools } = options
  const listed = new Map<string, RegisteredTool>()
  const links = new Set<Link>()
  let current: Promise<Link> | undefined
  let closed = false

  const linked = (): Promise<Link> => {
    if (closed) throw new Closed(`the MCP server ${namespace}`)
    if (current !== undefined) return current
    const opening = openLink(options, (found) => relist(found, opening))
    current = opening
    opening.then(
      (link) => {
        links.add(link)
        void link.ended.then(() => {
          links.delete(link)
          forget(opening)
        })
      },
      () => forget(opening),
    )
    return opening
  }
  const forget = (link: Promise<Link>) => {
    if (current === link) current = undefined
  }

  /** A server may offer other tools than before, after a restart or when it says so. Nothing goes before it is known what comes. */
  const relist = (found: readonly McpTool[], from: Promise<Link>) => {
    if (closed || current !== from) return
    const usable = usableOf(found.map((tool) => toolOf(tool, options, use)))
    for (const { name } of usable) if (!isOurs(name)) refuseIfTaken(tools, name)
    unlist()
    for (const tool of usable) {
      tools.register(tool)
      listed.set(tool.name, tools.get(tool.name))
    }
  }
  /** Others may have taken a tool out of the registry, and put one of their own into its place. */
  const isOurs = (name: string): boolean => listed.has(name) && listed.get(name) === tools.find(name)
  const unlist = () => {
    for (const name of listed.keys()) if (isOurs(name)) tools.unregister(name)
    listed.clear()
  }

  /** One odd tool must not take the others away: it is told and left out. */
  const usableOf = (offered: readonly Tool[]): readonly Tool[] => {
    const trial = toolRegistry()
    return offered.filter((tool) => {
      try {
        trial.register(tool)
        return true
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error
        options.onError(leftOut(tool.name, error.problems, error))
        return false
      }
    })
  }

  const use = async (tool: string, args: JsonObject, call: ToolCall): Promise<Json | undefined> => {
    const opening = linked()
    const link = await orAborted(opening, call.signal, `${namespace}.${tool}`)
    link.inHand++
    try {
      const answer = await called(link.client, tool, args, call)
      await orAborted(link.listed(), call.signal, tool).catch(() => undefined) // what comes next may need a tool that this call brought
      return outputOf(answer, tool)
    } catch (error) {
      if (call.signal.aborted) {
        link.tainted = true
        forget(opening)
      }
      throw callFailure(error, `${namespace}.${tool}`, link.child, call.signal)
    } finally {
      link.inHand--
      if (link.tainted && link.inHand === 0) await link.child.kill()
    }
  }

  return {
    async open() {
      await linked()
    },
    owns: isOurs,
    async close() {
      closed = true
      await current?.catch(() => undefined)
      await Promise.all([...links].map((link) => link.child.close()))
      unlist()
    },
  }
}

interface Link {
  readonly client: Client
  readonly child: McpProcess
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>
  /** Resolves when the tools are listed that it has said to have. */
  listed(): Promise<void>
  inHand: number
  /** A call was aborted: ends as soon as nothing is in hand. */
  tainted: boolean
}

async function openLink(options: McpConnectionOptions, found: (tools: readonly McpTool[]) => void): Promise<Link> {
  const { namespace, server, startMs, maxMessageBytes, onError } = options
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { getDefaultEnvironment } = await import('@modelcontextprotocol/sdk/client/stdio.js')
  const { ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js')

  const child = mcpProcess(server, getDefaultEnvironment(), maxMessageBytes)
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
      if (child.isAlive) onError(error) // one that died is asked again when it is started again
    })
  })
  try {
    await client.connect(child, { timeout: startMs })
    listed = list()
    await listed
  } catch (error) {
    await child.kill()
    if (error instanceof MplpError) throw error
    throw passingFailure(`the MCP server ${namespace} did not start: ${whyNot(error, child, server)}`, { cause: error })
  }
  return { client, child, ended, listed: () => listed, inHand: 0, tainted: false }
}

/** Not by the library's own `listTools`, which refuses all of them for the sake of one whose shape or output schema it cannot read. */
async function toolsOf(client: Client, { namespace, startMs, onError }: McpConnectionOptions): Promise<McpTool[]> {
  const { PaginatedResultSchema, ToolSchema } = await import('@modelcontextprotocol/sdk/types.js')
  const found: McpTool[] = []
  const cursors = new Set<string>()
  for (let cursor: string | undefined; ; ) {
    const params = cursor === undefined ? {} : { cursor }
    const page = await client.request({ method: 'tools/list', params }, PaginatedResultSchema, { timeout: startMs })
    if (!Array.isArray(page.tools)) throw new Error('its list of tools is none')
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

const leftOut = (tool: string, problems: readonly Problem[], cause: unknown): InvalidInput =>
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

function refuseIfTaken(tools: ToolRegistry, name: string): void {
  if (!tools.find(name)) return
  throw new InvalidInput(`the tool ${name}`, [
    { path: 'name', rule: 'unique', message: 'is registered already', found: name },
  ])
}

type Use = (tool: string, args: JsonObject, call: ToolCall) => Promise<Json | undefined>

function toolOf(tool: McpTool, { namespace, server }: McpConnectionOptions, use: Use): Tool {
  const { policy } = server
  return {
    name: `${namespace}.${tool.name.replace(/[^A-Za-z0-9_.-]/g, '_')}`,
    description: tool.description ?? tool.title ?? tool.name,
    input: tool.inputSchema as JsonObject,
    ...(tool.outputSchema && { output: tool.outputSchema as JsonObject }),
    readOnly: server.trustAnnotations === true && tool.annotations?.readOnlyHint === true,
    policy: typeof policy === 'function' ? policy(tool.name) : (policy ?? 'always_allow'),
    execute: (args, call) => use(tool.name, args, call),
  }
}

function called(client: Client, name: string, args: JsonObject, call: ToolCall): Promise<CallToolResult> {
  const { idempotency_key, run, execution_id, signal } = call
  const _meta = {
    ...(idempotency_key !== '' && { 'mplp-runtime/idempotency-key': idempotency_key }),
    ...(run && { 'mplp-runtime/trace-id': run.trace_id, 'mplp-runtime/span-id': execution_id }),
  }
  const onprogress = ({ message }: { message?: string | undefined }) => {
    if (message !== undefined) call.onDelta(message)
  }
  const options = { signal, timeout: LONGEST_TIMER_MS, onprogress } // our own timeout comes by the signal
  return client.callTool({ name, arguments: { ...args }, _meta }, undefined, options) as Promise<CallToolResult>
}

/** The structured answer where there is one; otherwise its text, or all of its parts when some are not text. */
function outputOf({ structuredContent, content = [], isError }: CallToolResult, tool: string): Json | undefined {
  const texts = content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
  if (isError) throw finalFailure(texts.join('\n') || `${tool} reported an error`)
  if (structuredContent !== undefined) return structuredContent as Json
  if (content.length === 0) return undefined
  return texts.length === content.length ? texts.join('\n') : (content as unknown as Json)
}

function callFailure(error: unknown, what: string, child: McpProcess, signal: AbortSignal): ActionError {
  if (signal.aborted) return aborted(what, signal)
  if (error instanceof ActionError) return error
  if (child.tooLarge) {
    const cause = new TooLarge(
      `the answer of ${what}`,
      child.limit + 1,
      child.limit,
      'ask for less, or raise maxMessageBytes of mcpAdapter',
    )
    return finalFailure(cause.message, { cause })
  }
  const text = `${what} failed: ${reasonOf(error, child)}`
  // Not by the code: the one that the library gives to a lost connection is for servers to use as they like.
  return child.isAlive ? finalFailure(text, { cause: error }) : passingFailure(text, { cause: error })
}

/** Node names the command also where the folder is what is missing. */
function whyNot(error: unknown, child: McpProcess, { command, cwd }: McpServer): string {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return reasonOf(error, child)
  return cwd !== undefined && !existsSync(cwd) ? `its cwd ${cwd} is not there` : `there is no command ${command}`
}

function reasonOf(error: unknown, child: McpProcess): string {
  const message = error instanceof Error ? error.message : String(error)
  const last = child.stderr.trim()
  return last === '' || child.isAlive ? message : `${message}; it said last: ${endOf(last)}`
}
