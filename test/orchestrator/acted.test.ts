import { describe, expect, it, onTestFinished } from 'vitest'
import { actionLayer, newAction } from '../../src/ael/ael.ts'
import { type FunctionCall, type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { llmAdapter, type Script, scriptedProvider } from '../../src/ael/llm.ts'
import { type Tool, toolAdapter, toolRegistry } from '../../src/ael/tool.ts'
import { type RollbackOptions, rollback } from '../../src/orchestrator/rollback.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { RuleViolation } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { door, heldCommit, inTime, passes, world } from '../support/on-a-clock.ts'

const MINUTE = 60_000
const boom = () => {
  throw new Error('boom')
}
const put = (...names: readonly string[]) => names.map((name) => ({ tool: 'shelf.put', args: { name } }))
const took = (name: string) =>
  newAction({ action_type: 'tool_call', params: { tool_name: 'shelf.put', tool_args: { name } } })

interface Stocked {
  readonly script?: Script
  readonly tools?: readonly Tool[]
  readonly functions?: { readonly [name: string]: FunctionSpec }
  /** On whose store and clock it is. */
  readonly given?: ReturnType<typeof world>
}

/** A shelf, tools that put things on it and take them off, and a model that chooses among them. */
function shop({ script, tools = [], functions = {}, given = world({}) }: Stocked) {
  const log: string[] = []
  const keys: string[] = [] // under which things were taken away
  const { clock } = given
  const name = ({ name }: JsonObject) => String(name)
  const registry = toolRegistry([
    {
      name: 'shelf.put',
      description: 'Puts it there',
      input: { type: 'object' },
      effect: 'reversible',
      inverse: (args) => ({ tool_name: 'shelf.take', tool_args: args }),
      execute: (args: JsonObject) => void log.push(`put ${name(args)}`),
    },
    {
      name: 'shelf.take',
      description: 'Takes it away',
      input: { type: 'object' },
      execute(args: JsonObject, { idempotency_key }) {
        log.push(`take ${name(args)}`)
        keys.push(idempotency_key)
      },
    },
    {
      name: 'shelf.look',
      description: 'Looks',
      input: { type: 'object' },
      readOnly: true,
      execute: () => 'nothing there',
    },
    { name: 'mail.send', description: 'Sends', input: { type: 'object' }, execute: () => void log.push('sent') },
    ...tools,
  ])
  const it = scriptedProvider(script ?? (() => 'nothing to do'))
  const layer = (hands: Hands) =>
    actionLayer({
      ...hands,
      clock,
      adapters: [
        llmAdapter({ providers: { it }, tools: registry }),
        toolAdapter(registry),
        functionAdapter({ boom, noop: () => null, ...functions }),
      ],
    })
  const params = {
    model: 'any',
    messages: [{ role: 'user', content: 'tidy up' }],
    tools: ['shelf.put', 'shelf.look', 'mail.send'],
  }
  const think: StepSpec = { binding: { action_type: 'llm_call', params } }
  const takeBack = async (runtime: Runtime, run_id: string, options: RollbackOptions = {}) => {
    const graph = await runtime.project.context((await runtime.get(run_id)).context_id)
    return inTime(clock, rollback({ graph, layer: layer({}) }, run_id, options))
  }
  return {
    given,
    clock,
    log,
    keys,
    think,
    params,
    takeBack,
    start: (seen?: (store: Backend) => Backend) => given.start({ layer }, seen),
  }
}

/** Chooses these tools, one answer after the other, and then says that it is done. */
const inTurn =
  (...rounds: readonly (readonly { readonly tool: string; readonly args: JsonObject }[])[]): Script =>
  ({ turn }) =>
    turn < rounds.length ? { tool_calls: [...rounds[turn]!] } : 'done'

async function ended(runtime: Runtime, clock: Parameters<typeof inTime>[0], flow: Parameters<Runtime['submit']>[0]) {
  onTestFinished(() => runtime.close())
  const run = await runtime.submit(flow)
  return { run, result: await inTime(clock, run.result()) }
}

describe('what a model had done by its tools', () => {
  it('is taken back call by call, the last one first, and what has no inverse is named', async () => {
    const { start, takeBack, clock, log, think } = shop({
      script: inTurn(put('a'), [{ tool: 'shelf.look', args: {} }], [{ tool: 'mail.send', args: {} }, ...put('b')]),
    })
    const runtime = await start()
    const { run } = await ended(runtime, clock, flowOf({ think }))
    const waits = await takeBack(runtime, run.run_id)
    expect(waits).toMatchObject({
      status: 'waiting',
      plan: { irreversible: [{ step_id: expect.any(String), reason: 'mail.send cannot be undone' }] },
    })
    const report = await takeBack(runtime, run.run_id, { irreversible: 'leave' })
    expect(report).toMatchObject({
      status: 'incomplete',
      effects: [{ status: 'undone' }, { status: 'undone' }],
      left: [{ what: 'effect', reason: 'mail.send cannot be undone' }],
    })
    expect(log).toEqual(['put a', 'sent', 'put b', 'take b', 'take a'])
    expect(await takeBack(runtime, run.run_id, { irreversible: 'leave' })).toMatchObject({ effects: [] })
  })

  it('is nothing to take back where its tools only looked', async () => {
    const { start, takeBack, clock, think } = shop({ script: inTurn([{ tool: 'shelf.look', args: {} }]) })
    const runtime = await start()
    const { run } = await ended(runtime, clock, flowOf({ think }))
    expect(await takeBack(runtime, run.run_id)).toMatchObject({ status: 'nothing' })
  })

  it('is taken back among what other steps did, in the order in which all of it was done', async () => {
    const { start, clock, log, think } = shop({ script: inTurn(put('b'), put('c')) })
    const runtime = await start()
    const step = (name: string): StepSpec => ({
      binding: { action_type: 'tool_call', params: { tool_name: 'shelf.put', tool_args: { name } } },
    })
    const flow = flowOf({
      first: step('a'),
      think: { ...think, after: ['first'] },
      last: { ...step('d'), after: ['think'] },
      boom: { after: ['last'], binding: { on_failure: 'compensate' } },
    })
    const { result } = await ended(runtime, clock, flow)
    expect(log.slice(4)).toEqual(['take d', 'take c', 'take b', 'take a'])
    expect(result.undone).toMatchObject(
      ['last', 'think', 'think', 'first'].map((name) => ({ step_id: flow.ids[name], status: 'undone' })),
    )
  })

  it('is taken back too when the model came to no answer', async () => {
    const { start, clock, log, think, params } = shop({ script: inTurn(put('a'), put('b'), put('c')) })
    const runtime = await start()
    const binding = { ...think.binding, params: { ...params, max_rounds: 2 }, on_failure: 'compensate' as const }
    const { result } = await ended(runtime, clock, flowOf({ think: { binding } }))
    expect(result).toMatchObject({ status: 'failed', undone: [{ status: 'undone' }] })
    expect(log).toEqual(['put a', 'take a'])
  })

  it('is left to what the step itself says takes it back', async () => {
    const { start, takeBack, clock, log, think } = shop({ script: inTurn(put('a'), put('b')) })
    const runtime = await start()
    const inverse = { action_type: 'tool_call', params: { tool_name: 'shelf.take', tool_args: { name: 'all' } } }
    const { run } = await ended(runtime, clock, flowOf({ think: { binding: { ...think.binding, inverse } } }))
    expect(await takeBack(runtime, run.run_id)).toMatchObject({ status: 'done' })
    expect(log).toEqual(['put a', 'put b', 'take all'])
  })

  it('is known after a crash, also when nobody goes on with the conversation', async () => {
    const asked = door()
    const { start, takeBack, clock, log, think } = shop({
      script: ({ turn }) => {
        if (turn === 0) return { tool_calls: put('a') }
        asked.open()
        return new Promise<never>(() => undefined) as never
      },
    })
    const first = await start()
    const { run_id } = await first.submit(flowOf({ think }))
    await inTime(clock, asked.opened)
    first.die()
    const second = await start()
    onTestFinished(() => second.close())
    const run = await second.get(run_id)
    await run.cancel()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
    expect(await takeBack(second, run_id)).toMatchObject({
      status: 'done',
      effects: [{ status: 'undone' }],
    })
    expect(log).toEqual(['put a', 'take a'])
  })

  describe('where a crash cut off that it is taken back', () => {
    const room = (name: string, more: Partial<Tool>): Tool =>
      ({ name, description: name, input: { type: 'object' }, execute: () => null, ...more }) as Tool

    /** Books a room, and dies while it is freed; `keys` tells under which keys that was tried. */
    async function dying(
      onFailure: 'fail' | 'compensate',
      goesBack: (run: string, shop: Shop, runtime: Runtime) => unknown,
    ) {
      const keys: string[] = []
      const reached = door()
      const inverse = () => ({ tool_name: 'room.free', tool_args: {} })
      const tools = (hang: boolean): readonly Tool[] => [
        room('room.book', { effect: 'reversible', inverse }),
        room('room.free', {
          execute(_, { idempotency_key }) {
            keys.push(idempotency_key)
            reached.open()
            return hang ? new Promise<never>(() => undefined) : null
          },
        }),
      ]
      const first = shop({ script: inTurn([{ tool: 'room.book', args: {} }]), tools: tools(true) })
      const { clock, given, params } = first
      const binding = { action_type: 'llm_call', params: { ...params, tools: ['room.book'] } }
      const flow = flowOf({ think: { binding }, boom: { after: ['think'], binding: { on_failure: onFailure } } })
      const runtime = await first.start()
      const { run_id } = await runtime.submit(flow)
      Promise.resolve(goesBack(run_id, first, runtime)).catch(() => undefined) // it dies in the midst of it
      await inTime(clock, reached.opened)
      runtime.die()
      const next = shop({ tools: tools(false), given })
      const second = await next.start()
      onTestFinished(() => second.close())
      return { run: await second.get(run_id), second, next, clock, keys }
    }
    type Shop = ReturnType<typeof shop>

    const cutOffs = async (runtime: Runtime, { context_id }: RunHandle): Promise<readonly Json[]> => {
      const told: Json[] = []
      const { store, id } = await runtime.project.context(context_id)
      for await (const entry of store.read(id))
        for (const { event } of eventsIn(entry))
          if ((event.payload as JsonObject | undefined)?.interrupted) told.push(event as JsonObject)
      return told
    }

    it('is taken back again under the same key, and told', async () => {
      const { run, clock, keys, second } = await dying('compensate', () => undefined)
      expect(await inTime(clock, run.result())).toMatchObject({ undone: [{ status: 'undone' }] })
      expect(keys).toEqual([keys[0], keys[0]])
      expect(await cutOffs(second, run)).toMatchObject([{ payload: { operation: 'room.free' } }])
    })

    it('is taken back again by the next rollback, too', async () => {
      const back = (run: string, { takeBack, clock }: Shop, runtime: Runtime) =>
        inTime(
          clock,
          runtime.get(run).then((one) => one.result()),
        ).then(() => takeBack(runtime, run))
      const { run, clock, keys, next, second } = await dying('fail', back)
      await passes(clock, MINUTE) // until its lease has run out
      expect(await next.takeBack(second, run.run_id)).toMatchObject({ status: 'done', effects: [{ status: 'undone' }] })
      expect(keys).toEqual([keys[0], keys[0]])
      expect(await cutOffs(second, run)).toMatchObject([{ payload: { operation: 'room.free' } }])
    })
  })

  it('is done anew by a rerun when it was taken back', async () => {
    const { start, clock, log, think } = shop({ script: inTurn(put('a')) })
    const runtime = await start()
    const flow = flowOf({ think, boom: { after: ['think'], binding: { on_failure: 'compensate' } } })
    const { run } = await ended(runtime, clock, flow)
    const again = await runtime.rerun(run.run_id)
    await inTime(clock, again.result())
    expect(log).toEqual(['put a', 'take a', 'put a', 'take a'])
  })

  it('is taken back with the rerun that carried it over', async () => {
    const { start, takeBack, clock, log, think } = shop({ script: inTurn(put('a')) })
    const runtime = await start()
    const { run } = await ended(runtime, clock, flowOf({ think, boom: { after: ['think'] } }))
    const again = await runtime.rerun(run.run_id)
    await inTime(clock, again.result())
    expect(log).toEqual(['put a'])
    expect(await takeBack(runtime, again.run_id)).toMatchObject({ status: 'done' })
    expect(log).toEqual(['put a', 'take a'])
  })
})

describe('what a function had done on its way', () => {
  /** Does so at each of its attempts, of which the last one succeeds, and is taken back. */
  async function triedAndTakenBack(max_attempts: number, work: (call: FunctionCall) => Promise<unknown>) {
    let tries = 0
    const fill: FunctionSpec = async (_, call) => {
      await work(call)
      if (++tries < max_attempts) throw new Error('again')
      return null
    }
    const { start, takeBack, clock, log, keys } = shop({ functions: { fill } })
    const runtime = await start()
    const retry = { strategy: 'fixed', max_attempts } as const
    const { run } = await ended(runtime, clock, flowOf({ fill: { binding: { retry } } }))
    expect(await takeBack(runtime, run.run_id)).toMatchObject({ status: 'done' })
    return { log, keys }
  }

  it('counts once, however often the same work was attempted', async () => {
    const { log } = await triedAndTakenBack(3, (call) => call.act({ ...took('a'), idempotency_key: 'fill-a' }))
    expect(log).toEqual(['put a', 'put a', 'put a', 'take a'])
  })

  it('is taken back each by itself where one key was given to all of it', async () => {
    const { log } = await triedAndTakenBack(2, async ({ act, idempotency_key }) => {
      for (const name of ['a', 'b']) await act({ ...took(name), idempotency_key })
    })
    expect(log.slice(4)).toEqual(['take b', 'take a'])
  })

  it('is taken back under a key of its own, also where two long ones only begin alike', async () => {
    const long = 'x'.repeat(254)
    const { keys } = await triedAndTakenBack(1, async ({ act }) => {
      for (const name of ['a', 'b']) await act({ ...took(name), idempotency_key: `${long}${name}` })
    })
    expect(new Set(keys).size).toBe(2)
  })

  it('is taken back each by itself where it is the same action time and again, also by a rerun', async () => {
    const again = took('a')
    const fill =
      (...keys: readonly string[]): FunctionSpec =>
      async (_, call) => {
        for (const idempotency_key of keys) await call.act({ ...again, idempotency_key })
        return null
      }
    const { start, takeBack, clock, log } = shop({ functions: { one: fill('1', '2'), two: fill('3') } })
    const runtime = await start()
    const flow = flowOf({ one: {}, two: { after: ['one'] }, boom: { after: ['two'] } })
    const { run } = await ended(runtime, clock, flow)
    const rerun = await runtime.rerun(run.run_id)
    await inTime(clock, rerun.result())
    expect(await takeBack(runtime, rerun.run_id)).toMatchObject({
      status: 'done',
      effects: Array.from({ length: 3 }, () => ({ status: 'undone' })),
    })
    expect(log).toEqual([...Array(3).fill('put a'), ...Array(3).fill('take a')])
  })

  it('is taken back too when it came to its end while the run was being stopped', async () => {
    const [begun, stopped] = [door(), door()]
    const late: Tool = {
      name: 'shelf.late',
      description: 'Puts it there when it is told to stop',
      input: { type: 'object' },
      effect: 'reversible',
      inverse: () => ({ tool_name: 'shelf.take', tool_args: { name: 'late' } }),
      execute: (_, { signal }) => {
        begun.open()
        return new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)))
      },
    }
    const { start, clock, log } = shop({
      tools: [late],
      functions: {
        fill: async (_, { act }) => {
          await act(newAction({ action_type: 'tool_call', params: { tool_name: 'shelf.late', tool_args: {} } }))
          stopped.open()
          boom()
        },
        fail: () => begun.opened.then(boom),
      },
    })
    const { seen, reached, letGo } = heldCommit('"ending"')
    const runtime = await start(seen)
    const flow = flowOf({ fill: {}, fail: { binding: { on_failure: 'compensate' } } })
    const [{ result }] = await Promise.all([
      ended(runtime, clock, flow),
      Promise.all([reached, stopped.opened])
        .then(() => new Promise(setImmediate))
        .then(letGo),
    ])
    expect(result.undone).toMatchObject([{ step_id: flow.ids.fill, status: 'undone' }])
    expect(log).toEqual(['take late'])
  })

  it('is taken back too when it came to its end after the time of what led to it was over', async () => {
    const late: Tool = {
      name: 'shelf.late',
      description: 'Puts it there when it is told to stop',
      input: { type: 'object' },
      effect: 'reversible',
      inverse: () => ({ tool_name: 'shelf.take', tool_args: { name: 'late' } }),
      execute: (_, { signal }) => new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null))),
    }
    const { start, clock, log } = shop({
      tools: [late],
      functions: {
        fill: (_, { act }) =>
          act(newAction({ action_type: 'tool_call', params: { tool_name: 'shelf.late', tool_args: {} } })).then(boom),
      },
    })
    const runtime = await start()
    const flow = flowOf({ fill: { binding: { timeout_ms: 200, on_failure: 'compensate' } } })
    const { result } = await ended(runtime, clock, flow)
    expect(result).toMatchObject({ error: { code: 'action_timed_out' }, undone: [{ status: 'undone' }] })
    expect(log).toEqual(['take late'])
  })

  describe.each([
    ['failed', 'fails'],
    ['completed', 'ends'],
  ])('where what led to it has %s without it', (status, how) => {
    /** Begins something, does the rest once that is going, and ends without either. */
    async function left(rest: (call: FunctionCall) => void) {
      const begun = door()
      const slow: Tool = {
        name: 'shelf.slow',
        description: 'Puts it there, told to stop or not',
        input: { type: 'object' },
        effect: 'reversible',
        inverse: () => ({ tool_name: 'shelf.take', tool_args: { name: 'slow' } }),
        async execute(_, { signal }) {
          begun.open()
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          log.push('put slow')
        },
      }
      const { start, takeBack, clock, log } = shop({
        tools: [slow],
        functions: {
          fill: async (_, call) => {
            call
              .act(newAction({ action_type: 'tool_call', params: { tool_name: 'shelf.slow', tool_args: {} } }))
              .catch(boom)
            await begun.opened
            rest(call)
            return how === 'fails' ? boom() : null
          },
        },
      })
      const runtime = await start()
      const { run, result } = await ended(runtime, clock, flowOf({ fill: {} }))
      expect(result).toMatchObject({ status })
      expect(await takeBack(runtime, run.run_id)).toMatchObject({ status: 'done' })
      return { log, clock }
    }

    it('is told to stop, and taken back where it was done all the same', async () => {
      const { log } = await left(() => undefined)
      expect(log).toEqual(['put slow', 'take slow'])
    })

    it('is not begun any more', async () => {
      const [later, refused] = [door(), door()]
      let error: unknown
      const { log, clock } = await left(({ act }) => {
        void later.opened.then(() => void act(took('unheard'))) // which ends no process
        const late = later.opened.then(() => act(took('late')))
        void late.catch((thrown) => {
          error = thrown
          refused.open()
        })
      })
      later.open()
      await inTime(clock, refused.opened)
      expect(error).toMatchObject({ code: 'action_aborted', message: 'function has ended, and leads to nothing more' })
      expect(log).toEqual(['put slow', 'take slow'])
    })
  })

  it('is taken back by what it led to only where that says nothing itself', async () => {
    const kit = (tool_name: string) => newAction({ action_type: 'tool_call', params: { tool_name, tool_args: {} } })
    const both =
      (names: readonly string[]): Tool['execute'] =>
      async (_, call) => {
        for (const name of names) await call.act(took(name))
        return null
      }
    const tools: readonly Tool[] = [
      {
        name: 'kit.whole',
        description: 'Two at once',
        input: { type: 'object' },
        effect: 'reversible',
        inverse: () => ({ tool_name: 'shelf.take', tool_args: { name: 'both' } }),
        execute: (_, call) => call.act(kit('kit.pair')),
      },
      { name: 'kit.pair', description: 'Two of it', input: { type: 'object' }, execute: both(['a', 'b']) },
      { name: 'kit.parts', description: 'Two, each by itself', input: { type: 'object' }, execute: both(['c', 'd']) },
    ]
    const { start, takeBack, clock, log } = shop({
      tools,
      functions: {
        fill: async (_, call) => {
          await call.act(kit('kit.whole'))
          await call.act(kit('kit.parts'))
          return null
        },
      },
    })
    const runtime = await start()
    const { run } = await ended(runtime, clock, flowOf({ fill: {} }))
    const { left } = await takeBack(runtime, run.run_id, { irreversible: 'leave' })
    expect(log.slice(4)).toEqual(['take d', 'take c', 'take both'])
    expect(left).toMatchObject([{ reason: 'kit.parts cannot be undone' }])
  })

  it('is taken back with what led to it, also where it was on record before that had ended', async () => {
    const kit: Tool = {
      name: 'kit.whole',
      description: 'Two at once',
      input: { type: 'object' },
      effect: 'reversible',
      inverse: () => ({ tool_name: 'shelf.take', tool_args: { name: 'both' } }),
      execute: async (_, { act }) => {
        for (const name of ['a', 'b']) {
          await act(took(name))
          half.open()
          await recorded.opened
        }
        return null
      },
    }
    const [half, recorded] = [door(), door()]
    const { start, takeBack, clock, log } = shop({
      tools: [kit],
      functions: {
        fill: async (_, { act, checkpoint }) => {
          const whole = act(newAction({ action_type: 'tool_call', params: { tool_name: 'kit.whole', tool_args: {} } }))
          await half.opened
          await checkpoint('begun')
          await checkpoint('on record')
          recorded.open()
          await whole
          return null
        },
      },
    })
    const runtime = await start()
    const { run } = await ended(runtime, clock, flowOf({ fill: {} }))
    expect(await takeBack(runtime, run.run_id)).toMatchObject({ status: 'done' })
    expect(log).toEqual(['put a', 'put b', 'take both'])
  })

  it('is left, and said why, where what takes it back is more than is kept with an action', async () => {
    const { start, takeBack, clock, log } = shop({
      functions: {
        fill: async (_, { act }) => {
          for (const name of ['a', 'b', 'c']) await act(took(name.repeat(5 * 1024 * 1024)))
          return null
        },
      },
    })
    const runtime = await start()
    const { run, result } = await ended(runtime, clock, flowOf({ fill: {} }))
    expect(result).toMatchObject({ status: 'completed' })
    const { left } = await takeBack(runtime, run.run_id, { irreversible: 'leave' })
    expect(left).toMatchObject([{ reason: expect.stringContaining('too large to be kept') }])
    expect(log.slice(3).map((line) => line.slice(0, 6))).toEqual(['take b', 'take a'])
  })

  it('is left, and said why, where that of several actions at once is more than one commit holds', async () => {
    const fill: FunctionSpec = async (_, { act }) => act(took('a'.repeat(11 * 1024 * 1024))).then(() => null)
    const { start, takeBack, clock, log } = shop({ functions: { fill } })
    const runtime = await start()
    const flow = flowOf({ a: { call: 'fill' }, b: { call: 'fill' }, c: { call: 'fill' } })
    const { run, result } = await ended(runtime, clock, flow)
    expect(result).toMatchObject({ status: 'completed' })
    const { left, effects } = await takeBack(runtime, run.run_id, { irreversible: 'leave' })
    expect([left.length, effects.length]).toEqual([2, 1])
    expect(left[0]!.reason).toContain('too large to be kept')
    expect(log).toHaveLength(4)
  })

  it('is told on the way where there is much of it', async () => {
    let lengths: readonly number[] = []
    const { start, clock } = shop({
      functions: {
        fill: async (_, { act, run }) => {
          for (let i = 0; i < 1_200; i++) await act(took(`${i}`))
          const graph = await runtime.project.context(run!.context_id)
          lengths = [...graph.state.referrers('step', run!.step_id!, 'EXECUTES')].map(
            ({ data }) => (data as { acted?: readonly unknown[] }).acted?.length ?? 0,
          )
          return null
        },
      },
    })
    const runtime = await start()
    await ended(runtime, clock, flowOf({ fill: {} }))
    expect(lengths).toEqual([1_000])
  })
})

describe('the record of it', () => {
  it('is refused when it is none', async () => {
    const { start, clock, think } = shop({ script: inTurn(put('a')) })
    const runtime = await start()
    const flow = flowOf({ think })
    const { run } = await ended(runtime, clock, flow)
    const graph = await runtime.project.context(run.context_id)
    await graph.load(run.plan_id)
    const before = graph.revision
    const [action] = graph.state.referrers('step', flow.ids.think!, 'EXECUTES')
    const set = { acted: [{ action_id: action!.id }] } as never
    const refused = await graph
      .commit([{ kind: 'node_update', node: 'action', id: action!.id, set }], { actor: 'a', reason: 'b' })
      .catch((error) => error)
    expect(refused).toBeInstanceOf(RuleViolation)
    expect(refused.violations).toMatchObject([{ path: expect.stringContaining('acted') }])
    expect(graph.revision).toBe(before)
  })
})
