// A server on the official SDK that behaves as its tools are asked to. It notes in the folder MCP_NOTES who it is and what it was told.
import { spawn } from 'node:child_process'
import { appendFileSync, closeSync } from 'node:fs'
import { join } from 'node:path'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const note = (file, line) => appendFileSync(join(process.env.MCP_NOTES, file), `${line}\n`)
const object = { type: 'object' }
const text = (said) => ({ content: [{ type: 'text', text: said }] })
const never = () => new Promise((resolve) => setTimeout(resolve, 1e9))

const tools = {
  echo: {
    annotations: { readOnlyHint: true },
    inputSchema: { ...object, properties: { said: { type: 'string' } }, required: ['said'] },
    run: ({ said }) => text(said),
  },
  add: {
    inputSchema: object,
    outputSchema: { ...object, properties: { sum: { type: 'number' } }, required: ['sum'] },
    run: ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  },
  lie: {
    inputSchema: object,
    outputSchema: { ...object, properties: { sum: { type: 'number' } }, required: ['sum'] },
    run: () => ({ ...text('x'), structuredContent: { sum: 'three' } }),
  },
  hang: {
    inputSchema: object,
    run() {
      const helper = spawn('sleep', ['1000'], { stdio: 'inherit' })
      note('pids', `${process.pid} ${helper.pid}`)
      return never()
    },
  },
  wait: {
    inputSchema: object,
    run: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve(text('waited')), ms)),
  },
  crash: {
    inputSchema: object,
    run() {
      process.stderr.write('out of cheese\n')
      process.exit(7)
    },
  },
  fail: { inputSchema: object, run: () => ({ ...text('it cannot be done'), isError: true }) },
  leak: { inputSchema: object, run: () => ({ ...text(`bad token ${process.env.SERVICE_TOKEN}`), isError: true }) },
  fill: { inputSchema: object, run: ({ bytes = 2000 }) => text('x'.repeat(bytes)) },
  picture: { inputSchema: object, run: () => ({ content: [{ type: 'image', data: 'AQL/', mimeType: 'image/png' }] }) },
  progress: {
    inputSchema: object,
    async run(_, meta) {
      for (const [progress, message] of [
        [1, 'half '],
        [2, 'done'],
      ])
        await server.notification({
          method: 'notifications/progress',
          params: { progressToken: meta.progressToken, progress, message },
        })
      return text('ok')
    },
  },
  note: {
    inputSchema: object,
    run(_, meta) {
      note('keys', meta?.['mplp-runtime/idempotency-key'])
      return text('noted')
    },
  },
  grow: {
    inputSchema: object,
    async run({ times = 1 } = {}) {
      tools.late = { inputSchema: object, run: () => text('late') }
      for (let i = 0; i < times; i++) await server.notification({ method: 'notifications/tools/list_changed' })
      return text('grown')
    },
  },
  nothing: {
    inputSchema: object,
    run(_, __, id) {
      process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: null })}\n`)
      return never()
    },
  },
  loose: {
    inputSchema: object,
    run(_, __, id) {
      process.stdout.write(`${JSON.stringify({ id, result: text('loose'), error: null })}\n`)
      return never()
    },
  },
  deafen: {
    inputSchema: object,
    run() {
      closeSync(1)
      return never()
    },
  },
  ignore: {
    inputSchema: object,
    run() {
      closeSync(0)
      return text('I listen to nobody any more')
    },
  },
  refuse: {
    inputSchema: object,
    run() {
      throw Object.assign(new Error('there is no such thing'), { code: -32000 })
    },
  },
}

/** With MCP_ODD: tools that nobody can use, beside the others. */
if (process.env.MCP_ODD) {
  tools['twin one'] = tools.twin_one = tools.echo
  tools.odd = { ...tools.echo, inputSchema: { ...object, properties: { x: { pattern: '(' } } } }
  tools.vague = { ...tools.echo, outputSchema: { ...object, properties: { x: { $ref: '#/nowhere' } } } }
  tools.bare = { run: tools.echo.run, description: null }
}

const server = new Server({ name: 'test', version: '1.0.0' }, { capabilities: { tools: { listChanged: true } } })
server.setRequestHandler(ListToolsRequestSchema, async ({ params }) => {
  const all = Object.entries(tools).map(([name, { run: _, ...tool }]) => ({ name, description: name, ...tool }))
  if (process.env.MCP_ENDLESS) return { tools: all.slice(0, 1), nextCursor: 'on and on' }
  const from = Number(params?.cursor ?? 0)
  if (from === 0) note('lists', 'asked')
  if (process.env.MCP_GROWING && from + 5 >= all.length && !tools.late) await tools.grow.run()
  return { tools: all.slice(from, from + 5), ...(from + 5 < all.length && { nextCursor: String(from + 5) }) }
})
server.setRequestHandler(CallToolRequestSchema, ({ params }, { requestId }) =>
  tools[params.name].run(params.arguments ?? {}, params._meta, requestId),
)
note('started', process.pid)
if (process.env.MCP_STAYS) setInterval(() => {}, 1e6)
process.stdout.write('a stray line that is no message\n')
await server.connect(new StdioServerTransport())
