import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { CallToolResult, Tool as McpTool } from '@modelcontextprotocol/sdk/types.js'
import { Closed, InvalidInput } from '../protocol/errors.ts'
import { LONGEST_TIMER_MS } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import { aborted, finalFailure, orAborted } from './failure.ts'
import { inTime } from './in-time.ts'
import { leftOut, linkFailure, type McpLink, type McpLinkOptions, openLink } from './mcp-link.ts'
import { type RegisteredTool, type Tool, type ToolCall, type ToolRegistry, toolRegistry } from './tool-registry.ts'

export interface McpConnectionOptions extends McpLinkOptions {
  readonly tools: ToolRegistry
}

/**
 * One server, started or reached when it is needed. A server that dies fails the calls it had in hand, and they may be attempted again; the
 * next call starts it anew. An aborted call ends a process too, once nothing else is in hand: the protocol can ask a server to stop, but only
 * the end of the process makes sure that it has.
 */
export interface McpConnection {
  open(): Promise<void>
  owns(tool: string): boolean
  close(): Promise<void>
}

/** How long an answer may be kept back for tools that its call brought. */
const LISTED_MS = 5_000

export function mcpConnection(options: McpConnectionOptions): McpConnection {
  const { namespace, tools } = options
  const listed = new Map<string, RegisteredTool>()
  const links = new Set<McpLink>()
  let current: Promise<McpLink> | undefined
  let closed = false

  const linked = (): Promise<McpLink> => {
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
  const forget = (link: Promise<McpLink>) => {
    if (current === link) current = undefined
  }

  /** A server may offer other tools than before, after a restart or when it says so. Nothing goes before it is known what comes. */
  const relist = async (found: readonly McpTool[], from: Promise<McpLink>) => {
    const isOver = () => closed || current !== from
    const usable = await usableOf(found, isOver)
    if (isOver()) return
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

  /** One odd tool must not take the others away: it is told and left out. Making thousands takes seconds, which others must not wait. */
  const usableOf = async (found: readonly McpTool[], isOver: () => boolean): Promise<readonly Tool[]> => {
    const trial = toolRegistry()
    for (const offered of found) {
      await nextTurn()
      if (isOver()) break
      const tool = toolOf(offered, options, use)
      try {
        trial.register(tool)
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error
        options.onError(leftOut(tool.name, error.problems, error))
      }
    }
    return trial.list()
  }

  const use: Use = async (tool, args, call) => outputOf(await answered(tool, args, call), tool)

  const answered = async (tool: string, args: JsonObject, call: ToolCall, isAgain = false): Promise<CallToolResult> => {
    const what = `${namespace}.${tool}`
    const opening = linked()
    const link = await orAborted(opening, call.signal, what)
    link.inHand++
    try {
      const answer = await called(link.client, tool, args, call)
      await call.untimed(orAborted(caughtUp(link), call.signal, what)).catch(() => undefined)
      return answer
    } catch (error) {
      const isAborted = call.signal.aborted
      const isForgotten = link.wire.told(error).forgotten === true
      if (isForgotten || (isAborted && link.wire.endsOnAbort)) {
        link.tainted = true
        forget(opening)
      }
      if (isAborted) throw aborted(what, call.signal)
      if (!isForgotten || isAgain)
        throw linkFailure(error, link.wire, options, `${what} failed`, `the answer of ${what}`)
    } finally {
      link.inHand--
      if (link.tainted && link.inHand === 0) await link.wire.kill()
    }
    return answered(tool, args, call, true) // by a server that has not begun it
  }

  /** What comes next may need a tool that a call brought. A list that does not come must not cost the answer that is there. */
  const caughtUp = (link: McpLink): Promise<void> =>
    inTime(link.listed(), LISTED_MS, 'the list of tools', options.clock)

  return {
    async open() {
      await linked()
    },
    owns: isOurs,
    async close() {
      closed = true
      await current?.catch(() => undefined)
      await Promise.all([...links].map((link) => link.wire.close()))
      unlist()
    },
  }
}

function refuseIfTaken(tools: ToolRegistry, name: string): void {
  if (!tools.find(name)) return
  throw new InvalidInput(`the tool ${name}`, [
    { path: 'name', rule: 'unique', message: 'is registered already', found: name },
  ])
}

type Use = (tool: string, args: JsonObject, call: ToolCall) => Promise<Json | undefined>

function toolOf(tool: McpTool, { namespace, server }: McpConnectionOptions, use: Use): Tool {
  const { policy, approvers } = server
  return {
    name: `${namespace}.${tool.name.replace(/[^A-Za-z0-9_.-]/g, '_')}`,
    description: tool.description ?? tool.title ?? tool.name,
    input: tool.inputSchema as JsonObject,
    ...(tool.outputSchema && { output: tool.outputSchema as JsonObject }),
    readOnly: server.trustAnnotations === true && tool.annotations?.readOnlyHint === true,
    policy: typeof policy === 'function' ? policy(tool.name) : (policy ?? 'always_allow'),
    ...given({ approvers }),
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
