import { describe, expect, it } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { ModuleHandlers } from '../../src/orchestrator/flow.ts'
import { InMemoryVSL } from '../../src/orchestrator/in-memory.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { submission } from '../../src/orchestrator/submit.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { Confirm, Context, Plan, Trace } from '../../src/protocol/types.ts'
import { openProject } from '../../src/psg/project.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import {
  call,
  confirmDocument,
  contextDocument,
  dyingStore,
  newContext,
  passing,
  planDocument,
  saying,
} from '../support/agents.ts'
import { chainOf } from '../support/flows.ts'

const layerOf = (functions: Record<string, () => Json>) => actionLayer({ adapters: [functionAdapter(functions)] })

describe('a second call with the same runId', () => {
  it('gives the same answer, calls nobody and does nothing again', async () => {
    const context = contextDocument()
    const plan = planDocument(context, { a: {}, b: { after: ['a'] } })
    const vsl = new InMemoryVSL()
    let calls = 0
    const ael = { execute: async () => ++calls }
    const first = await runSingleAgentFlow(call(vsl, saying({ context, plan }), { ael }))
    const mute: ModuleHandlers = Object.fromEntries(
      ['context', 'plan'].map((module) => [module, () => Promise.reject(new Error('asked again'))]),
    )
    const second = await runSingleAgentFlow(call(vsl, mute, { ael }))
    expect(second.output).toEqual(first.output)
    expect(second.events).toEqual(first.events)
    expect({ success: second.success, calls }).toEqual({ success: true, calls: 2 })
    expect(await vsl.getEvents('run-1')).toEqual(first.events)
  })

  it('adds no event twice to a context that it was given before', async () => {
    const context = contextDocument()
    const plan = planDocument(context, { a: {} })
    const options = call(new InMemoryVSL(), saying({ context, plan }))
    const { length } = (await runSingleAgentFlow(options)).events
    expect((await runSingleAgentFlow(options)).events).toHaveLength(length)
  })

  it.each([
    ['before', false],
    ['after', true],
  ])('keeps every event once in a store that failed %s it took them', async (_, takes) => {
    const context = contextDocument()
    const plan = planDocument(context, { a: {} })
    let away = false
    const vsl = new (class extends InMemoryVSL {
      override async appendEvents(runId: string, events: readonly unknown[]) {
        if (takes || !away) await super.appendEvents(runId, events)
        if (away) throw new Error('away')
      }
    })()
    const fails = async () => {
      away = true
      return 'done'
    }
    const options = call(vsl, saying({ context, plan }), { ael: { execute: fails }, onError: () => undefined })
    await runSingleAgentFlow(options)
    expect(away).toBe(true)
    away = false
    const { success, events } = await runSingleAgentFlow(options)
    expect({ success, kept: await vsl.getEvents('run-1') }).toEqual({ success: true, kept: events })
  })

  it('gives a store once more in the same call what it did not take', async () => {
    const context = contextDocument()
    const plan = planDocument(context, { a: {}, b: { after: ['a'] } })
    let calls = 0
    const vsl = new (class extends InMemoryVSL {
      override async appendEvents(runId: string, events: readonly unknown[]) {
        if (++calls === 2) throw new Error('away')
        await super.appendEvents(runId, events)
      }
    })()
    const { success, events } = await runSingleAgentFlow(call(vsl, saying({ context, plan })))
    expect({ success, kept: await vsl.getEvents('run-1') }).toEqual({ success: true, kept: events })
  })

  it('tells a failure again rather than trying once more', async () => {
    const context = contextDocument()
    const plan = planDocument(context, { a: {} })
    const store = memoryBackend()
    await runSingleAgentFlow(
      call(store, saying({ context, plan }), { ael: { execute: () => Promise.reject(new Error('no')) } }),
    )
    const again = await runSingleAgentFlow(call(store, saying({ context, plan })))
    expect(again).toMatchObject({ success: false, error: { code: 'ACTION_FAILED', message: 'no' } })
  })

  it('waits for the first when both are made at once', async () => {
    const context = contextDocument()
    const plan = planDocument(context, { a: {} })
    const store = memoryBackend()
    let calls = 0
    const ael = { execute: async () => ++calls }
    const twice = [1, 2].map(() => runSingleAgentFlow(call(store, saying({ context, plan }), { ael })))
    const [first, second] = await Promise.all(twice)
    expect(second!.output).toEqual(first!.output)
    expect({ success: first!.success, calls }).toEqual({ success: true, calls: 1 })
  })

  describe('that lacks what the run needs', () => {
    const having = (functions: Record<string, () => Json>) => ({ ael: () => layerOf(functions) })

    it('says so, leaves the run as it is, and the next call that has it goes on', async () => {
      const context = contextDocument()
      const plan = planDocument(context, { a: {} })
      const store = memoryBackend()
      const spec = { action_type: 'function', params: { name: 'mail' } }
      const flow = { bindings: { steps: { [plan.ids.a!]: spec } }, approval: {} }
      const said = saying({ context, plan })
      const onError = () => undefined
      const waits = await runSingleAgentFlow(call(store, said, { flow, ...having({ mail: () => 'sent' }), onError }))
      expect(waits.error).toMatchObject({ code: 'APPROVAL_PENDING' })
      const desk = await createRuntime({ store, layer: layerOf({}), mine: new Set() })
      await desk.decide(waits.error!.confirms![0]!, { status: 'approved', decided_by_role: 'lead' })
      await desk.close()
      const lacks = await runSingleAgentFlow(call(store, said, { flow, ...having({}), onError }))
      expect(lacks).toMatchObject({
        success: false,
        error: { code: 'ACTION_NOT_REGISTERED', message: expect.stringMatching(`step ${plan.ids.a} .* function mail`) },
      })
      const again = await runSingleAgentFlow(call(store, said, { flow, ...having({ mail: () => 'sent' }), onError }))
      expect(again).toMatchObject({ success: true, output: { steps: { [plan.ids.a!]: 'sent' } } })
    })
  })

  describe.each([
    ['a store', (clock: ManualClock) => memoryBackend({ clock })],
    ['a bare { get, set }', () => new InMemoryVSL()],
  ])('while the first is under way on %s', (_, storeOf) => {
    async function underWay() {
      const clock = manualClock()
      const context = contextDocument(clock)
      const modules = saying({ context, plan: planDocument(context, { a: {} }, clock) })
      const vsl = storeOf(clock)
      let calls = 0
      let finish = (): void => undefined
      const execute = () => {
        calls++
        return new Promise((resolve) => {
          finish = () => resolve('done')
        })
      }
      const first = runSingleAgentFlow(call(vsl, modules, { ael: { execute }, clock }))
      await expect.poll(() => calls).toBe(1)
      const second = (more: object) => runSingleAgentFlow(call(vsl, modules, { ael: { execute }, clock, ...more }))
      async function firstEndsWell() {
        finish()
        expect({ ...(await first), calls }).toMatchObject({ success: true, calls: 1 })
      }
      return { clock, second, firstEndsWell }
    }

    it('waits no longer than its signal lets it, and leaves the first alone', async () => {
      const { clock, second, firstEndsWell } = await underWay()
      const stop = new AbortController()
      const waiting = second({ signal: stop.signal })
      await clock.advance(1_000)
      stop.abort()
      const message = 'the call was cancelled; another call has run run-1 in hand, and goes on'
      expect(await waiting).toMatchObject({ success: false, error: { code: 'CANCELLED', message } })
      await firstEndsWell()
    })

    it.each([
      ['deadline', 'DEADLINE', (now: number) => ({ deadline: new Date(now + 20_000).toISOString() })],
      ['budget of time', 'BUDGET_EXCEEDED', () => ({ budget: { wall_ms: 20_000 } })],
    ])('waits no longer than its %s lets it, and leaves the first alone', async (_, code, options) => {
      const { clock, second, firstEndsWell } = await underWay()
      const waiting = second({ flow: { options: options(clock.now()) } })
      await clock.advance(19_000)
      expect(await Promise.race([waiting, 'waits'])).toBe('waits')
      await clock.advance(1_000)
      const message = expect.stringMatching(/; another call has run run-1 in hand, and goes on$/)
      expect(await waiting).toMatchObject({ success: false, error: { code, message } })
      await firstEndsWell()
    })
  })
})

describe('a call that is taken for dead while it lives', () => {
  it('waits for the one that went on with its runId, and gives the same answer', async () => {
    const clock = manualClock()
    const context = contextDocument(clock)
    const modules = saying({ context, plan: planDocument(context, { a: {} }, clock) })
    const store = memoryBackend({ clock })
    let calls = 0
    const ael = { execute: async () => ++calls }
    let speak = (): void => undefined
    const late: ModuleHandlers = {
      ...modules,
      plan: async (asked) => {
        await new Promise<void>((resolve) => {
          speak = resolve
        })
        return modules.plan!(asked)
      },
    }
    const silent = { ...store, renew: async () => false }
    const first = runSingleAgentFlow(call(silent, late, { ael, clock }))
    await clock.advance(11_000)
    const second = await runSingleAgentFlow(call(store, modules, { ael, clock }))
    speak()
    const { success, output, events } = await first
    expect({ success, output, events }).toEqual({ success: true, output: second.output, events: second.events })
    expect(calls).toBe(1)
  })
})

describe('two flows in one context', () => {
  it('do not carry out each other’s steps, nor tell each other’s events', async () => {
    const context = contextDocument()
    const store = memoryBackend()
    const did: string[] = []
    const flow = (name: string) => {
      const plan = planDocument(context, { [`${name}1`]: {}, [`${name}2`]: { after: [`${name}1`] } })
      const ael = {
        execute: async ({ params }: { params: { description: string } }) =>
          void did.push(`${name} did ${params.description}`),
      }
      return {
        plan,
        options: call(store, saying({ context, plan }), { ael, runtimeContext: newContext(name) as never }),
      }
    }
    const [x, y] = [flow('x'), flow('y')]
    const results = await Promise.all([runSingleAgentFlow(x.options), runSingleAgentFlow(y.options)])
    expect(results.map(({ success }) => success)).toEqual([true, true])
    expect(did.sort()).toEqual(['x did x1', 'x did x2', 'y did y1', 'y did y2'])
    expect(JSON.stringify(results[0]!.events)).not.toContain(y.plan.plan_id)
    expect(JSON.stringify(results[1]!.events)).not.toContain(x.plan.plan_id)
  })
})

describe('the same flow with the same clock', () => {
  it('leaves the same bytes in the journal', async () => {
    const journal = async () => {
      const clock = manualClock({ seed: 7 })
      const context = contextDocument(clock)
      const plan = planDocument(
        context,
        { a: {}, b: { after: ['a'] }, c: { after: ['a'] }, d: { after: ['b', 'c'] } },
        clock,
      )
      const store = memoryBackend({ clock })
      const options = call(store, saying({ context, plan, confirm: confirmDocument(plan, [{}], clock) }), { clock })
      await passing(clock, runSingleAgentFlow(options))
      return entriesOf(store)
    }
    const first = await journal()
    expect(JSON.stringify(await journal())).toBe(JSON.stringify(first))
    expect(first.length).toBeGreaterThan(5)
  })
})

describe('a plan too large for one commit', () => {
  /** Each step waits for the one after it in the list; in a circle, the first two wait for each other. */
  const large = (clock: ManualClock, circle = false) => {
    const context = contextDocument(clock)
    const names = Array.from({ length: 2_500 }, (_, i) => `s${i}`)
    const steps = names.map((name, i) => {
      const after = [...names.slice(i + 1, i + 2), ...(circle && i === 1 ? ['s0'] : [])]
      return [name, { after }] as const
    })
    const plan = planDocument(context, Object.fromEntries(steps), clock)
    const options = (store: Backend) => call(store, saying({ context, plan }), { clock, flow: { approval: {} } })
    return { context, plan, options }
  }

  it.each([
    ['no step too many', 1_999, 1],
    ['one', 2_000, 2],
  ])('has, by %s, bindings that are found again if a crash cuts it in two', (_, steps, commits) => {
    const clock = manualClock()
    const flow = chainOf(steps)
    const submit = () => submission(flow, clock).commits
    const bindings = () =>
      submit().flatMap(({ changes }) =>
        changes.flatMap((change) => (change.kind === 'node_add' && change.node === 'binding' ? [change.id] : [])),
      )
    expect(submit()).toHaveLength(commits)
    const first = bindings()
    expect(first).toHaveLength(steps)
    expect(bindings().filter((id) => first.includes(id))).toHaveLength(commits > 1 ? steps : 0)
  })

  it('is submitted whole, wherever a crash cuts it in two', async () => {
    const clock = manualClock()
    const whole = dyingStore(memoryBackend({ clock }), Number.POSITIVE_INFINITY, 'commit')
    await passing(clock, runSingleAgentFlow(large(clock).options(whole.store)))
    for (let commit = whole.calls() - 2; commit <= whole.calls(); commit++) {
      const time = manualClock()
      const store = memoryBackend({ clock: time })
      const { context, plan, options } = large(time)
      const process = dyingStore(store, commit, 'commit')
      await passing(time, Promise.race([runSingleAgentFlow(options(process.store)), process.died]))
      const { error, output } = await passing(time, runSingleAgentFlow(options(store)))
      expect(error?.code, `a crash before commit ${commit}`).toBe('APPROVAL_PENDING')
      expect((output!.plan as Plan).steps.map(({ step_id }) => step_id)).toEqual(
        plan.steps.map(({ step_id }) => step_id),
      )
      expect(await (await (await openProject(store, { clock: time })).context(context.context_id)).verify()).toEqual([])
    }
  }, 60_000)

  it('is refused whole when its steps wait for each other', async () => {
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const { plan, options } = large(clock, true)
    const { error } = await passing(clock, runSingleAgentFlow(options(store)))
    expect(error).toMatchObject({
      code: 'INVALID_OUTPUT',
      problems: [expect.objectContaining({ rule: 'plan.acyclic' })],
    })
    expect(await (await openProject(store, { clock })).locate(plan.plan_id)).toBeUndefined()
  })
})

describe('a crash', () => {
  /** A flow of every kind of step: modules with events, a person's answer, steps that wait for each other. */
  const flowOf = (clock: ManualClock, done: string[]) => {
    const intent = { event_type: 'intent_extracted', event_family: 'intent' }
    const method = { event_type: 'methodology_selected', event_family: 'methodology' }
    // Like real ones, they make something new whenever they are asked.
    const modules: ModuleHandlers = {
      context: () => ({ output: { context: contextDocument(clock) }, events: [intent] }),
      plan: ({ ctx }) => {
        const plan = planDocument(ctx.context as Context, { a: {}, b: { after: ['a'] }, c: { after: ['a'] } }, clock)
        return { output: { plan }, events: [method] }
      },
      confirm: ({ ctx }) => ({
        output: { confirm: confirmDocument(ctx.plan as Plan, [{ status: 'rejected' }, {}], clock) },
      }),
    }
    const ael = {
      execute: async ({ params, idempotency_key }: { params: { description: string }; idempotency_key: string }) =>
        void done.push(`${params.description} ${idempotency_key}`),
    }
    return (store: Backend) => call(store, modules, { ael, clock })
  }

  it('between any two store calls costs nothing but time', async () => {
    const undisturbed = await disturbed(Number.POSITIVE_INFINITY)
    expect(undisturbed.calls).toBeGreaterThan(30)
    for (let before = 1; before <= undisturbed.calls; before++) {
      const { summary, done } = await disturbed(before)
      expect(summary, `a crash before store call ${before}`).toEqual(undisturbed.summary)
      const keys = new Set(done)
      expect(keys.size, `a crash before store call ${before}`).toBe(3)
      expect(done.length, `a crash before store call ${before}`).toBeLessThanOrEqual(5)
    }
  }, 120_000)

  async function disturbed(before: number) {
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const done: string[] = []
    const options = flowOf(clock, done)
    const process = dyingStore(store, before)
    await passing(clock, Promise.race([runSingleAgentFlow(options(process.store)), process.died]))
    const completed = await completedSteps(store)
    const cut = done.length
    const { success, error, output, events } = await passing(clock, runSingleAgentFlow(options(store)))
    for (const step of completed)
      expect(done.slice(cut).join(), 'what was completed is not done again').not.toContain(step)
    const { plan, confirm, trace, context } = output as { plan: Plan; confirm: Confirm; trace: Trace; context: Context }
    expect(await (await (await openProject(store, { clock })).context(context.context_id)).verify()).toEqual([])
    const told = (events as { event_type: string }[]).map(({ event_type }) => event_type)
    const summary = {
      ...{ success, error },
      plan: plan.steps.map(({ status }) => status),
      confirm: [confirm.status, ...(confirm.decisions ?? []).map(({ status }) => status)],
      trace: trace.status,
      told: told.filter((type) => /^(SA|intent|method)/.test(type)).sort(),
      there: { contexts: await countOf(store, 'id/context/'), plans: await countOf(store, 'id/plan/') },
    }
    const journaled = (await entriesOf(store)).flatMap((entry) => eventIds(entry))
    expect(new Set(journaled).size, 'no event is told twice').toBe(journaled.length)
    return { summary, done, calls: process.calls() }
  }
})

async function completedSteps(store: Backend): Promise<string[]> {
  const found: string[] = []
  for await (const { body } of store.feed())
    for (const { key, status } of (body as { changes: { key: string; status?: [string, string] }[] }).changes)
      if (key.includes('/step/') && status?.[1] === 'completed') found.push(key.split('/').at(-1)!)
  return found
}

async function entriesOf(store: Backend): Promise<Json[]> {
  const entries: Json[] = []
  for await (const { stream, revision, body } of store.feed()) entries.push({ stream, revision, body })
  return entries
}

const eventIds = (entry: Json): readonly string[] => eventsIn(entry as never).map(({ event }) => event.event_id)

async function countOf(store: Backend, prefix: string): Promise<number> {
  let count = 0
  for await (const _ of store.scan(prefix)) count++
  return count
}
