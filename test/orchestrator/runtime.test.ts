import { AsyncLocalStorage } from 'node:async_hooks'
import { getEventListeners } from 'node:events'
import { Readable } from 'node:stream'
import { runInNewContext } from 'node:vm'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Adapter, Call, Outcome } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { finalFailure } from '../../src/ael/failure.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { type Tool, toolRegistry } from '../../src/ael/tool-registry.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import { createRuntime, type Runtime } from '../../src/orchestrator/runtime.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { BINDING } from '../../src/orchestrator/submit-check.ts'
import { waitsOf } from '../../src/orchestrator/waits.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { ActionError, InvalidInput, NotFound, RuleViolation, Unavailable } from '../../src/protocol/errors.ts'
import { problemsIn } from '../../src/protocol/fields.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { RunResult } from '../../src/protocol/run-result.ts'
import type { Context } from '../../src/protocol/types.ts'
import { takeApart } from '../../src/psg/document.ts'
import { firstActionOf } from '../../src/psg/first-action.ts'
import { pathsOf } from '../../src/psg/paths.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { chainOf, flowOf, having, runtimeOf } from '../support/flows.ts'
import { heardByProcess } from '../support/heard-by-process.ts'
import { mortal } from '../support/mortal-runtime.ts'
import { heldCommit, inTime, passes, world } from '../support/on-a-clock.ts'

const by = { actor: 'tester', reason: 'a test' }

const flaky = (failures: number) => {
  let calls = 0
  return () => {
    if (++calls <= failures) throw new ActionError('action_failed', `failure ${calls}`, { retryable: true })
    return calls
  }
}
function later(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
const never = () => new Promise<Json>(() => undefined)

describe('runs that have ended', () => {
  it('are gone through, the last one first, by how they ended and from where one was', async () => {
    const clock = manualClock()
    const bad = () => {
      throw new Error('no')
    }
    const runtime = await runtimeOf({ good: () => 1, bad }, { clock })
    onTestFinished(() => runtime.close())
    const runs: string[] = []
    for (const call of ['good', 'bad', 'good']) {
      const run = await runtime.submit(flowOf({ one: { call } }))
      await run.result()
      runs.push(run.run_id)
      await clock.advance(10)
    }
    await runtime.submit(flowOf({ one: { call: 'good' } }, { approval: {} })) // has not ended
    const listed = async (options?: Parameters<Runtime['ended']>[0]) => {
      const found: string[] = []
      for await (const { run_id } of runtime.ended(options)) found.push(run_id)
      return found
    }
    expect(await listed()).toEqual([runs[2], runs[1], runs[0]])
    expect(await listed({ status: 'failed' })).toEqual([runs[1]])
    expect(await listed({ after: runs[2]! })).toEqual([runs[1], runs[0]])
    await expect(listed({ after: 'nobody' })).rejects.toThrow(InvalidInput)
    expect(() => runtime.ended({ status: 'lost' as 'failed' })).toThrow(InvalidInput)
  })

  it('are brought into memory when somebody wants their outputs, not to be had', async () => {
    const before = await runtimeOf({ one: () => 1 })
    onTestFinished(() => before.close())
    const { run_id, plan_id, trace_id, result } = await before.submit(flowOf({ one: {} }))
    const { outputs } = await result()
    const runtime = await runtimeOf({}, { store: before.store })
    onTestFinished(() => runtime.close())
    for (const id of [run_id, plan_id, trace_id]) {
      const run = await runtime.get(id)
      expect(run).toMatchObject({ run_id, plan_id, trace_id, phase: 'ended' })
      const graph = await runtime.project.context(run.context_id)
      expect(graph.state.hasGroup(plan_id)).toBe(false)
    }
    expect((await (await runtime.get(run_id)).result()).outputs).toEqual(outputs)
  })
})

it('tells how a run stands whose plan was deleted, and brought back by another process', async () => {
  const there = await runtimeOf({})
  onTestFinished(() => there.close())
  const flow = flowOf({ a: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
  const { project, store } = there
  const graph = await project.create(flow.context, by)
  await graph.commit(takeApart('plan', flow.plan), by)
  const { revision } = graph
  await pathsOf(project).deletePlan(flow.plan.plan_id, by)
  const here = await runtimeOf({}, { store, mine: new Set<string>() })
  onTestFinished(() => here.close())
  await here.project.context(graph.id)
  await graph.restore({ to: revision, ...by })
  const run = await there.submit({ ...flow, context: graph.id })
  await run.rest()
  expect((await here.get(run.run_id)).phase).toBe('waiting')
})

describe('closing', () => {
  it('waits no longer once a second call is in more of a hurry', async () => {
    const clock = manualClock()
    const runtime = await runtimeOf({ long: never }, { clock })
    const run = await runtime.submit(flowOf({ long: {} }))
    await expect.poll(() => run.phase).toBe('running')
    const first = runtime.close()
    const hurry = new AbortController()
    const second = runtime.close(hurry.signal)
    let over = false
    void first.then(() => {
      over = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(over).toBe(false)
    hurry.abort()
    while (!over) {
      await clock.advance(1_000) // what was told to end has a second for that
      await new Promise((resolve) => setImmediate(resolve))
    }
    await second
    await expect(runtime.close({} as AbortSignal)).rejects.toThrow(InvalidInput)
  })

  it('leaves nothing on a signal that lives on, however many runtimes are closed by it', async () => {
    const { signal } = new AbortController()
    for (let i = 0; i < 3; i++) {
      const runtime = await runtimeOf({})
      await Promise.all([runtime.close(signal), runtime.close(signal)])
      await runtime.close(signal)
    }
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('a run', () => {
  it('starts a step only when all it depends on is done, and in the plan’s order', async () => {
    const order: string[] = []
    const log = (name: string) => () => void order.push(name)
    const runtime = await runtimeOf({ a: log('a'), b: log('b'), c: log('c'), d: log('d') })
    const flow = flowOf(
      { d: { after: ['b', 'c'] }, c: { after: ['a'] }, b: { after: ['a'] }, a: {} },
      { options: { concurrency: 1 } },
    )
    expect((await (await runtime.submit(flow)).result()).status).toBe('completed')
    expect(order).toEqual(['a', 'c', 'b', 'd'])
    await runtime.close()
  })

  it('hands the outputs of earlier steps to later ones', async () => {
    const runtime = await runtimeOf({ make: () => ({ list: [1, 2] }), use: (args) => args })
    const flow = flowOf({ make: {}, use: { after: ['make'] } })
    const { make, use } = flow.ids
    const binding = {
      action_type: 'function',
      params: { name: 'use', args: { got: { $from: make!, path: 'list.1' } } },
    }
    const bound = { ...flow, bindings: { steps: { ...flow.bindings!.steps, [use!]: binding } } }
    expect((await (await runtime.submit(bound)).result()).outputs[use!]).toEqual({ got: 2 })
    await runtime.close()
  })

  it('leaves a graph that proves itself, with a whole trace', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(5))
    await run.result()
    const graph = await runtime.project.context(run.context_id)
    expect(await graph.verify()).toEqual([])
    const trace = await graph.document('trace', run.trace_id)
    expect(trace.status).toBe('completed')
    expect(trace.segments?.map((segment) => segment.status)).toEqual(Array(5).fill('completed'))
    expect((await graph.document('plan', run.plan_id)).steps.map((step) => step.status)).toEqual(
      Array(5).fill('completed'),
    )
    await runtime.close()
  })

  it('leaves its values to the journal until there are many, and whoever opens the store does not notice', async () => {
    const store = memoryBackend()
    const runtime = await runtimeOf({ a: () => 'done' }, { store })
    const valuesOf = async ({ context_id, plan_id }: { context_id: string; plan_id: string }) => {
      let count = 0
      for await (const _ of store.scan(`${context_id}/${plan_id}/`)) count++
      return count
    }
    const short = await runtime.submit(flowOf({ a: {}, b: { call: 'a', after: ['a'] } }))
    const { outputs } = await short.result()
    expect(Object.values(outputs)).toEqual(['done', 'done'])
    expect(await valuesOf(short)).toBe(0)
    const long = await runtime.submit(chainOf(1_030))
    await long.result()
    expect(await valuesOf(long)).toBeGreaterThan(2_000)
    await runtime.close()

    const again = await runtimeOf({}, { store })
    expect((await (await again.get(short.plan_id))!.result()).outputs).toEqual(outputs)
    for (const { context_id } of [short, long])
      expect(await (await again.project.context(context_id)).verify()).toEqual([])
    await again.close()
  })

  it('tells its events from the beginning, then live, and ends', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(2))
    const types: string[] = []
    for await (const { event } of run) types.push(event.event_type)
    expect(types.filter((type) => type.startsWith('SA'))).toEqual([
      'SAInitialized',
      'SAContextLoaded',
      'SAPlanEvaluated',
      'SAStepStarted',
      'SAStepCompleted',
      'SAStepStarted',
      'SAStepCompleted',
      'SATraceEmitted',
      'SACompleted',
    ])
    await runtime.close()
  })
})

describe('a plan of few steps with very much in them', () => {
  it('is submitted in several commits, as one of very many steps is', async () => {
    const sizes: number[] = []
    const use = (text: Json) => String(text).length
    const runtime = await runtimeOf({ use }, { onCommit: ({ body }) => void sizes.push(JSON.stringify(body).length) })
    const params = { name: 'use', args: 'x'.repeat(2 * 1024 * 1024) }
    const flow = flowOf(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`s${i}`, { binding: { params } }])))
    const { status, outputs } = await (await runtime.submit(flow)).result()
    expect([status, new Set(Object.values(outputs))]).toEqual(['completed', new Set([params.args.length])])
    expect(Math.max(...sizes)).toBeLessThan(9 * 1024 * 1024)
    await runtime.close()
  })
})

describe('a binding of a role', () => {
  it.each([
    ['name', 'role_id'],
    ['role_id', 'name'],
    ['name', 'name'],
  ] as const)(
    'is found by its %s for a step that says its %s, also when somebody else has made the role',
    async (bound, said) => {
      const store = memoryBackend()
      const other = await runtimeOf({}, { store, mine: new Set() })
      const runtime = await runtimeOf({ write: () => 'written' }, { store })
      const role = await other.call('role', { intent: 'create', name: 'writer' })
      const { context, plan } = flowOf({ a: {} })
      const steps = plan.steps.map((step) => ({ ...step, agent_role: role[said] }))
      const roles = { [role[bound]]: { action_type: 'function', params: { name: 'write' } } }
      const run = await runtime.submit({ context, plan: { ...plan, steps }, bindings: { roles } })
      expect(Object.values((await run.result()).outputs)).toEqual(['written'])
      await runtime.close()
      await other.close()
    },
  )
})

describe('a failing step', () => {
  it.each([
    ['an error of another realm, as under Jest', runInNewContext('new Error("no paper")')],
    ['an object with a message, as clients of services do', { code: 'E4', message: 'no paper' }],
  ])('says why, also when its function throws %s', async (_, thrown) => {
    const runtime = await runtimeOf({ print: () => Promise.reject(thrown) })
    const { error } = await (await runtime.submit(flowOf({ print: {} }))).result()
    expect(error).toMatchObject({ code: 'action_failed', message: 'no paper' })
    await runtime.close()
  })

  it('ends also when a layer of one’s own throws what has no text', async () => {
    const attempt = async () => {
      throw Object.create(null)
    }
    const runtime = await runtimeOf({}, { layer: { ...having().layer, attempt } })
    const { error } = await (await runtime.submit(chainOf(1))).result()
    expect(error).toMatchObject({ code: 'action_failed', message: 'threw object' })
    await runtime.close()
  })

  it('fails the plan, and what waited for it is skipped', async () => {
    const runtime = await runtimeOf({
      boom: () => {
        throw new Error('boom')
      },
    })
    const run = await runtime.submit(flowOf({ boom: {}, noop: { after: ['boom'] } }))
    expect(await run.result()).toMatchObject({
      success: false,
      status: 'failed',
      error: { code: 'action_failed', message: 'boom' },
    })
    const graph = await runtime.project.context(run.context_id)
    expect((await graph.document('plan', run.plan_id)).steps.map((step) => step.status)).toEqual(['failed', 'skipped'])
    expect(await graph.verify()).toEqual([])
    await runtime.close()
  })

  it('is skipped and lets others go on where its policy says so', async () => {
    const runtime = await runtimeOf({
      boom: () => {
        throw new Error('boom')
      },
    })
    const flow = flowOf({ boom: { binding: { on_failure: 'skip' } }, noop: { after: ['boom'] } })
    const { status, failures } = await (await runtime.submit(flow)).result()
    expect(status).toBe('completed')
    expect(failures).toEqual({ [flow.plan.steps[0]!.step_id]: { code: 'action_failed', message: 'boom' } })
    await runtime.close()
  })

  it('lets the others run on under `continue`, and the plan ends failed', async () => {
    const runtime = await runtimeOf({
      boom: () => {
        throw new Error('boom')
      },
    })
    const run = await runtime.submit(
      flowOf({
        boom: { binding: { on_failure: 'continue' } },
        blocked: { call: 'noop', after: ['boom'] },
        other: { call: 'noop' },
      }),
    )
    expect((await run.result()).status).toBe('failed')
    const plan = await (await runtime.project.context(run.context_id)).document('plan', run.plan_id)
    expect(plan.steps.map((step) => step.status)).toEqual(['failed', 'skipped', 'completed'])
    await runtime.close()
  })

  it('is tried again as often as it says, whatever it threw, unless that says that it is for good', async () => {
    const calls: string[] = []
    const failing = (name: string, error: unknown) => () => {
      calls.push(name)
      if (calls.filter((each) => each === name).length < 3) throw error
      return 'done'
    }
    const runtime = await runtimeOf({
      plain: failing('plain', new TypeError('fetch failed')),
      text: failing('text', 'no'),
      final: failing('final', finalFailure('no such order')),
    })
    const retry = { strategy: 'fixed', max_attempts: 3, delay_ms: 0 } as const
    const binding = { retry, on_failure: 'continue' } as const
    const flow = flowOf({ plain: { binding }, text: { binding }, final: { binding } })
    const { failures } = await (await runtime.submit(flow)).result()
    expect(Object.keys(failures!)).toEqual([flow.plan.steps[2]!.step_id])
    expect(calls.sort()).toEqual(['final', 'plain', 'plain', 'plain', 'text', 'text', 'text'])
    await runtime.close()
  })

  it('is among the failures, with what its last attempt failed of, also where the end of the run came before the next', async () => {
    let tried = () => {}
    const isTried = new Promise<void>((resolve) => {
      tried = resolve
    })
    const no = (name: string) => () => {
      tried()
      throw new Error(`no ${name}`)
    }
    const runtime = await runtimeOf({ flaky: no('flaky'), wait: () => isTried, boom: no('boom'), never: () => null })
    const retry = { strategy: 'fixed', max_attempts: 3, delay_ms: 60_000 } as const
    const flow = flowOf({
      flaky: { binding: { retry } },
      wait: {},
      boom: { after: ['wait'] },
      never: { after: ['boom'] },
    })
    const { failures } = await (await runtime.submit(flow)).result()
    const failed = (name: string) => ({ code: 'action_failed', message: `no ${name}` })
    expect(failures).toEqual({ [flow.ids.flaky!]: failed('flaky'), [flow.ids.boom!]: failed('boom') })
    await runtime.close()
  })

  it('is tried again after a stored wait, as often as its policy says', async () => {
    const clock = manualClock()
    const runtime = await runtimeOf({ flaky: flaky(2) }, { clock, store: memoryBackend({ clock }) })
    const retry = { strategy: 'exponential', max_attempts: 3, delay_ms: 1_000 } as const
    const run = await runtime.submit(flowOf({ flaky: { binding: { retry } } }, {}, clock))
    const result = run.result()
    for (let i = 0; i < 40; i++) await clock.advance(250)
    expect((await result).status).toBe('completed')
    const graph = await runtime.project.context(run.context_id)
    const trace = await graph.document('trace', run.trace_id)
    expect(trace.segments?.map((segment) => segment.status)).toEqual(['failed', 'failed', 'completed'])
    expect(await graph.verify()).toEqual([])
    const closing = runtime.close()
    await clock.advance(20_000)
    await closing
  })

  it('fails at once, and tells the wish, where the other side asks to wait for years', async () => {
    const tenYears = 10 * 365 * 24 * 60 * 60
    const busy = { retryable: true, retryAfterMs: tenYears * 1000 }
    const runtime = await runtimeOf({ busy: () => Promise.reject(new ActionError('action_failed', 'busy', busy)) })
    const retry = { strategy: 'fixed', max_attempts: 3, delay_ms: 1 } as const
    const run = await runtime.submit(flowOf({ busy: { binding: { retry } } }))
    expect(await run.result()).toMatchObject({
      status: 'failed',
      error: {
        code: 'action_failed',
        message: expect.stringMatching(`^busy; it asks .* after ${tenYears} s: .*max_delay_ms`),
      },
    })
    await runtime.close()
  })

  it('takes back what was done, in reverse, where its policy is to compensate', async () => {
    const undone: Json[] = []
    const runtime = await runtimeOf({
      make: () => 'made',
      boom: () => {
        throw new Error('boom')
      },
      unmake(args: Json) {
        undone.push(args)
        if (args === 'two') throw new Error('it is stuck')
      },
    })
    const inverse = (what: string) => ({ action_type: 'function', params: { name: 'unmake', args: what } })
    const flow = flowOf({
      one: { call: 'make', binding: { inverse: inverse('one') } },
      two: { call: 'make', after: ['one'], binding: { inverse: inverse('two') } },
      boom: { after: ['two'], binding: { on_failure: 'compensate' } },
    })
    const run = await runtime.submit(flow)
    const result = await run.result()
    expect(result).toMatchObject({ status: 'failed', error: { message: expect.stringContaining('boom') } })
    expect(undone).toEqual(['two', 'one'])
    const [one, two] = flow.plan.steps.map(({ step_id }) => step_id)
    expect(result.undone).toMatchObject([
      { step_id: two, status: 'failed', error: { message: expect.stringContaining('stuck') } },
      { step_id: one, status: 'undone' },
    ])
    const types: string[] = []
    for await (const { event } of run) if (event.event_family === 'compensation_plan') types.push(event.event_type)
    expect(types).toEqual(['rollback_planned', 'rollback_executed'])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await runtime.close()
  })

  it('takes a step back anew when the one who was at it dies, and leaves nothing open in the trace', async () => {
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const { store: mine, die } = mortal(store)
    const atIt = later()
    const functions = {
      make: () => 'made',
      boom: () => {
        throw new Error('boom')
      },
    }
    const unmade: Json[] = []
    const hangs = () => {
      atIt.resolve()
      return never()
    }
    const steps = {
      make: { binding: { inverse: { action_type: 'function', params: { name: 'unmake' } } } },
      boom: { after: ['make'], binding: { on_failure: 'compensate' as const } },
    }
    const flow = flowOf(steps, {}, clock)
    const first = await runtimeOf({ ...functions, unmake: hangs }, { clock, store: mine })
    await first.submit(flow)
    await atIt.promise
    die()

    const second = await runtimeOf({ ...functions, unmake: () => void unmade.push('make') }, { clock, store })
    const run = await second.get(flow.plan.plan_id)
    const result = run.result()
    for (let i = 0; i < 200 && unmade.length === 0; i++) await clock.advance(250)
    expect((await result).status).toBe('failed')
    const trace = await (await second.project.context(run.context_id)).document('trace', run.trace_id)
    expect(unmade).toEqual(['make'])
    expect(trace.segments?.map(({ status }) => status)).toEqual(['completed', 'failed', 'failed', 'completed'])
    const closing = second.close()
    await clock.advance(20_000)
    await closing
  })
})

describe('an approval', () => {
  it('holds the plan until enough of the right roles agree', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1, { approval: { needed: 2, roles: ['dba', 'lead'] } }))
    expect(run.phase).toBe('waiting')
    const [question] = await runtime.waiting()
    const confirm = question!.confirm.confirm_id
    await expect(runtime.decide(confirm, { status: 'approved', decided_by_role: 'intern' })).rejects.toThrow(
      RuleViolation,
    )
    expect((await runtime.decide(confirm, { status: 'approved', decided_by_role: 'dba' })).status).toBe('pending')
    expect((await runtime.decide(confirm, { status: 'approved', decided_by_role: 'lead' })).status).toBe('approved')
    expect((await run.result()).status).toBe('completed')
    expect(await runtime.waiting()).toEqual([])
    await runtime.close()
  })

  it('sends a rejected plan back to draft; proposed again, the same Confirm can be approved', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1, { approval: {} }))
    const confirm = (await runtime.waiting())[0]!.confirm.confirm_id
    await runtime.decide(confirm, { status: 'rejected', decided_by_role: 'dba', reason: 'no backup' })
    const graph = await runtime.project.context(run.context_id)
    expect(graph.get('plan', run.plan_id)?.data.status).toBe('draft')
    const again = `the plan ${run.plan_id}, which was sent back, to be proposed again`
    expect(waitsOf(graph, run.plan_id)).toEqual([{ what: again, isSentBack: true, isHeldUp: true }])
    expect((await runtime.propose(run.plan_id)).confirm_id).toBe(confirm)
    const decided = await runtime.decide(confirm, { status: 'approved', decided_by_role: 'dba' })
    expect(decided.decisions?.map((decision) => decision.status)).toEqual(['rejected', 'approved'])
    expect((await run.result()).status).toBe('completed')
    await runtime.close()
  })

  it('holds a single action where its binding asks, and a refusal fails the step', async () => {
    const runtime = await runtimeOf({}, { quietMs: 5 })
    const run = await runtime.submit(flowOf({ send: { call: 'noop', binding: { approval: 'ask' } } }))
    expect(await run.rest()).toBe('waiting')
    const questions = await runtime.waiting()
    await runtime.decide(questions[0]!.confirm.confirm_id, { status: 'rejected', decided_by_role: 'me' })
    expect(await run.result()).toMatchObject({ status: 'failed', error: { code: 'action_rejected' } })
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await runtime.close()
  })
})

describe('a person', () => {
  it('cancels a run: what is under way is told to stop, the rest never starts', async () => {
    let stopped = false
    const runtime = await runtimeOf({
      hang: (_, call) =>
        new Promise((_resolve, reject) =>
          call.signal.addEventListener('abort', () => {
            stopped = true
            reject(call.signal.reason)
          }),
        ),
    })
    const run = await runtime.submit(flowOf({ hang: {}, noop: { after: ['hang'] } }))
    await run.cancel()
    expect((await run.result()).status).toBe('cancelled')
    expect(stopped).toBe(true)
    const graph = await runtime.project.context(run.context_id)
    expect(graph.get('plan', run.plan_id)?.data.status).toBe('cancelled')
    expect(await graph.verify()).toEqual([])
    await runtime.close()
  })

  it('cancels a run that still waits for approval', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(2, { approval: {} }))
    await run.cancel()
    expect((await run.result()).status).toBe('cancelled')
    expect(await runtime.waiting()).toEqual([])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await runtime.close()
  })

  it('pauses a run: what is under way ends, nothing new starts until it is resumed, also by another process', async () => {
    const store = memoryBackend()
    const started: string[] = []
    const gate = later()
    const functions = {
      one: async () => {
        started.push('one')
        await gate.promise
        return null
      },
      two: () => started.push('two'),
    }
    const first = await runtimeOf(functions, { store })
    const run = await first.submit(flowOf({ one: {}, two: { after: ['one'] } }))
    await first.pause(run.run_id)
    gate.resolve()
    expect(await run.rest()).toBe('waiting')
    expect(run.phase).toBe('paused')
    expect(started).toEqual(['one'])
    await first.close()

    const second = await runtimeOf(functions, { store })
    const taken = await second.get(run.run_id)
    expect(await taken.rest()).toBe('waiting')
    expect(started).toEqual(['one'])
    await second.resume(run.run_id)
    expect(await taken.result()).toMatchObject({ status: 'completed' })
    expect(started).toEqual(['one', 'two'])
    await second.close()
  })

  it('sends a signal that a step waits for', async () => {
    const runtime = await runtimeOf({}, { quietMs: 5 })
    const flow = flowOf({ gate: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    const run = await runtime.submit(flow)
    await runtime.signal(run.plan_id, 'go', { by: 'hand' })
    expect((await run.result()).outputs[flow.ids.gate!]).toEqual({ by: 'hand' })
    await runtime.close()
  })

  it('keeps a signal for a run that has not started, which can be neither paused nor resumed yet', async () => {
    const runtime = await runtimeOf({}, { quietMs: 5 })
    const gate = { binding: { action_type: 'wait', params: { signal: 'go' } } }
    const flow = flowOf({ gate }, { approval: { requested_by_role: 'user' } })
    const run = await runtime.submit(flow)
    await runtime.signal(run.plan_id, 'go', 'early')
    for (const wish of ['pause', 'resume'] as const)
      await expect(runtime[wish](run.plan_id)).rejects.toMatchObject({ problems: [{ path: 'run', rule: 'started' }] })
    const [asked] = await runtime.waiting()
    await runtime.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'user' })
    expect((await run.result()).outputs[flow.ids.gate!]).toBe('early')
    await runtime.close()
  })

  it('waits for a signal or a time also where somebody had to agree first', async () => {
    const runtime = await runtimeOf({}, { quietMs: 5 })
    const flow = flowOf({
      word: { binding: { action_type: 'wait', params: { signal: 'go' }, approval: 'ask' } },
      time: { binding: { action_type: 'wait', params: { ms: 1 }, approval: 'ask' } },
    })
    const run = await runtime.submit(flow)
    expect(await run.rest()).toBe('waiting')
    for (const { confirm } of await runtime.waiting())
      await runtime.decide(confirm.confirm_id, { status: 'approved', decided_by_role: 'user' })
    await runtime.signal(run.plan_id, 'go', 'now')
    const { status, outputs } = await run.result()
    expect({ status, said: outputs[flow.ids.word!] }).toEqual({ status: 'completed', said: 'now' })
    await runtime.close()
  })
})

describe('a limit', () => {
  it('ends a run at its deadline', async () => {
    const clock = manualClock()
    const runtime = await runtimeOf({ hang: never }, { clock, store: memoryBackend({ clock }) })
    const deadline = new Date(clock.now() + 5_000).toISOString()
    const run = await runtime.submit(flowOf({ hang: {} }, { options: { deadline } }, clock))
    const result = run.result()
    for (let i = 0; i < 40; i++) await clock.advance(250)
    expect(await result).toMatchObject({ status: 'failed', error: { code: 'deadline' } })
    const closing = runtime.close()
    await clock.advance(20_000)
    await closing
  })
})

describe('a crash', () => {
  it('repeats nothing that was completed, and runs what was cut off again under the same key', async () => {
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const keys: string[] = []
    let done = 0
    const process = mortal(store)
    let underWay: () => void = () => undefined
    const two = new Promise<void>((resolve) => {
      underWay = resolve
    })
    const hang = () => {
      underWay()
      return never()
    }
    const first = await runtimeOf({ one: () => void done++, two: hang }, { clock, store: process.store })
    const flow = flowOf({ one: {}, two: { after: ['one'] } }, {}, clock)
    const run = await first.submit(flow)
    await two
    process.die()

    const second = await runtimeOf(
      { one: () => void done++, two: (_, call) => void keys.push(call.idempotency_key) },
      { clock, store },
    )
    const taken = (await second.get(run.plan_id)).result()
    for (let i = 0; i < 200 && keys.length === 0; i++) await clock.advance(250)
    expect(await taken).toMatchObject({ status: 'completed' })
    expect(done).toBe(1)
    expect(keys).toEqual([`${run.plan_id}:${flow.ids.two}`])
    const graph = await second.project.context(run.context_id)
    expect(await graph.verify()).toEqual([])
    expect((await graph.document('trace', run.trace_id)).segments?.map((s) => s.status)).toEqual([
      'completed',
      'failed',
      'completed',
    ])
  })

  it.each([
    ['small', 10],
    ['large', 10_000],
  ])('goes on from the last %s state that an action handed over', async (_, length) => {
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const process = mortal(store)
    const state = { round: 1, said: 'x'.repeat(length) }
    const resumed: (Json | undefined)[] = []
    const handedOver = later()
    const talking = (go: (call: Call) => Promise<Outcome>) => (hands: Hands) =>
      actionLayer({
        ...hands,
        clock,
        adapters: [{ action_type: 'talk', executor_kind: 'llm', execute: (_action, call) => go(call) }],
      })
    const first = await createRuntime({
      store: process.store,
      clock,
      layer: talking(async (call) => {
        await call.checkpoint(state)
        handedOver.resolve()
        return new Promise(() => undefined)
      }),
    })
    const binding = { action_type: 'talk', params: {} }
    const flow = flowOf({ talk: { binding } }, {}, clock)
    const run = await first.submit(flow)
    await handedOver.promise
    process.die()

    const second = await createRuntime({
      store,
      clock,
      layer: talking(async (call) => {
        resumed.push(structuredClone(call.resume))
        const own = call.resume as { round: number } // to be changed as it likes
        return { output: ++own.round }
      }),
    })
    const taken = (await second.get(run.plan_id)).result()
    for (let i = 0; i < 200 && resumed.length === 0; i++) await clock.advance(250)
    expect(await taken).toMatchObject({ status: 'completed', outputs: { [flow.ids.talk!]: 2 } })
    expect(resumed).toEqual([state])
  })
})

describe('a store that is away for a while', () => {
  it.each(['commit', 'putBlob', 'getBlob'] as const)('is waited for by %s, and nothing is done twice', async (call) => {
    const clock = manualClock()
    const inner = memoryBackend({ clock })
    let away = 0
    const store = new Proxy(inner, {
      get: (target, name) => {
        const value = Reflect.get(target, name)
        if (name !== call) return value
        return (...args: unknown[]) =>
          away-- > 0 ? Promise.reject(new Unavailable('the store', 'wait')) : value.apply(target, args)
      },
    })
    const done: string[] = []
    const large = { said: 'x'.repeat(100_000) }
    const makes = async (checkpoint: Call['checkpoint']) => {
      done.push('make')
      away = 3
      await checkpoint(large)
      away = 3
      return { output: large }
    }
    const uses = async (params: Json) => {
      done.push('use')
      return { output: params === undefined ? 0 : JSON.stringify(params).length }
    }
    const runtime = await runtimeWith(store, clock, [
      { action_type: 'make', executor_kind: 'agent', execute: (_, { checkpoint }) => makes(checkpoint) },
      { action_type: 'use', executor_kind: 'agent', execute: ({ params }) => uses(params) },
    ])
    const flow = flowOf({ make: { binding: { action_type: 'make', params: {} } }, use: { after: ['make'] } }, {}, clock)
    const { make, use } = flow.ids
    const binding = { action_type: 'use', params: { got: { $from: make!, path: 'said' } } }
    const run = await runtime.submit({
      ...flow,
      bindings: { steps: { ...flow.bindings!.steps, [use!]: binding } },
    })
    expect((await resultOf(run, clock)).outputs[use!]).toBe(100_010)
    expect(done).toEqual(['make', 'use'])
    await runtime.close()
  })

  it('does not keep a run that is cancelled', async () => {
    const clock = manualClock()
    let calls = 0
    const away = async () => {
      throw ++calls < 1_000 ? new Unavailable('the store', 'wait') : new Error('it was asked for ever')
    }
    const asked = later()
    const makes = async () => {
      asked.resolve()
      return { output: 'x'.repeat(100_000) }
    }
    const runtime = await runtimeWith({ ...memoryBackend({ clock }), putBlob: away }, clock, [
      { action_type: 'make', executor_kind: 'agent', execute: makes },
    ])
    const run = await runtime.submit(flowOf({ make: { binding: { action_type: 'make', params: {} } } }, {}, clock))
    await asked.promise
    await clock.advance(5_000)
    await run.cancel()
    expect((await resultOf(run, clock)).status).toBe('cancelled')
    expect(calls).toBeLessThan(100)
    await runtime.close()
  })
})

const runtimeWith = (store: Backend, clock: ManualClock, adapters: readonly Adapter[]) =>
  createRuntime({ store, clock, layer: (hands) => actionLayer({ ...hands, clock, adapters }) })

/** Lets time pass until the run has ended; one that does not is rejected. */
async function resultOf(run: RunHandle, clock: ManualClock): Promise<RunResult> {
  let result: RunResult | undefined
  void run.result().then((ended) => {
    result = ended
  })
  for (let i = 0; i < 200 && !result; i++) await clock.advance(250)
  if (!result) throw new Error('the run did not end')
  return result
}

describe('bad input', () => {
  it.each([
    ['fails', () => Promise.reject(new Error('no table'))],
    ['says how', async () => ({ action_type: 'function', params: { name: 'noop' } })],
  ])('is a resolver that %s later: it is asked at once', async (_, resolve) => {
    const runtime = await runtimeOf({}, { resolve: resolve as never })
    const { bindings: __, ...flow } = flowOf({ one: {} })
    const problem = { rule: 'type', message: 'must be said at once, and is a promise' }
    await expect(runtime.submit(flow)).rejects.toMatchObject({ code: 'invalid_input', problems: [problem] })
    await runtime.close()
  })

  it('names the step of which a resolver throws', async () => {
    const cause = new Error('no table')
    const resolve = () => {
      throw cause
    }
    const runtime = await runtimeOf({}, { resolve })
    const { bindings: _, ...unbound } = chainOf(1)
    const message = expect.stringContaining('the resolver failed for step')
    const problem = { path: 'plan.steps[0]', rule: 'binding', message }
    await expect(runtime.submit(unbound)).rejects.toMatchObject({ code: 'invalid_input', problems: [problem], cause })
    await runtime.close()
  })

  it('names the step that nobody can execute', async () => {
    const runtime = await runtimeOf({})
    const { bindings: _, ...unbound } = chainOf(1)
    await expect(runtime.submit(unbound)).rejects.toMatchObject({
      problems: [{ path: 'plan.steps[0]', rule: 'binding' }],
    })
    await runtime.close()
  })

  it('names bindings for steps that are not there and references to what a step does not depend on', async () => {
    const runtime = await runtimeOf({})
    const flow = flowOf({
      a: { call: 'noop' },
      b: { call: 'noop', binding: { params: { name: 'noop', args: { $from: 'nobody' } } } },
    })
    const odd = {
      ...flow,
      bindings: { steps: { ...flow.bindings!.steps, ghost: { action_type: 'function', params: {} } } },
    }
    await expect(runtime.submit(odd)).rejects.toMatchObject({
      problems: [
        { path: 'bindings.steps.ghost', rule: 'reference.resolves' },
        { path: `bindings.steps.${flow.ids.b}.params.args`, rule: 'dependency' },
      ],
    })
    await runtime.close()
  })

  it.each([
    ['a path that is no text', { path: 0 }, 'path', 'type'],
    ['a path that is misspelt', { paht: 'a' }, 'paht', 'extra_forbidden'],
    ['a path with brackets', { path: 'list[1].name' }, 'path', 'type'],
    ['a path with a dot too many', { path: '.name' }, 'path', 'type'],
  ])('refuses a reference with %s, which would give the whole output, or nothing', async (_what, more, at, rule) => {
    const runtime = await runtimeOf({})
    const ids = flowOf({ a: { call: 'noop' }, b: { call: 'noop', after: ['a'] } })
    const binding = (params: JsonObject) => ({ action_type: 'function', params: { name: 'noop', ...params } })
    const [a, b] = [ids.ids.a!, ids.ids.b!]
    const own = { ...binding({}), inverse: binding({ args: { $from: a, ...more } }) }
    const steps = { [a]: own, [b]: binding({ args: [{ $from: a, ...more }] }) }
    await expect(runtime.submit({ ...ids, bindings: { steps } })).rejects.toMatchObject({
      problems: [
        { path: `bindings.steps.${a}.inverse.params.args.${at}`, rule },
        { path: `bindings.steps.${b}.params.args[0].${at}`, rule },
      ],
    })
    await runtime.close()
  })

  it('refuses what a turn does not say, which would give nothing', async () => {
    const runtime = await runtimeOf({})
    const binding = { params: { name: 'noop', args: { $turn: 'participant' } } }
    const flow = flowOf({ a: { call: 'noop', binding } })
    const problem = { path: `bindings.steps.${flow.ids.a}.params.args.$turn`, rule: 'enum' }
    await expect(runtime.submit(flow)).rejects.toMatchObject({ problems: [problem] })
    await runtime.close()
  })

  it('refuses cycles, plans that are not drafts, foreign fields, and leaves nothing behind', async () => {
    const runtime = await runtimeOf({})
    const noop = { call: 'noop' }
    const cyclic = flowOf({ a: { ...noop, after: ['b'] }, b: { ...noop, after: ['a'] } })
    await expect(runtime.submit(cyclic)).rejects.toThrow(RuleViolation)
    const flow = chainOf(1)
    await expect(runtime.submit({ ...flow, plan: { ...flow.plan, status: 'approved' } })).rejects.toThrow(InvalidInput)
    await expect(runtime.submit({ ...flow, extra: 1 } as never)).rejects.toThrow(InvalidInput)
    expect(await runtime.list()).toEqual([])
    await expect(runtime.get('nobody')).rejects.toThrow(NotFound)
    await expect(runtime.decide('nobody', { status: 'approved', decided_by_role: 'x' })).rejects.toThrow(NotFound)
    await runtime.close()
  })

  it('says that there is no such run when it is asked for one by the id of what belongs to no context', async () => {
    const runtime = await runtimeOf({})
    const { role_id } = await runtime.call('role', { intent: 'create', name: 'reviewer' })
    for (const ask of [runtime.get, runtime.cancel])
      await expect(ask(role_id)).rejects.toMatchObject({ what: 'run', id: role_id })
    await runtime.close()
  })

  const cyclic: { [name: string]: unknown } = {}
  cyclic.self = cyclic
  const lists = (levels: number): Json => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`)
  const bound = (binding: object) => (flow: ReturnType<typeof chainOf>) => {
    const steps = { [flow.ids.s0!]: { action_type: 'function', params: { name: 'noop' }, ...binding } }
    return { ...flow, bindings: { steps } }
  }
  const withOptions = (options: unknown) => (flow: ReturnType<typeof chainOf>) => ({ ...flow, options })
  it.each<[string, (flow: ReturnType<typeof chainOf>) => object, string, string]>([
    ['no options', withOptions(5), 'options', 'type'],
    ['a list of options', withOptions([]), 'options', 'type'],
    ['an option that is misspelt', withOptions({ concurency: 5 }), 'options.concurency', 'extra_forbidden'],
    ['room for no step', withOptions({ concurrency: 0 }), 'options.concurrency', 'range'],
    ['room for half a step', withOptions({ concurrency: 1.5 }), 'options.concurrency', 'range'],
    ['no budget', withOptions({ budget: null }), 'options.budget', 'type'],
    ['a budget below nothing', withOptions({ budget: { actions: -1 } }), 'options.budget.actions', 'type'],
    ['a budget of something else', withOptions({ budget: { money: 1 } }), 'options.budget.money', 'extra_forbidden'],
    ['a deadline that is no time', withOptions({ deadline: 'soon' }), 'options.deadline', 'format'],
    ['a profile that nobody knows', withOptions({ profile: 'solo' }), 'options.profile', 'enum'],
    ['a failure that is none', withOptions({ on_failure: 'undo' }), 'options.on_failure', 'enum'],
    ['a timeout of no time', withOptions({ timeout_ms: 0 }), 'options.timeout_ms', 'range'],
    [
      'a retry that says not how often',
      withOptions({ retry: { strategy: 'fixed' } }),
      'options.retry.max_attempts',
      'required',
    ],
    ['bindings that are none', (flow) => ({ ...flow, bindings: 5 }), 'bindings', 'type'],
    ['bindings by name', (flow) => ({ ...flow, bindings: { names: {} } }), 'bindings.names', 'extra_forbidden'],
    ['a binding with a foreign field', bound({ timeout: 5 }), 'bindings.steps.*.timeout', 'extra_forbidden'],
    [
      'a way back with a foreign field',
      bound({ inverse: { action_type: 'function', parms: {} } }),
      'bindings.steps.*.inverse',
      'type',
    ],
    ['a binding that contains itself', bound({ params: cyclic }), 'bindings.steps.*.params.self', 'json'],
    ['a binding that is nested too deeply', bound({ params: { a: lists(997) } }), 'bindings.steps.*.params', 'json'],
    [
      'a context that is nested too deeply',
      (flow) => ({
        ...flow,
        context: { ...Object(flow.context), root: { domain: 'a', environment: 'b', at: lists(999) } },
      }),
      'context.root.at[0]',
      'json',
    ],
    ['a binding that is not JSON', bound({ params: { big: 5n } }), 'bindings.steps.*.params.big', 'json'],
    [
      'too many attempts',
      bound({ retry: { strategy: 'fixed', max_attempts: 1e9 } }),
      'bindings.steps.*.retry.max_attempts',
      'range',
    ],
    ['a wait for nothing', bound({ action_type: 'wait', params: {} }), 'bindings.steps.*.params', 'wait'],
    [
      'a wait for two things',
      bound({ action_type: 'wait', params: { ms: 5, signal: 'go' } }),
      'bindings.steps.*.params',
      'wait',
    ],
    [
      'a wait that is to be taken back',
      bound({ action_type: 'wait', params: { ms: 5 }, inverse: 'irreversible' }),
      'bindings.steps.*.inverse',
      'wait',
    ],
    ['a wait for ever', bound({ action_type: 'wait', params: { ms: 1e15 } }), 'bindings.steps.*.params.ms', 'range'],
    [
      'a wait for nobody',
      bound({ action_type: 'wait', params: { signal: '' } }),
      'bindings.steps.*.params.signal',
      'type',
    ],
    ['an approval by nobody', (flow) => ({ ...flow, approval: { needed: 0 } }), 'approval.needed', 'range'],
    [
      'an approval by more than there are',
      (flow) => ({ ...flow, approval: { needed: 2, roles: ['a', 'a'] } }),
      'approval.needed',
      'reachable',
    ],
    [
      'an approval that is misspelt',
      (flow) => ({ ...flow, approval: { role: 'a' } }),
      'approval.role',
      'extra_forbidden',
    ],
    ['an id that is none', (flow) => ({ ...flow, chosen: { run: 'mine' } }), 'chosen.run', 'pattern'],
  ])('refuses %s, by path and rule, and leaves nothing behind', async (_, spoilt, path, rule) => {
    const runtime = await runtimeOf({})
    const flow = chainOf(1)
    const problem = { path: path.replace('*', flow.ids.s0!), rule }
    await expect(runtime.submit(spoilt(flow) as never)).rejects.toMatchObject({ problems: [problem] })
    expect(await runtime.list()).toEqual([])
    await expect(runtime.project.context(flow.plan.context_id)).rejects.toThrow(NotFound)
    await runtime.close()
  })

  it('runs what is nested as deeply as it may be, with an output as deep in it', async () => {
    const runtime = await runtimeOf({ deep: () => lists(1_000), noop: () => 'done' })
    const flow = flowOf({ deep: {}, use: { after: ['deep'] } })
    const at = JSON.stringify(lists(995)).replace('[]', JSON.stringify([{ $from: flow.ids.deep! }]))
    const params = { name: 'noop', args: JSON.parse(at) }
    const steps = { ...flow.bindings!.steps, [flow.ids.use!]: { action_type: 'function', params } }
    const root = { domain: 'a', environment: 'b', at: lists(998) }
    const context = { ...(flow.context as Context), root }
    const run = await runtime.submit({ ...flow, context, bindings: { steps } })
    expect(await run.result()).toMatchObject({ status: 'completed', outputs: { [flow.ids.use!]: 'done' } })
    await runtime.close()
  })

  it('has the compiler refuse a retry or a way back that is misspelt', () => {
    const action = { action_type: 'function', params: {} }
    const misspelt: BindingSpec[] = [
      // @ts-expect-error: there is no such strategy
      { ...action, retry: { strategy: 'linear', max_attempts: 2 } },
      // @ts-expect-error: nor such a field
      { ...action, inverse: { action_type: 'function', parms: {} } },
    ]
    for (const spec of misspelt) expect(problemsIn(spec, BINDING, '')).toHaveLength(1)
  })

  it('refuses a plan that is already there', async () => {
    const runtime = await runtimeOf({})
    const flow = chainOf(1)
    await (await runtime.submit(flow)).result()
    await expect(runtime.submit(flow)).rejects.toThrow(RuleViolation)
    await runtime.close()
  })
})

describe('a layer with the runtime’s hands', () => {
  const asking = (sent: Json[]): Tool => ({
    name: 'mail.send',
    description: 'Sends a mail',
    input: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
    policy: 'ask',
    execute: (args) => void sent.push(args),
  })
  const withTool = (tool: Tool) => (hands: Hands) => {
    const tools = toolRegistry()
    tools.register(tool)
    return actionLayer({ ...hands, adapters: [toolAdapter(tools), functionAdapter({ noop: () => null })] })
  }
  const mailing = flowOf({
    send: { binding: { action_type: 'tool_call', params: { tool_name: 'mail.send', tool_args: { to: 'you' } } } },
  })

  it('asks before a tool whose policy is to ask, and runs it once somebody agreed to exactly that', async () => {
    const sent: Json[] = []
    const runtime = await runtimeOf({}, { quietMs: 5, layer: withTool(asking(sent)) })
    const run = await runtime.submit(mailing)
    expect(await run.rest()).toBe('waiting')
    const questions = await runtime.waiting()
    expect(questions[0]).toMatchObject({ shows: { tool: 'mail.send', arguments: { to: 'you' } } })
    expect(sent).toEqual([])
    await runtime.decide(questions[0]!.confirm.confirm_id, { status: 'approved', decided_by_role: 'me' })
    expect(await run.result()).toMatchObject({ status: 'completed' })
    expect(sent).toEqual([{ to: 'you' }])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await runtime.close()
  })

  it('denies what the budget no longer has, and says so', async () => {
    const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [functionAdapter({ noop: () => null })] })
    const runtime = await runtimeOf({}, { layer })
    const run = await runtime.submit(chainOf(5, { options: { budget: { actions: 3 } } }))
    expect(await run.result()).toMatchObject({ status: 'failed', error: { code: 'budget_exceeded' } })
    const graph = await runtime.project.context(run.context_id)
    expect(graph.get('run', run.run_id)?.data.result?.termination_reason).toBe('resource_exhausted')
    const told: string[] = []
    for await (const { event } of run) if (event.event_family === 'cost_budget') told.push(event.event_type)
    expect(told).toContain('budget_exceeded')
    await runtime.close()
  })
})

describe('a role whose name every object has', () => {
  it('is bound by nothing but a binding or the resolver', async () => {
    const runtime = await runtimeOf({ work: () => 'done' })
    const { context, plan, ids } = flowOf({ work: {} })
    const steps = plan.steps.map((step) => ({ ...step, agent_role: 'constructor' }))
    const flow = { context, plan: { ...plan, steps }, bindings: { roles: {} } }
    await expect(runtime.submit(flow)).rejects.toMatchObject({ problems: [{ path: 'plan.steps[0]', rule: 'binding' }] })
    await runtime.close()
    const resolve = () => ({ action_type: 'function', params: { name: 'work' } })
    const resolving = await runtimeOf({ work: () => 'done' }, { resolve })
    expect((await (await resolving.submit(flow)).result()).outputs).toEqual({ [ids.work!]: 'done' })
    await resolving.close()
  })
})

describe('a runtime', () => {
  const wait = { one: { binding: { action_type: 'wait', params: { signal: 'go' } } } }

  it('carries out for who has opened it, not for whoever submits, commits beside that, or decides', async () => {
    const whose = new AsyncLocalStorage<string>()
    const heard: unknown[] = []
    const runtime = await whose.run('the service', () => runtimeOf({ say: () => void heard.push(whose.getStore()) }))
    const submitted = (by: string, context?: string, approval?: Flow['approval']) => {
      const { plan, ...flow } = flowOf({ one: { call: 'say' }, two: { call: 'say', after: ['one'] } })
      const there = context && { context, plan: { ...plan, context_id: context } }
      return whose.run(by, () => runtime.submit({ ...flow, plan, ...there, ...(approval && { approval }) }))
    }
    const first = await submitted('Ann')
    await first.result()
    const beside = await Promise.all(['Bob', 'Cid'].map((by) => submitted(by, first.context_id)))
    await Promise.all(beside.map((run) => run.result()))
    const asking = await submitted('Dan', first.context_id, {})
    const { confirm_id } = (await runtime.waiting())[0]!.confirm
    await whose.run('Eve', () => runtime.decide(confirm_id, { status: 'approved', decided_by_role: 'eve' }))
    await asking.result()
    expect(heard).toEqual(Array(8).fill('the service'))
    await runtime.close()
  })

  it('that is closed answers the calls under way first', async () => {
    const { start, clock } = world({})
    const { seen, reached, letGo } = heldCommit('signal go')
    const runtime = await start({}, seen)
    const run = await runtime.submit(flowOf(wait, {}, clock))
    const signalled = runtime.signal(run.run_id, 'go')
    await inTime(clock, reached)
    let isClosed = false
    const closing = runtime.close().then(() => {
      isClosed = true
    })
    await passes(clock, 5_000)
    expect(isClosed).toBe(false)
    letGo()
    await inTime(clock, Promise.all([signalled, closing]))
    expect(runtime.errors).toEqual([])
  })

  it.each([
    ['longer than for a step', () => undefined, 10_000],
    ['when somebody is in a hurry', (runtime: Runtime) => void runtime.close(AbortSignal.abort()), 0],
  ])('that is closed waits for no call %s', async (_, then, ms) => {
    const { start, clock } = world({})
    const { seen, reached } = heldCommit('signal go')
    const runtime = await start({}, seen)
    const run = await runtime.submit(flowOf(wait, {}, clock))
    void runtime.signal(run.run_id, 'go')
    await inTime(clock, reached)
    const began = clock.now()
    const closing = runtime.close()
    then(runtime)
    await inTime(clock, closing)
    expect(clock.now() - began).toBeGreaterThanOrEqual(ms)
    expect(clock.now() - began).toBeLessThan(ms + 1_000)
  })

  it('that is closed keeps nobody who waits for a run of it, though the store stays open', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(flowOf({ one: { binding: { action_type: 'wait', params: { signal: 'go' } } } }))
    await run.rest()
    const told: string[] = []
    const listening = (async () => {
      for await (const { event } of run.events()) told.push(event.event_type)
    })()
    const warned: Error[] = []
    const warn = (warning: Error) => void warned.push(warning)
    process.on('warning', warn)
    const waits = Array.from({ length: 20 }, () => run.result().catch((error) => error))
    await runtime.close()
    for (const error of await Promise.all(waits)) expect(error).toMatchObject({ code: 'closed' })
    await listening
    expect(told).toContain('plan_status_changed')
    process.off('warning', warn)
    expect(warned).toEqual([])
    const next = await runtimeOf({}, { store: runtime.store })
    const found = await next.get(run.run_id)
    const waiting = found.result()
    await next.signal(run.run_id, 'go')
    expect((await waiting).status).toBe('completed')
    await next.close()
    expect((await found.result()).status).toBe('completed')
  })

  it('that is closed beside a store that does not answer keeps nobody either, of a run that it had in hand', async () => {
    const { start, clock } = world({})
    const flow = chainOf(2)
    const { seen, reached } = heldCommit(firstActionOf(flow.ids.s1!))
    const runtime = await start({}, seen)
    const run = await runtime.submit(flow)
    const waits = [run.result(), run.rest()].map((wait) => wait.catch((error: unknown) => error))
    await inTime(clock, reached)
    await expect(inTime(clock, runtime.close())).rejects.toThrow(Unavailable)
    for (const error of await inTime(clock, Promise.all(waits))) expect(error).toMatchObject({ code: 'closed' })
  })

  it('waits for as many as share one signal, and no leak is suspected', async () => {
    const warned = heardByProcess('warning')
    const runtime = await runtimeOf({ long: never })
    const enough = new AbortController()
    const runs = await Promise.all(Array.from({ length: 11 }, () => runtime.submit(flowOf({ long: {} }))))
    const waits = runs.flatMap((run) => [run.result(enough.signal), run.rest(enough.signal)])
    await new Promise((resolve) => setImmediate(resolve))
    enough.abort()
    for (const { status } of await Promise.allSettled(waits)) expect(status).toBe('rejected')
    await runtime.close(AbortSignal.abort())
    expect(warned).toEqual([])
  })

  it('that is closed leaves no timer behind for who has stopped listening in the middle', async () => {
    const clock = manualClock()
    const runtime = await runtimeOf({}, { clock })
    const run = await runtime.submit(chainOf(2))
    const events = run.events()[Symbol.asyncIterator]()
    expect((await inTime(clock, events.next())).done).toBe(false)
    await inTime(clock, runtime.close())
    expect(clock.sleeping).toBe(0)
  })

  it('ends its events for who leaves while nothing comes, as a stream does that is destroyed', async () => {
    const clock = manualClock()
    const runtime = await runtimeOf({}, { clock })
    const run = await runtime.submit(flowOf({ one: { binding: { action_type: 'wait', params: { signal: 'go' } } } }))
    await inTime(clock, run.rest())
    for (const why of [undefined, new Error('the client is gone')]) {
      const stream = Readable.from(run.events()).resume()
      const failed: unknown[] = []
      stream.on('error', (error) => failed.push(error))
      const closed = new Promise((resolve) => stream.on('close', resolve))
      await passes(clock, 1_000) // it has read all that there is
      const { sleeping } = clock
      stream.destroy(why)
      await inTime(clock, closed)
      expect(clock.sleeping).toBe(sleeping - 1)
      expect(failed).toEqual(why ? [why] : [])
    }
    await inTime(clock, runtime.close())
  })

  it('lists every run that has not ended, whatever it waits for, and no other', async () => {
    const runtime = await runtimeOf({ hang: never }, { drainMs: 0 })
    const wait = (params: JsonObject) => ({ one: { binding: { action_type: 'wait', params } } })
    const flows = {
      signal: flowOf(wait({ signal: 'go' })),
      time: flowOf(wait({ ms: 86_400_000 })),
      person: flowOf({ noop: {} }, { approval: {} }),
      paused: flowOf(wait({ signal: 'go' })),
      running: flowOf({ hang: {} }),
      ended: flowOf({ noop: {} }),
    }
    for (const flow of Object.values(flows)) await runtime.submit(flow)
    const paused = await runtime.get(flows.paused.plan.plan_id)
    await runtime.pause(paused.run_id)
    await paused.rest()
    await (await runtime.get(flows.ended.plan.plan_id)).result()
    const { ended: _, ...open } = flows
    const ids = (await runtime.list()).map(({ plan_id }) => plan_id)
    expect(ids).toEqual(
      Object.values(open)
        .map(({ plan }) => plan.plan_id)
        .sort(),
    )
    const phases = new Map((await runtime.list()).map(({ plan_id, phase }) => [plan_id, phase]))
    expect([phases.get(flows.paused.plan.plan_id), phases.get(flows.person.plan.plan_id)]).toEqual([
      'paused',
      'waiting',
    ])
    await runtime.close()
  })

  const layer = actionLayer({ adapters: [] })
  it.each([
    ['nothing', undefined, '', 'type'],
    ['no store', { layer }, 'store', 'required'],
    ['a bare store', { layer, store: new Map() }, 'store', 'type'],
    ['no layer', { layer: undefined }, 'layer', 'required'],
    ['a layer that cannot attempt', { layer: { execute: () => null } }, 'layer', 'type'],
    ['a function that makes no layer', { layer: () => ({}) }, 'layer', 'type'],
    ['a function that makes nothing', { layer: () => undefined }, 'layer', 'required'],
    ['no time between two rounds', { patrolMs: Number.NaN }, 'patrolMs', 'type'],
    ['a lease of no time', { leaseTtlMs: 0 }, 'leaseTtlMs', 'type'],
    ['a lease without end', { leaseTtlMs: Number.POSITIVE_INFINITY }, 'leaseTtlMs', 'type'],
    ['a clock that stands for nothing', { clock: {} }, 'clock', 'type'],
    ['nobody to tell', { onError: 'me' }, 'onError', 'type'],
    ['nobody to tell of an outage', { onAway: 'me' }, 'onAway', 'type'],
    ['a misspelt option', { drainMS: 5 }, 'drainMS', 'extra_forbidden'],
  ])('is not made of %s', async (_, given, path, rule) => {
    const options = given && { ...(path !== 'store' && { store: memoryBackend(), layer }), ...given }
    const problems = [expect.objectContaining({ path, rule })]
    await expect(createRuntime(options as never)).rejects.toMatchObject({ code: 'invalid_input', problems })
  })
})
