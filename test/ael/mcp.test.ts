import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import type { ActionLayer } from '../../src/ael/layer.ts'
import { type McpOptions, mcpAdapter } from '../../src/ael/mcp.ts'
import type { McpCommand } from '../../src/ael/mcp-server.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { type ToolRegistry, toolRegistry } from '../../src/ael/tool-registry.ts'
import { InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'
import { isAlive } from '../support/is-alive.ts'
import { tempFolder } from '../support/temp-folder.ts'

const SCRIPT = fileURLToPath(new URL('../support/mcp-server.mjs', import.meta.url))
const TOKEN = 'token-of-the-server-1618'
const use = (tool_name: string, tool_args: JsonObject = {}) => ({ tool_name, tool_args })

const serverIn = (notes: string): McpCommand => ({
  command: process.execPath,
  args: [SCRIPT],
  env: { MCP_NOTES: notes, SERVICE_TOKEN: TOKEN },
})
const lines = (notes: string, file: string): string[] =>
  existsSync(join(notes, file)) ? readFileSync(join(notes, file), 'utf8').split('\n').slice(0, -1) : []
const pids = (notes: string, file: string): string[] => lines(notes, file).flatMap((line) => line.split(' '))

adapterContract('mcp', async (): Promise<AdapterRig> => {
  const notes = tempFolder()
  const adapter = await mcpAdapter({ servers: { it: serverIn(notes) }, tools: toolRegistry() })
  return {
    adapter,
    works: { params: use('it.add', { a: 20, b: 22 }), output: { sum: 42 } },
    refused: [
      { params: use('it.echo'), path: 'tool_args.said' },
      { params: use('it.echo', { said: 7 }), path: 'tool_args.said' },
      { params: { tool_name: 'it.echo' }, path: 'tool_args' },
      { params: use('echo', { said: 'x' }), path: 'tool_name' },
      { params: use('it.unheard-of') },
      { params: use('other.echo', { said: 'x' }) },
    ],
    hangs: use('it.hang'),
    underWay: async () => {
      await expect.poll(() => pids(notes, 'pids').length).toBe(2)
    },
    remains: () => pids(notes, 'pids').filter(isAlive),
    failsForNow: use('it.crash'),
    failsForGood: use('it.fail'),
    large: use('it.fill'),
    misshapen: use('it.lie'),
    leaks: { params: use('it.leak'), secret: TOKEN },
    changes: use('it.note'),
    keys: () => lines(notes, 'keys'),
    async close() {
      await adapter.close?.()
      await expect.poll(() => pids(notes, 'started').filter(isAlive)).toEqual([])
    },
  }
})

describe('mcpAdapter', () => {
  let notes: string
  let tools: ToolRegistry
  let adapter: Adapter | undefined
  let layer: ActionLayer
  beforeEach(() => {
    notes = tempFolder()
    tools = toolRegistry()
  })
  afterEach(async () => {
    await layer?.close()
    await adapter?.close?.()
    expect(pids(notes, 'started').filter(isAlive)).toEqual([])
  })
  const start = async (server: Partial<McpCommand> = {}, options: Partial<McpOptions> = {}) => {
    adapter = await mcpAdapter({ servers: { it: { ...serverIn(notes), ...server } }, tools, ...options })
    layer = actionLayer({ adapters: [adapter, toolAdapter(tools)] })
    return layer
  }
  const call = (tool: string, args: JsonObject = {}, more: object = {}) =>
    newAction({ action_type: 'tool_call', params: use(`it.${tool}`, args), ...more })

  it('lists every page of tools under the namespace of the server, for tool_call to find', async () => {
    await start()
    expect(tools.list('it').length).toBeGreaterThan(10)
    expect(tools.get('it.echo')).toMatchObject({ description: 'echo', readOnly: false, policy: 'always_allow' })
    expect((await layer.execute(call('echo', { said: 'hi' }))).output).toBe('hi')
    await adapter?.close?.()
    expect(tools.list('it')).toEqual([])
  })

  it('believes what a server says of its tools only when told to', async () => {
    await start({ trustAnnotations: true, policy: (tool) => (tool === 'echo' ? 'blocked' : 'always_allow') })
    expect([tools.get('it.echo').readOnly, tools.get('it.add').readOnly]).toEqual([true, false])
    await expect(layer.execute(call('echo', { said: 'x' }))).rejects.toMatchObject({ code: 'action_denied' })
  })

  it('has those asked about its tools whom its server names', async () => {
    const approvers = { roles: ['secretary'], needed: 1 }
    await start({ policy: 'ask', approvers })
    await expect(layer.execute(call('echo', { said: 'x' }))).rejects.toMatchObject({ question: { approvers } })
  })

  it('starts a server that died again at the next call, and says what it said last', async () => {
    await start()
    await expect(layer.execute(call('crash'))).rejects.toThrow(/out of cheese/)
    expect((await layer.execute(call('echo', { said: 'back' }))).output).toBe('back')
    expect(lines(notes, 'started')).toHaveLength(2)
  })

  it('starts a server anew that does not listen any more, and makes the call that it did not hear once more', async () => {
    await start()
    expect((await layer.execute(call('ignore'))).output).toMatch(/nobody/)
    expect((await layer.execute(call('note', {}, { idempotency_key: 'k' }))).output).toBe('noted')
    expect(lines(notes, 'keys')).toEqual(['k'])
    await expect.poll(() => pids(notes, 'started').filter(isAlive)).toHaveLength(1)
    expect(lines(notes, 'started')).toHaveLength(2)
  })

  it('gets through by attempting again when the server is killed in the middle', async () => {
    await start()
    const waiting = layer.execute(
      call('wait', { ms: 300 }, { retry: { strategy: 'fixed', max_attempts: 3, delay_ms: 0 } }),
    )
    const others = layer.execute(call('hang')).catch((error) => error)
    await expect.poll(() => pids(notes, 'pids').length).toBe(2)
    process.kill(Number(lines(notes, 'started')[0]), 'SIGKILL')
    expect((await waiting).output).toBe('waited')
    expect(await others).toMatchObject({ code: 'action_failed', retryable: true })
    await expect.poll(() => pids(notes, 'pids').filter(isAlive)).toEqual([])
  })

  it('does not wait for a server that can be heard no more, or that answers without a result', async () => {
    await start()
    const failed = (tool: string) => layer.execute(call(tool, {}, { timeout_ms: 60_000 })).catch((error) => error)
    expect(await failed('nothing')).toMatchObject({
      code: 'action_failed',
      retryable: false,
      message: expect.stringContaining('answered without a result'),
    })
    expect(await failed('deafen')).toMatchObject({ code: 'action_failed', retryable: true })
    expect((await layer.execute(call('echo', { said: 'back' }))).output).toBe('back')
  })

  it('hears an answer that is not wholly as the protocol wants it', async () => {
    await start()
    expect((await layer.execute(call('loose', {}, { timeout_ms: 5_000 }))).output).toBe('loose')
  })

  it('lets the other calls of a server finish before it is ended for one that was aborted', async () => {
    await start()
    const controller = new AbortController()
    const hanging = layer.execute(call('hang'), { signal: controller.signal }).catch((error) => error)
    await expect.poll(() => pids(notes, 'pids').length).toBe(2)
    const waiting = layer.execute(call('wait', { ms: 200 }))
    await layer.execute(call('echo', { said: 'both are there' }))
    controller.abort()
    expect(await hanging).toMatchObject({ code: 'action_aborted' })
    expect((await layer.execute(call('echo', { said: 'new' }))).output).toBe('new')
    expect((await waiting).output).toBe('waited')
    await expect.poll(() => pids(notes, 'pids').filter(isAlive)).toEqual([])
    expect(lines(notes, 'started')).toHaveLength(2)
  })

  it('hears of tools that come later', async () => {
    await start()
    await layer.execute(call('grow', { times: 100 }))
    expect((await layer.execute(call('late'))).output).toBe('late') // of a call that brought it, before its answer is given
    expect(lines(notes, 'lists').length).toBeLessThan(10) // however often it was said
  })

  it('hears of tools that come while the first ones are listed', async () => {
    await start({ env: { MCP_NOTES: notes, MCP_GROWING: 'yes' } })
    await expect.poll(() => tools.find('it.late') !== undefined).toBe(true)
  })

  it('says when a tool that comes later has a name that is taken, and keeps those it had', async () => {
    tools.register({ name: 'it.late', description: '', input: {}, execute: () => 1 })
    const errors: unknown[] = []
    await start({}, { onError: (error) => errors.push(error) })
    await layer.execute(call('grow'))
    await expect.poll(() => errors.map(String)).toEqual([expect.stringMatching(/it\.late.*registered already/)])
    expect((await layer.execute(call('echo', { said: 'hi' }))).output).toBe('hi')
  })

  it('starts anew and closes also where somebody took one of its tools away, and leaves what stands there now', async () => {
    await start()
    for (const name of ['it.echo', 'it.add']) tools.unregister(name)
    tools.register({ name: 'it.add', description: 'mine', input: {}, execute: () => 1 })
    const own = newAction({ action_type: 'mcp_call', params: use('it.add') })
    await expect(layer.execute(own)).rejects.toBeInstanceOf(NotFound)
    await expect(layer.execute(call('crash'))).rejects.toMatchObject({ retryable: true })
    await expect(layer.execute(call('fail'))).rejects.toThrow(/it\.add.*registered already/)
    tools.unregister('it.add')
    await expect(layer.execute(call('fail'))).rejects.toThrow('it cannot be done')
    expect((await layer.execute(call('add', { a: 1, b: 1 }))).output).toEqual({ sum: 2 })
    tools.unregister('it.echo')
    tools.register({ name: 'it.echo', description: 'mine', input: {}, execute: () => 1 })
    await adapter?.close?.()
    expect(tools.list('it').map(({ description }) => description)).toEqual(['mine'])
  })

  it('takes no for an answer when a server that lives gives it, whatever code it has', async () => {
    await start()
    const refused = { code: 'action_failed', retryable: false, message: expect.stringContaining('no such thing') }
    await expect(layer.execute(call('refuse'))).rejects.toMatchObject(refused)
  })

  it('streams progress, and gives parts that are not text as they are', async () => {
    await start()
    const deltas: string[] = []
    await layer.execute(call('progress'), { onDelta: (delta) => deltas.push(delta) })
    expect(deltas).toEqual(['half ', 'done'])
    expect((await layer.execute(call('picture'))).output).toEqual([
      { type: 'image', data: 'AQL/', mimeType: 'image/png' },
    ])
  })

  it('ends a server whose message has no end, and says that it is too large', async () => {
    await start({}, { maxMessageBytes: 100_000 })
    await expect(layer.execute(call('fill', { bytes: 200_000 }))).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
      cause: { code: 'too_large' },
    })
    expect((await layer.execute(call('echo', { said: 'back' }))).output).toBe('back')
  })

  it('reaches only its own tools by mcp_call', async () => {
    tools.register({ name: 'mine.tool', description: '', input: {}, readOnly: true, execute: () => 1 })
    await start()
    const action = newAction({ action_type: 'mcp_call', params: use('mine.tool') })
    await expect(layer.execute(action)).rejects.toBeInstanceOf(NotFound)
    expect(layer.readOnly(action)).toBe(false)
  })

  it('knows of mcp_call what tool_call knows: what only read needs no way back, and the rest has none', async () => {
    await start({ trustAnnotations: true })
    const inverse = (tool: string) => layer.inverse(newAction({ action_type: 'mcp_call', params: use(tool) }), {})
    expect(['it.echo', 'it.add'].map(inverse)).toEqual(['none_needed', 'irreversible'])
  })

  it('lists its tools into a registry that is an instance of a class', async () => {
    class Shelf implements ToolRegistry {
      readonly #inner = toolRegistry()
      register: ToolRegistry['register'] = (tool) => this.#inner.register(tool)
      unregister(name: string) {
        this.#inner.unregister(name)
      }
      find(name: string) {
        return this.#inner.find(name)
      }
      get(name: string) {
        return this.#inner.get(name)
      }
      list(namespace?: string) {
        return this.#inner.list(namespace)
      }
    }
    tools = new Shelf()
    await start()
    const action = newAction({ action_type: 'mcp_call', params: use('it.echo', { said: 'hi' }) })
    expect((await layer.execute(action)).output).toBe('hi')
  })

  it('leaves nothing behind when a server does not start', async () => {
    await expect(start({ command: '/nowhere/at-all' })).rejects.toMatchObject({
      code: 'action_failed',
      retryable: true,
    })
    await expect(start({ command: 'at-all' })).rejects.toThrow('it did not start: there is no command at-all')
    await expect(start({ cwd: '/nowhere' })).rejects.toThrow('it did not start: its cwd /nowhere is not there')
    await expect(start({ args: ['-e', 'process.exit(3)'] })).rejects.toThrow(/did not start/)
    await expect(start({ args: ['-e', 'setInterval(() => {}, 1e6)'] }, { startMs: 200 })).rejects.toThrow(
      /did not start/,
    )
    expect(tools.list()).toEqual([])
  })

  it('never shows a secret that a server says as it fails to start', async () => {
    const script = "console.error('bad token ' + process.env.SERVICE_TOKEN); process.exit(3)"
    const error = await start({ args: ['-e', script] }).catch((error) => error)
    expect(error.message).toContain('it said last: bad token [redacted]')
    expect(inspect(error, { showHidden: true })).not.toContain(TOKEN)
  })

  it('refuses a server whose list of tools has no end', async () => {
    const env = { MCP_NOTES: notes, MCP_ENDLESS: 'yes' }
    await expect(start({ env })).rejects.toThrow(/did not start: its list of tools has no end/)
  })

  it('leaves out the tools that cannot be used, says which, and keeps the others, also when the list changes', async () => {
    const errors: unknown[] = []
    await start({ env: { MCP_NOTES: notes, MCP_ODD: 'yes' } }, { onError: (error) => errors.push(error) })
    expect(errors).toEqual(Array(4).fill(expect.any(InvalidInput)))
    const said = errors.map(String).sort().join()
    expect(said).toMatch(/it\.bare.*inputSchema.*it\.odd.*it\.twin_one.*it\.vague.*output/)
    expect(tools.find('it.twin_one')).toBeDefined()
    await layer.execute(call('grow'))
    await expect.poll(() => tools.find('it.late') !== undefined).toBe(true)
    expect((await layer.execute(call('echo', { said: 'hi' }))).output).toBe('hi')
  })

  it('refuses a namespace and a command that cannot be', async () => {
    await expect(mcpAdapter({ servers: { 'a.b': serverIn(notes) }, tools })).rejects.toBeInstanceOf(InvalidInput)
    await expect(mcpAdapter({ servers: { a: { command: '' } }, tools })).rejects.toThrow(/servers.a.command/)
  })

  it.each([
    [undefined, 'servers'],
    [{ a: { command: 'node', args: 'server.js' } }, 'servers.a.args'],
    [{ a: { command: 'node', env: { TOKEN: 5 } } }, 'servers.a.env'],
    [{ a: { command: 'node', cwd: 5 } }, 'servers.a.cwd'],
    [{ a: { command: 'node', policy: 'aks' } }, 'servers.a.policy'],
    [{ a: { command: 'node', approvers: 'dba' } }, 'servers.a.approvers'],
    [{ a: { command: 'node', approvers: { needed: 2, roles: ['dba'] } } }, 'servers.a.approvers.needed'],
    [{ a: { command: 'node', polcy: 'ask' } }, 'servers.a.polcy'],
    [{ a: { command: 'node', trustAnnotations: 'no' } }, 'servers.a.trustAnnotations'],
  ])('refuses servers that no attempt could start: %j', async (servers, path) => {
    await expect(mcpAdapter({ servers: servers as never, tools })).rejects.toMatchObject({
      code: 'invalid_input',
      problems: [{ path }],
    })
  })

  it('refuses tools whose names are taken', async () => {
    tools.register({ name: 'it.echo', description: '', input: {}, execute: () => 1 })
    await expect(start()).rejects.toThrow(/registered already/)
  })
})
