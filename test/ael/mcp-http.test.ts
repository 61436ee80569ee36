import type { ServerResponse } from 'node:http'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import type { ActionLayer } from '../../src/ael/layer.ts'
import { type McpOptions, mcpAdapter } from '../../src/ael/mcp.ts'
import type { McpUrl } from '../../src/ael/mcp-server.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { type ToolRegistry, toolRegistry } from '../../src/ael/tool-registry.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'
import { endless, httpServer } from '../support/http-server.ts'
import { type McpHeard, type McpHttpServer, mcpHttpServer } from '../support/mcp-http-server.ts'

const TOKEN = 'token-of-the-server-1618'
const use = (tool_name: string, tool_args: JsonObject = {}) => ({ tool_name, tool_args })

const open = (json: boolean) => async (): Promise<AdapterRig> => {
  const server = await mcpHttpServer({ json, secret: TOKEN })
  const it = { url: server.url, headers: { authorization: `Bearer ${TOKEN}` } }
  const adapter = await mcpAdapter({ servers: { it }, tools: toolRegistry() })
  return {
    adapter,
    works: { params: use('it.add', { a: 20, b: 22 }), output: { sum: 42 } },
    refused: [
      { params: use('it.echo', { said: 7 }), path: 'tool_args.said' },
      { params: { tool_name: 'it.echo' }, path: 'tool_args' },
      { params: use('it.unheard-of') },
    ],
    hangs: use('it.hang'),
    underWay: async () => {
      await expect.poll(() => server.hanging.size).toBe(1)
    },
    remains: () => [...server.hanging],
    failsForNow: use('it.busy'),
    failsForGood: use('it.fail'),
    large: use('it.fill'),
    misshapen: use('it.lie'),
    leaks: { params: use('it.leak'), secret: TOKEN },
    changes: use('it.note'),
    keys: () => server.keys,
    async close() {
      await adapter.close?.()
      expect(server.sessions()).toBe(0)
      await server.close()
    },
  }
}
adapterContract('mcp behind a URL, by events', open(false))
adapterContract('mcp behind a URL, by JSON', open(true))

describe('mcpAdapter with a URL', () => {
  let tools: ToolRegistry
  let server: McpHttpServer
  let adapter: Adapter | undefined
  let layer: ActionLayer | undefined
  /** Answers in place of the server when it says true. */
  let instead: (request: McpHeard, response: ServerResponse) => boolean
  beforeEach(async () => {
    tools = toolRegistry()
    adapter = layer = undefined
    instead = () => false
    server = await mcpHttpServer({ instead: (request, response) => instead(request, response) })
  })
  afterEach(async () => {
    await layer?.close()
    await adapter?.close?.()
    await server.close()
  })
  const start = async (given: Partial<McpUrl> = {}, options: Partial<McpOptions> = {}) => {
    adapter = await mcpAdapter({ servers: { it: { url: server.url, ...given } }, tools, ...options })
    layer = actionLayer({ adapters: [adapter, toolAdapter(tools)] })
  }
  const call = (tool: string, args: JsonObject = {}, more: object = {}) =>
    newAction({ action_type: 'tool_call', params: use(`it.${tool}`, args), timeout_ms: 60_000, ...more })
  const done = async (tool: string, args: JsonObject = {}, more: object = {}) =>
    (await layer!.execute(call(tool, args, more))).output
  const failed = (tool: string, args: JsonObject = {}, more: object = {}) =>
    layer!.execute(call(tool, args, more)).then(
      () => expect.fail('it was expected to throw'),
      (error) => error,
    )
  const echoed = () => done('echo', { said: 'hi' })
  const asked = (what: string) => server.heard.filter(({ asks }) => asks === what)
  const three = { retry: { strategy: 'fixed', max_attempts: 3, delay_ms: 0 } }
  const answer = ({ id }: { readonly id: number | string }, said: string) =>
    JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: said }] } })
  const events = (response: ServerResponse, status = 200) =>
    response.writeHead(status, { 'content-type': 'text/event-stream' })
  /** The next request of that kind is answered otherwise, and those behind it are not. */
  const once = (what: string, way: (request: McpHeard, response: ServerResponse) => unknown, times = 1) => {
    let left = times
    instead = (request, response) => {
      if (request.asks !== what || left-- <= 0) return false
      way(request, response)
      return true
    }
  }

  it('lists every page of tools, judges them as those of a process, and takes them away at the end', async () => {
    await start({ trustAnnotations: true, policy: (tool) => (tool === 'add' ? 'blocked' : 'always_allow') })
    expect(tools.list('it').length).toBeGreaterThan(8)
    expect([tools.get('it.echo').readOnly, tools.get('it.note').readOnly]).toEqual([true, false])
    expect(await failed('add')).toMatchObject({ code: 'action_denied' })
    const own = newAction({ action_type: 'mcp_call', params: use('it.echo', { said: 'hi' }) })
    expect((await layer!.execute(own)).output).toBe('hi')
    await adapter?.close?.()
    expect(tools.list('it')).toEqual([])
  })

  it('sends its headers with every request, and ends the session at the end', async () => {
    await start({ headers: { Authorization: `Bearer ${TOKEN}`, 'x-tenant': 'one', 'x-unsaid': undefined as never } })
    await echoed()
    await expect.poll(() => server.heard.some(({ method }) => method === 'GET')).toBe(true)
    await adapter?.close?.()
    expect(server.heard.at(-1)?.method).toBe('DELETE')
    const sent = server.heard.map(({ headers }) => [headers.authorization, headers['x-tenant']])
    expect(sent).toEqual(sent.map(() => [`Bearer ${TOKEN}`, 'one']))
    const later = server.heard.filter(({ asks }) => asks !== 'initialize')
    expect(new Set(later.map(({ headers }) => headers['mcp-session-id'])).size).toBe(1)
    expect(later.every(({ headers }) => headers['mcp-protocol-version'] !== undefined)).toBe(true)
  })

  it('streams progress', async () => {
    await start()
    const deltas: string[] = []
    await layer!.execute(call('progress'), { onDelta: (delta) => deltas.push(delta) })
    expect(deltas).toEqual(['half ', 'done'])
  })

  it('hears of tools that come later', async () => {
    await start()
    await expect.poll(() => server.heard.some(({ method }) => method === 'GET')).toBe(true)
    await server.grow()
    await expect.poll(() => tools.find('it.late') !== undefined).toBe(true)
    expect(await done('late')).toBe('late')
  })

  it('hears of tools that came while it could not hear', async () => {
    let streams = 0
    instead = ({ method }, response) => {
      if (method !== 'GET') return false
      if (++streams === 1) events(response).end('retry: 50\n\n')
      else if (streams === 2) response.writeHead(503).end()
      else events(response).write(': it goes on\n')
      return true
    }
    await start()
    await server.grow() // to nobody
    await expect.poll(() => tools.find('it.late') !== undefined).toBe(true)
    expect(streams).toBe(3)
  })

  it('gives an answer that is there, also where the list does not come that was announced before it', async () => {
    const clock = manualClock()
    await start({}, { startMs: 60_000, clock })
    layer = actionLayer({ adapters: [toolAdapter(tools)], clock })
    instead = (request, response) => {
      if (request.asks === 'call note')
        events(response).end(
          `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\ndata: ${answer(request, 'noted')}\n\n`,
        )
      return ['call note', 'tools/list'].includes(request.asks)
    }
    const before = asked('tools/list').length
    const noted = done('note', {}, { timeout_ms: 3_000 })
    await expect.poll(() => asked('tools/list').length).toBe(before + 1)
    await clock.advance(5_000)
    expect(await noted).toBe('noted')
  })

  it('gets on without a stream where the server offers none, and does not ask for it again', async () => {
    const streams = { here: 0, there: 0 }
    const short = (response: ServerResponse) => events(response).end('retry: 50\n\n')
    instead = ({ method }, response) => {
      if (method === 'GET') ++streams.here === 1 ? short(response) : response.writeHead(405).end()
      return method === 'GET'
    }
    const isShort = ({ method }: McpHeard, response: ServerResponse) => {
      if (method === 'GET' && ++streams.there) short(response)
      return method === 'GET'
    }
    const other = await mcpHttpServer({ instead: isShort })
    onTestFinished(() => other.close())
    adapter = await mcpAdapter({ servers: { it: { url: server.url }, other: { url: other.url } }, tools })
    layer = actionLayer({ adapters: [adapter, toolAdapter(tools)] })
    await expect.poll(() => streams.there, { timeout: 10_000 }).toBeGreaterThan(10)
    expect(streams.here).toBe(2)
    expect(await echoed()).toBe('hi')
  })

  it.each([404, 400])(
    'opens a new session and makes the call again when a server says %i to the old one',
    async (no) => {
      await start()
      server.forget()
      once('call note', (_, response) => response.writeHead(no).end('{"error":{"message":"No valid session"}}'))
      expect(await Promise.all([done('note'), done('note'), done('note')])).toEqual(['noted', 'noted', 'noted'])
      expect([asked('initialize').length, server.keys.length, server.sessions()]).toEqual([2, 3, 1])
      expect(server.heard.filter(({ method }) => method === 'DELETE')).toEqual([]) // nobody is there to say goodbye to
    },
  )

  it('makes a call again only once', async () => {
    await start()
    once('call note', (_, response) => response.writeHead(404).end('no such session'), 9)
    expect(await failed('note')).toMatchObject({
      code: 'action_failed',
      retryable: true,
      message: expect.stringMatching(/^it\.note failed: .* has lost our session: .* answered 404: no such session/),
    })
    expect(asked('call note')).toHaveLength(2)
    expect(await echoed()).toBe('hi')
  })

  it('lets the calls in hand finish when another one finds the session lost', async () => {
    await start()
    let finish = () => {}
    const slow = new Promise<void>((arrived) => {
      instead = (request, response) => {
        if (request.asks === 'call fill') finish = () => events(response).end(`data: ${answer(request, 'slow')}\n\n`)
        if (request.asks === 'call fill') arrived()
        if (request.asks === 'call note' && asked('call note').length === 1) response.writeHead(404).end()
        return request.asks === 'call fill' || (request.asks === 'call note' && asked('call note').length === 1)
      }
    })
    const filled = done('fill')
    await slow
    expect(await done('note')).toBe('noted')
    finish()
    expect(await filled).toBe('slow')
  })

  it('takes an answer that comes with 400 for an answer', async () => {
    await start()
    const no = ({ id }: McpHeard) =>
      JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32602, message: 'no such thing' } })
    once('call note', (request, response) => response.writeHead(400).end(no(request)))
    expect(await failed('note')).toMatchObject({ retryable: false, message: expect.stringContaining('no such thing') })
    expect(asked('call note')).toHaveLength(1)
  })

  it.each<[string, (request: McpHeard, response: ServerResponse) => unknown]>([
    ['before it is answered', (_, response) => response.destroy()],
    [
      'in the middle of JSON',
      (request, response) => {
        const headers = { 'content-type': 'application/json', 'content-length': '1000' }
        response.writeHead(200, headers).write(answer(request, 'x').slice(0, 9), () => response.destroy())
      },
    ],
    [
      'in the middle of an event',
      (request, response) => events(response).write(`data: ${answer(request, 'x')}`, () => response.destroy()),
    ],
    ['by a stream that ends without the answer', (_, response) => events(response).end(': nothing\n\n')],
  ])('fails a call whose connection is lost %s, at once and in a way that may pass', async (_, way) => {
    await start()
    once('call note', way)
    expect(await failed('note')).toMatchObject({ code: 'action_failed', retryable: true })
    once('call note', way)
    expect(await done('note', {}, three)).toBe('noted')
    expect(server.keys).toHaveLength(1)
    expect(asked('initialize')).toHaveLength(1)
  })

  it('takes a stream up again where the server has said from where', async () => {
    await start()
    let resumed = 0
    let held: McpHeard
    instead = (request, response) => {
      const from = request.headers['last-event-id']
      if (request.asks === 'call note') {
        held = request
        events(response).end('id: one\nretry: 50\ndata:\n\n')
      } else if (from === 'one') {
        resumed++
        if (resumed === 1) response.writeHead(503).end()
        else if (resumed === 2) events(response).end()
        else events(response).end(`id: two\ndata: ${answer(held, 'at last')}\n\n`)
      } else return false
      return true
    }
    expect(await done('note')).toBe('at last')
    expect(resumed).toBe(3)
  })

  it('gives a call up whose stream cannot be taken up again', async () => {
    await start()
    instead = (request, response) => {
      if (request.asks === 'call note') events(response).end('id: one\nretry: 50\ndata:\n\n')
      else if (request.headers['last-event-id'] === 'one') response.writeHead(404).end()
      else return false
      return true
    }
    expect(await failed('note')).toMatchObject({
      retryable: true,
      message: expect.stringMatching(/lost before the answer/),
    })
    expect(asked('call note')).toHaveLength(1) // it may have been done
  })

  it.each([
    [401, /answered 401: who are you; give what it asks for in headers/],
    [403, /answered 403: who are you; it knows who asks and does not allow it/],
    [418, /answered 418: who are you$/],
  ])('does not attempt again what was answered with %i, and says what to do', async (status, message) => {
    await start()
    once('call note', (_, response) => response.writeHead(status).end('who are you'), 9)
    expect(await failed('note', {}, three)).toMatchObject({ retryable: false, message: expect.stringMatching(message) })
    expect(asked('call note')).toHaveLength(1)
    expect(await echoed()).toBe('hi')
  })

  it.each([429, 500, 503])('attempts again what was answered with %i, as late as it was asked to', async (status) => {
    await start()
    once('call note', (_, response) => response.writeHead(status, { 'retry-after': '7' }).end('busy'), 3)
    expect(await failed('note')).toMatchObject({ retryable: true, retryAfterMs: 7_000 })
    instead = () => false
    expect(await done('note', {}, three)).toBe('noted')
  })

  it('follows a redirect on the same origin', async () => {
    instead = ({ path }, response) => {
      if (path === '/mcp') response.writeHead(307, { location: '/mcp/' }).end()
      return path === '/mcp'
    }
    await start()
    expect(await echoed()).toBe('hi')
  })

  it('follows no redirect for ever, and none that would make something else of a call', async () => {
    await start()
    once('call note', (_, response) => response.writeHead(307, { location: '/mcp' }).end(), 99)
    expect(await failed('note')).toMatchObject({
      retryable: false,
      message: expect.stringContaining('more than 5 times'),
    })
    once('call note', (_, response) => response.writeHead(302, { location: '/mcp' }).end())
    expect(await failed('note')).toMatchObject({
      retryable: false,
      message: expect.stringContaining('is not followed'),
    })
    expect(server.keys).toEqual([])
  })

  it.each([307, 308, 302])('follows no redirect by %i to another origin, and sends nothing there', async (status) => {
    const other = await httpServer((_, response) => response.end('{}'))
    onTestFinished(() => other.close())
    await start({ headers: { authorization: `Bearer ${TOKEN}` } })
    once('call note', (_, response) => response.writeHead(status, { location: `${other.url}/mcp?key=x` }).end())
    expect(await failed('note', {}, three)).toMatchObject({
      retryable: false,
      message: expect.stringContaining(`redirects to ${other.url}, which is not followed`),
    })
    expect(other.requests).toEqual([])
  })

  it.each<[string, (response: ServerResponse) => void]>([
    ['JSON', (response) => endless(response.writeHead(200, { 'content-type': 'application/json' }))],
    [
      'an event',
      (response) => {
        events(response).write('data: ')
        endless(response)
      },
    ],
    [
      'many lines of one event',
      (response) => {
        const more = () => {
          while (!response.destroyed && response.write('data: x\n'.repeat(1_000)));
          if (!response.destroyed) response.once('drain', more)
        }
        events(response)
        more()
      },
    ],
  ])('reads no further than it may where %s has no end, and goes on with the server', async (_, way) => {
    await start({}, { maxMessageBytes: 100_000 })
    let ended: Promise<unknown> | undefined
    once('call note', (_, response) => {
      ended = new Promise((resolve) => response.once('close', resolve))
      way(response)
    })
    expect(await failed('note', {}, three)).toMatchObject({
      code: 'action_failed',
      retryable: false,
      message: expect.stringContaining('the answer of it.note'),
      cause: { code: 'too_large' },
    })
    await ended
    expect(await echoed()).toBe('hi')
    expect(asked('initialize')).toHaveLength(1)
  })

  it('tells the server that a call was aborted, and leaves the others and the session alone', async () => {
    await start()
    const controller = new AbortController()
    const hanging = layer!.execute(call('hang'), { signal: controller.signal }).catch((error) => error)
    await expect.poll(() => server.hanging.size).toBe(1)
    const other = layer!.execute(call('hang')).catch((error) => error)
    await expect.poll(() => server.hanging.size).toBe(2)
    const [first] = asked('call hang')
    controller.abort()
    expect(await hanging).toMatchObject({ code: 'action_aborted' })
    await expect.poll(() => server.hanging.size).toBe(1)
    expect(asked('notifications/cancelled').map(({ params }) => params.requestId)).toEqual([first?.id])
    expect(await echoed()).toBe('hi')
    expect(asked('initialize')).toHaveLength(1)
    await layer!.close()
    expect(await other).toMatchObject({ code: 'action_aborted' })
    expect(server.hanging.size).toBe(0)
  })

  it('says goodbye only when the server has heard what it is to stop', async () => {
    await start()
    const heard: string[] = []
    instead = ({ asks, method }, response) => {
      if (method === 'DELETE') heard.push('goodbye')
      if (asks !== 'notifications/cancelled') return false
      setTimeout(() => {
        heard.push('stop')
        response.writeHead(202).end()
      }, 100)
      return true
    }
    const hanging = failed('hang')
    await expect.poll(() => server.hanging.size).toBe(1)
    await layer!.close()
    expect(await hanging).toMatchObject({ code: 'action_aborted' })
    expect(heard).toEqual(['stop', 'goodbye'])
  })

  it('lets go of the connection of a call that was aborted, also where the server does not care', async () => {
    await start()
    const controller = new AbortController()
    let ended: Promise<unknown> | undefined
    const arrived = new Promise<void>((resolve) =>
      once('call note', (_, response) => {
        ended = new Promise((closed) => response.once('close', closed))
        resolve()
      }),
    )
    const noted = layer!.execute(call('note'), { signal: controller.signal }).catch((error) => error)
    await arrived
    controller.abort()
    expect(await noted).toMatchObject({ code: 'action_aborted' })
    await ended
  })

  it.each([
    ['the answer', (id: number) => id],
    ['the answer, whose id has become text', String],
  ])('lets go of a stream that the server does not end behind %s', async (_, back) => {
    await start()
    let ended: Promise<unknown> | undefined
    once('call note', (request, response) => {
      ended = new Promise((closed) => response.once('close', closed))
      events(response).write(`data: ${answer({ id: back(request.id) }, 'noted')}\n\n`)
    })
    expect(await done('note')).toBe('noted')
    await ended
  })

  it('lets go of a redirect whose body has no end', async () => {
    await start()
    let ended: Promise<unknown> | undefined
    once('call note', (_, response) => {
      ended = new Promise((closed) => response.once('close', closed))
      endless(response.writeHead(307, { location: '/mcp' }))
    })
    expect(await done('note')).toBe('noted')
    await ended
  })

  const answering = async (results: { readonly [asks: string]: object }) => {
    instead = ({ asks, id }, response) => {
      const result = results[asks]
      if (result) response.setHeader('content-type', 'application/json').end(JSON.stringify({ id, result }))
      return result !== undefined
    }
    await start()
  }

  it('takes what a server calls null for what it does not say', async () => {
    await answering({
      'tools/list': { tools: [{ name: 'note', inputSchema: { type: 'object' } }], nextCursor: null, _meta: null },
      'call note': { content: [{ type: 'text', text: 'noted' }], structuredContent: null, isError: null },
    })
    expect(await done('note')).toBe('noted')
  })

  it.each<unknown>([[[]], 'x', { progressToken: null }])('takes an answer whatever its _meta is: %j', async (_meta) => {
    await answering({
      'tools/list': { tools: [{ name: 'note', inputSchema: { type: 'object' } }], _meta },
      'call note': { content: [{ type: 'text', text: 'noted' }], _meta },
    })
    expect(await done('note')).toBe('noted')
  })

  it('answers what a server asks it, and hears an answer that is not wholly as the protocol wants it', async () => {
    await start()
    let ponged = () => {}
    const pong = new Promise<void>((resolve) => {
      ponged = resolve
    })
    instead = (request, response) => {
      if (request.asks === 'call note') {
        events(response).write('data: {"jsonrpc":"2.0","id":"p","method":"ping"}\r\n\r\n')
        void pong.then(() =>
          response.end(`event: message\ndata: {"id":${request.id},\ndata: "result":{"content":[]},"error":null}\n\n`),
        )
      } else if (String(request.id) === 'p') {
        response.writeHead(202).end()
        ponged()
      } else return false
      return true
    }
    expect(await done('note')).toBeUndefined()
  })

  it.each<[string, (request: McpHeard, response: ServerResponse) => unknown, RegExp]>([
    ['has no such path', (_, response) => response.writeHead(404).end(), /answered 404; give the URL of its endpoint/],
    [
      'speaks the older way',
      (_, response) => response.writeHead(405).end(),
      /answered 405; give the URL of its endpoint/,
    ],
    [
      'is a web page',
      (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
      /answered with text\/html/,
    ],
    [
      'goes over to another protocol',
      (_, response) => response.writeHead(101, { connection: 'upgrade', upgrade: 'other' }).end(),
      /answered 101/,
    ],
    ['wants to know who asks', (_, response) => response.writeHead(401).end(), /answered 401; give what it asks for/],
    [
      'answers something else',
      (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
      /something else than it was asked/,
    ],
    [
      'answers what is no JSON',
      (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
      /something else than it was asked/,
    ],
  ])('says why a server cannot be used that %s, and leaves nothing behind', async (_, way, message) => {
    once('initialize', way)
    const error = await start().catch((error) => error)
    expect(error).toMatchObject({ code: 'action_failed', retryable: false })
    expect(error.message).toMatch(/^the MCP server it cannot be used: 127\.0\.0\.1:/)
    expect(error.message).toMatch(message)
    expect(tools.list()).toEqual([])
  })

  it('ends the session of a server whose tools cannot be listed', async () => {
    once('tools/list', (_, response) => response.writeHead(500).end())
    await expect(start()).rejects.toMatchObject({ retryable: true, message: expect.stringContaining('answered 500') })
    expect(server.sessions()).toBe(0)
  })

  it('does not wait longer than it may for a server that says nothing', async () => {
    once('initialize', () => undefined, 9)
    await expect(start({}, { startMs: 50 })).rejects.toMatchObject({ code: 'action_failed', retryable: true })
    once('notifications/initialized', () => undefined)
    await expect(start({}, { startMs: 200 })).rejects.toMatchObject({ code: 'action_failed', retryable: true })
  })

  it('does not wait longer than it may for all of a list that comes page by page', async () => {
    const clock = manualClock()
    let pages = 0
    instead = ({ asks, id }, response) => {
      if (asks !== 'tools/list') return false
      const result = { tools: [], ...(++pages < 9 && { nextCursor: String(pages) }) }
      const json = response.writeHead(200, { 'content-type': 'application/json' })
      void clock.advance(600).then(() => json.end(JSON.stringify({ jsonrpc: '2.0', id, result })))
      return true
    }
    await expect(start({}, { startMs: 1_000, clock })).rejects.toMatchObject({
      code: 'action_failed',
      retryable: true,
      message: expect.stringContaining('listing its tools did not end within 1000 ms'),
    })
    expect(pages).toBe(2)
  })

  const offering = (count: number, description: string) => {
    const offered = Array.from({ length: count }, (_, i) => ({
      name: `t${i}`,
      description,
      inputSchema: { type: 'object' },
    }))
    let pages = 0
    instead = ({ asks, id }, response) => {
      if (asks !== 'tools/list') return false
      const result = { tools: offered, nextCursor: `${++pages}` }
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      return true
    }
    return () => pages
  }
  it.each([
    ['tools', 4_000, '', 3],
    ['bytes', 1, 'x'.repeat(9_000_000), 8],
  ])('takes no list of tools that has too many %s, whatever its pages are', async (_, count, description, read) => {
    const pages = offering(count, description)
    await expect(start()).rejects.toMatchObject({
      message: expect.stringContaining('larger than 10,000 tools or 64 MiB'),
    })
    expect(pages()).toBe(read)
    expect(tools.list()).toEqual([])
  })

  it('lets everything else go on while it makes many tools', async () => {
    let turn = 0
    const turning = setInterval(() => turn++, 0)
    onTestFinished(() => clearInterval(turning))
    const met = new Set<number>()
    const policy = () => {
      met.add(turn)
      return 'ask' as const
    }
    instead = ({ asks, id }, response) => {
      if (asks !== 'tools/list') return false
      const made = Array.from({ length: 2_000 }, (_, i) => ({
        name: `t${i}`,
        inputSchema: { type: 'object', properties: { [`p${i}`]: { type: 'string' } } },
      }))
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { tools: made } }))
      return true
    }
    await start({ policy, startMs: 60_000 }) // compiling as many takes its time where others work too
    expect(tools.list()).toHaveLength(2_000)
    expect(met.size).toBeGreaterThan(10)
  })

  it('says that nobody is there, and that it may pass', async () => {
    const { url } = server
    await server.close()
    await expect(start({ url })).rejects.toMatchObject({
      retryable: true,
      message: expect.stringMatching(/^the MCP server it cannot be used: .*ECONNREFUSED/),
    })
  })

  it('closes where the server is gone, or says nothing to its goodbye', async () => {
    await start()
    await server.close()
    expect(await failed('note')).toMatchObject({ code: 'action_failed', retryable: true })
    await adapter?.close?.()
    server = await mcpHttpServer({ instead: ({ method }) => method === 'DELETE' })
    await start()
    await adapter?.close?.()
    expect(server.heard.at(-1)?.method).toBe('DELETE')
  })

  it.each([
    ['a token', { headers: { 'x-api-key': TOKEN } }, TOKEN],
    ['a token behind its scheme', { headers: { authorization: `Bearer ${TOKEN}` } }, TOKEN],
    [
      'a password',
      { headers: { authorization: `Basic ${Buffer.from('me:hunter2-and-3').toString('base64')}` } },
      'hunter2-and-3',
    ],
    ['a cookie', { headers: { cookie: `theme=dark; sid=${TOKEN}` } }, TOKEN],
    ['a key in the URL', { query: `?exaApiKey=${TOKEN}` }, TOKEN],
  ])(
    'never shows %s, however the server repeats it',
    async (_, { headers, query = '' }: { headers?: McpUrl['headers'] & object; query?: string }, secret) => {
      const given = { url: server.url + query, ...(headers && { headers }) }
      const no = (_: McpHeard, response: ServerResponse) => response.writeHead(401).end(`not ${secret}`)
      once('initialize', no)
      const error = await start(given).catch((error) => error)
      expect(error.message).toContain('not [redacted]')
      const errors: unknown[] = []
      await start(given, { onError: (error) => errors.push(error) })
      once('tools/list', no)
      await expect.poll(() => server.heard.some(({ method }) => method === 'GET')).toBe(true)
      await server.grow()
      await expect.poll(() => errors.length).toBe(1)
      once('call note', no)
      errors.push(error, await failed('note'))
      expect(inspect(errors, { depth: 20, showHidden: true })).not.toContain(secret)
    },
  )

  it.each<[object, string, string]>([
    [{}, 'command', 'required'],
    [{ url: 'http://a', command: 'node' }, 'url', 'exclusive'],
    [{ url: 'a' }, 'url', 'format'],
    [{ url: 'ftp://a' }, 'url', 'protocol'],
    [{ url: 'http://me:hunter2@a' }, 'url', 'credentials'],
    [{ url: 'http://a', args: [] }, 'args', 'option'],
    [{ url: 'http://a', env: {} }, 'env', 'option'],
    [{ url: 'http://a', cwd: '.' }, 'cwd', 'option'],
    [{ command: 'node', headers: {} }, 'headers', 'option'],
    [{ url: 'http://a', headers: { a: 5 } }, 'headers', 'type'],
    [{ url: 'http://a', headers: { 'a b': 'x' } }, 'headers.a b', 'name'],
    [{ url: 'http://a', headers: { a: 'hunter2\n' } }, 'headers.a', 'value'],
    [{ url: 'http://a', headers: { 'Mcp-Session-Id': 'x' } }, 'headers.Mcp-Session-Id', 'reserved'],
    [{ url: 'http://a', headers: { a: 'x', A: 'y' } }, 'headers.A', 'unique'],
  ])('refuses %j', async (given, path, rule) => {
    const error = await mcpAdapter({ servers: { a: given as McpUrl }, tools }).catch((error) => error)
    expect(error).toMatchObject({ code: 'invalid_input', problems: [{ path: `servers.a.${path}`, rule }] })
    expect(JSON.stringify(error) + error.message).not.toContain('hunter2')
  })
})
