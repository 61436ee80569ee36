import { expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer, newAction } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Budget, Hands } from '../../src/ael/layer.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import { createRuntime, type Runtime } from '../../src/orchestrator/runtime.ts'
import { ActionError, Unavailable } from '../../src/protocol/errors.ts'
import { uuidOf } from '../../src/protocol/json.ts'
import { ofKind } from '../../src/psg/node.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { chainOf, flowOf } from '../support/flows.ts'
import { door, inTime, passes, until, world } from '../support/on-a-clock.ts'

const budgeted = (functions: { readonly [name: string]: FunctionSpec }) =>
  world({}, { layer: (hands: Hands) => actionLayer({ ...hands, adapters: [functionAdapter(functions)] }) })
const wait = { action_type: 'wait', params: { ms: 5_000 } } // long enough to be laid down

it('warns once of a budget that comes to its end, also when its run is laid down and taken up', async () => {
  const { start, clock } = budgeted({ noop: () => null })
  const runtime = await start()
  const steps = { a: { call: 'noop' }, wait: { after: ['a'], binding: wait }, b: { call: 'noop', after: ['wait'] } }
  const run = await runtime.submit(flowOf(steps, { options: { budget: { actions: 10, warn_at: 0.1 } } }))
  expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  const told: string[] = []
  for await (const { event } of run.events()) told.push(String(event.event_type))
  expect(told.filter((type) => type === 'budget_warning')).toHaveLength(1)
  await inTime(clock, runtime.close())
})

it('counts what was done, and nothing that was only waited for or failed for nothing, whoever counts', async () => {
  let failures = 0
  const { start, clock } = budgeted({
    noop: () => null,
    flaky() {
      if (failures++ === 0) throw new ActionError('action_failed', 'not yet', { retryable: true })
      return null
    },
  })
  const runtime = await start()
  const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 5_000 } as const
  const flow = flowOf(
    {
      wait: { binding: wait },
      flaky: { after: ['wait'], binding: { retry } },
      asks: { call: 'noop', after: ['flaky'], binding: { approval: 'ask' } },
    },
    { options: { budget: { actions: 2 } } },
  )
  const run = await runtime.submit(flow)
  expect(await inTime(clock, run.rest())).toBe('waiting')
  await passes(clock, 1_000)
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
  expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  const graph = await runtime.project.context(run.context_id)
  expect(graph.get('run', run.run_id)?.data.spent).toEqual({ actions: 2, tokens: 0, cost: 0 })
  await inTime(clock, runtime.close())
})

it.each([
  ['made before', () => actionLayer()],
  ['made without its hands', () => () => actionLayer()],
] as const)('is refused where a layer was %s: nobody would hold it', async (_, layer) => {
  const runtime = await createRuntime({ store: memoryBackend(), layer: layer() })
  const flow = chainOf(1, { options: { budget: { tokens: 1, wall_ms: 60_000 } } })
  const problem = { path: 'options.budget.tokens', rule: 'layer' }
  await expect(runtime.submit(flow)).rejects.toMatchObject({ problems: [expect.objectContaining(problem)] })
  await runtime.close()
})

it('keeps nothing of an attempt that was denied', async () => {
  const denied: string[] = []
  let settle: Budget['settle'] | undefined
  const layer = (hands: Hands) => {
    const budget = hands.budget!
    settle = budget.settle
    const reserve: Budget['reserve'] = async (request) => {
      const answer = await budget.reserve(request)
      if (answer.state === 'exceeded') denied.push(request.execution_id)
      return answer
    }
    const adapters = [functionAdapter({ noop: () => null })]
    return actionLayer({ ...hands, budget: { ...budget, reserve }, adapters })
  }
  const { start, clock } = world({}, { layer })
  const runtime = await start()
  const run = await runtime.submit(chainOf(2, { options: { budget: { actions: 1 } } }))
  expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'budget_exceeded' } })
  expect(denied).toHaveLength(1)
  expect(await settle?.(denied[0]!, { actions: 1 })).toEqual({ state: 'ok' }) // nobody is charged who was never let in
  await inTime(clock, runtime.close())
})

const OUT_OF_TIME = {
  status: 'failed',
  error: { code: 'budget_exceeded', message: 'the budget of 60000 ms is used up' },
}
const aMinute = { budget: { wall_ms: 60_000 } }

it('ends a run whose time is used up, whatever it does: what is under way is told to stop', async () => {
  const { start, clock } = world({
    hang: (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const runtime = await start()
  const begun = clock.now()
  const run = await runtime.submit(flowOf({ hang: { binding: { timeout_ms: 3_600_000 } } }, { options: aMinute }))
  expect(await inTime(clock, run.result())).toMatchObject(OUT_OF_TIME)
  expect(clock.now() - begun).toBeGreaterThanOrEqual(60_000)
  await inTime(clock, runtime.close())
})

it.each([
  ['is laid down', async () => undefined],
  ['is paused', (runtime: Runtime, run: RunHandle) => runtime.pause(run.run_id)],
  ['has lost its process', async (runtime: Runtime & { die(): void }) => runtime.die()],
])('ends a run when its time is used up that %s by then', async (_, meanwhile) => {
  const { start, clock } = world({})
  const first = await start()
  const long = { action_type: 'wait', params: { signal: 'that never comes' } }
  const run = await first.submit(flowOf({ long: { binding: long } }, { options: aMinute }))
  expect(await inTime(clock, run.rest())).toBe('waiting')
  await meanwhile(first, run)
  const second = await start()
  expect(await inTime(clock, (await inTime(clock, second.get(run.run_id))).result())).toMatchObject(OUT_OF_TIME)
  const graph = await second.project.context(run.context_id)
  expect(graph.get('run', run.run_id)?.data.result?.termination_reason).toBe('resource_exhausted')
  expect(await graph.verify()).toEqual([])
  await inTime(clock, second.close())
})

it('counts time from the start of a run, not while it waits to be allowed', async () => {
  const { start, clock } = world({})
  const runtime = await start()
  const flow = flowOf({ wait: { binding: wait } }, { options: aMinute, approval: {} })
  const run = await runtime.submit(flow)
  await passes(clock, 70_000)
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
  expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('counts the time of one that was allowed, also when nobody looks at it any more', async () => {
  const { start, clock } = world({})
  const first = await start()
  const long = { action_type: 'wait', params: { signal: 'that never comes' } }
  const run = await first.submit(flowOf({ long: { binding: long } }, { options: aMinute, approval: {} }))
  const [asked] = await first.waiting()
  await first.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
  await passes(clock, 1_000)
  first.die()
  const second = await start()
  expect(await inTime(clock, (await inTime(clock, second.get(run.run_id))).result())).toMatchObject(OUT_OF_TIME)
  await inTime(clock, second.close())
})

it.each([0, -1, 1.5, '60000'])('refuses a budget of %s milliseconds', async (wall_ms) => {
  const { start, clock } = world({})
  const runtime = await start()
  const flow = chainOf(1, { options: { budget: { wall_ms: wall_ms as number } } })
  await expect(runtime.submit(flow)).rejects.toMatchObject({
    problems: [expect.objectContaining({ path: 'options.budget.wall_ms', rule: 'range' })],
  })
  await inTime(clock, runtime.close())
})

/** Costs three tokens each time. */
function paying(paid: string[]): Adapter {
  return {
    action_type: 'pay',
    executor_kind: 'worker',
    estimate: () => ({ tokens: 3 }),
    execute: async ({ idempotency_key }) => {
      paid.push(idempotency_key)
      return { output: null, token_usage: { prompt: 3, completion: 0, total: 3 } }
    },
  }
}

it('counts what an action has carried out on its way, also where its process dies while it waits for a child', async () => {
  const paid: string[] = []
  const parent: FunctionSpec = async (_args, { act, child, idempotency_key }) => {
    await act(newAction({ action_type: 'pay', params: {}, idempotency_key: `${idempotency_key}:pay` }))
    const waits = flowOf({ go: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    return (await child({ ...waits, chosen: { run: uuidOf(`${idempotency_key} child`) } })).status
  }
  const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [functionAdapter({ parent }), paying(paid)] })
  const { start, clock } = world({}, { layer })
  const first = await start()
  const run = await first.submit(flowOf({ parent: {} }, { options: { budget: { tokens: 5 } } }))
  await until(clock, () => paid.length > 0)
  await passes(clock, 1_000)
  first.die()
  const second = await start()
  const again = await second.get(run.run_id)
  expect(await inTime(clock, again.result())).toMatchObject({ error: { code: 'budget_exceeded' } })
  expect(paid).toHaveLength(1)
  await inTime(clock, second.close())
})

it('counts all that an action has carried out on its way, though another’s checkpoint lands after its end', async () => {
  const paid: string[] = []
  const [isPaid, isAway, all] = [door(), door(), door()]
  const pays: FunctionSpec = async (_args, { act, idempotency_key }) => {
    const pay = (what: string) =>
      act(newAction({ action_type: 'pay', params: {}, idempotency_key: `${idempotency_key}:${what}` }))
    await pay('one')
    isPaid.open()
    await isAway.opened
    await pay('other')
  }
  const keeps: Adapter = {
    action_type: 'keep',
    executor_kind: 'worker',
    async execute(_action, { checkpoint }) {
      await isPaid.opened
      await checkpoint('half')
      await all.opened
      return { output: null }
    },
  }
  const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [functionAdapter({ pays }), paying(paid), keeps] })
  const { start, clock } = world({}, { layer })
  const away = (store: Backend): Backend => ({
    ...store,
    async commit(write) {
      if (paid.length === 1 && JSON.stringify(write.entry).includes('"checkpoint"')) {
        isAway.open()
        throw new Unavailable('the store', 'it is away for a moment')
      }
      return store.commit(write)
    },
  })
  const runtime = await start({}, away)
  const steps = { pays: {}, keeps: { binding: { action_type: 'keep', params: {} } } }
  const run = await runtime.submit(flowOf(steps, { options: { budget: { tokens: 10 } } }))
  await passes(clock, 2_000)
  all.open()
  expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  const graph = await runtime.project.context(run.context_id)
  const usages = [...ofKind(graph.state.nodesOf(run.plan_id), 'action')].map(({ data }) => data.usage)
  expect(usages).toContainEqual({ actions: 2, tokens: 6 })
  await inTime(clock, runtime.close())
})
