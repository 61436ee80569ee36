import { describe, expect, it, onTestFinished } from 'vitest'
import type { ActionExecutionLayer } from '../../src/ael/adapter.ts'
import { finalFailure, passingFailure } from '../../src/ael/failure.ts'
import type { FunctionSpec } from '../../src/ael/function.ts'
import { openRuntime } from '../../src/compose.ts'
import { childrenIn, childrenOf } from '../../src/orchestrator/children-under-way.ts'
import { flowOf as named } from '../../src/orchestrator/named-flow.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import type { ManualClock } from '../../src/protocol/clock.ts'
import { NotFound, Unavailable } from '../../src/protocol/errors.ts'
import { type Json, uuidOf } from '../../src/protocol/json.ts'
import { firstActionOf } from '../../src/psg/first-action.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { liftedBackend } from '../../src/vsl/lifted.ts'
import { openStore, type StoreOptions } from '../../src/vsl/vsl.ts'
import { contextDocument, newContext, planDocument, saying } from '../support/agents.ts'
import { childIdOf, having, oneStep, parentOf, slowly, underWay } from '../support/children.ts'
import { flowOf } from '../support/flows.ts'
import { heardByProcess } from '../support/heard-by-process.ts'
import { door, heldCommit, inTime, passes, until, world } from '../support/on-a-clock.ts'
import { freshPrefix, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const ended = async (runtime: Pick<Runtime, 'get'>, id: string, clock: ManualClock) =>
  inTime(clock, (await runtime.get(id)).result())

describe('a child', () => {
  it('is submitted by its id, says whose it is, and gives how it ended', async () => {
    const { clock, first, run, flow, work, child } = await underWay()
    const [step_id] = flow.plan.steps.map((step) => step.step_id)
    const handle = await first.get(child)
    expect(handle.parent).toEqual({ run_id: run.run_id, step_id, action_id: expect.any(String) })
    const graph = await first.project.context(run.context_id)
    expect(childrenOf(graph, graph.get('action', handle.parent!.action_id)!)).toEqual([child])
    work.open()
    expect((await inTime(clock, run.result())).outputs).toEqual({ [step_id!]: { status: 'completed' } })
    expect(first.errors).toEqual([])
    await inTime(clock, first.close())
  })

  it('that failed is a result, and no throw', async () => {
    const broken = () => Promise.reject(finalFailure('no'))
    const given = world({})
    const runtime = await given.start(having({ parent: parentOf('broken'), broken }, given.clock))
    const flow = flowOf({ parent: {} })
    const { status, outputs } = await inTime(given.clock, (await runtime.submit(flow)).result())
    expect([status, ...Object.values(outputs)]).toEqual(['completed', { status: 'failed', code: 'action_failed' }])
    await inTime(given.clock, runtime.close())
  })

  it('may have many beside it, and nobody is warned of them', async () => {
    const warned = heardByProcess('warning')
    const { work, slow } = slowly()
    const given = world({})
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      const flows = Array.from({ length: 20 }, (_, i) => oneStep(`${idempotency_key} child ${i}`, 'slow'))
      return (await Promise.all(flows.map((flow) => child(flow)))).filter(({ success }) => success).length
    }
    const runtime = await given.start(having({ parent, slow }, given.clock))
    const run = await runtime.submit(flowOf({ parent: {} }))
    await until(given.clock, () => work.begun === 20)
    work.open()
    expect(Object.values((await inTime(given.clock, run.result())).outputs)).toEqual([20])
    await inTime(given.clock, runtime.close())
    expect(warned).toEqual([])
  })

  it('costs its parent as much as the first, however many there were before it', async () => {
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      for (let i = 0; i < 30; i++) await child(oneStep(`${idempotency_key} child ${i}`, 'noop'))
    }
    const sizes: number[] = []
    const seen = (store: Backend): Backend => ({
      ...store,
      commit(write) {
        const text = JSON.stringify(write)
        if (text.includes('/child/')) sizes.push(text.length)
        return store.commit(write)
      },
    })
    const given = world({})
    const runtime = await given.start(having({ parent }, given.clock), seen)
    const run = await runtime.submit(flowOf({ parent: {} }))
    expect(await inTime(given.clock, run.result())).toMatchObject({ status: 'completed' })
    expect(sizes).toHaveLength(30)
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThan(10) // the digits of a revision
    expect((await runtime.project.verify()).findings).toEqual([])
    await inTime(given.clock, runtime.close())
  })

  it('is known in the order in which its parent has submitted it, also to who opens the store', async () => {
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      for (const i of [3, 1, 2, 5, 4]) await child(oneStep(`${idempotency_key} ${i}`, 'noop'))
    }
    const given = world({})
    const runtime = await given.start(having({ parent }, given.clock))
    const flow = flowOf({ parent: {} })
    const run = await runtime.submit(flow)
    await inTime(given.clock, run.result())
    const graph = await (await openProject(given.store)).context(run.context_id)
    await graph.load(run.plan_id)
    const ids = [3, 1, 2, 5, 4].map((i) => uuidOf(`${run.plan_id}:${flow.ids.parent} ${i}`))
    expect(childrenIn(graph, run.plan_id)).toEqual(ids)
    await inTime(given.clock, runtime.close())
  })

  it('must have chosen its id, and is told what to make it of', async () => {
    const given = world({})
    const parent: FunctionSpec = (_args, { child }) => child(flowOf({ noop: {} })) as never
    const runtime = await given.start(having({ parent }, given.clock))
    const { error } = await inTime(given.clock, (await runtime.submit(flowOf({ parent: {} }))).result())
    expect(error?.message).toContain('chosen.run')
    expect(error?.message).toContain('idempotency_key')
    await inTime(given.clock, runtime.close())
  })

  it('may not be a run that somebody else has submitted, and that one is left alone', async () => {
    const { work, slow } = slowly()
    const given = world({})
    const parent: FunctionSpec = (_args, { child }) => child(oneStep('theirs', 'slow')) as never
    const runtime = await given.start(having({ parent, slow }, given.clock))
    const theirs = await runtime.submit(oneStep('theirs', 'slow'))
    const { error } = await inTime(given.clock, (await runtime.submit(flowOf({ parent: {} }))).result())
    expect(error?.message).toMatch(/no child of this action/)
    await passes(given.clock, 1_000)
    work.open()
    expect(await inTime(given.clock, theirs.result())).toMatchObject({ status: 'completed' })
    await inTime(given.clock, runtime.close())
  })

  it('nor one that somebody else submits a moment earlier', async () => {
    const { work, slow } = slowly()
    const given = world({})
    const held = heldCommit('/child/') // the parent knows of a run that is not there yet
    const parent: FunctionSpec = (_args, { child }) => child(oneStep('theirs', 'slow')) as never
    const runtime = await given.start(having({ parent, slow }, given.clock), held.seen)
    const run = await runtime.submit(flowOf({ parent: {} }))
    await inTime(given.clock, held.reached)
    const theirs = await runtime.submit(oneStep('theirs', 'slow'))
    held.letGo()
    expect((await inTime(given.clock, run.result())).error?.message).toMatch(/no child of this action/)
    await passes(given.clock, 1_000)
    work.open()
    expect(await inTime(given.clock, theirs.result())).toMatchObject({ status: 'completed' })
    await inTime(given.clock, runtime.close())
  })

  it('is there for a layer that is a bare object, in a flow on a bare store', async () => {
    const values = new Map<string, Json>()
    const vsl = {
      get: async (key: string) => values.get(key),
      set: async (key: string, value: Json) => void values.set(key, value),
    }
    const execute: ActionExecutionLayer['execute'] = async ({ params, idempotency_key }, call) => {
      if (params.name === 'noop') return 'done'
      return (await call!.child!(oneStep(`${idempotency_key} child`, 'noop'))).status
    }
    const context = contextDocument()
    const plan = planDocument(context, { work: {} })
    const result = await runSingleAgentFlow({
      flow: {},
      runtimeContext: newContext('run-1'),
      modules: saying({ context, plan }),
      vsl,
      ael: { execute },
    })
    expect(result).toMatchObject({ success: true })
    const store = await liftedBackend(vsl)
    const id = uuidOf(`${plan.plan_id}:${plan.steps[0]!.step_id} child`)
    const { graph } = (await (await openProject(store)).locate(id))!
    expect((await (await openProject(store)).context(graph)).get('run', id)?.data.phase ?? 'ended').toBe('ended')
    await store.close()
  })

  it('is refused, with what to do, by a layer that was not made with the hands of the runtime', async () => {
    const given = world({ parent: parentOf('noop') })
    const runtime = await given.start()
    const { error } = await inTime(given.clock, (await runtime.submit(flowOf({ parent: {} }))).result())
    expect(error?.message).toMatch(/hands/)
    await inTime(given.clock, runtime.close())
  })

  it('is refused to what takes a step back, in its run or in a rollback', async () => {
    const books = { back: parentOf('noop'), broken: () => Promise.reject(finalFailure('no')) }
    const runtime = await openRuntime({ vsl: 'memory:', functions: { noop: () => null, ...books } })
    onTestFinished(() => runtime.close())
    const inverse = { action_type: 'function', params: { name: 'back' } }
    const one = { call: 'noop', binding: { inverse } }
    const failing = flowOf({ one, broken: { after: ['one'] } }, { options: { on_failure: 'compensate' } })
    const { undone } = await (await runtime.submit(failing)).result()
    const done = await runtime.submit(flowOf({ one }))
    await done.result()
    const { effects } = await runtime.rollback(done.run_id)
    const messages = [...undone!, ...effects].map(({ error }) => String(error?.message))
    expect(messages).toEqual([expect.stringMatching(/submit the flow to the runtime/), messages[0]])
  })

  it.each([
    ['is named', 'irreversible' as const],
    ['is named', undefined],
    ['is not named', { action_type: 'function', params: { name: 'noop' } }],
  ])('%s by a way back, where its parent says of its own: %j', async (is, inverse) => {
    const runtime = await openRuntime({ vsl: 'memory:', functions: { noop: () => null, parent: parentOf('noop') } })
    onTestFinished(() => runtime.close())
    const flow = flowOf({ parent: { binding: { approval: 'none', ...(inverse && { inverse }) } } })
    const run = await runtime.submit(flow)
    expect(await run.result()).toMatchObject({ status: 'completed' })
    const { children } = await runtime.rollback(run.run_id, { dryRun: true })
    expect(children).toEqual(is === 'is named' ? [childIdOf(flow)] : [])
  })

  it('is named by the way back of what goes on from its parent, whose own way back is refused', async () => {
    let fails = true
    const ship = () => (fails ? Promise.reject(finalFailure('no')) : null)
    const runtime = await openRuntime({
      vsl: 'memory:',
      functions: { noop: () => null, ship, parent: parentOf('noop') },
    })
    onTestFinished(() => runtime.close())
    const flow = flowOf({ parent: {}, ship: { after: ['parent'] }, more: { call: 'parent', after: ['ship'] } })
    const run = await runtime.submit(flow)
    await run.result()
    fails = false
    const again = await runtime.rerun(run.run_id)
    expect(await again.result()).toMatchObject({ status: 'completed' })
    const graph = await runtime.project.context(run.context_id)
    const own = childrenIn(graph, again.plan_id)
    expect(own).toHaveLength(1)
    const { children } = await runtime.rollback(again.run_id, { dryRun: true })
    expect(children).toEqual([childIdOf(flow), ...own])
  })

  it('is waited for longer than the step may take', async () => {
    const { clock, first, run, work } = await underWay({ step: { timeout_ms: 200 } })
    await passes(clock, 5_000)
    work.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
    await inTime(clock, first.close())
  })

  it('has the place that its parent waits in', async () => {
    const given = world({})
    let [busy, most] = [0, 0]
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      await child(oneStep(`${idempotency_key} child`, 'noop'))
      most = Math.max(most, ++busy)
      for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve))
      busy--
    }
    const runtime = await given.start(having({ parent }, given.clock, { function: 1 }))
    const runs = await Promise.all(
      [1, 2, 3].map(() => runtime.submit(flowOf({ parent: {}, noop: { after: ['parent'] } }))),
    )
    for (const run of runs) expect(await inTime(given.clock, run.result())).toMatchObject({ status: 'completed' })
    expect(most).toBe(1) // it has it again, once its child has ended
    await inTime(given.clock, runtime.close())
  })

  it('takes no place for a parent that has ended without it', async () => {
    const [parts, brief] = [door(), slowly()]
    const { work, slow } = slowly()
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      child(oneStep(`${idempotency_key} child`, 'brief')).catch(() => undefined)
      await parts.opened
    }
    const given = world({})
    const functions = { parent, brief: brief.slow, slow }
    const runtime = await given.start(having(functions, given.clock, { function: 1 }))
    const early = await runtime.submit(flowOf({ parent: {} }))
    await until(given.clock, () => brief.work.begun === 1)
    const other = await runtime.submit(flowOf({ slow: {} }))
    await passes(given.clock, 100) // it is in line for the place
    brief.work.open()
    await until(given.clock, () => work.begun === 1) // and has it, while the parent waits for it behind
    parts.open()
    expect(await inTime(given.clock, early.result())).toMatchObject({ status: 'completed' })
    work.open()
    expect(await inTime(given.clock, other.result())).toMatchObject({ status: 'completed' })
    const last = await runtime.submit(flowOf({ noop: {} }))
    expect(await inTime(given.clock, last.result())).toMatchObject({ status: 'completed' })
    await inTime(given.clock, runtime.close())
  })

  it('takes none, either, when it ends after that parent', async () => {
    const { work, slow } = slowly()
    const parent: FunctionSpec = (_args, { child, idempotency_key }) =>
      void child(oneStep(`${idempotency_key} child`, 'slow')).catch(() => undefined)
    const given = world({})
    const runtime = await given.start(having({ parent, slow }, given.clock, { function: 1 }))
    const flow = flowOf({ parent: {} })
    expect(await inTime(given.clock, (await runtime.submit(flow)).result())).toMatchObject({ status: 'completed' })
    await until(given.clock, () => work.begun === 1)
    work.open()
    expect(await ended(runtime, childIdOf(flow), given.clock)).toMatchObject({ status: 'completed' })
    await passes(given.clock, 100)
    const last = await runtime.submit(flowOf({ noop: {} }))
    expect(await inTime(given.clock, last.result())).toMatchObject({ status: 'completed' })
    await inTime(given.clock, runtime.close())
  })

  it.each(['ends', 'is asked for'])(
    'takes none when it %s before anybody has heard that its parent is over',
    async (what) => {
      const [parts, late] = [door(), door()]
      const [brief, last] = [slowly(), slowly()]
      const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
        const begin = () => child(oneStep(`${idempotency_key} child`, 'brief')).catch(() => undefined)
        if (what === 'ends') void begin()
        else void late.opened.then(begin)
        await parts.opened
      }
      const given = world({})
      const flow = flowOf({ parent: {}, noop: { after: [] }, next: { call: 'noop', after: ['noop'] } })
      const held = heldCommit(firstActionOf(flow.ids.next!)) // nothing that arrives is taken in meanwhile
      const functions = { parent, brief: brief.slow, last: last.slow }
      const runtime = await given.start(having(functions, given.clock, { function: 2 }), held.seen)
      const run = await runtime.submit(flow)
      await inTime(given.clock, held.reached)
      parts.open()
      await passes(given.clock, 100)
      late.open()
      brief.work.open()
      await passes(given.clock, 100)
      if (what === 'is asked for') held.letGo() // it is submitted behind what is held up
      await until(given.clock, () => brief.work.begun === 1)
      expect(await ended(runtime, childIdOf(flow), given.clock)).toMatchObject({ status: 'completed' })
      await passes(given.clock, 100)
      held.letGo()
      expect(await inTime(given.clock, run.result())).toMatchObject({ status: 'completed' })
      await runtime.submit(flowOf({ one: { call: 'last' }, two: { call: 'last' } }))
      await until(given.clock, () => last.work.begun === 2) // both places are free
      last.work.open()
      await inTime(given.clock, runtime.close())
    },
  )

  it('that its parent does not wait for ends no process when the parent is cancelled, nor when the runtime is closed', async () => {
    const unhandled = heardByProcess('unhandledRejection')
    const { work, slow } = slowly()
    const parent: FunctionSpec = async (stays, { child, idempotency_key, signal }) => {
      void child(oneStep(`${idempotency_key} child`, 'slow'))
      if (stays) await new Promise((_, reject) => signal.addEventListener('abort', reject))
    }
    const given = world({})
    const runtime = await given.start(having({ parent, slow }, given.clock))
    const stays = { binding: { params: { name: 'parent', args: true } } }
    const [left, cancelled] = [flowOf({ parent: {} }), flowOf({ parent: stays })]
    expect(await inTime(given.clock, (await runtime.submit(left)).result())).toMatchObject({ status: 'completed' })
    const run = await runtime.submit(cancelled)
    await until(given.clock, () => work.begun === 2)
    await run.cancel()
    expect(await inTime(given.clock, run.result())).toMatchObject({ status: 'cancelled' })
    await inTime(given.clock, runtime.close())
    await new Promise((resolve) => setImmediate(resolve))
    expect(unhandled).toEqual([])
  })

  it('is left to go on where its parent has ended well without it', async () => {
    const begun = door()
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      void child(oneStep(`${idempotency_key} child`, 'slow')).catch(() => undefined)
      await begun.opened
    }
    const { clock, first, run, work, child } = await underWay({ parent, next: { noop: { after: ['parent'] } } })
    begun.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
    await passes(clock, 2_000)
    work.open()
    expect(await ended(first, child, clock)).toMatchObject({ status: 'completed' })
    await inTime(clock, first.close())
  })

  it('is run also by a runtime that has come for its parent alone', async () => {
    const given = world({})
    const flow = flowOf({ parent: {} })
    const mine = new Set([flow.plan.plan_id])
    const runtime = await given.start({ ...having({ parent: parentOf('noop') }, given.clock), mine })
    expect(await inTime(given.clock, (await runtime.submit(flow)).result())).toMatchObject({ status: 'completed' })
    await inTime(given.clock, runtime.close())
  })

  it('is waited for also while the store is away', async () => {
    const given = world({})
    const paid = { call: 'noop', binding: { action_type: 'wait', params: { signal: 'paid' } } }
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) =>
      (await child(flowOf({ paid }, { chosen: { run: uuidOf(`${idempotency_key} child`) } }))).status
    let isAway = true
    const failing = (store: Backend): Backend => ({
      ...store,
      async *read(stream, options) {
        if (options?.follow && isAway) throw new Unavailable('the store', 'wait')
        yield* store.read(stream, options)
      },
    })
    const runtime = await given.start(having({ parent }, given.clock), failing)
    const flow = flowOf({ parent: {} })
    const run = await runtime.submit(flow)
    await passes(given.clock, 2_000)
    expect(run.phase).toBe('running')
    isAway = false
    await runtime.signal(childIdOf(flow), 'paid')
    expect(Object.values((await inTime(given.clock, run.result())).outputs)).toEqual(['completed'])
    await inTime(given.clock, runtime.close())
  })

  it('may be run by another process', async () => {
    const { work, slow } = slowly()
    const given = world({})
    const worker = await given.start(having({ slow }, given.clock))
    const context = flowOf({ noop: {} })
    await inTime(given.clock, (await worker.submit(context)).result())
    const busy = await worker.submit({ ...oneStep('busy', 'slow'), ...within(context) })
    await until(given.clock, () => work.begun === 1)
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) =>
      (await child({ ...oneStep(`${idempotency_key} child`, 'slow'), ...within(context, 'noop') })).status
    const owner = await given.start(having({ parent }, given.clock))
    const flow = flowOf({ parent: {} })
    const run = await owner.submit(flow)
    expect(Object.values((await inTime(given.clock, run.result())).outputs)).toEqual(['completed'])
    work.open()
    await inTime(given.clock, busy.result())
    await inTime(given.clock, Promise.all([owner.close(), worker.close()]))
  })
})

/** The same, as a new plan in a context that is there. */
function within({ context, plan }: Flow, call = 'slow'): Pick<Flow, 'context' | 'plan' | 'bindings'> {
  const { context_id } = context as { context_id: string }
  const next = flowOf({ only: { call } })
  return { context: context_id, plan: { ...next.plan, context_id: plan.context_id }, bindings: next.bindings! }
}

const YES = { status: 'approved', decided_by_role: 'lead' } as const

describe('a child is cancelled', () => {
  it('when its parent is, before that has ended', async () => {
    const { clock, first, run, work, child, store } = await underWay()
    await first.cancel(run.run_id)
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
    const entries = await collected(store)
    const asked = entries.findIndex((entry) => cancels(entry, child))
    expect(asked).toBeGreaterThan(0)
    expect(asked).toBeLessThan(entries.findIndex((entry) => ends(entry, run.run_id)))
    expect(await ended(first, child, clock)).toMatchObject({ status: 'cancelled' })
    expect(work.aborted).toBe(1)
    await inTime(clock, first.close())
  })

  it.each<[string, { step?: object; flow?: Partial<Flow> }, string]>([
    ['has used up its time', { flow: { options: { budget: { wall_ms: 3_000 } } } }, 'failed'],
    ['fails for good', {}, 'failed'],
    ['fails beside others that go on', { step: { on_failure: 'continue' } }, 'failed'],
    ['is skipped', { step: { on_failure: 'skip' } }, 'completed'],
    ['goes back', { flow: { options: { on_failure: 'compensate' } } }, 'failed'],
  ])('when its parent %s', async (what, more, status) => {
    const fail = door()
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      const waits = child(oneStep(`${idempotency_key} child`, 'slow'))
      await Promise.race([waits, fail.opened])
      throw finalFailure('no')
    }
    const { clock, first, run, work, child } = await underWay({ parent, ...more })
    if (what !== 'has used up its time') fail.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status })
    expect(await ended(first, child, clock)).toMatchObject({ status: 'cancelled' })
    expect(work.aborted).toBe(1)
    expect(first.errors).toEqual([])
    await inTime(clock, first.close())
  })

  it('when a later attempt of its parent has timed out for good', async () => {
    const failing = door()
    const parent: FunctionSpec = async (_args, { child, idempotency_key, attempt, signal }) => {
      if (attempt > 1) return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      child(oneStep(`${idempotency_key} child`, 'slow')).catch(() => undefined)
      await failing.opened
      throw passingFailure('not now')
    }
    const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 100 } as const
    const { clock, first, run, work, child } = await underWay({ parent, step: { retry, timeout_ms: 500 } })
    failing.open()
    expect((await inTime(clock, run.result())).error).toMatchObject({ code: 'action_timed_out' })
    expect(await ended(first, child, clock)).toMatchObject({ status: 'cancelled' })
    expect(work.aborted).toBe(1)
    await inTime(clock, first.close())
  })

  it('with its parent between two attempts', async () => {
    const failing = door()
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      child(oneStep(`${idempotency_key} child`, 'slow')).catch(() => undefined)
      await failing.opened
      throw passingFailure('not now')
    }
    const retry = { strategy: 'fixed', max_attempts: 3, delay_ms: 60_000 } as const
    const { clock, first, run, work, child } = await underWay({ parent, step: { retry } })
    failing.open()
    await until(clock, () => run.phase === 'waiting')
    await passes(clock, 1_000)
    expect((await first.get(child)).phase).toBe('running')
    await first.cancel(run.run_id)
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
    expect(await ended(first, child, clock)).toMatchObject({ status: 'cancelled' })
    expect(work.aborted).toBe(1)
    await inTime(clock, first.close())
  })

  it('while it waits for a person, and then asks nobody any more', async () => {
    const given = world({})
    const runtime = await given.start(having({ parent: parentOf('noop', { approval: {} }) }, given.clock))
    const flow = flowOf({ parent: {} })
    const run = await runtime.submit(flow)
    let asked = 0
    for (; asked === 0; asked = (await runtime.waiting()).length) await passes(given.clock, 100)
    await runtime.cancel(run.run_id)
    expect(await inTime(given.clock, run.result())).toMatchObject({ status: 'cancelled' })
    expect(await ended(runtime, childIdOf(flow), given.clock)).toMatchObject({ status: 'cancelled' })
    expect(await runtime.waiting()).toEqual([])
    await inTime(given.clock, runtime.close())
  })

  it('with its own children', async () => {
    const { work, slow } = slowly()
    const given = world({})
    const ids: string[] = []
    const middle: FunctionSpec = async (_args, { child, idempotency_key }) => {
      const flow = oneStep(`${idempotency_key} child`, 'slow')
      ids.push(flow.chosen!.run!)
      return (await child(flow)).status
    }
    const functions = { parent: parentOf('middle'), middle, slow }
    const runtime = await given.start(having(functions, given.clock))
    const run = await runtime.submit(flowOf({ parent: {} }))
    await until(given.clock, () => work.begun > 0)
    await runtime.cancel(run.run_id)
    expect(await inTime(given.clock, run.result())).toMatchObject({ status: 'cancelled' })
    expect(await ended(runtime, ids[0]!, given.clock)).toMatchObject({ status: 'cancelled' })
    expect(work.aborted).toBe(1)
    await inTime(given.clock, runtime.close())
  })

  it('where it runs in the context of its parent', async () => {
    const flow = flowOf({ parent: {} })
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) =>
      (await child({ ...oneStep(`${idempotency_key} child`, 'slow'), ...within(flow) })).status
    const { work, slow } = slowly()
    const given = world({})
    const runtime = await given.start(having({ parent, slow }, given.clock))
    const run = await runtime.submit(flow)
    await until(given.clock, () => work.begun > 0)
    await runtime.cancel(run.run_id)
    expect(await inTime(given.clock, run.result())).toMatchObject({ status: 'cancelled' })
    expect(await ended(runtime, childIdOf(flow), given.clock)).toMatchObject({ status: 'cancelled' })
    await inTime(given.clock, runtime.close())
  })

  it('by a process without its function, when all who had it have died', async () => {
    const { clock, start, first, run, child } = await underWay()
    first.die()
    const second = await start({})
    await second.cancel(run.run_id)
    expect(await ended(second, run.run_id, clock)).toMatchObject({ status: 'cancelled' })
    expect(await ended(second, child, clock)).toMatchObject({ status: 'cancelled' })
    await inTime(clock, second.close())
  })

  it('also when it comes after its parent has let go: it looks after it when it is taken up', async () => {
    const { work, slow } = slowly()
    const given = world({})
    const flow = flowOf({ parent: {} })
    const held = heldCommit(`"parent":{`) // the submission of the child
    const first = await given.start(having({ parent: parentOf('slow'), slow }, given.clock), held.seen)
    const run = await first.submit(flow)
    await inTime(given.clock, held.reached)
    await first.cancel(run.run_id)
    await passes(given.clock, 3_000)
    expect(run.phase).toBe('ended')
    held.letGo()
    await passes(given.clock, 1_000)
    expect(await ended(first, childIdOf(flow), given.clock)).toMatchObject({ status: 'cancelled' })
    expect(work.begun).toBe(0)
    await inTime(given.clock, first.close())
  })

  it('also when it comes then and waits for a person', async () => {
    const given = world({})
    const flow = flowOf({ parent: {} })
    const held = heldCommit(`"parent":{`)
    const functions = { parent: parentOf('noop', { approval: {} }) }
    const first = await given.start(having(functions, given.clock), held.seen)
    const run = await first.submit(flow)
    await inTime(given.clock, held.reached)
    await first.cancel(run.run_id)
    await inTime(given.clock, run.result())
    held.letGo()
    await passes(given.clock, 1_000)
    expect(await first.waiting()).toEqual([])
    expect((await first.get(childIdOf(flow))).phase).toBe('ended')
    await inTime(given.clock, first.close())
  })
})

describe('a child is not cancelled', () => {
  it('by a further attempt of its parent, which finds it', async () => {
    const failing = door()
    const seen: number[] = []
    const parent: FunctionSpec = async (_args, { child, idempotency_key, attempt }) => {
      seen.push(attempt)
      const waits = child(oneStep(`${idempotency_key} child`, 'slow'))
      if (attempt > 1) return (await waits).status
      waits.catch(() => undefined)
      await failing.opened
      throw passingFailure('not now')
    }
    const retry = { strategy: 'fixed', max_attempts: 3, delay_ms: 100 } as const
    const { clock, first, run, work } = await underWay({ parent, step: { retry } })
    failing.open()
    await until(clock, () => seen.length === 2)
    await passes(clock, 2_000)
    work.open()
    expect(Object.values((await inTime(clock, run.result())).outputs)).toEqual(['completed'])
    expect(work).toMatchObject({ begun: 1, aborted: 0 })
    await inTime(clock, first.close())
  })

  it('by who takes its parent over and begins that again', async () => {
    const { clock, start, first, run, work } = await underWay()
    first.die()
    const second = await start()
    await until(clock, () => work.begun === 2) // the child's own step was cut off too
    work.open()
    const { outputs } = await ended(second, run.run_id, clock)
    expect(Object.values(outputs)).toEqual([{ status: 'completed' }])
    await inTime(clock, second.close())
  })

  it('when the runtime is closed, which does not wait for its parent; the next process finds it under the same key', async () => {
    const given = world({})
    const flow = flowOf({ parent: {} })
    const functions = { parent: parentOf('noop', { approval: {} }) }
    const first = await given.start({ ...having(functions, given.clock), drainMs: 3_600_000 })
    const run = await first.submit(flow)
    for (let asked = 0; asked === 0; asked = (await first.waiting()).length) await passes(given.clock, 100)
    const before = given.clock.now()
    await inTime(given.clock, first.close())
    expect(given.clock.now() - before).toBeLessThan(2_000)
    const second = await given.start(having(functions, given.clock))
    const [question] = await second.waiting()
    await second.decide(question!.confirm.confirm_id, YES)
    const { outputs } = await ended(second, run.run_id, given.clock)
    expect(Object.values(outputs)).toEqual([{ status: 'completed' }])
    const graph = await second.project.context(run.context_id)
    await graph.load(run.plan_id)
    expect([...graph.state.nodesOf(run.plan_id)].filter(({ kind }) => kind === 'action')).toHaveLength(1)
    expect([first.errors, second.errors]).toEqual([[], []])
    await inTime(given.clock, second.close())
  })
})

describe('while the runtime closes', () => {
  it('nobody waits for an action whose child is submitted just then', async () => {
    const { work, slow } = slowly()
    const given = world({})
    const held = heldCommit(`"parent":{`)
    const signals: AbortSignal[] = []
    const parent: FunctionSpec = async (_args, { child, idempotency_key, signal }) => {
      signals.push(signal)
      return (await child(oneStep(`${idempotency_key} child`, 'slow'))).status
    }
    const options = { ...having({ parent, slow }, given.clock), drainMs: 3_600_000 }
    const first = await given.start(options, held.seen)
    await first.submit(flowOf({ parent: {} }))
    await inTime(given.clock, held.reached)
    const closed = first.close()
    await passes(given.clock, 500)
    held.letGo()
    const before = given.clock.now()
    await inTime(given.clock, closed)
    expect(given.clock.now() - before).toBeLessThan(2_000)
    expect(work.begun).toBe(0)
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
  })

  it('no child is submitted any more: the next process does', async () => {
    const asks = door()
    let began = 0
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      began++
      await asks.opened
      return (await child(oneStep(`${idempotency_key} child`, 'noop'))).status
    }
    const given = world({})
    const flow = flowOf({ parent: {} })
    const first = await given.start({ ...having({ parent }, given.clock), drainMs: 3_600_000 })
    const run = await first.submit(flow)
    await until(given.clock, () => began > 0)
    const closed = first.close()
    await passes(given.clock, 500)
    asks.open()
    await inTime(given.clock, closed)
    const second = await given.start({ ...having({ parent }, given.clock), mine: new Set() })
    await expect(second.get(childIdOf(flow))).rejects.toBeInstanceOf(NotFound)
    const third = await given.start(having({ parent }, given.clock))
    expect(Object.values((await ended(third, run.run_id, given.clock)).outputs)).toEqual(['completed'])
    await inTime(given.clock, Promise.all([second.close(), third.close()]))
  })
})

/** A store as a process sees it that dies at one of its commits, just before that has landed or just after. */
function dyingAt(nth: number, when: 'before' | 'after') {
  let commits = 0
  const dead = door()
  const seen = (store: Backend): Backend => ({
    ...store,
    async commit(write) {
      const isLast = write.entry !== undefined && ++commits === nth
      if (isLast && when === 'before') dead.open()
      else await store.commit(write)
      if (!isLast) return
      dead.open()
      await new Promise(() => undefined)
    },
  })
  return { seen, dead: dead.opened }
}

describe('whenever a process dies, and another takes over', () => {
  const points = [2, 3, 4, 5, 6, 7, 8, 9, 10].flatMap((nth) => [[nth, 'before'] as const, [nth, 'after'] as const])

  it.each(points)('no child outlives a parent that is cancelled: at commit %i, %s it lands', async (nth, when) => {
    const { work, slow } = slowly()
    const given = world({})
    const flow = flowOf({ parent: {} })
    const { seen, dead } = dyingAt(nth, when)
    const first = await given.start(having({ parent: parentOf('slow'), slow }, given.clock), seen)
    const died = dead.then(() => first.die())
    const run = await first.submit(flow)
    await Promise.race([died, until(given.clock, () => work.begun > 0)])
    void first.cancel(run.run_id)
    await passes(given.clock, 1_000)
    first.die()
    const second = await given.start(having({}, given.clock))
    await second.cancel(run.run_id)
    expect(await ended(second, run.run_id, given.clock)).toMatchObject({ status: 'cancelled' })
    const left = await second.get(childIdOf(flow)).catch((error) => error)
    if (left instanceof NotFound) expect(work.begun).toBe(0)
    else expect(await inTime(given.clock, left.result())).toMatchObject({ status: 'cancelled' })
    expect(await second.list()).toEqual([])
    await inTime(given.clock, second.close())
  })

  it.each(points)('none is cancelled before its parent has failed: at commit %i, %s it lands', async (nth, when) => {
    const { work, slow } = slowly()
    const given = world({})
    const flow = flowOf({ parent: {} })
    const child = childIdOf(flow)
    const parent: FunctionSpec = async (_args, call) => {
      call.child(oneStep(`${call.idempotency_key} child`, 'slow')).catch(() => undefined)
      await until(given.clock, () => work.begun > 0)
      throw finalFailure('no')
    }
    const { seen, dead } = dyingAt(nth, when)
    const options = having({ parent, slow }, given.clock)
    const first = await given.start(options, seen)
    void dead.then(() => first.die())
    const run = await first.submit(flow)
    await passes(given.clock, 1_000)
    first.die()
    const second = await given.start(options)
    expect(await ended(second, run.run_id, given.clock)).toMatchObject({ status: 'failed' })
    expect(await ended(second, child, given.clock)).toMatchObject({ status: 'cancelled' })
    const entries = await collected(given.store)
    const failed = entries.findIndex((entry) => entry.includes('"code":"action_failed"'))
    expect(failed).toBeGreaterThan(0)
    expect(entries.findIndex((entry) => cancels(entry, child))).toBeGreaterThan(failed)
    expect(await second.list()).toEqual([])
    await inTime(given.clock, second.close())
  })
})

async function collected(store: Backend): Promise<string[]> {
  const entries: string[] = []
  for await (const { body } of store.feed()) entries.push(JSON.stringify(body))
  return entries
}

const cancels = (entry: string, run: string) => entry.includes(`/run/${run}`) && entry.includes('"requested":"cancel"')
const ends = (entry: string, run: string) => entry.includes(`/run/${run}`) && entry.includes('"phase":"ended"')

describe('on a real store, with the parent in one process and the cancel in another', () => {
  const isCancelled = async (url: string, options: StoreOptions = {}) => {
    const { work, slow } = slowly()
    const runtimes = []
    for (const functions of [{ parent: parentOf('slow'), slow }, {}]) {
      const store = await openStore(url, options)
      const runtime = await openRuntime({ functions }, { store })
      onTestFinished(() => runtime.close().finally(() => store.close()))
      runtimes.push(runtime)
    }
    const [owner, other] = runtimes
    const { flow } = named({
      title: 'A parent',
      steps: { parent: { action_type: 'function', params: { name: 'parent' } } },
    })
    const run = await owner!.submit(flow)
    while (work.begun === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    await other!.cancel(run.run_id)
    expect(await run.result()).toMatchObject({ status: 'cancelled' })
    expect(await (await other!.get(childIdOf(flow))).result()).toMatchObject({ status: 'cancelled' })
    expect(work.aborted).toBe(1)
  }
  it('goes with it on SQLite', () => isCancelled(`sqlite:${tempFolder()}/state.db`))
  itNeeds('redis')('goes with it on Redis', (url) => isCancelled(url, { prefix: freshPrefix() }))
  itNeeds('postgres')('goes with it on Postgres', (url) => isCancelled(url))
})
