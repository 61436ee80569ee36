import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import type { ActionLayer } from '../../src/ael/layer.ts'
import { type McpOptions, mcpAdapter } from '../../src/ael/mcp.ts'
import { changingSecrets } from '../../src/ael/mcp-headers.ts'
import type { McpUrl } from '../../src/ael/mcp-server.ts'
import { type ToolRegistry, toolRegistry } from '../../src/ael/tool-registry.ts'
import { type McpHttpServer, mcpHttpServer } from '../support/mcp-http-server.ts'

describe('headers that a function gives', () => {
  let tools: ToolRegistry
  let server: McpHttpServer
  let adapter: Adapter | undefined
  let layer: ActionLayer | undefined
  /** What the server says no to, repeating the header that it was sent. */
  let refused: string | undefined
  beforeEach(async () => {
    tools = toolRegistry()
    adapter = layer = refused = undefined
    server = await mcpHttpServer({
      instead({ asks, headers }, response) {
        if (asks !== refused) return false
        response.writeHead(401).end(`not ${headers['x-anything']}`)
        return true
      },
    })
  })
  afterEach(async () => {
    await layer?.close()
    await adapter?.close?.()
    await server.close()
  })
  const start = async (headers: McpUrl['headers'] & object, options: Partial<McpOptions> = {}) => {
    adapter = await mcpAdapter({ servers: { it: { url: server.url, headers } }, tools, ...options })
    layer = actionLayer({ adapters: [adapter] })
  }
  const echo = (more: object = {}) =>
    newAction({ action_type: 'mcp_call', params: { tool_name: 'it.echo', tool_args: { said: 'hi' } }, ...more })
  const failed = (more: object = {}) =>
    layer!.execute(echo(more)).then(
      () => expect.fail('it was expected to throw'),
      (error) => error,
    )
  const calls = () => server.heard.filter(({ asks }) => asks === 'call echo')
  const three = { retry: { strategy: 'fixed', max_attempts: 3, delay_ms: 0 } }

  it.each([
    ['at once', (authorization: string) => ({ authorization })],
    ['later', async (authorization: string) => ({ authorization, 'x-absent': undefined as never })],
  ])('are asked for with each request, and given %s', async (_, made) => {
    let asked = 0
    await start(() => made(`Bearer token-number-${++asked}`))
    expect((await layer!.execute(echo())).output).toBe('hi')
    await expect.poll(() => server.heard.some(({ method }) => method === 'GET')).toBe(true)
    await adapter?.close?.()
    const sent = server.heard.map(({ headers }) => headers.authorization)
    expect(new Set(server.heard.map(({ method }) => method))).toEqual(new Set(['POST', 'GET', 'DELETE']))
    expect(new Set(sent).size).toBe(server.heard.length)
    expect(sent.every((header) => /^Bearer token-number-\d+$/.test(header!))).toBe(true)
    expect(server.heard.some(({ headers }) => 'x-absent' in headers)).toBe(false)
  })

  it('fail the call when they are not given, which another attempt may be spared', async () => {
    let fails: 'at once' | 'later' | undefined
    await start(() => {
      if (fails === 'at once') throw new Error('no token today')
      return fails === 'later' ? Promise.reject(new TypeError('no token today')) : { authorization: 'Bearer good' }
    })
    for (const way of ['at once', 'later'] as const) {
      fails = way
      expect(await failed()).toMatchObject({
        code: 'action_failed',
        retryable: true,
        message: expect.stringMatching(
          /^it\.echo failed: the headers for 127\.0\.0\.1:\d+ were not given: no token today$/,
        ),
      })
    }
    expect(calls()).toEqual([])
    fails = undefined
    expect((await layer!.execute(echo())).output).toBe('hi')
    expect(server.sessions()).toBe(1)
  })

  it('are asked for again by the next attempt', async () => {
    let left = 0
    await start(() => {
      if (left-- > 0) throw new Error('no token yet')
      return { authorization: 'Bearer good' }
    })
    left = 2
    expect((await layer!.execute(echo(three))).output).toBe('hi')
    expect(calls()).toHaveLength(1)
  })

  it('keep a server from being used that was never reached, and nothing is left behind', async () => {
    const error = start(() => Promise.reject(new Error('no token today')))
    await expect(error).rejects.toMatchObject({
      code: 'action_failed',
      retryable: true,
      message: expect.stringMatching(/^the MCP server it cannot be used: the headers for .* no token today$/),
    })
    expect([server.heard, tools.list()]).toEqual([[], []])
  })

  it.each<[string, unknown, string, string]>([
    ['no object', 'hunter2-and-more', '', 'type'],
    ['nothing', undefined, '', 'type'],
    ['a number', { authorization: 7 }, '', 'type'],
    ['two lines', { authorization: 'hunter2-and-more\r\nx: y' }, 'authorization', 'value'],
    ['what is no name', { 'a b': 'hunter2-and-more' }, 'a b', 'name'],
    ['what the runtime sets', { 'Mcp-Session-Id': 'hunter2-and-more' }, 'Mcp-Session-Id', 'reserved'],
  ])('are refused for good, without being shown, when they are %s', async (_, given, path, rule) => {
    const error = await start(() => given as never).catch((error) => error)
    expect(error).toMatchObject({ code: 'action_failed', retryable: false })
    expect(error.cause.cause).toMatchObject({ code: 'invalid_input', problems: [{ path, rule }] })
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('hunter2')
    expect(server.heard).toEqual([])
  })

  it('are never shown, whatever they are called and whoever repeats them', async () => {
    let asked = 0
    let isKnown = true
    const headers = () => {
      if (!isKnown) throw new Error(`hunter2-number-${asked} is over`)
      return { 'x-anything': `Custom hunter2-number-${++asked}` }
    }
    refused = 'initialize'
    const errors: Error[] = [await start(headers).catch((error) => error)]
    refused = undefined
    await start(headers, { onError: (error) => errors.push(error as Error) })
    await expect.poll(() => server.heard.some(({ method }) => method === 'GET')).toBe(true)
    refused = 'tools/list'
    await server.grow()
    await expect.poll(() => errors.length).toBe(2)
    refused = 'call echo'
    errors.push(await failed())
    isKnown = false
    errors.push(await failed())
    expect(errors.map(({ message }) => message.includes('[redacted]'))).toEqual([true, true, true, true])
    expect(inspect(errors, { depth: 20, showHidden: true })).not.toContain('hunter2')
  })

  it('that never come are waited for no longer than the call may take, or the start', async () => {
    let isLost = false
    const never = new Promise<never>(() => undefined)
    await start(() => (isLost ? never : {}))
    isLost = true
    expect(await failed({ timeout_ms: 20 })).toMatchObject({ code: 'action_timed_out' })
    expect(calls()).toEqual([])
    await layer!.close()
    await expect(start(() => never, { startMs: 50 })).rejects.toMatchObject({ code: 'action_failed', retryable: true })
  })
})

describe('changing secrets', () => {
  it('are one list until another comes', () => {
    const secrets = changingSecrets(['always-there'])
    const first = secrets.all()
    expect([first, secrets.all() === first]).toEqual([['always-there'], true])
    secrets.add(['Bearer hunter2'])
    const second = secrets.all()
    expect(second).toEqual(expect.arrayContaining(['always-there', 'Bearer hunter2', 'hunter2']))
    secrets.add(['Bearer hunter2'])
    expect(secrets.all()).toBe(second)
  })

  it('are forgotten when many others came, but not those that are in use', () => {
    const secrets = changingSecrets(['always-there'])
    secrets.add(['once'])
    for (let i = 0; i < 200; i++) {
      secrets.add(['still', `signature-${i}`])
      expect(secrets.all()).toEqual(expect.arrayContaining(['always-there', 'still', `signature-${i}`]))
    }
    expect(secrets.all()).toContain('signature-170')
    expect(secrets.all()).not.toContain('once')
    expect(secrets.all().length).toBeLessThan(200)
  })
})
