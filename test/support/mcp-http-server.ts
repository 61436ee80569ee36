import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import type { Certificate } from './certificate.ts'

export interface McpHeard {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  /** Where the connection comes from. */
  readonly port: number
  /** What is asked, such as `tools/call`; for a tool with its name behind. */
  readonly asks: string
  readonly id: number
  readonly params: { readonly [name: string]: unknown }
}

export interface McpHttpServer {
  readonly url: string
  readonly heard: readonly McpHeard[]
  /** Calls of `hang` that go on, by their ids. */
  readonly hanging: ReadonlySet<string>
  /** What `note` was told. */
  readonly keys: readonly string[]
  /** How many sessions it knows. */
  sessions(): number
  /** Offers another tool, and says so to whoever listens. */
  grow(): Promise<void>
  /** As if it had been started anew: no session is known any more. */
  forget(): void
  /** Cuts every connection. */
  cut(): void
  close(): Promise<void>
}

export interface McpHttpServerOptions {
  /** Answers calls by JSON, not by events. */
  readonly json?: boolean
  /** Says what is to be repeated by `leak`. */
  readonly secret?: string
  /** Answers in place of the server when it says true. */
  readonly instead?: (request: McpHeard, response: ServerResponse) => boolean
  /** By https. */
  readonly tls?: Certificate
}

const object = { type: 'object' as const }
const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] })

/** A server on the official SDK behind a URL of this machine. */
export async function mcpHttpServer(options: McpHttpServerOptions = {}): Promise<McpHttpServer> {
  const heard: McpHeard[] = []
  const hanging = new Set<string>()
  const keys: string[] = []
  const sessions = new Map<string, { server: Server; transport: StreamableHTTPServerTransport }>()
  let isGrown = false

  const sum = { ...object, properties: { sum: { type: 'number' } }, required: ['sum'] }
  const tools: { [name: string]: { [field: string]: unknown; run: Run } } = {
    echo: {
      annotations: { readOnlyHint: true },
      inputSchema: { ...object, properties: { said: { type: 'string' } }, required: ['said'] },
      run: ({ said }) => text(String(said)),
    },
    add: {
      outputSchema: sum,
      run: ({ a, b }) => ({ ...text('sum'), structuredContent: { sum: Number(a) + Number(b) } }),
    },
    lie: { outputSchema: sum, run: () => ({ ...text('x'), structuredContent: { sum: 'three' } }) },
    hang: {
      run(_, { signal, id }) {
        hanging.add(id)
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            hanging.delete(id)
            resolve(text('ended'))
          })
        })
      },
    },
    fail: { run: () => ({ ...text('it cannot be done'), isError: true }) },
    leak: { run: () => ({ ...text(`bad token ${options.secret}`), isError: true }) },
    fill: { run: ({ bytes = 2_000 }) => text('x'.repeat(Number(bytes))) },
    note: {
      run(_, { meta }) {
        keys.push(String(meta['mplp-runtime/idempotency-key']))
        return text('noted')
      },
    },
    progress: {
      async run(_, { meta, notify }) {
        for (const [i, message] of ['half ', 'done'].entries())
          await notify('notifications/progress', { progressToken: meta.progressToken, progress: i, message })
        return text('ok')
      },
    },
    busy: { run: () => text('never') }, // answered by 503
  }

  const opened = async () => {
    const server = new Server({ name: 'test', version: '1.0.0' }, { capabilities: { tools: { listChanged: true } } })
    server.setRequestHandler(ListToolsRequestSchema, async ({ params }) => {
      const names = [...Object.keys(tools), ...(isGrown ? ['late'] : [])]
      const from = Number(params?.cursor ?? 0)
      const page = names.slice(from, from + 4)
      return {
        tools: page.map((name) => {
          const { run: _, ...tool } = tools[name] ?? { run: undefined }
          return { name, description: name, inputSchema: object, ...tool }
        }),
        ...(from + 4 < names.length && { nextCursor: String(from + 4) }),
      }
    })
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal, requestId, sendNotification }) => {
      if (params.name === 'late') return text('late')
      return tools[params.name]!.run(params.arguments ?? {}, {
        signal,
        id: String(requestId),
        meta: params._meta ?? {},
        notify: (method, given) => sendNotification({ method, params: given } as never),
      })
    })
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: options.json ?? false,
      onsessioninitialized: (id) => void sessions.set(id, { server, transport }),
      onsessionclosed: (id) => void sessions.delete(id),
    })
    await server.connect(transport as never)
    return transport
  }

  const answer = async (incoming: IncomingMessage, response: ServerResponse) => {
    let body = ''
    for await (const chunk of incoming) body += chunk
    const message = body === '' ? {} : JSON.parse(body)
    const { method = '', url: path = '', headers } = incoming
    const { id, params = {} } = message
    const asks = message.method === 'tools/call' ? `call ${params.name}` : String(message.method)
    const port = incoming.socket.remotePort ?? 0
    const request: McpHeard = { method, path, headers, port, asks, id, params }
    heard.push(request)
    if (options.instead?.(request, response)) return
    if (asks === 'call busy') return void response.writeHead(503).end('later')
    const session = sessions.get(String(headers['mcp-session-id']))
    if (session === undefined && asks !== 'initialize') return void response.writeHead(404).end('no such session')
    const transport = session?.transport ?? (await opened())
    await transport.handleRequest(incoming, response, body === '' ? undefined : message)
  }
  const http = options.tls ? createSecureServer(options.tls, answer) : createServer(answer)
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))

  return {
    url: `${options.tls ? 'https' : 'http'}://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    heard,
    hanging,
    keys,
    sessions: () => sessions.size,
    async grow() {
      isGrown = true
      for (const { server } of sessions.values()) await server.sendToolListChanged()
    },
    forget: () => sessions.clear(),
    cut: () => http.closeAllConnections(),
    async close() {
      const closed = new Promise<void>((resolve) => http.close(() => resolve()))
      http.closeAllConnections()
      await closed
    },
  }
}

type Run = (
  args: { readonly [name: string]: unknown },
  call: {
    readonly signal: AbortSignal
    readonly id: string
    readonly meta: { readonly [name: string]: unknown }
    readonly notify: (method: string, params: object) => Promise<void>
  },
) => object | Promise<object>
