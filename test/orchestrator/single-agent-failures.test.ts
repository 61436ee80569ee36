import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { ModuleHandler } from '../../src/orchestrator/flow.ts'
import { registry } from '../../src/orchestrator/registry.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { Confirm, Decision, Plan, Trace } from '../../src/protocol/types.ts'
import { openProject } from '../../src/psg/project.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { call, confirmDocument, contextDocument, newContext, passing, planDocument, saying } from '../support/agents.ts'
import { runtimeOf } from '../support/flows.ts'
import { heardByProcess } from '../support/heard-by-process.ts'

const oneStep = () => {
  const context = contextDocument()
  return { context, plan: planDocument(context, { work: {} }) }
}

describe('a module that fails', () => {
  it.each([
    ['is not there', undefined, 'MODULE_NOT_REGISTERED'],
    [
      'throws',
      () => {
        throw new Error('no idea')
      },
      'RUNTIME_EXCEPTION',
    ],
    [
      'rejects',
      async () => {
        throw 'a text'
      },
      'RUNTIME_EXCEPTION',
    ],
    [
      'throws what has no text',
      () => {
        throw Object.create(null)
      },
      'RUNTIME_EXCEPTION',
    ],
    ['returns nothing', () => undefined, 'INVALID_OUTPUT'],
    ['returns no output', () => ({ events: [] }), 'INVALID_OUTPUT'],
    ['returns events that are no list', () => ({ output: 1, events: 7 }), 'INVALID_EVENT'],
    ['returns what is no JSON', () => ({ output: { n: 1n } }), 'INVALID_OUTPUT'],
    ['returns an object that does not fit', () => ({ output: { context: { context_id: 'x' } } }), 'INVALID_OUTPUT'],
  ])('%s: the result says so, and the module is asked again by the next call', async (_, handler, code) => {
    const store = memoryBackend()
    const flow = { steps: [{ module: 'context' }] }
    const failed = await runSingleAgentFlow(call(store, { context: handler as ModuleHandler }, { flow }))
    expect(failed).toMatchObject({ success: false, error: { code, message: expect.any(String) }, events: [] })
    const { context } = oneStep()
    expect(await runSingleAgentFlow(call(store, saying({ context }), { flow }))).toMatchObject({
      success: true,
      output: { context },
    })
  })

  it('is told by the result like an action layer that cannot be made, whatever that throws', async () => {
    const ael = () => {
      throw Object.create(null)
    }
    const result = await runSingleAgentFlow({ ...call(memoryBackend(), saying(oneStep())), ael } as never)
    expect(result).toMatchObject({ success: false, error: { code: 'RUNTIME_EXCEPTION', message: '[object Object]' } })
  })

  it('names the place of what JSON would change, instead of keeping null for it', async () => {
    const context = { ...contextDocument(), custom: { scores: new Map([['a', 1]]) } }
    const { error } = await runSingleAgentFlow(call(memoryBackend(), { context: () => ({ output: { context } }) }))
    expect(error).toMatchObject({
      code: 'INVALID_OUTPUT',
      problems: [{ path: 'output.context.custom.scores', rule: 'json' }],
    })
  })

  it('names the path and the rule of what does not fit', async () => {
    const context = { ...contextDocument(), title: '' }
    const { error } = await runSingleAgentFlow(call(memoryBackend(), saying({ context })))
    expect(error).toMatchObject({ code: 'INVALID_OUTPUT', problems: [{ path: 'context.title', rule: 'min_length' }] })
  })

  it('is called while it is loaded, and not when it was unloaded meanwhile', async () => {
    const modules = registry<ModuleHandler>(() => undefined, {
      first: () => {
        modules.unload('second')
        return { output: 1 }
      },
      second: () => ({ output: 2 }),
    })
    const flow = { steps: [{ module: 'first' }, { module: 'second' }] }
    const { error, output } = await runSingleAgentFlow({
      runtimeContext: newContext('r'),
      vsl: memoryBackend(),
      modules,
      flow,
    })
    expect(error?.code).toBe('MODULE_NOT_REGISTERED')
    expect(output).toEqual({ first: 1 })
  })
})

describe('an invariant of the profile', () => {
  const broken = async (documents: { [module: string]: unknown }) => {
    const store = memoryBackend()
    const { error } = await runSingleAgentFlow(call(store, saying(documents)))
    return { code: error?.code, rules: error?.problems?.map((problem) => problem.rule), store }
  }

  it('is checked when the context is loaded, before anything is written', async () => {
    const context = contextDocument(undefined, { status: 'draft' })
    const { code, rules, store } = await broken({ context })
    expect({ code, rules }).toEqual({ code: 'INVARIANT_BROKEN', rules: ['sa_context_must_be_active'] })
    expect((await store.head(context.context_id)).revision).toBe(0)
  })

  it('is checked again when a context was there already', async () => {
    const { context, plan } = oneStep()
    const store = memoryBackend()
    const graph = await (await openProject(store)).create(context, { actor: 'test', reason: 'before' })
    await graph.commit([{ kind: 'node_update', node: 'context', id: graph.id, set: { status: 'suspended' } }], {
      actor: 'test',
      reason: 'stop',
    })
    const { error } = await runSingleAgentFlow(call(store, saying({ context, plan })))
    expect(error).toMatchObject({
      code: 'INVARIANT_BROKEN',
      problems: [{ path: 'context.status', rule: 'sa_context_must_be_active' }],
    })
  })

  it('is checked when the plan is made: it is one of the context that the flow has, also where the other is there', async () => {
    const store = memoryBackend()
    const elsewhere = oneStep()
    await runSingleAgentFlow(
      call(store, saying({ context: elsewhere.context }), { runtimeContext: newContext('elsewhere') }),
    )
    const { context, plan } = oneStep()
    const { error } = await runSingleAgentFlow(call(store, saying({ context, plan: elsewhere.plan })))
    expect(error).toMatchObject({
      code: 'INVARIANT_BROKEN',
      problems: [{ path: 'plan.context_id', rule: 'sa_plan_context_binding' }],
    })
    expect(await runSingleAgentFlow(call(store, saying({ context, plan })))).toMatchObject({ success: true })
  })

  it('is checked when the plan is made: a role, if present, is not blank', async () => {
    const context = contextDocument()
    const plan = planDocument(context, { work: { role: ' ' } })
    const { code, rules } = await broken({ context, plan })
    expect({ code, rules }).toEqual({ code: 'INVARIANT_BROKEN', rules: ['sa_steps_agent_role_if_present'] })
  })

  it('is checked when the trace is emitted', async () => {
    const { context, plan } = oneStep()
    const { output } = await runSingleAgentFlow(call(memoryBackend(), saying({ context, plan })))
    const trace = output?.trace as Trace
    expect(trace.events?.length).toBeGreaterThan(0)
    expect(trace).toMatchObject({ context_id: context.context_id, plan_id: plan.plan_id })
  })
})

describe('a plan that does not fit', () => {
  it.each([
    [
      'waits for itself',
      (plan: Plan) => ({ ...plan, steps: plan.steps.map((step) => ({ ...step, dependencies: [step.step_id] })) }),
      'plan.acyclic',
    ],
    ['has begun already', (plan: Plan) => ({ ...plan, status: 'approved' as const }), 'birth'],
    [
      'belongs to a context that is not there',
      (plan: Plan) => ({ ...plan, context_id: crypto.randomUUID() }),
      'reference.resolves',
    ],
  ])('%s: refused with its rule, the graph as it was, and another one may follow', async (_, spoil, rule) => {
    const { context, plan } = oneStep()
    const store = memoryBackend()
    const { error } = await runSingleAgentFlow(call(store, saying({ context, plan: spoil(plan) })))
    expect(error).toMatchObject({
      code: 'INVALID_OUTPUT',
      problems: expect.arrayContaining([expect.objectContaining({ rule })]),
    })
    const graph = await (await openProject(store)).context(context.context_id)
    expect(await graph.find('plan', plan.plan_id)).toBeUndefined()
    expect(await runSingleAgentFlow(call(store, saying({ context, plan })))).toMatchObject({ success: true })
  })
})

describe('a plan whose context nobody made', () => {
  it('is refused with its rule, and another one may follow', async () => {
    const { context, plan } = oneStep()
    const store = memoryBackend()
    const { error } = await runSingleAgentFlow(call(store, { ...saying({ plan }), context: () => ({ output: null }) }))
    expect(error).toMatchObject({ code: 'INVALID_OUTPUT', problems: [{ rule: 'reference.resolves' }] })
    const desk = await runtimeOf({}, { store, mine: new Set() })
    const made = await desk.call('context', { intent: 'create', title: context.title, root: context.root })
    await desk.close()
    const { context_id } = made as typeof context
    const modules = { ...saying({ plan: { ...plan, context_id } }), context: () => ({ output: null }) }
    expect(await runSingleAgentFlow(call(store, modules))).toMatchObject({ success: true })
  })
})

describe('an onError that throws', () => {
  it('is a warning of the process, and the flow is answered', async () => {
    const warned: unknown[] = []
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation((warning) => void warned.push(warning))
    onTestFinished(() => warn.mockRestore())
    const own = new Error('mine')
    const onError = () => {
      throw own
    }
    const store = { ...memoryBackend(), release: () => Promise.reject(new Unavailable('the store', 'later')) }
    expect(await runSingleAgentFlow(call(store, saying(oneStep()), { onError }))).toMatchObject({ success: true })
    expect(warned).toContain(own)
  })
})

describe('a step that fails', () => {
  it('fails the flow with its code, and SAStepFailed tells of it', async () => {
    const { context, plan } = oneStep()
    const ael = { execute: () => Promise.reject(new Error('the disk is full')) }
    const options = call(memoryBackend(), saying({ context, plan }), { ael })
    const { success, error, output } = await runSingleAgentFlow(options)
    expect({ success, error }).toEqual({
      success: false,
      error: { code: 'ACTION_FAILED', message: 'the disk is full' },
    })
    expect(output).toMatchObject({ plan: { status: 'failed' }, trace: { status: 'failed' }, steps: {} })
    const told = options.runtimeContext.events.filter(({ event_type }) => event_type.startsWith('SA'))
    expect(told.map(({ event_type }) => event_type).slice(3)).toEqual([
      'SAStepStarted',
      'SAStepFailed',
      'SATraceEmitted',
      'SACompleted',
    ])
    expect(told[4]).toMatchObject({
      payload: { step_id: plan.ids.work, error_code: 'action_failed', error_message: 'the disk is full' },
    })
  })

  it('is tried again as often as the older option says, and so is a module', async () => {
    const clock = manualClock()
    const { context, plan } = oneStep()
    let [asked, tried] = [0, 0]
    const modules = {
      context: () => {
        if (++asked < 3) throw new Error('not yet')
        return { output: { context } }
      },
      plan: () => ({ output: { plan } }),
    }
    const ael = {
      execute: async () => {
        if (++tried < 3) throw new Error('not yet')
      },
    }
    const runtimeContext = { ...newContext('run-1'), options: { maxRetries: 2, snapshotEveryStep: true } }
    const work = runSingleAgentFlow({ vsl: memoryBackend({ clock }), modules, ael, runtimeContext, clock })
    expect(await passing(clock, work)).toMatchObject({ success: true })
    expect({ asked, tried }).toEqual({ asked: 3, tried: 3 })
  })
})

describe('a person who must agree', () => {
  it('is waited for by calling again; the module is asked again until it has an answer', async () => {
    const { context, plan } = oneStep()
    const store = memoryBackend()
    const asking = confirmDocument(plan, [])
    const pending = await runSingleAgentFlow(call(store, saying({ context, plan, confirm: asking })))
    expect(pending.error).toMatchObject({ code: 'APPROVAL_PENDING', confirms: [asking.confirm_id] })
    expect(pending.output).toMatchObject({
      confirm: { confirm_id: asking.confirm_id, status: 'pending' },
      plan: { status: 'proposed' },
    })
    const decided = { ...confirmDocument(plan, [{ decided_by_role: 'dba' }]), confirm_id: asking.confirm_id }
    const approved = await runSingleAgentFlow(call(store, saying({ context, plan, confirm: decided })))
    expect(approved).toMatchObject({
      success: true,
      output: { confirm: { status: 'approved', decisions: [{ decided_by_role: 'dba' }] } },
    })
  })

  it('may decide elsewhere; the flow goes on with the next call', async () => {
    const { context, plan } = oneStep()
    const store = memoryBackend()
    const flow = { approval: { roles: ['dba'] } }
    const { error } = await runSingleAgentFlow(call(store, saying({ context, plan }), { flow }))
    const layer = actionLayer({ adapters: [functionAdapter({})] })
    const runtime = await createRuntime({ store, layer, mine: new Set() })
    await runtime.decide(error!.confirms![0]!, { status: 'approved', decided_by_role: 'dba' })
    await runtime.close()
    const options = call(store, saying({ context, plan }), { flow })
    expect(await runSingleAgentFlow(options)).toMatchObject({ success: true })
    expect(options.runtimeContext.events.map(({ event_type }) => event_type)).toContain('confirm_decision_added')
  })

  it('may say no first: the same Confirm, rejected and then approved', async () => {
    const { context, plan } = oneStep()
    const confirm = confirmDocument(plan, [{ status: 'rejected', reason: 'no backup' }, { reason: 'backup made' }])
    const { success, output } = await runSingleAgentFlow(call(memoryBackend(), saying({ context, plan, confirm })))
    expect(success).toBe(true)
    expect(output?.confirm).toMatchObject({
      confirm_id: confirm.confirm_id,
      status: 'approved',
      decisions: [
        { status: 'rejected', reason: 'no backup' },
        { status: 'approved', decision_id: confirm.decisions![1]!.decision_id },
      ],
    })
  })

  it('says no: nothing runs', async () => {
    const { context, plan } = oneStep()
    let ran = 0
    const ael = { execute: async () => void ran++ }
    const confirm = confirmDocument(plan, [{ status: 'rejected' }])
    const { error, output } = await runSingleAgentFlow(
      call(memoryBackend(), saying({ context, plan, confirm }), { ael }),
    )
    expect(error?.code).toBe('APPROVAL_REJECTED')
    expect({ ran, plan: (output!.plan as Plan).status }).toEqual({ ran: 0, plan: 'draft' })
  })

  it('withdraws the plan: the flow is cancelled', async () => {
    const { context, plan } = oneStep()
    const confirm = confirmDocument(plan, [{ status: 'cancelled' }])
    const { error, output } = await runSingleAgentFlow(call(memoryBackend(), saying({ context, plan, confirm })))
    expect(error?.code).toBe('CANCELLED')
    expect((output!.plan as Plan).status).toBe('cancelled')
  })

  it('is asked about a single action in the middle of the plan', async () => {
    const { context, plan } = oneStep()
    const store = memoryBackend()
    const ael = actionLayer({ adapters: [functionAdapter({ send: () => 'sent' })] })
    const bindings = {
      steps: { [plan.ids.work!]: { action_type: 'function', params: { name: 'send' }, approval: 'ask' as const } },
    }
    const options = () => call(store, saying({ context, plan }), { ael, flow: { bindings } })
    const { error } = await runSingleAgentFlow(options())
    expect(error).toMatchObject({ code: 'APPROVAL_PENDING', confirms: [expect.any(String)] })
    const runtime = await createRuntime({ store, layer: ael, mine: new Set() })
    await runtime.decide(error!.confirms![0]!, { status: 'approved', decided_by_role: 'me' })
    await runtime.close()
    expect(await runSingleAgentFlow(options())).toMatchObject({
      success: true,
      output: { steps: { [plan.ids.work!]: 'sent' } },
    })
  })

  it('is not asked about another plan', async () => {
    const { context, plan } = oneStep()
    const confirm = { ...confirmDocument(plan, [{}]), target_id: crypto.randomUUID() }
    const { error } = await runSingleAgentFlow(call(memoryBackend(), saying({ context, plan, confirm })))
    expect(error?.code).toBe('INVALID_OUTPUT')
  })

  it('is not asked about another plan when asked again either', async () => {
    const { context, plan } = oneStep()
    const store = memoryBackend()
    let ran = 0
    const answered = (confirm: Confirm) => {
      const ael = { execute: async () => void ran++ }
      return runSingleAgentFlow(call(store, saying({ context, plan, confirm }), { ael }))
    }
    expect((await answered(confirmDocument(plan, []))).error?.code).toBe('APPROVAL_PENDING')
    const other = { ...confirmDocument(plan, [{}]), target_id: crypto.randomUUID() }
    expect(await answered(other)).toMatchObject({
      error: { code: 'INVALID_OUTPUT' },
      output: { plan: { status: 'draft' } },
    })
    expect(ran).toBe(0)
    expect(await answered(confirmDocument(plan, [{}]))).toMatchObject({ success: true })
  })

  it.each([
    ['one that there is already', (taken: Decision) => ({ decision_id: taken.decision_id })],
    ['one of a role without a name', () => ({ decided_by_role: '' })],
  ])('may give a decision that cannot be taken in, %s: the next call asks again', async (_, wrong) => {
    const store = memoryBackend()
    const before = oneStep()
    const confirm = confirmDocument(before.plan, [{}])
    await runSingleAgentFlow(call(store, saying({ ...before, confirm }), { runtimeContext: newContext('before') }))
    const { context, plan } = oneStep()
    const answered = (decision: Partial<Decision>) =>
      runSingleAgentFlow(call(store, saying({ context, plan, confirm: confirmDocument(plan, [decision]) })))
    const { error } = await answered(wrong(confirm.decisions![0]!))
    expect(error).toMatchObject({
      code: 'INVALID_OUTPUT',
      message: expect.stringContaining('the Confirm does not fit'),
    })
    expect(await answered({})).toMatchObject({ success: true, output: { confirm: { status: 'approved' } } })
  })

  it.each([
    ['approved', undefined],
    ['cancelled', 'CANCELLED'],
  ] as const)('may be overtaken by somebody who decides elsewhere: %s', async (status, code) => {
    const { context, plan } = oneStep()
    const confirm = confirmDocument(plan, [{}])
    const store = memoryBackend()
    let overtaken = 0
    const commit: typeof store.commit = async (write) => {
      const decides = JSON.stringify(write).includes(confirm.decisions![0]!.decision_id)
      if (decides && write.stream === context.context_id && overtaken++ === 0) {
        const runtime = await createRuntime({ store, layer: actionLayer({ adapters: [] }), mine: new Set() })
        await runtime.decide(confirm.confirm_id, { status, decided_by_role: 'boss' })
        await runtime.close()
      }
      return store.commit(write)
    }
    const said = saying({ context, plan, confirm })
    const { error, output } = await runSingleAgentFlow(call({ ...store, commit }, said))
    expect(overtaken).toBeGreaterThan(0)
    expect(error?.code).toBe(code)
    expect(output?.confirm).toMatchObject({ status, decisions: [{ status, decided_by_role: 'boss' }] })
  })

  it('is not what a step waits for that waits for a signal', async () => {
    const { context, plan } = oneStep()
    const bindings = { steps: { [plan.ids.work!]: { action_type: 'wait', params: { signal: 'go' } } } }
    const { error } = await runSingleAgentFlow(call(memoryBackend(), saying({ context, plan }), { flow: { bindings } }))
    expect(error?.code).toBe('SIGNAL_PENDING')
  })
})

describe('a signal', () => {
  it('stops what is under way and ends the run as cancelled', async () => {
    const { context, plan } = oneStep()
    const stop = new AbortController()
    let told = false
    const ael = {
      execute: (_: unknown, { signal }: { signal: AbortSignal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            told = true
            reject(signal.reason)
          })
          stop.abort()
        }),
    }
    const store = memoryBackend()
    const { success, error, output } = await runSingleAgentFlow(
      call(store, saying({ context, plan }), { ael: ael as never, signal: stop.signal }),
    )
    expect({ success, code: error?.code, told }).toEqual({ success: false, code: 'CANCELLED', told: true })
    expect(output).toMatchObject({ plan: { status: 'cancelled' }, trace: { status: 'cancelled' } })
    expect(await (await (await openProject(store)).context(context.context_id)).verify()).toEqual([])
  })

  it('ends a module that does not listen; nothing was submitted', async () => {
    const { context, plan } = oneStep()
    const stop = new AbortController()
    const modules = {
      ...saying({ context }),
      plan: () => {
        stop.abort()
        return new Promise<never>(() => undefined)
      },
    }
    const store = memoryBackend()
    expect((await runSingleAgentFlow(call(store, modules, { signal: stop.signal }))).error?.code).toBe('CANCELLED')
    expect(await runSingleAgentFlow(call(store, saying({ context, plan })))).toMatchObject({ success: true })
  })

  it('that comes while people answer ends the run as cancelled, wherever it meets them', async () => {
    for (let at = 20; at < 40; at++) {
      const { context, plan } = oneStep()
      const confirm = confirmDocument(plan, [{ status: 'rejected' }, { status: 'approved' }])
      const stop = new AbortController()
      let calls = 0
      const store = new Proxy(memoryBackend(), {
        get(target, name) {
          const value = Reflect.get(target, name)
          if (typeof value !== 'function') return value
          return (...asked: unknown[]) => {
            if (++calls === at) stop.abort()
            return value.apply(target, asked)
          }
        },
      })
      const { error } = await runSingleAgentFlow(
        call(store, saying({ context, plan, confirm }), { signal: stop.signal }),
      )
      expect(error?.code ?? 'CANCELLED').toBe('CANCELLED') // it may have been done before
    }
  })

  it('that was given before the call leaves nothing behind but the wish', async () => {
    const { context, plan } = oneStep()
    const signal = AbortSignal.abort()
    const { error } = await runSingleAgentFlow(call(memoryBackend(), saying({ context, plan }), { signal }))
    expect(error?.code).toBe('CANCELLED')
  })
})

describe('a module that says more than the flow can be about', () => {
  it.each(['plan', 'confirm', 'trace', 'context'])('of %ss is refused, and asked again', async (module) => {
    const { context, plan } = oneStep()
    const documents: { readonly [module: string]: unknown } = { context, plan, confirm: confirmDocument(plan, [{}]) }
    const store = memoryBackend()
    const twice = () => ({ output: { [`${module}s`]: [documents[module] ?? {}, documents[module] ?? {}] } })
    const { error } = await runSingleAgentFlow(call(store, { ...saying(documents), [module]: twice }))
    expect(error).toMatchObject({ code: 'INVALID_OUTPUT', message: expect.stringContaining(`one ${module}, not 2`) })
    expect((await runSingleAgentFlow(call(store, saying(documents)))).success).toBe(true)
  })
})

describe('a module that never answers', () => {
  it.each([
    ['a deadline', (now: number) => ({ deadline: new Date(now + 5_000).toISOString() }), 'DEADLINE'],
    ['a budget of time', () => ({ budget: { wall_ms: 5_000 } }), 'BUDGET_EXCEEDED'],
  ])('does not hold a flow that has %s, and is told', async (_, optionsAt, code) => {
    const { context, plan } = oneStep()
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const options = optionsAt(clock.now())
    let told = false
    const silent: ModuleHandler = ({ signal }) => {
      signal.addEventListener('abort', () => {
        told = true
      })
      return new Promise<never>(() => undefined)
    }
    const began = clock.now()
    const flow = call(store, { ...saying({ context }), plan: silent }, { clock, flow: { options } })
    const { error } = await passing(clock, runSingleAgentFlow(flow))
    expect({ code: error?.code, told, took: clock.now() - began < 10_000 }).toEqual({ code, told: true, took: true })
    const again = call(store, saying({ context, plan }), { clock })
    expect(await passing(clock, runSingleAgentFlow(again))).toMatchObject({ success: true })
  })

  it('has no more time because the clock was set back', async () => {
    const { context } = oneStep()
    const time = manualClock()
    let setBack = 0
    const clock = { ...time, now: () => time.now() - setBack }
    const silent = () => {
      setBack = 3_600_000
      return new Promise<never>(() => undefined)
    }
    const began = time.now()
    const flow = { options: { budget: { wall_ms: 5_000 } } }
    const modules = { ...saying({ context }), plan: silent }
    const { error } = await passing(time, runSingleAgentFlow(call(memoryBackend(), modules, { clock, flow })))
    expect({ code: error?.code, took: time.now() - began < 10_000 }).toEqual({ code: 'BUDGET_EXCEEDED', took: true })
  })
})

describe('a store that forgets', () => {
  it('is answered, not waited for', async () => {
    const context = contextDocument()
    const modules = saying({ context, plan: planDocument(context, { one: {} }) })
    const forgetful = { get: async () => undefined, set: async () => undefined }
    expect((await runSingleAgentFlow(call(forgetful, modules))).success).toBe(false)
  })
})

describe('a flow that is aborted', () => {
  it('before it was called asks no module', async () => {
    const asked = vi.fn()
    const { error } = await runSingleAgentFlow(
      call(memoryBackend(), { context: asked }, { signal: AbortSignal.abort() }),
    )
    expect(error?.code).toBe('CANCELLED')
    expect(asked).not.toHaveBeenCalled()
  })

  it('leaves no rejection unhandled, of a handler that fails afterwards', async () => {
    const unhandled = heardByProcess('unhandledRejection')
    const stop = new AbortController()
    const failing = () => {
      stop.abort()
      return Promise.reject(new Error('too late'))
    }
    for (const signal of [AbortSignal.abort(), stop.signal]) {
      const { error } = await runSingleAgentFlow(call(memoryBackend(), { context: failing } as never, { signal }))
      expect(error?.code).toBe('CANCELLED')
    }
    await new Promise((resolve) => setImmediate(resolve))
    expect(unhandled).toEqual([])
  })
})

describe('a call that cannot be one', () => {
  const good = () => call(memoryBackend(), {})
  const unreadable = <T extends object>(of: T, name: string) =>
    Object.defineProperty({ ...of }, name, { enumerable: true, get: () => expect.fail('read') })
  it.each([
    ['nothing', undefined, 'runtimeContext', 'type'],
    ['no runId', { ...good(), runtimeContext: { ...newContext('x'), ids: {} } }, 'runtimeContext.ids.runId', 'type'],
    [
      'a runId that no store can keep',
      { ...good(), runtimeContext: newContext('x\0') },
      'runtimeContext.ids.runId',
      'key',
    ],
    [
      'a runId that is too long',
      { ...good(), runtimeContext: newContext('x'.repeat(1_020)) },
      'runtimeContext.ids.runId',
      'key',
    ],
    [
      'no list of events',
      { ...good(), runtimeContext: { ...newContext('x'), events: {} } },
      'runtimeContext.events',
      'type',
    ],
    [
      'no coordination',
      { ...good(), runtimeContext: { ...newContext('x'), coordination: 1 } },
      'runtimeContext.coordination',
      'type',
    ],
    [
      'a list of events that cannot grow',
      { ...good(), runtimeContext: { ...newContext('x'), events: Object.freeze([]) } },
      'runtimeContext.events',
      'extensible',
    ],
    [
      'a coordination that cannot be added to',
      { ...good(), runtimeContext: { ...newContext('x'), coordination: Object.seal({}) } },
      'runtimeContext.coordination',
      'extensible',
    ],
    [
      'a runtime context that throws when it is read',
      unreadable(good(), 'runtimeContext'),
      'runtimeContext',
      'readable',
    ],
    ['a bus that throws when it is read', unreadable(good(), 'bus'), 'bus', 'readable'],
    [
      'events that throw when they are read',
      { ...good(), runtimeContext: unreadable(newContext('x'), 'events') },
      'runtimeContext.events',
      'readable',
    ],
    [
      'options that cannot be looked through',
      new Proxy(good(), { ownKeys: () => expect.fail('read') }),
      '',
      'readable',
    ],
    ['steps that throw when they are read', { ...good(), flow: unreadable({}, 'steps') }, 'flow.steps', 'readable'],
    [
      'a step that throws',
      { ...good(), flow: { steps: [unreadable({ module: 'plan' }, 'input')] } },
      'flow',
      'readable',
    ],
    [
      'a runId that throws',
      { ...good(), runtimeContext: { ...newContext('x'), ids: unreadable({}, 'runId') } },
      'runtimeContext',
      'readable',
    ],
    ['a module that throws when it is read', { ...good(), modules: unreadable({}, 'plan') }, 'modules', 'readable'],
    ['a store that throws when it is read', { ...good(), vsl: unreadable({}, 'get') }, 'vsl', 'readable'],
    [
      'a layer that throws when it is read',
      { ...good(), ael: unreadable({ execute() {} }, 'attempt') },
      'ael',
      'readable',
    ],
    ['a transport that throws when it is read', { ...good(), bus: [unreadable({}, 'publish')] }, 'bus', 'readable'],
    ['a clock that throws when it is read', { ...good(), clock: unreadable({}, 'now') }, 'clock', 'readable'],
    ['a function that promises a layer', { ...good(), ael: async () => expect.fail('made') }, 'ael', 'type'],
    ['a function that gives no layer', { ...good(), ael: () => undefined }, 'ael', 'type'],
    [
      'a step at a place far away',
      { ...good(), flow: { steps: new Array(100_000_000) } },
      'flow.steps[0].module',
      'type',
    ],
    ['no modules', { ...good(), modules: undefined }, 'modules', 'type'],
    ['modules in a Map', { ...good(), modules: new Map(Object.entries(good().modules)) }, 'modules', 'type'],
    ['a module that is no function', { ...good(), modules: { plan: 7 } }, 'modules.plan', 'type'],
    ['no store', { ...good(), vsl: { get() {} } }, 'vsl', 'store'],
    ['a layer that executes nothing', { ...good(), ael: {} }, 'ael.execute', 'type'],
    ['a signal that is none', { ...good(), signal: {} }, 'signal', 'type'],
    ['a foreign option', { ...good(), psg: 1 }, 'psg', 'extra_forbidden'],
    ['a flow that is none', { ...good(), flow: 'x' }, 'flow', 'type'],
    ['a foreign field in the flow', { ...good(), flow: { step: [] } }, 'flow.step', 'extra_forbidden'],
    ['steps that are no list', { ...good(), flow: { steps: {} } }, 'flow.steps', 'type'],
    ['a step without a module', { ...good(), flow: { steps: [{}] } }, 'flow.steps[0].module', 'type'],
    [
      'a module twice whose object the flow is about',
      { ...good(), flow: { steps: [{ module: 'plan' }, { module: 'plan' }] } },
      'flow.steps[1].module',
      'unique',
    ],
    [
      'a module whose name the runtime context has taken',
      { ...good(), flow: { steps: [{ module: 'metadata' }] } },
      'flow.steps[0].module',
      'taken',
    ],
    [
      'a module whose name the output has taken',
      { ...good(), flow: { steps: [{ module: 'steps' }] } },
      'flow.steps[0].module',
      'taken',
    ],
    [
      'another profile',
      { ...good(), flow: { options: { profile: 'none' } } },
      'flow.options.profile',
      'extra_forbidden',
    ],
    [
      'a session among the options',
      { ...good(), flow: { options: { session: { collab_id: 'x' } } } },
      'flow.options.session',
      'extra_forbidden',
    ],
    [
      'a deadline that is none',
      { ...good(), flow: { options: { deadline: 'soon' } } },
      'flow.options.deadline',
      'format',
    ],
    ['options that are none', { ...good(), flow: { options: 1 } }, 'flow.options', 'type'],
    [
      'a misspelt field of a binding',
      { ...good(), flow: { bindings: { roles: { dev: { action_type: 'x', params: {}, timeout: 1 } } } } },
      'flow.bindings.roles.dev.timeout',
      'extra_forbidden',
    ],
    ['an approval that is none', { ...good(), flow: { approval: 'nobody' } }, 'flow.approval', 'type'],
    [
      'an approval that cannot be reached',
      { ...good(), flow: { approval: { needed: 2, roles: ['dba'] } } },
      'flow.approval.needed',
      'reachable',
    ],
    [
      'retries below none',
      { ...good(), runtimeContext: { ...newContext('x'), options: { maxRetries: -1 } } },
      'runtimeContext.options.maxRetries',
      'minimum',
    ],
    [
      'the wish not to store steps',
      { ...good(), runtimeContext: { ...newContext('x'), options: { snapshotEveryStep: false } } },
      'runtimeContext.options.snapshotEveryStep',
      'const',
    ],
    [
      'an unknown older option',
      { ...good(), runtimeContext: { ...newContext('x'), options: { speed: 9 } } },
      'runtimeContext.options.speed',
      'extra_forbidden',
    ],
  ])('with %s is answered, not thrown', async (_, options, path, rule) => {
    const { success, error } = await runSingleAgentFlow(options as never)
    expect(success).toBe(false)
    expect(error).toMatchObject({
      code: 'INVALID_INPUT',
      problems: expect.arrayContaining([expect.objectContaining({ path, rule })]),
    })
  })
})
