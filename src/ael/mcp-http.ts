import type { IncomingMessage } from 'node:http'
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js'
import { type Clock, systemClock, timer } from '../protocol/clock.ts'
import { ActionError } from '../protocol/errors.ts'
import { given } from '../protocol/given.ts'
import { inWords } from '../protocol/thrown.ts'
import { atMost } from '../protocol/waiting.ts'
import { finalFailure, saidBy, timedOut } from './failure.ts'
import { Oversized } from './mcp-events.ts'
import { headerSource } from './mcp-headers.ts'
import { isOk, mcpRequests, refusalOf, wordsOf } from './mcp-request.ts'
import type { McpHeaders, McpUrl } from './mcp-server.ts'
import { isAnswer, isStream, mcpStreams } from './mcp-stream.ts'
import { inTurn, type McpWire } from './mcp-wire.ts'

export interface McpHttpOptions {
  /** For whatever is sent that no call waits for. */
  readonly startMs: number
  readonly maxMessageBytes: number
  readonly clock: Clock
  /** Told what must be seen nowhere, where headers are asked for each request. */
  readonly onSecrets: (values: readonly string[]) => void
}

/** How long a server may take to hear that we leave. */
const PATIENCE_MS = 1_000

/** The server does not know our session any more, and has done nothing. */
class SessionLost extends ActionError {}

/**
 * A server behind a URL, spoken to by Streamable HTTP. The SDK's own transport reads messages of any size, and lets a call wait out its time
 * whose stream has ended without an answer; this one fails such a call at once.
 */
export function mcpHttp({ url, headers = {} }: McpUrl, options: McpHttpOptions): McpWire {
  const { startMs, maxMessageBytes, clock, onSecrets } = options
  const { host } = new URL(url)
  const givenHeaders = headerSource(headers, host, onSecrets)
  const requests = mcpRequests(new URL(url))
  const calls = new Map<RequestId, AbortController>()
  const open = new Set<AbortController>()
  const notices = new Set<Promise<unknown>>()
  let session: string | undefined
  let version: string | undefined
  let isAlive = false
  let ending: Promise<void> | undefined

  const begun = (): AbortController => {
    const controller = new AbortController()
    open.add(controller)
    return controller
  }
  const send = async (method: string, signal: AbortSignal, more: McpHeaders = {}, body?: string) => {
    const ours = { 'mcp-session-id': session, 'mcp-protocol-version': version }
    const headers = { ...given(await givenHeaders(signal)), ...given(ours), ...more }
    return requests.send(method, { headers, signal, ...given({ body }) })
  }
  const post = (message: JSONRPCMessage, signal: AbortSignal) => send('POST', signal, POSTED, JSON.stringify(message))

  /** Resolves once the answer is handed on; rejects as soon as it is known that none will come. */
  const ask = async (message: JSONRPCMessage, id: RequestId): Promise<void> => {
    const controller = begun()
    const { signal } = controller
    calls.set(id, controller)
    try {
      const response = await post(message, signal)
      if (!isOk(response)) return await heardNo(response, id)
      if (isInitialize(message)) session = textIn(response.headers['mcp-session-id'])
      if (isStream(response)) return await streams.follow(response, id, signal)
      const type = response.headers['content-type'] ?? 'nothing'
      if (!/\bjson\b/i.test(type)) {
        response.destroy()
        throw finalFailure(`${host} answered with ${type}: no MCP server seems to be at this URL`)
      }
      const said = await deliver(await requests.textOf(response, maxMessageBytes, signal))
      if (!isAnswer(said, id)) throw finalFailure(`${host} answered something else than it was asked`)
    } finally {
      calls.delete(id)
      open.delete(controller)
    }
  }

  /** A refusal may hold an answer all the same. In one without, a server that was started anew says that it does not know us. */
  const heardNo = async (response: IncomingMessage, id: RequestId): Promise<void> => {
    const { statusCode } = response
    const words = await wordsOf(response)
    if (statusCode === 400 && isAnswer(parsed(words), id)) return void (await deliver(words))
    const error = refusalOf(host, response, words, clock.now())
    if (session === undefined || (statusCode !== 404 && statusCode !== 400)) throw error
    isAlive = false
    // 404 is the protocol's way to say so; what many servers say is 400, which may as well mean what it says.
    const retryable = statusCode === 404
    throw new SessionLost('action_failed', `${host} has lost our session: ${error.message}`, { retryable })
  }

  /** Sends what gets no answer. */
  const tell = async (message: JSONRPCMessage): Promise<void> => {
    const controller = begun()
    const inTime = timer(clock, startMs, () => controller.abort(timedOut(`the request to ${host}`, startMs)))
    try {
      const response = await post(message, controller.signal)
      if (!isOk(response)) throw refusalOf(host, response, await wordsOf(response), clock.now())
      if (isStream(response)) response.destroy()
      else await requests.textOf(response, maxMessageBytes, controller.signal)
    } finally {
      inTime()
      open.delete(controller)
    }
  }

  const end = async (): Promise<void> => {
    await atMost(PATIENCE_MS, Promise.allSettled(notices), systemClock) // who was told to stop something is to hear it
    const signal = AbortSignal.timeout(PATIENCE_MS)
    if (session !== undefined && isAlive) await send('DELETE', signal).catch(() => undefined) // it will find out by itself
    isAlive = false
    wire.onclose?.()
    for (const controller of open) controller.abort()
    requests.close()
  }

  const wire: McpWire = {
    async start() {
      isAlive = true
    },
    setProtocolVersion(agreed) {
      version = agreed
    },
    async send(message) {
      const { id, method, params } = message as { id?: RequestId; method?: string; params?: { requestId?: RequestId } }
      if (id !== undefined && method !== undefined) return ask(message, id)
      const sending = tell(message)
      notices.add(sending)
      try {
        await sending
      } finally {
        notices.delete(sending)
        // Not before: to a server the end of a connection is no wish that it stops.
        if (method === 'notifications/cancelled') calls.get(params?.requestId ?? '')?.abort()
      }
      if (method === 'notifications/initialized') void streams.listen(begun().signal)
    },
    close() {
      ending ??= end()
      return ending
    },
    kill: () => wire.close(),
    get isAlive() {
      return isAlive
    },
    endsOnAbort: false,
    told(error) {
      if (!(error instanceof ActionError)) {
        const reason = error instanceof Error ? saidBy(error) : inWords(error)
        return { reason, retryable: !isAlive, tooLarge: error instanceof Oversized }
      }
      const { message, retryable, retryAfterMs } = error
      const forgotten = error instanceof SessionLost
      return { reason: message, retryable, forgotten, ...given({ retryAfterMs }) }
    },
  }
  const deliver = inTurn(wire)
  const streams = mcpStreams({
    host,
    maxMessageBytes,
    clock,
    deliver,
    ask: ({ id }, signal) => send('GET', signal, { accept: 'text/event-stream', ...given({ 'last-event-id': id }) }),
  })
  return wire
}

const POSTED = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

const isInitialize = (message: JSONRPCMessage): boolean => 'method' in message && message.method === 'initialize'
const textIn = (header: string | readonly string[] | undefined): string | undefined =>
  typeof header === 'string' ? header : header?.[0]

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // an answer is JSON
  }
}
