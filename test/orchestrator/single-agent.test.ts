import { getEventListeners } from 'node:events'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { ModuleHandler } from '../../src/orchestrator/flow.ts'
import { InMemoryAEL, InMemoryVSL } from '../../src/orchestrator/in-memory.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { Confirm, Plan, Trace } from '../../src/protocol/types.ts'
import { isValid, validateProfileEvent } from '../../src/protocol/validate.ts'
import type { BornEvent } from '../../src/psg/change.ts'
import { openProject } from '../../src/psg/project.ts'
import { eventsIn } from '../../src/psg/told.ts'
import { liftedBackend } from '../../src/vsl/lifted.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import {
  call,
  confirmDocument,
  contextDocument,
  newContext,
  passing,
  planDocument,
  roleDocument,
  saying,
} from '../support/agents.ts'

const oneStep = () => {
  const context = contextDocument()
  return { context, plan: planDocument(context, { work: { role: 'agent' } }) }
}
const chain = () => {
  const context = contextDocument()
  const plan = planDocument(context, {
    read: {},
    think: { after: ['read'] },
    act: { after: ['think'] },
    tell: { after: ['act'] },
  })
  return { context, plan }
}
const saTypes = (events: readonly unknown[]) =>
  (events as { event_type: string }[]).map((event) => event.event_type).filter((type) => type.startsWith('SA'))
const bareStore = () => {
  const values = new Map<string, Json>()
  return {
    values,
    get: async (key: string) => values.get(key),
    set: async (key: string, value: Json) => void values.set(key, value),
  }
}

describe('the published usage', () => {
  it('runs with get and set, handlers and nothing else', async () => {
    const { context, plan } = oneStep()
    const vsl = bareStore()
    const result = await runSingleAgentFlow({
      flow: {},
      runtimeContext: newContext('run-123'),
      modules: {
        context: async () => ({ output: { context }, events: [] }),
        plan: async ({ ctx }) => ({
          output: { plan: { ...plan, context_id: ctx.coordination.context!['context_id' as never] } },
          events: [],
        }),
      },
      vsl,
    })
    expect(result).toMatchObject({ success: true })
    expect(result.error).toBeUndefined()
    const store = await liftedBackend(vsl)
    const graph = await (await openProject(store)).context(context.context_id)
    expect((await graph.document('plan', plan.plan_id)).status).toBe('completed')
    expect(await graph.verify()).toEqual([])
    await store.close()
  })

  it('runs with the older context and store: documents beside ids, events and snapshots by run', async () => {
    const { context, plan } = oneStep()
    const confirm = { ...confirmDocument(plan, []), status: 'approved' as const }
    const vsl = new InMemoryVSL()
    const seen: unknown[] = []
    const result = await runSingleAgentFlow({
      flow: {
        flowId: 'single-agent-v1',
        description: 'as published',
        steps: ['context', 'plan', 'confirm', 'trace'].map((module) => ({ module })),
      },
      runtimeContext: newContext('run-1'),
      modules: {
        context: async () => ({ output: { context }, events: [] }),
        plan: async ({ ctx }) => {
          seen.push((ctx.context as typeof context).context_id)
          return { output: { plan }, events: [] }
        },
        confirm: async ({ ctx }) => {
          seen.push((ctx.plan as Plan).plan_id)
          return { output: { confirm }, events: [] }
        },
        trace: async ({ ctx }) => {
          seen.push((ctx.confirm as Confirm).confirm_id)
          return { output: {}, events: [] }
        },
      },
      vsl,
    })
    expect(result.success).toBe(true)
    expect(seen).toEqual([context.context_id, plan.plan_id, confirm.confirm_id])
    expect(await vsl.getEvents('run-1')).toEqual(result.events)
    expect(result.context.events.length).toBeGreaterThan(0)
    expect(await vsl.loadSnapshot('run-1')).toMatchObject({
      ids: { runId: 'run-1' },
      coordination: { plan: { status: 'completed' } },
    })
    expect(await vsl.loadSnapshot('another')).toBeNull()
  })

  it('is given as many snapshots for a long plan as for a short one, and every event', async () => {
    const snapshotsOf = async ({ context, plan }: ReturnType<typeof chain>) => {
      let saved = 0
      const vsl = new (class extends InMemoryVSL {
        override saveSnapshot(runId: string, context: unknown) {
          saved++
          return super.saveSnapshot(runId, context)
        }
      })()
      const { events } = await runSingleAgentFlow(call(vsl, saying({ context, plan })))
      expect(await vsl.getEvents('run-1')).toEqual(events)
      expect(await vsl.loadSnapshot('run-1')).toMatchObject({ events })
      return saved
    }
    expect(await snapshotsOf(chain())).toBe(await snapshotsOf(oneStep()))
  })

  it('names the place in what the older store cannot keep', async () => {
    const { context, plan } = oneStep()
    const options = call(new InMemoryVSL(), saying({ context, plan }), { onError: () => undefined })
    options.runtimeContext.coordination.mine = { self: options.runtimeContext.coordination }
    const { error } = await runSingleAgentFlow(options)
    const path = expect.stringMatching(/^context\.coordination\.mine\.self/)
    expect(error).toMatchObject({ code: 'INVALID_INPUT', problems: [{ path, rule: 'json' }] })
    await expect(new InMemoryVSL().set('key', { big: 1n } as never)).rejects.toMatchObject({
      problems: [{ path: 'value.big', rule: 'json' }],
    })
    await expect(new InMemoryVSL().appendEvents('run-1', [{ big: 1n }])).rejects.toThrow(InvalidInput)
  })

  it('keeps what is set by value, and gives back what it is asked to execute', async () => {
    const vsl = new InMemoryVSL()
    const value = { list: [1] }
    await vsl.set('key', value)
    value.list.push(2)
    expect(await vsl.get('key')).toEqual({ list: [1] })
    expect(await vsl.get('absent')).toBeUndefined()
    await vsl.appendEvents('r', [{ a: 1 }])
    await vsl.appendEvents('r', [{ b: 2 }])
    expect(await vsl.getEvents('r')).toEqual([{ a: 1 }, { b: 2 }])
    const ael = new InMemoryAEL()
    expect(await ael.execute({ type: 'x' })).toEqual({ status: 'executed', action: { type: 'x' } })
    expect(await ael.executeAction({ module: 'plan', input: 7 })).toEqual({ output: 7, events: [] })
  })
})

describe('a flow that succeeds', () => {
  it('gives valid documents as they stand at the end, and what each step gave', async () => {
    const { context, plan } = oneStep()
    const trace_id = crypto.randomUUID()
    const trace: Trace = {
      meta: context.meta,
      trace_id,
      context_id: context.context_id,
      root_span: { trace_id, span_id: trace_id },
      status: 'pending',
    }
    const ael = { execute: async (action: { params: Json }) => ({ did: action.params }) }
    const modules = saying({ context, plan, confirm: confirmDocument(plan, [{}]), trace, role: roleDocument('agent') })
    const { success, output, error } = await runSingleAgentFlow(call(memoryBackend(), modules, { ael }))
    expect({ success, error }).toEqual({ success: true })
    for (const kind of ['context', 'plan', 'confirm', 'trace', 'role'] as const)
      expect(isValid(kind, output?.[kind])).toBe(true)
    expect((output!.plan as Plan).status).toBe('completed')
    expect(output?.confirm).toMatchObject({
      confirm_id: expect.any(String),
      status: 'approved',
      decisions: [{ decided_by_role: 'lead' }],
    })
    expect(output?.trace).toMatchObject({ trace_id, status: 'completed', plan_id: plan.plan_id })
    expect(output?.steps).toEqual({
      [plan.ids.work!]: { did: { step_id: plan.ids.work, description: 'work', agent_role: 'agent' } },
    })
  })

  it('tells the mandatory events in order, each valid, whatever the length of the plan', async () => {
    const { context, plan } = chain()
    const options = call(memoryBackend(), saying({ context, plan }))
    const { events } = await runSingleAgentFlow(options)
    const step = ['SAStepStarted', 'SAStepCompleted']
    expect(saTypes(events)).toEqual([
      ...['SAInitialized', 'SAContextLoaded', 'SAPlanEvaluated'],
      ...[...step, ...step, ...step, ...step],
      ...['SATraceEmitted', 'SACompleted'],
    ])
    for (const event of options.runtimeContext.events.filter((event) => 'sa_id' in event))
      validateProfileEvent('sa-event', event)
    expect(options.runtimeContext.events.find((event) => event.event_type === 'SAContextLoaded')).toMatchObject({
      payload: { context_title: 'A test', context_status: 'active' },
    })
    expect(options.runtimeContext.events.find((event) => event.event_type === 'SACompleted')).toMatchObject({
      payload: { status: 'completed', steps_executed: 4, steps_succeeded: 4, steps_failed: 0 },
    })
  })

  it('runs dependants never early: 0, 1, 2, 3', async () => {
    const { context, plan } = chain()
    const order: string[] = []
    const ael = {
      execute: async ({ params }: { params: { description: string } }) => void order.push(params.description),
    }
    await runSingleAgentFlow(call(memoryBackend(), saying({ context, plan }), { ael }))
    expect(order).toEqual(['read', 'think', 'act', 'tell'])
  })

  it('fills events and metadata with every tick, not only at the end', async () => {
    const { context, plan } = chain()
    const seen: number[] = []
    const revisions: unknown[] = []
    const options = call(memoryBackend(), saying({ context, plan }), {
      ael: {
        execute: async () => {
          seen.push(saTypes(options.runtimeContext.events).filter((type) => type === 'SAStepStarted').length)
          revisions.push(options.runtimeContext.coordination.metadata?.revision)
        },
      },
    })
    await runSingleAgentFlow(options)
    expect(seen).toEqual([1, 2, 3, 4])
    expect(new Set(revisions).size).toBe(4)
    expect(options.runtimeContext.coordination.metadata).toMatchObject({
      plan_id: plan.plan_id,
      context_id: context.context_id,
      status: 'completed',
      modules: ['context', 'plan'],
    })
  })

  it('carries its events to every bus, in the graph’s order', async () => {
    const { context, plan } = chain()
    const buses = [memoryTransport(), memoryTransport()]
    const heard: string[][] = [[], []]
    for (const [i, bus] of buses.entries()) await bus.subscribe({}, ({ event }) => void heard[i]!.push(event.event_id))
    const options = call(memoryBackend(), saying({ context, plan }), { bus: buses })
    const { events } = await runSingleAgentFlow(options)
    for (const bus of buses) await bus.close()
    const told = (events as { event_id: string }[]).map((event) => event.event_id)
    expect(heard).toEqual([told, told])
  })

  it('takes bindings and a layer of ours, and names the step that nobody can execute', async () => {
    const { context, plan } = oneStep()
    const ael = actionLayer({ adapters: [functionAdapter({ double: (n) => (n as number) * 2 })] })
    const store = memoryBackend()
    const unbound = await runSingleAgentFlow(call(store, saying({ context, plan }), { ael }))
    expect(unbound.error).toMatchObject({
      code: 'INVALID_OUTPUT',
      problems: [{ path: 'plan.steps[0]', rule: 'binding' }],
    })
    const bindings = { roles: { agent: { action_type: 'function', params: { name: 'double', args: 21 } } } }
    const bound = await runSingleAgentFlow(call(store, saying({ context, plan }), { ael, flow: { bindings } }))
    expect(bound.output?.steps).toEqual({ [plan.ids.work!]: 42 })
    await ael.close()
  })

  it('needs no plan: what modules say that is no protocol object is kept as it is', async () => {
    const modules = { weather: () => ({ output: { sunny: true } }), context: () => ({ output: 'none' }) }
    const flow = { steps: [{ module: 'weather' }, { module: 'context' }, { module: 'weather' }] }
    const { success, output } = await runSingleAgentFlow(call(bareStore(), modules, { flow }))
    expect({ success, output }).toEqual({
      success: true,
      output: { weather: { sunny: true }, context: 'none', 'weather#2': { sunny: true } },
    })
  })

  it('leaves no listener on a signal made of several: Node would keep that for good, one of each flow', async () => {
    const any = vi.spyOn(AbortSignal, 'any')
    onTestFinished(() => any.mockRestore())
    const { signal } = new AbortController()
    const modules = { weather: async () => ({ output: { sunny: true } }) }
    const options = { flow: { steps: [{ module: 'weather' }] }, signal }
    expect(await runSingleAgentFlow(call(memoryBackend(), modules, options))).toMatchObject({ success: true })
    const made = any.mock.results.map(({ value }) => value as AbortSignal)
    expect(made.length).toBeGreaterThan(0)
    expect([signal, ...made].flatMap((one) => getEventListeners(one, 'abort'))).toEqual([])
    expect(any.mock.calls.flatMap(([sources]) => [...sources])).not.toContain(signal) // it would keep something of each, listener or not
  })

  it('hands the flow’s input to each module', async () => {
    const inputs: unknown[] = []
    const note = ({ input }: { input?: unknown }) => {
      inputs.push(input)
      return { output: null }
    }
    const flow = { steps: [{ module: 'a', input: { n: 1 } }, { module: 'b' }] }
    await runSingleAgentFlow(call(bareStore(), { a: note, b: note }, { flow }))
    expect(inputs).toEqual([{ n: 1 }, undefined])
  })
})

describe('what a module was given', () => {
  it('is its own to change: the flow goes on with what was said', async () => {
    const { context, plan } = oneStep()
    const change: ModuleHandler = ({ ctx }) => {
      Object.assign(ctx.plan as object, { status: 'approved', steps: [] })
      return { output: null }
    }
    const modules = { ...saying({ context, plan }), change }
    const flow = { steps: ['context', 'plan', 'change'].map((module) => ({ module })) }
    const { error, output } = await runSingleAgentFlow(call(memoryBackend(), modules, { flow }))
    expect(error).toBeUndefined()
    expect(output).toMatchObject({ plan: { status: 'completed', steps: [{ status: 'completed' }] } })
  })
})

describe('the events of a module', () => {
  const intent = { event_type: 'intent_extracted', event_family: 'intent', payload: { raw_text: 'do it' } }

  it('are committed with what it said, keep a given id, and take the commit’s time', async () => {
    const { context, plan } = oneStep()
    const event_id = crypto.randomUUID()
    const store = memoryBackend()
    const options = call(store, {
      context: ({ emitEvent }) => {
        emitEvent({ ...intent, event_type: 'intent_classified' })
        return { output: { context }, events: [{ ...intent, event_id, timestamp: '1999-01-01T00:00:00Z' }] }
      },
      plan: () => ({
        output: { plan },
        events: [{ ...intent, event_family: 'methodology', event_type: 'methodology_selected' }],
      }),
    })
    await runSingleAgentFlow(options)
    const journal: (readonly BornEvent[])[] = []
    for await (const entry of store.read(context.context_id)) journal.push(eventsIn(entry))
    expect(journal[0]!.map(({ event }) => event.event_type)).toEqual([
      'context_activated',
      'intent_extracted',
      'intent_classified',
      'context_created',
    ])
    expect(journal.flat().find(({ event }) => event.event_type === 'intent_extracted')?.event.event_id).toBe(event_id)
    const stamps = journal.flatMap((events) => events.map(({ event }) => event.timestamp))
    expect(stamps).toEqual([...new Set(stamps)].sort())
    expect(options.runtimeContext.events.map((event) => event.event_type)).toContain('methodology_selected')
  })

  it.each([
    ['no shape of an event', { hello: 1 }, 'events[0]', 'event_shape'],
    ['an unknown family', { ...intent, event_family: 'gossip' }, 'events[0].event_family', 'enum'],
    ['an id that is none', { ...intent, event_id: 'mine' }, 'events[0].event_id', expect.any(String)],
    [
      'a profile event without its payload',
      { event_type: 'SAStepStarted', sa_id: crypto.randomUUID() },
      'events[0].payload',
      'required',
    ],
    ['the shape that only objects hold', { event_type: 'a.b', source: 'x' }, 'events[0].source', 'event_shape'],
    ['nothing', null, 'events[0]', 'event_shape'],
    ['a type that says nothing', { ...intent, event_type: ' ' }, 'events[0].event_type', 'obs_event_type_non_empty'],
    ['what is no JSON', { ...intent, payload: { at: [1n] } }, 'events[0].payload.at[0]', 'json'],
  ])('are refused with %s, and nothing of what was said is kept', async (_, event, path, rule) => {
    const { context } = oneStep()
    const store = memoryBackend()
    const { success, error } = await runSingleAgentFlow(
      call(store, { context: () => ({ output: { context }, events: [event] }) }),
    )
    expect(success).toBe(false)
    expect(error).toMatchObject({
      code: 'INVALID_EVENT',
      problems: expect.arrayContaining([expect.objectContaining({ path, rule })]),
    })
    expect((await store.head(context.context_id)).revision).toBe(0)
  })

  it('are those of the attempt that succeeded', async () => {
    const { context, plan } = oneStep()
    const clock = manualClock()
    const event = { ...intent, event_id: clock.uuid() }
    let attempts = 0
    const options = call(
      memoryBackend(),
      {
        context: ({ emitEvent }) => {
          emitEvent({ ...event, payload: { attempt: ++attempts } })
          if (attempts === 1) throw new Error('not yet')
          return { output: { context } }
        },
        ...saying({ plan }),
      },
      { clock },
    )
    const runtimeContext = { ...options.runtimeContext, options: { maxRetries: 1 } }
    const { error, events } = await passing(clock, runSingleAgentFlow({ ...options, runtimeContext }))
    expect(error).toBeUndefined()
    expect(events).toContainEqual(expect.objectContaining({ event_id: event.event_id, payload: { attempt: 2 } }))
  })

  it('are what they were when they were told, whatever becomes of the object afterwards', async () => {
    const { context, plan } = oneStep()
    const event = { ...intent, payload: { done: 0 } }
    const store = memoryBackend()
    const modules: { [name: string]: ModuleHandler } = {
      context({ emitEvent }) {
        for (event.payload.done = 1; event.payload.done < 3; event.payload.done++) emitEvent(event)
        return { output: { context }, events: [event] }
      },
      ...saying({ plan }),
    }
    const commit: typeof store.commit = (write) => {
      event.payload.done = 99
      return store.commit(write)
    }
    const { events } = await runSingleAgentFlow(call({ ...store, commit }, modules))
    const told = (events as { event_type: string; payload?: unknown }[]).filter(
      ({ event_type }) => event_type === intent.event_type,
    )
    expect(told.map(({ payload }) => payload)).toEqual([{ done: 3 }, { done: 1 }, { done: 2 }])
  })

  it('are told to onError when it has returned, and lost', async () => {
    const { context, plan } = oneStep()
    const late: unknown[] = []
    let emit: ((event: unknown) => void) | undefined
    const modules: { [name: string]: ModuleHandler } = {
      context({ emitEvent }) {
        emit = emitEvent
        return { output: { context } }
      },
      plan() {
        emit!(intent)
        return { output: { plan } }
      },
    }
    const onError = (error: unknown) => void late.push(error)
    const { success, events } = await runSingleAgentFlow(call(memoryBackend(), modules, { onError }))
    expect(success).toBe(true)
    expect(late).toEqual([expect.objectContaining({ code: 'refused', message: expect.stringContaining('context') })])
    expect(events).not.toContainEqual(expect.objectContaining({ event_type: intent.event_type }))
  })

  it('are lost under another name, and that is told', async () => {
    const { context } = oneStep()
    const told: unknown[] = []
    const onError = (error: unknown) => told.push(error)
    const modules = { context: () => ({ output: { context }, evnets: [intent] }) }
    expect(await runSingleAgentFlow(call(memoryBackend(), modules, { onError }))).toMatchObject({ success: true })
    expect(told).toMatchObject([{ code: 'invalid_input', problems: [{ path: 'evnets', rule: 'extra_forbidden' }] }])
  })

  it('are refused when two have one id', async () => {
    const { context } = oneStep()
    const event = { ...intent, event_id: crypto.randomUUID() }
    const { error } = await runSingleAgentFlow(
      call(memoryBackend(), { context: () => ({ output: { context }, events: [event, event] }) }),
    )
    expect(error).toMatchObject({ code: 'INVALID_EVENT', problems: [{ path: 'events[1].event_id', rule: 'unique' }] })
  })
})
