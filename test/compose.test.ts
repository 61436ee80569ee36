import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import type { DeltaSource } from '../src/ael/adapter.ts'
import { type FunctionSpec, functionAdapter } from '../src/ael/function.ts'
import type { ModelAnswer, ModelRequest } from '../src/ael/llm-model.ts'
import type { Provider } from '../src/ael/llm-provider.ts'
import type { Tool } from '../src/ael/tool-registry.ts'
import { openBus, openSource } from '../src/bus/bus.ts'
import { memoryTransport } from '../src/bus/memory.ts'
import { openRuntime } from '../src/compose.ts'
import type { DriftConfig } from '../src/config.ts'
import type { RunOptions } from '../src/orchestrator/live.ts'
import { flowOf as named } from '../src/orchestrator/named-flow.ts'
import { manualClock, systemClock } from '../src/protocol/clock.ts'
import { Closed, Corrupt, InvalidInput, Refused, Unavailable } from '../src/protocol/errors.ts'
import { type JsonObject, uuidOf } from '../src/protocol/json.ts'
import type { FileRecord } from '../src/psg/change.ts'
import type { Backend } from '../src/vsl/backend.ts'
import { fileBackend } from '../src/vsl/file.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { openStore } from '../src/vsl/vsl.ts'
import { flowOf } from './support/flows.ts'
import { mcpHttpServer } from './support/mcp-http-server.ts'
import { door, inTime } from './support/on-a-clock.ts'
import { freePort } from './support/private-server.ts'
import { itOwns, privatePostgres, privateRedis } from './support/servers.ts'
import { tempFolder } from './support/temp-folder.ts'

const MCP_SCRIPT = fileURLToPath(new URL('support/mcp-server.mjs', import.meta.url))

describe('a runtime from a config', () => {
  it('has no more actions under way than its config says, in all runs together', async () => {
    let [under, most] = [0, 0]
    const work = async () => {
      most = Math.max(most, ++under)
      await new Promise((resolve) => setImmediate(resolve))
      under--
    }
    const config = { vsl: 'memory:', functions: { work }, actions: { at_once: { function: 3 } } }
    const runtime = await openRuntime(config)
    onTestFinished(() => runtime.close())
    const wide = () => flowOf(Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`s${i}`, { call: 'work' }])))
    const runs = await Promise.all(Array.from({ length: 5 }, () => runtime.submit(wide())))
    const results = await Promise.all(runs.map((run) => run.result()))
    expect(results.every(({ success }) => success)).toBe(true)
    expect(most).toBe(3)
  })

  it('says of what was given in the wrong argument where it belongs', async () => {
    const onError = () => undefined
    const inConfig = { vsl: 'memory:', onError } as object
    await expect(openRuntime(inConfig)).rejects.toMatchObject({
      subject: 'config',
      problems: [{ path: 'onError', rule: 'extra_forbidden', message: expect.stringContaining('second argument') }],
    })
    const inOptions = { functions: {} } as object
    await expect(openRuntime({ vsl: 'memory:' }, inOptions)).rejects.toMatchObject({
      subject: 'runtime options',
      problems: [{ path: 'functions', rule: 'extra_forbidden', message: expect.stringContaining('first argument') }],
    })
  })

  it('takes a promise of a config for none: it would count as one that says nothing, and the default store would be opened', async () => {
    const promised = Promise.resolve({ vsl: 'memory:' }) as object
    const problems = [{ path: '', rule: 'type', message: 'must be a plain object' }]
    await expect(openRuntime(promised)).rejects.toMatchObject({ subject: 'config', problems })
    const given = openRuntime({ vsl: 'memory:' }, promised)
    await expect(given).rejects.toMatchObject({ subject: 'runtime options', problems })
  })

  it('refuses places for a type of action that nobody carries out, and names those that somebody does', async () => {
    const actions = { at_once: { function: 1, functions: 1, wait: 1, '*': 1 } }
    const functions = { work: () => null }
    const message = expect.stringMatching(/there are file_operation, function, .*tool_call, and \*/)
    await expect(openRuntime({ vsl: 'memory:', functions, actions })).rejects.toMatchObject({
      code: 'invalid_input',
      problems: ['functions', 'wait'].map((type) => ({ path: `actions.at_once.${type}`, rule: 'adapter', message })),
    })
    const all = functionAdapter(functions, { action_type: '*' })
    await (await openRuntime({ vsl: 'memory:', functions, adapters: [all], actions })).close()
  })

  it('takes functions as people write them: with an interface, a date, or nothing as what they give', async () => {
    interface Invoice {
      readonly id: string
      readonly at: Date
    }
    const at = new Date(0)
    const charge = async (): Promise<Invoice> => ({ id: 'a', at })
    const ship = async (): Promise<void> => undefined
    const log = (): void => undefined
    const runtime = await openRuntime({ vsl: 'memory:', functions: { charge, ship, log } })
    onTestFinished(() => runtime.close())
    const flow = flowOf({ charge: {}, ship: {}, log: {} })
    const { outputs } = await (await runtime.submit(flow)).result()
    expect(outputs).toEqual({ [flow.ids.charge!]: { id: 'a', at: at.toISOString() } })
  })

  it('keeps outputs as large as its config says', async () => {
    const functions = { small: () => 'x'.repeat(90), large: () => 'x'.repeat(110) }
    const runtime = await openRuntime({ vsl: 'memory:', functions, actions: { max_output_bytes: 100 } })
    onTestFinished(() => runtime.close())
    const small = await runtime.submit(flowOf({ small: {} }))
    expect(await small.result()).toMatchObject({ success: true })
    const large = await (await runtime.submit(flowOf({ large: {} }))).result()
    expect(large).toMatchObject({ success: false, error: { message: expect.stringContaining('max_output_bytes') } })
  })

  it.each([
    [undefined, 'did not come to an answer in 8 rounds'],
    [10, undefined],
  ])('asks a model as often as its config says: %s', async (max_rounds, message) => {
    const look = { name: 'web.look', description: 'Looks', input: { type: 'object' }, execute: () => 'seen' }
    const replies = [
      ...Array.from({ length: 9 }, () => ({ tool_calls: [{ tool: 'web.look', args: {} }] })),
      'It snows.',
    ]
    const runtime = await openRuntime({
      vsl: 'memory:',
      tools: [look],
      models: { writer: { provider: 'scripted', replies } },
      ...(max_rounds !== undefined && { actions: { max_rounds } }),
    })
    onTestFinished(() => runtime.close())
    const params = { model: 'any', tools: ['web.look'], messages: [{ role: 'user', content: 'The weather?' }] }
    const flow = flowOf({ ask: { binding: { action_type: 'llm_call', params } } })
    const { success, error } = await (await runtime.submit(flow)).result()
    expect(success).toBe(message === undefined)
    expect(error?.message ?? '').toContain(message ?? '')
  })

  it('tells that a bus is away once a minute, however often its relay tries', async () => {
    let later = 0
    const clock = { ...systemClock, now: () => systemClock.now() + later }
    let attempts = 0
    const publish = async () => {
      attempts++
      throw new Unavailable('the bus', 'wait')
    }
    const transport = { ...memoryTransport(), publish }
    const told: unknown[] = []
    const onError = (error: unknown) => void told.push(error)
    const config = { vsl: 'memory:', bus: [{ name: 'mine', transport }], functions: { greet: () => 'hello' } }
    const runtime = await openRuntime(config, { clock, onError })
    onTestFinished(() => runtime.close())
    await (await runtime.submit(flowOf({ greet: {} }))).result()
    await expect.poll(() => attempts, { timeout: 10_000 }).toBeGreaterThan(2)
    expect(told).toEqual([expect.any(Unavailable)])
    later = 60_000
    await expect.poll(() => told.length, { timeout: 10_000 }).toBe(2)
  })

  it('holds contexts and buses by leases as long as its config says', async () => {
    const store = memoryBackend()
    const leases = new Map<string, number>()
    const acquire: Backend['acquire'] = (stream, holder, ttlMs) => {
      leases.set(stream, ttlMs)
      return store.acquire(stream, holder, ttlMs)
    }
    const transport = { ...memoryTransport(), traits: { ...memoryTransport().traits, within: false } }
    const config = { lease_ttl_ms: 2_500, bus: [{ name: 'mine', transport }], functions: { greet: () => 'hello' } }
    const runtime = await openRuntime(config, { store: { ...store, acquire } })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flowOf({ greet: {} }))
    await run.result()
    await runtime.flush()
    expect([...leases]).toEqual(
      expect.arrayContaining([
        [run.context_id, 2_500],
        ['relay/mine', 2_500],
      ]),
    )
  })

  itOwns(privatePostgres)('moves to Postgres and Redis with two lines and nothing else', async ({ url }) => {
    const redis = await privateRedis()
    const runtime = await openRuntime({ vsl: url, bus: [redis.url], functions: { greet: () => 'hello' } })
    const flow = flowOf({ greet: {} })
    const result = await (await runtime.submit(flow)).result()
    expect(result).toMatchObject({ status: 'completed', outputs: { [flow.ids.greet!]: 'hello' } })
    await runtime.flush()
    const source = await openSource(redis.url)
    for await (const { plan_id, event } of source.events({ family: 'pipeline_stage' }, { after: '' })) {
      if (plan_id !== flow.plan.plan_id) continue
      expect(event.event_family).toBe('pipeline_stage')
      break
    }
    const again = await openRuntime({ vsl: url })
    expect(await (await again.get(flow.plan.plan_id)).result()).toMatchObject({ status: 'completed' })
    for (const { close } of [source, again, runtime]) await close() // before their servers go
    await redis.stop()
  })

  it('has whoever listens hear what the steps of a run say on their way, and of which step it is', async () => {
    const heard: [string, DeltaSource][] = []
    const tool: Tool = {
      name: 'slow.tell',
      description: 'Tells piece by piece',
      input: {},
      async *execute() {
        yield 'one'
        yield 'two'
      },
    }
    const replies = ['Snow in Oslo.']
    const runtime = await openRuntime(
      { vsl: 'memory:', tools: [tool], models: { writer: { provider: 'scripted', replies } } },
      { onDelta: (delta, from) => heard.push([delta, from]) },
    )
    const said = (stream: boolean) => ({
      action_type: 'llm_call',
      params: { model: 'any', stream, messages: [{ role: 'user', content: 'The weather?' }] },
    })
    const tell = { action_type: 'tool_call', params: { tool_name: 'slow.tell', tool_args: {} } }
    const flow = flowOf({
      aloud: { binding: said(true) },
      quietly: { binding: said(false), after: ['aloud'] },
      tell: { binding: tell, after: ['quietly'] },
    })
    const { plan_id, trace_id, context_id, result } = await runtime.submit(flow)
    expect((await result()).status).toBe('completed')
    await runtime.close()
    const by = (step: string) => heard.filter(([, { run }]) => run?.step_id === flow.ids[step]).map(([delta]) => delta)
    expect([by('aloud').join(''), by('quietly'), by('tell')]).toEqual([replies[0], [], ['one', 'two']])
    const run = { plan_id, trace_id, context_id, step_id: flow.ids.tell }
    expect(heard.at(-1)?.[1]).toEqual({ action_id: expect.any(String), execution_id: expect.any(String), run })
  })

  itOwns(privateRedis)('keeps on Redis what a step gives, as large as it may be, sealed or not', async ({ url }) => {
    const large = 'x'.repeat(16 * 1024 * 1024 - 2) // as JSON, what the layer lets through at most
    for (const [database, encryption_key] of [undefined, Buffer.alloc(32, 1).toString('base64')].entries()) {
      const config = { vsl: `${url}/${database}`, ...(encryption_key !== undefined && { encryption_key }) }
      const runtime = await openRuntime({ ...config, functions: { give: () => large } })
      const flow = flowOf({ give: {} })
      const { status, outputs } = await (await runtime.submit(flow)).result()
      expect([status, outputs[flow.ids.give!] === large]).toEqual(['completed', true])
      await runtime.close()
    }
  })

  itOwns(privateRedis)('keeps on Redis what a step gives that may give more than usual', async ({ url }) => {
    const max_output_bytes = 33 * 1024 * 1024
    const give = () => 'x'.repeat(max_output_bytes - 2) // and its quotes
    const runtime = await openRuntime({ vsl: url, actions: { max_output_bytes }, functions: { give } })
    const result = await (await runtime.submit(flowOf({ give: {} }))).result()
    await runtime.close() // before its server goes
    expect(result).toMatchObject({ status: 'completed' })
  })

  it.each([{ rules: [{ match: '**', strategy: 'theirs' as 'files' }] }, { keep_bytes: Number.NaN }])(
    'refuses %o before a store is made, not when a run first touches a file',
    async (drift) => {
      const folder = tempFolder()
      const opening = openRuntime({ vsl: `sqlite:${join(folder, 'state.db')}`, root: folder, drift })
      await expect(opening).rejects.toThrow(InvalidInput)
      expect(readdirSync(folder)).toEqual([])
    },
  )

  it('lets go of a store in which it cannot read', async () => {
    const path = join(tempFolder(), 'state')
    const store = await fileBackend({ path, segmentBytes: 1 })
    const write = (key: string, expected: number) =>
      store.commit({ stream: 's', expected, entry: null, inserts: [[key, { project_id: key }]], puts: [], deletes: [] })
    await write('project', 0)
    await write('other', 1)
    await store.close()
    rmSync(join(path, 'values'), { recursive: true })
    const [oldest] = readdirSync(join(path, 'journal')).map((name) => join(path, 'journal', name))
    writeFileSync(oldest!, readFileSync(oldest!, 'utf8').replace('project_id', 'project_iD'))
    for (const _ of ['once', 'twice']) await expect(openRuntime({ vsl: `file:${path}` })).rejects.toThrow(Corrupt)
  })

  it('leaves no store behind where a bus cannot be reached or its port is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    onTestFinished(() => void taken.close())
    const { port } = taken.address() as AddressInfo
    const folder = tempFolder()
    const opening = (bus: string) => openRuntime({ vsl: `sqlite:${join(folder, '.mplp/state.db')}`, bus: [bus] })
    await expect(opening(`ws://127.0.0.1:${port}`)).rejects.toThrow(Refused)
    await expect(opening('redis://127.0.0.1:1')).rejects.toThrow(Unavailable)
    expect(readdirSync(folder)).toEqual([])
  })

  it('hears from a folder that it cannot write all of, as from everything else', async () => {
    const folder = tempFolder()
    const vsl = `file:${join(folder, 'store')}`
    await (await openRuntime({ vsl })).close()
    rmSync(join(folder, 'store/values'), { recursive: true })
    writeFileSync(join(folder, 'store/values'), 'a file where a folder must be')
    const told: unknown[] = []
    const runtime = await openRuntime({ vsl }, { onError: (error) => told.push(error) })
    await runtime.call('context', { intent: 'create', title: 'Mine', root: { domain: 'demo', environment: 'dev' } })
    await runtime.close()
    expect(new Set(told.map((error) => (error as Error).constructor))).toEqual(new Set([Refused]))
  })

  it('lets who subscribes before the store is there wait for it, and closes its buses when none comes', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    onTestFinished(() => void silent.close())
    const vsl = `postgres://127.0.0.1:${(silent.address() as AddressInfo).port}/mplp`
    const bus = `ws://127.0.0.1:${await freePort()}/events`
    const told: unknown[] = []
    const asked = once(silent, 'connection')
    const opening = openRuntime({ vsl, bus: [bus] }, { onError: (error) => told.push(error) }).catch((error) => error)
    const [socket] = (await asked) as [Socket]
    const client = new WebSocket(bus)
    await once(client, 'open')
    const closed = once(client, 'close')
    client.send('{}')
    client.ping()
    await once(client, 'pong') // so that its frame has been read
    socket.destroy()
    expect(await opening).toBeInstanceOf(Unavailable)
    expect((await closed)[0]).toBe(1001)
    expect(told).toEqual([])
    const again = await openBus(bus)
    await again.transport.close()
  })

  it('feeds in every process a bus that lives there, also one that was given as a transport', async () => {
    const vsl = `sqlite:${join(tempFolder(), 'state.db')}`
    const opened = await Promise.all(
      ['one', 'two'].map(async () => {
        const transport = memoryTransport()
        const completed = new Promise((resolve) => transport.subscribe({ type: 'SACompleted' }, resolve))
        const bus = [{ name: 'mine', transport }]
        return { completed, runtime: await openRuntime({ vsl, bus, functions: { greet: () => 'hello' } }) }
      }),
    )
    await opened[0]!.runtime.submit(flowOf({ greet: {} }))
    for (const { completed } of opened) await completed
    for (const { runtime } of opened) await runtime.close()
  })

  it('closes every bus, also beside one that throws and one that never comes to its end, and says which', async () => {
    const clock = manualClock()
    const closed: string[] = []
    const bus = (name: string, close: () => Promise<void>) => ({
      name,
      transport: {
        ...memoryTransport(),
        close() {
          closed.push(name)
          return close()
        },
      },
    })
    const slow = bus('slow', () => new Promise(() => undefined))
    const wrong = bus('wrong', () => expect.fail('cannot be closed'))
    const runtime = await openRuntime(
      { vsl: 'memory:', bus: [slow, wrong, bus('good', async () => undefined)] },
      { clock },
    )
    const closing = inTime(clock, runtime.close())
    await expect(closing).rejects.toThrow(new Unavailable('the bus slow', 'closing it took over 12000 ms'))
    expect(closed).toEqual(['slow', 'wrong', 'good'])
  })

  it.each(['in the midst of a run', 'at rest'])(
    'comes to the end of its close also when the store never answers again, and says so (%s)',
    async (when) => {
      const clock = manualClock()
      const inner = memoryBackend({ clock })
      let isSilent = false
      const store = new Proxy(inner, {
        get: (target, call: keyof Backend) => {
          const asked = target[call] as (...given: readonly unknown[]) => unknown
          if (typeof asked !== 'function') return asked
          return (...given: readonly unknown[]) => (isSilent ? silence(call) : asked.apply(target, [...given]))
        },
      })
      const [begun, end] = [door(), door()]
      const work = () => {
        begun.open()
        return end.opened
      }
      const bus = { name: 'good', transport: memoryTransport() }
      const config = { vsl: () => store, bus: [bus], functions: { work } }
      const runtime = await openRuntime(config, { clock, onError: () => undefined })
      if (when !== 'at rest') {
        await runtime.submit(flowOf({ work: {}, next: { call: 'work', after: ['work'] } }))
        await begun.opened
      }
      isSilent = true
      end.open()
      const began = clock.now()
      await expect(inTime(clock, runtime.close())).rejects.toThrow(/^the store cannot be reached/)
      expect(clock.now() - began).toBeLessThanOrEqual(20_000)
      await expect(bus.transport.publish([])).rejects.toThrow(Closed)
    },
  )

  it('has one time for the whole of its close, of which everything has its part, and says what it leaves', async () => {
    const clock = manualClock()
    const closed: string[] = []
    const stuck = (name: string) => () => {
      closed.push(name)
      return new Promise<void>(() => undefined)
    }
    const begun = door()
    const work = () => {
      begun.open()
      return new Promise<void>(() => undefined)
    }
    const runtime = await openRuntime(
      {
        vsl: () => ({ ...memoryBackend({ clock }), release: stuck('lease'), close: stuck('store') }),
        bus: [{ name: 'slow', transport: { ...memoryTransport(), close: stuck('bus') } }],
        adapters: [{ ...functionAdapter({ work }), close: stuck('adapter') }],
      },
      { clock, onError: () => undefined },
    )
    await runtime.submit(flowOf({ work: {} }))
    await begun.opened
    const began = clock.now()
    const error = await inTime(clock, runtime.close()).catch((error) => error)
    expect(clock.now() - began).toBe(20_000)
    expect(closed).toEqual(['lease', 'bus', 'adapter', 'store'])
    expect(error).toBeInstanceOf(Unavailable)
    expect(error.message).toMatch(/^the store .* left runs .*; buses.*; adapters.*; the store open$/)
  })

  it('lets a rollback under way come to its end before it is closed', async () => {
    const [begun, slow] = [door(), door()]
    const undo = async () => {
      begun.open()
      await slow.opened
    }
    const clock = manualClock()
    const runtime = await openRuntime({ vsl: 'memory:', functions: { work: () => 1, undo } }, { clock })
    const inverse = { action_type: 'function', params: { name: 'undo' } }
    const run = await runtime.submit(flowOf({ work: { binding: { inverse } } }))
    await inTime(clock, run.result())
    const rolledBack = runtime.rollback(run.run_id)
    await begun.opened
    const closing = runtime.close()
    await clock.advance(5_000)
    slow.open()
    expect(await inTime(clock, rolledBack)).toMatchObject({ status: 'done' })
    await inTime(clock, closing)
  })

  it.each(['a folder of its own', 'a folder that is held against the graph'])(
    'carries file actions through while the store is away: in %s',
    async (where) => {
      const root = tempFolder()
      const [one, two] = ['one.txt', 'two.txt'].map((name) => join(root, name)) as [string, string]
      writeFileSync(one, 'before')
      writeFileSync(two, 'before')
      const clock = manualClock()
      const refused: string[] = []
      const vsl = () => {
        const store = memoryBackend({ clock })
        const putBlob: Backend['putBlob'] = async (bytes) => {
          const content = Buffer.from(bytes).toString()
          if (refused.filter((other) => other === content).length === 2) return store.putBlob(bytes)
          refused.push(content)
          throw new Unavailable('the store', 'wait')
        }
        return { ...store, putBlob }
      }
      const isHeld = where !== 'a folder of its own'
      if (!isHeld) {
        const before = process.cwd()
        process.chdir(root)
        onTestFinished(() => process.chdir(before))
      }
      const runtime = await openRuntime({ vsl, ...(isHeld && { root }) }, { clock, onError: () => undefined })
      const run = await runtime.submit(
        named({
          title: 'Two files',
          steps: {
            write: { action_type: 'file_operation', params: { operation: 'write', path: 'one.txt', content: 'after' } },
            remove: { action_type: 'file_operation', params: { operation: 'delete', path: 'two.txt' } },
          },
        }).flow,
      )
      const phase = () => clock.advance(100).then(() => run.phase)
      await expect.poll(phase, { timeout: 20_000 }).toBe('ended')
      expect(await run.result()).toMatchObject({ status: 'completed' })
      expect([readFileSync(one, 'utf8'), existsSync(two)]).toEqual(['after', false])
      expect(new Set(refused)).toEqual(new Set(isHeld ? ['before', 'after'] : ['before']))
      await runtime.close() // in no time: the folder that it closes is a real one
    },
  )

  it('that is closed tells nobody that a bus has everything when it has not', async () => {
    const clock = manualClock()
    const publish = () => new Promise<never>(() => undefined)
    const bus = [{ name: 'slow', transport: { ...memoryTransport(), publish } }]
    const runtime = await openRuntime({ vsl: 'memory:', bus, functions: { work: () => 1 } }, { clock })
    await inTime(clock, (await runtime.submit(flowOf({ work: {} }))).result())
    const flushed = runtime.flush().catch((error) => error)
    await inTime(clock, runtime.close())
    expect(await flushed).toBeInstanceOf(Closed)
  })

  it('has a file that it wrote wait for a store that is away for longer than a step may take', async () => {
    const root = tempFolder()
    const clock = manualClock()
    let isBack = false
    const refusedAt: number[] = []
    const vsl = () => {
      const store = memoryBackend({ clock })
      const commit: Backend['commit'] = async (write) => {
        if (isBack || !existsSync(join(root, 'one.txt'))) return store.commit(write)
        refusedAt.push(clock.now())
        throw new Unavailable('the store', 'wait')
      }
      return { ...store, commit }
    }
    const runtime = await openRuntime({ vsl, root }, { clock, onError: () => undefined })
    const params = { operation: 'write', path: 'one.txt', content: 'done' }
    const write = { action_type: 'file_operation', params, timeout_ms: 5_000 }
    const run = await runtime.submit(named({ title: 'A file', steps: { write } }).flow)
    await expect.poll(() => refusedAt.length, { timeout: 20_000 }).toBeGreaterThan(0) // no time passes while it is written
    const awayFor = () => clock.advance(100).then(() => (refusedAt.at(-1) ?? 0) - (refusedAt[0] ?? 0))
    await expect.poll(awayFor, { timeout: 20_000, interval: 1 }).toBeGreaterThan(5_000)
    isBack = true
    const phase = () => clock.advance(100).then(() => run.phase)
    await expect.poll(phase, { timeout: 20_000 }).toBe('ended')
    expect(await run.result()).toMatchObject({ status: 'completed' })
    expect(await runtime.folder!.scan()).toMatchObject({ findings: [] })
    await runtime.close() // in no time: the folder that it closes is a real one
  })

  it('is closed in half of that time by who is in a hurry, also the second time', async () => {
    const clock = manualClock()
    const silent = () => new Promise<never>(() => undefined)
    const vsl = () => ({ ...memoryBackend({ clock }), close: silent })
    const bus = [{ name: 'slow', transport: { ...memoryTransport(), close: silent } }]
    const runtime = await openRuntime({ vsl, bus }, { clock })
    const began = clock.now()
    const first = inTime(clock, runtime.close()).catch((error) => error)
    await expect(inTime(clock, runtime.close(AbortSignal.abort()))).rejects.toThrow(Unavailable)
    expect(clock.now() - began).toBe(10_000)
    expect(await first).toBeInstanceOf(Unavailable)
  })

  it('refuses a folder that is not there, and a key of the wrong length, and leaves nothing open', async () => {
    await expect(openRuntime({ vsl: 'memory:', root: join(tempFolder(), 'absent') })).rejects.toThrow(InvalidInput)
    await expect(openRuntime({ vsl: 'memory:', drift: { watch: true } })).rejects.toThrow('drift needs root')
    await expect(openRuntime({ vsl: 'memory:', encryption_key: 'c2hvcnQ=' })).rejects.toThrow(InvalidInput)
    const state = `file:${tempFolder()}`
    await expect(openRuntime({ vsl: state, bus: ['wss://x'] })).rejects.toThrow(InvalidInput)
    await (await openRuntime({ vsl: state })).close() // the lock was let go
  })

  it('says what is wrong with its adapters, also where one never comes to its end', async () => {
    const clock = manualClock()
    const stuck = { ...functionAdapter({}, { action_type: 'stuck' }), close: () => new Promise<void>(() => undefined) }
    const told: unknown[] = []
    const opening = openRuntime(
      { vsl: 'memory:', adapters: [stuck, stuck] },
      { clock, onError: (error) => told.push(error) },
    )
    const refused = opening.catch((error) => error)
    await expect.poll(() => clock.sleeping).toBe(1)
    await clock.advance(10_000)
    await expect.poll(() => clock.sleeping).toBe(1) // it is there twice
    await clock.advance(10_000)
    expect(await refused).toBeInstanceOf(InvalidInput)
    expect(told).toMatchObject([{ code: 'action_timed_out' }])
  })

  it('says what is wrong with its adapters, whatever they do when they are closed', async () => {
    await expect(openRuntime({ vsl: 'memory:', adapters: [null as never] })).rejects.toThrow(InvalidInput)
    const told: unknown[] = []
    const failure = new Error('it does not close')
    const twice = { ...functionAdapter({}, { action_type: 'tool_call' }), close: () => Promise.reject(failure) }
    const opening = openRuntime({ vsl: 'memory:', adapters: [twice] }, { onError: (error) => told.push(error) })
    await expect(opening).rejects.toThrow(InvalidInput)
    expect(told).toEqual([failure])
  })

  it('refuses what is no flow, also where its config has options for runs', async () => {
    const runtime = await openRuntime({ vsl: 'memory:', run: { concurrency: 1 } })
    onTestFinished(() => runtime.close())
    await expect(runtime.submit(null as never)).rejects.toThrow(InvalidInput)
    await expect(runtime.submit(undefined as never)).rejects.toThrow(InvalidInput)
    for (const options of [null, 'fast'])
      await expect(runtime.submit({ ...flowOf({ a: {} }), options } as never)).rejects.toMatchObject({
        problems: [{ path: 'options', rule: 'type' }],
      })
  })

  it('has options for runs that a flow does not take away by saying nothing', async () => {
    const runtime = await openRuntime({ vsl: 'memory:', run: { budget: { actions: 0 } }, functions: { a: () => 1 } })
    onTestFinished(() => runtime.close())
    for (const options of [undefined, {}, { budget: undefined }]) {
      const run = await runtime.submit({ ...flowOf({ a: {} }), options } as never)
      expect(await run.result()).toMatchObject({ status: 'failed' })
    }
  })

  it('has options for runs that hold for those which a step submits as its children, too', async () => {
    const within = (options?: RunOptions) =>
      flowOf({ a: {}, b: {} }, { chosen: { run: uuidOf('within') }, ...(options && { options }) })
    const children = [within(), { ...within({ budget: { actions: 2 } }), chosen: { run: uuidOf('asked for more') } }]
    const parent: FunctionSpec = async (_args, { child }) => {
      const results = await Promise.all(children.map(child))
      return results.map(({ status }) => status)
    }
    const functions = { a: () => 1, b: () => 2, parent }
    const runtime = await openRuntime({ vsl: 'memory:', run: { budget: { actions: 1 } }, functions })
    onTestFinished(() => runtime.close())
    const { outputs } = await (await runtime.submit(flowOf({ parent: {} }))).result()
    expect(Object.values(outputs)).toEqual([['failed', 'completed']])
  })

  it('asks about each call of a tool that must be asked about, also when a model makes the same one again', async () => {
    let paid = 0
    const pay: Tool = {
      name: 'bank.pay',
      description: 'Pays',
      input: { type: 'object' },
      policy: 'ask',
      execute: () => ++paid,
    }
    const again = { tool_calls: [{ tool: 'bank.pay', args: { amount: 100 } }] }
    const models = { m: { provider: 'scripted' as const, replies: [again, again, 'done'] } }
    const runtime = await openRuntime({ vsl: 'memory:', tools: [pay], models })
    onTestFinished(() => runtime.close())
    const params = { model: 'm', messages: [{ role: 'user', content: 'pay' }], tools: ['bank.pay'] }
    const run = await runtime.submit(flowOf({ pay: { binding: { action_type: 'llm_call', params } } }))
    let asked = 0
    while ((await run.rest()) === 'waiting') {
      const [question] = await runtime.waiting()
      await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'lead' })
      expect(++asked).toBeGreaterThanOrEqual(paid)
    }
    expect(await run.result()).toMatchObject({ status: 'completed' })
    expect([asked, paid]).toEqual([2, 2])
  })

  it('counts what a model costs by its price, and denies what is more than a run may cost', async () => {
    const usage = { prompt: 1_000, completion: 500 }
    const model = { provider: 'scripted' as const, replies: [{ text: 'hello', usage }] }
    const models = { dear: { ...model, price: { prompt: 3, completion: 15 } }, unpriced: model }
    const runtime = await openRuntime({ vsl: 'memory:', models })
    onTestFinished(() => runtime.close())
    const ask = (provider: string, cost: number) => {
      const params = { provider, model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 1_000 }
      const flow = flowOf({ ask: { binding: { action_type: 'llm_call', params } } })
      return runtime.submit({ ...flow, options: { budget: { cost } } })
    }
    const run = await ask('dear', 0.02)
    expect(await run.result()).toMatchObject({ status: 'completed' })
    const costs: unknown[] = []
    for await (const { event } of run.events())
      if (event.event_family === 'runtime_execution') costs.push((event.payload as JsonObject).cost)
    expect(costs.filter((cost) => cost !== undefined)).toEqual([0.0105])
    expect(await (await ask('dear', 0.01)).result()).toMatchObject({ error: { code: 'budget_exceeded' } })
    expect(await (await ask('unpriced', 0.01)).result()).toMatchObject({ status: 'completed' })
  })

  it('asks a provider of one’s own as any other: with the tools of the config, by its price, and without its key', async () => {
    const key = 'the-key-of-my-provider'
    const usage = { inputTokens: { total: 1_000 }, outputTokens: { total: 500 } }
    const call = { type: 'tool-call', toolCallId: '1', input: '{}' } as const
    const answers = ({ prompt, tools }: ModelRequest): ModelAnswer =>
      prompt.at(-1)!.role === 'tool'
        ? { content: [{ type: 'text', text: `by ${key}` }], finishReason: { unified: 'stop' }, usage, warnings: [] }
        : {
            content: [{ ...call, toolName: tools![0]!.name }],
            finishReason: { unified: 'tool-calls' },
            usage,
            warnings: [],
          }
    const provider: Provider = {
      model: async (modelId) => ({
        specificationVersion: 'v3',
        provider: 'mine',
        modelId,
        supportedUrls: {},
        doGenerate: async (asked) => answers(asked),
        doStream: () => Promise.reject(new Error('not streamed')),
      }),
      secrets: () => [key],
    }
    let looked = 0
    const look: Tool = { name: 'sky.look', description: 'Looks', input: { type: 'object' }, execute: () => ++looked }
    const models = { mine: { provider, price: { prompt: 3, completion: 15 } } }
    const runtime = await openRuntime({ vsl: 'memory:', tools: [look], models })
    onTestFinished(() => runtime.close())
    const params = { model: 'm', messages: [{ role: 'user', content: 'hi' }], tools: ['sky.look'], max_tokens: 1_000 }
    const flow = flowOf({ ask: { binding: { action_type: 'llm_call', params } } })
    const run = await runtime.submit({ ...flow, options: { budget: { cost: 1 } } })
    const { outputs } = await run.result()
    expect(Object.values(outputs)).toMatchObject([{ text: 'by [redacted]', rounds: 2 }])
    expect(looked).toBe(1)
    const costs: unknown[] = []
    for await (const { event } of run.events())
      if (event.event_family === 'runtime_execution') costs.push((event.payload as JsonObject).cost)
    expect(costs).toContain(0.021)
  })

  it('keeps what a tool says takes it back, as JSON, and says when it cannot say it', async () => {
    const tool = (name: string, inverse: NonNullable<Tool['inverse']>): Tool => ({
      name,
      description: name,
      input: { type: 'object' },
      effect: 'reversible',
      inverse,
      execute: () => 'done',
    })
    const dated = tool('cal.book', () => ({ tool_name: 'cal.book', tool_args: { at: new Date(0) as never } }))
    const lost = tool('cal.lose', () => expect.fail('no such day'))
    const runtime = await openRuntime({ vsl: 'memory:', tools: [dated, lost] })
    onTestFinished(() => runtime.close())
    const binding = (tool_name: string) => ({ action_type: 'tool_call', params: { tool_name, tool_args: {} } })
    const book = flowOf({ book: { binding: binding('cal.book') } })
    expect(await (await runtime.submit(book)).result()).toMatchObject({ outputs: { [book.ids.book!]: 'done' } })
    const lose = await runtime.submit(flowOf({ lose: { binding: binding('cal.lose') } }))
    expect(await lose.result()).toMatchObject({ status: 'completed' })
    const { left } = await runtime.rollback(lose.run_id)
    expect(left).toMatchObject([{ what: 'effect', reason: expect.stringMatching(/what takes it back.*no such day/) }])
  })

  it('ends the servers it has started when its adapters do not fit together', async () => {
    const notes = tempFolder()
    const it = { command: process.execPath, args: [MCP_SCRIPT], env: { MCP_NOTES: notes } }
    const adapters = [functionAdapter({}), functionAdapter({})]
    await expect(openRuntime({ vsl: 'memory:', mcp: { it }, adapters })).rejects.toThrow(InvalidInput)
    const pid = Number(readFileSync(join(notes, 'started'), 'utf8'))
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  })

  it('holds each MCP server to the limits that its config gives, whichever way it is spoken to', async () => {
    const server = await mcpHttpServer({ instead: ({ path }) => path === '/mute' })
    onTestFinished(() => server.close())
    const started = { command: process.execPath, args: [MCP_SCRIPT], env: { MCP_NOTES: tempFolder() } }
    const runtime = await openRuntime({
      vsl: 'memory:',
      mcp: {
        a: { ...started, maxMessageBytes: 100_000 },
        b: { url: server.url, maxMessageBytes: 100_000 },
        c: { ...started, maxMessageBytes: 1_000_000 },
        d: { url: server.url },
      },
    })
    onTestFinished(() => runtime.close())
    const fill = (namespace: string) => ({
      binding: {
        action_type: 'mcp_call',
        params: { tool_name: `${namespace}.fill`, tool_args: { bytes: 200_000 } },
        on_failure: 'continue',
      } as const,
    })
    const flow = flowOf({ a: fill('a'), b: fill('b'), c: fill('c'), d: fill('d') })
    const run = await runtime.submit(flow)
    const { outputs } = await run.result()
    expect(Object.keys(outputs).sort()).toEqual([flow.ids.c, flow.ids.d].sort())
    const said: string[] = []
    for await (const { event } of run.events()) said.push(JSON.stringify(event))
    for (const namespace of ['a', 'b'])
      expect(said.join()).toContain(`raise maxMessageBytes of the MCP server ${namespace}`)
    const silent = { command: process.execPath, args: ['-e', 'setInterval(() => {}, 1e6)'], startMs: 200 }
    const mute = { url: new URL('/mute', server.url).href, startMs: 200 }
    for (const it of [silent, mute])
      await expect(openRuntime({ vsl: 'memory:', mcp: { it } })).rejects.toMatchObject({ code: 'action_failed' })
  })

  it.each(['as they are', 'by a function'])(
    'calls tools of a server behind a URL, and keeps its headers, given %s, out of the store',
    async (way) => {
      const token = 'token-of-the-server-1618'
      const server = await mcpHttpServer({ secret: token })
      onTestFinished(() => server.close())
      const headers = { authorization: `Bearer ${token}` }
      const docs = { url: server.url, headers: way === 'as they are' ? headers : async () => headers }
      const store = await openStore('memory:')
      const runtime = await openRuntime({ mcp: { docs } }, { store })
      const binding = (tool: string) => ({
        action_type: 'mcp_call',
        params: { tool_name: `docs.${tool}`, tool_args: {} },
      })
      const flow = flowOf({ note: { binding: binding('note') }, leak: { binding: binding('leak') } })
      const result = await (await runtime.submit(flow)).result()
      expect(result).toMatchObject({ status: 'failed', outputs: { [flow.ids.note!]: 'noted' } })
      expect(result.error?.message).toContain('bad token [redacted]')
      await runtime.close()
      expect([server.keys.length, server.sessions()]).toEqual([1, 0])
      const kept: unknown[] = []
      for await (const entry of store.feed()) kept.push(entry)
      expect(kept.length).toBeGreaterThan(2)
      expect(JSON.stringify([kept, result])).not.toContain(token)
      await store.close()
    },
  )

  it('holds no folder against anything unless it is told one', async () => {
    const runtime = await openRuntime({ vsl: 'memory:' })
    onTestFinished(() => runtime.close())
    expect(runtime.folder).toBeUndefined()
  })

  it('applies the rules of its config to what changes behind its back, as it happens', async () => {
    const root = tempFolder()
    writeFileSync(join(root, 'notes.md'), 'a\n')
    const rules = [{ match: '**', strategy: 'files' as const }]
    const runtime = await openRuntime({ vsl: 'memory:', root, drift: { watch: true, settle_ms: 20, rules } })
    onTestFinished(() => runtime.close())
    const graph = await runtime.folder!.graph()
    const size = () => [...graph.state.nodesOf('files')].map(({ data }) => (data as unknown as { size: number }).size)
    expect(size()).toEqual([2])
    writeFileSync(join(root, 'notes.md'), 'longer\n')
    await expect.poll(size, { timeout: 15_000 }).toEqual([7])
    expect(await runtime.folder!.findings()).toEqual([])
  })

  it.each(['file', 'sqlite'])(
    'leaves out of the folder what belongs to its %s store, and nothing that is called alike',
    async (kind) => {
      const root = tempFolder()
      mkdirSync(join(root, 'states'))
      const files = ['statement.md', 'states/a.md']
      for (const path of files) writeFileSync(join(root, path), 'a\n')
      const runtime = await openRuntime({ vsl: `${kind}:${join(root, 'state')}`, root })
      const tracker = await runtime.folder!.tracker()
      for (const path of files) writeFileSync(join(root, path), 'changed\n')
      expect((await tracker.scan()).findings.map(({ path }) => path).sort()).toEqual(files)
      await runtime.close()
    },
  )

  it('writes nothing that the ignore rules keep out, also where a link leads there', async () => {
    const root = tempFolder()
    mkdirSync(join(root, '.git/hooks'), { recursive: true })
    mkdirSync(join(root, 'secret'))
    const files = { '.gitignore': 'secret/', '.git/config': 'mine', 'secret/key': 'mine', free: 'free' }
    for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text)
    for (const [link, target] of Object.entries({ g: '.git', cfg: '.git/config', s: 'secret' }))
      symlinkSync(target, join(root, link))
    const runtime = await openRuntime({ vsl: 'memory:', root })
    onTestFinished(() => runtime.close())
    for (const params of [
      { operation: 'write', path: 'g/hooks/pre-commit', content: 'evil' },
      { operation: 'write', path: 'cfg', content: 'evil' },
      { operation: 'write', path: 's/key', content: 'evil' },
      { operation: 'delete', path: 's/key' },
      { operation: 'move', path: 's/key', to: 'stolen' },
      { operation: 'move', path: 'free', to: 'g/hooks/pre-push' },
    ]) {
      const run = await runtime.submit(flowOf({ a: { binding: { action_type: 'file_operation', params } } }))
      expect(await run.result(), params.path).toMatchObject({ status: 'failed', error: { code: 'action_denied' } })
    }
    expect(readdirSync(join(root, '.git/hooks'))).toEqual([])
    for (const [path, text] of Object.entries(files)) expect(readFileSync(join(root, path), 'utf8')).toBe(text)
  })

  it.each([
    ['sqlite', 'state', true],
    ['file', 'state/journal', true],
    ['sqlite', 'state', false],
  ])(
    'lets no flow into its %s store at %s, nor write its config, with a root (%s) or without',
    async (kind, path, isHeld) => {
      const root = tempFolder()
      const before = process.cwd()
      onTestFinished(() => process.chdir(before))
      process.chdir(root)
      writeFileSync(join(root, 'mplp.config.json'), '{}')
      symlinkSync('mplp.config.json', join(root, 'link'))
      symlinkSync(path, join(root, 'way-in'))
      const runtime = await openRuntime({ vsl: `${kind}:./state`, ...(isHeld && { root }) })
      onTestFinished(() => runtime.close())
      const done = async (params: JsonObject) =>
        (await runtime.submit(flowOf({ a: { binding: { action_type: 'file_operation', params } } }))).result()
      for (const params of [
        { operation: 'write', path, content: 'forged' },
        { operation: 'read', path },
        { operation: 'read', path: 'way-in' },
        { operation: 'move', path, to: 'stolen' },
        { operation: 'write', path: 'mplp.config.json', content: '{ "server": {} }' },
        { operation: 'write', path: 'link', content: '{ "server": {} }' },
        { operation: 'write', path: 'mplp.config.mjs', content: 'evil()' },
      ])
        expect(await done(params), params.path).toMatchObject({ status: 'failed', error: { code: 'action_denied' } })
      for (const params of [
        { operation: 'write', path: 'statement.md', content: 'a' },
        { operation: 'read', path: 'statement.md' },
        { operation: 'read', path: 'link' },
      ])
        expect(await done(params), params.path).toMatchObject({ status: 'completed' })
    },
  )

  it.each([true, false])(
    'lets no flow to what is off limits, by default git and .env, nor looks at it, with a root (%s) or without',
    async (isHeld) => {
      const root = tempFolder()
      const before = process.cwd()
      onTestFinished(() => process.chdir(before))
      process.chdir(root)
      for (const folder of ['.git/hooks', 'app/keys']) mkdirSync(join(root, folder), { recursive: true })
      const secrets = ['.git/config', '.env', 'app/.env.local', 'app/.env.test.local']
      for (const path of [...secrets, 'app/.env.example', 'app/keys/a.pem']) writeFileSync(join(root, path), 'a')
      symlinkSync('../.env', join(root, 'app/way-in'))
      const open = async (config: object) => {
        const runtime = await openRuntime({ vsl: 'memory:', ...(isHeld && { root }), ...config })
        onTestFinished(() => runtime.close())
        return async (operation: string, path: string) => {
          const params = {
            operation,
            path,
            ...(operation === 'write' && { content: 'b' }),
            ...(operation === 'move' && { to: 'taken' }),
          }
          const run = await runtime.submit(flowOf({ a: { binding: { action_type: 'file_operation', params } } }))
          const { error, status } = await run.result()
          return error?.code ?? status
        }
      }
      const byDefault = await open({})
      for (const path of [...secrets, '.git/hooks/pre-commit', '.ENV'])
        for (const operation of ['read', 'write', 'delete', 'move'])
          expect(await byDefault(operation, path), `${operation} ${path}`).toBe('action_denied')
      expect(await byDefault('read', 'app/way-in')).toBe('action_denied')
      expect(await byDefault('read', 'app/.env.example')).toBe('completed')
      expect(await byDefault('read', 'app/keys/a.pem')).toBe('completed')
      const own = await open({ off_limits: ['**/keys'] })
      expect(await own('read', 'app/keys/a.pem')).toBe('action_denied')
      expect(await own('read', '.env')).toBe('completed')
    },
  )

  it('holds nothing that is off limits against the graph', async () => {
    const root = tempFolder()
    mkdirSync(join(root, 'app'))
    for (const path of ['.env', 'app/.env.local', 'app/.env.example', 'own.md']) writeFileSync(join(root, path), 'a')
    const runtime = await openRuntime({ vsl: 'memory:', root })
    onTestFinished(() => runtime.close())
    await runtime.folder!.tracker()
    const graph = await runtime.folder!.graph()
    const paths = [...graph.state.nodesOf('files')].map(({ data }) => (data as unknown as { path: string }).path)
    expect(paths.sort()).toEqual(['app/.env.example', 'own.md'])
  })

  it('shows no flow the tokens and keys of its config', async () => {
    const root = tempFolder()
    const [token, key] = ['a-token-that-may-everything', Buffer.alloc(32, 7).toString('base64')]
    const config = { encryption_key: [key], server: { tokens: [{ token, roles: ['admin' as const] }] } }
    writeFileSync(join(root, 'mplp.config.json'), JSON.stringify(config))
    const runtime = await openRuntime({ vsl: 'memory:', root, ...config })
    onTestFinished(() => runtime.close())
    const read = { action_type: 'file_operation', params: { operation: 'read', path: 'mplp.config.json' } }
    const result = JSON.stringify(await (await runtime.submit(flowOf({ a: { binding: read } }))).result())
    expect(result).toContain('[redacted]')
    for (const secret of [token, key]) expect(result).not.toContain(secret)
  })

  it('leaves installed packages out of the folder, unless the config says what is left out instead', async () => {
    const root = tempFolder()
    mkdirSync(join(root, 'node_modules/a'), { recursive: true })
    for (const path of ['own.js', 'node_modules/a/index.js']) writeFileSync(join(root, path), '')
    const filesWith = async (drift: DriftConfig) => {
      const runtime = await openRuntime({ vsl: `sqlite:${join(root, 'state.db')}`, root, drift })
      onTestFinished(() => runtime.close())
      return (await (await runtime.folder!.tracker()).scan()).files
    }
    expect(await filesWith({})).toBe(1)
    expect(await filesWith({ exclude: [] })).toBe(2)
  })

  it('leaves out what the rules in files of the config’s choice say, and keeps no content above its limit', async () => {
    const root = tempFolder()
    for (const [path, text] of [
      ['.rules', 'out'],
      ['in', 'long'],
      ['out', 'long'],
    ] as const)
      writeFileSync(join(root, path), text)
    const runtime = await openRuntime({ vsl: 'memory:', root, drift: { ignore_files: ['.rules'], keep_bytes: 3 } })
    onTestFinished(() => runtime.close())
    await runtime.folder!.tracker()
    const { state } = await runtime.folder!.graph()
    const files = [...state.nodesOf('files')].map(({ data }) => data as FileRecord)
    expect(new Map(files.map(({ path, kept }) => [path, kept]))).toEqual(
      new Map([
        ['.rules', true],
        ['in', false],
      ]),
    )
  })

  it('keeps files and runs in one graph when the folder belongs to their context', async () => {
    const root = tempFolder()
    const write = { action_type: 'file_operation', params: { operation: 'write', path: 'a.txt', content: 'new\n' } }
    const flow = flowOf({ write: { binding: write } })
    const context = flow.plan.context_id
    const runtime = await openRuntime({ vsl: 'memory:', root, drift: { context } })
    onTestFinished(() => runtime.close())
    await runtime.project.create(flow.context, { actor: 'test', reason: 'it is to be there first' })
    const run = await runtime.submit({ ...flow, context })
    expect(await run.result()).toMatchObject({ status: 'completed' })
    const graph = await runtime.project.context(context)
    const [file] = [...graph.state.nodesOf('files')]
    expect((await graph.why('file', file!.id)).map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['context', 'plan', 'step', 'action', 'file']),
    )
    const dry = await runtime.rollback(run.run_id, { dryRun: true })
    expect(dry.plan.files).toMatchObject([{ path: 'a.txt' }])
    expect(await runtime.rollback(run.run_id)).toMatchObject({
      status: 'done',
      files: [{ path: 'a.txt', result: 'done' }],
    })
  })

  it('takes files back by inverse actions where the folder has a context of its own, and says what stands in the way', async () => {
    const root = tempFolder()
    const at = (name: string) => join(root, name)
    for (const name of ['a', 'b', 'c', 'd']) writeFileSync(at(name), 'old')
    const runtime = await openRuntime({ vsl: 'memory:', root })
    onTestFinished(() => runtime.close())
    const step = (params: JsonObject) => ({ binding: { action_type: 'file_operation', params } })
    const write = (path: string, more = {}) => step({ operation: 'write', path, content: 'new', ...more })
    const remove = (path: string) => step({ operation: 'delete', path })
    const steps = { a: write('a'), b: write('b'), c: remove('c'), d: write('d') }
    const run = await runtime.submit(flowOf(steps))
    await run.result()
    const later = { b: write('b', { mode: 0o600 }), c: write('c/inside'), d: write('d', { content: 'newer' }) }
    expect(await (await runtime.submit(flowOf(later))).result()).toMatchObject({ status: 'completed' })
    const { status, left } = await runtime.rollback(run.run_id)
    const changed = 'somebody else changed it on the disk since'
    expect([status, left.map(({ name, reason }) => `${name}: ${reason}`).sort()]).toEqual([
      'incomplete',
      [`b: ${changed}`, 'c: c is not a file', `d: ${changed}`],
    ])
    expect(readFileSync(at('a'), 'utf8')).toBe('old')
    expect([readFileSync(at('b'), 'utf8'), statSync(at('b')).mode & 0o777]).toEqual(['new', 0o600])
    expect([readFileSync(at('c/inside'), 'utf8'), readFileSync(at('d'), 'utf8')]).toEqual(['new', 'newer'])
  })
})

/** What a store gives that never answers: of calls a promise, of reads an iterable. */
const silence = (call: keyof Backend): unknown => {
  const never = new Promise<never>(() => undefined)
  const isRead = call === 'scan' || call === 'read' || call === 'feed' || call === 'blobs'
  return isRead ? { [Symbol.asyncIterator]: () => ({ next: () => never, return: () => never }) } : never
}
