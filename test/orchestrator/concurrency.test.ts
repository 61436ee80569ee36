import { expect, it } from 'vitest'
import { ActionError } from '../../src/protocol/errors.ts'
import type { ToldEvent } from '../../src/psg/change.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { door, heldCommit, inTime, passes, until, world } from '../support/on-a-clock.ts'

const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 100 } as const

it.each([1, 2])(
  'lets no more than %i steps be under way, be they new, tried again or approved',
  async (concurrency) => {
    let [underWay, most, failures] = [0, 0, 0]
    const work = async () => {
      most = Math.max(most, ++underWay)
      await clock.sleep(300)
      underWay--
      return null
    }
    const { start, clock } = world({
      work,
      async flaky() {
        if (failures++ < 3) throw new ActionError('action_failed', 'not yet', { retryable: true })
        return work()
      },
    })
    const runtime = await start()
    const flaky = { call: 'flaky', binding: { retry } }
    const asks = { call: 'work', binding: { approval: 'ask' } } as const
    const steps = { a: flaky, b: flaky, c: flaky, asks, also: asks, d: { call: 'work' }, e: { call: 'work' } }
    const run = await runtime.submit(flowOf(steps, { options: { concurrency } }))
    await until(clock, () => failures === 3)
    for (const { confirm } of await runtime.waiting())
      await runtime.decide(confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(most).toBe(concurrency)
    await inTime(clock, runtime.close())
  },
)

it.each([
  ['keeps nobody waiting for room who needs none', {}],
  ['keeps nobody waiting for room who needs none, also while others do', { flaky: { binding: { retry } } }],
])('%s', async (_, others) => {
  let failures = 0
  const { start, clock } = world({
    long: () => clock.sleep(10_000).then(() => null),
    flaky() {
      if (failures++ === 0) throw new ActionError('action_failed', 'not yet', { retryable: true })
    },
  })
  const runtime = await start()
  const wait = { binding: { action_type: 'wait', params: { ms: 1_000 } } }
  const flow = flowOf({ wait, ...others, long: {} }, { options: { concurrency: 1 } })
  const run = await runtime.submit(flow)
  const graph = await runtime.project.context(run.context_id)
  const status = (step: 'wait' | 'long') => graph.get('step', flow.ids[step]!)?.data.status
  await until(clock, () => status('wait') === 'completed')
  expect(status('long')).toBe('in_progress')
  await inTime(clock, run.result())
  await inTime(clock, runtime.close())
})

it('gives a signal to one of two that wait for it, also in a tick that has found room', async () => {
  const [first, second] = [door(), door()]
  const called: string[] = []
  const flaky = (name: string) => () => {
    if (called.push(name) <= 2) throw new ActionError('action_failed', 'not yet', { retryable: true })
  }
  const busy = (name: string, until: Promise<void>) => () => {
    called.push(name)
    return until.then(() => `${name} is done`)
  }
  const functions = { x: flaky('x'), w: flaky('w'), y: busy('y', second.opened), z: busy('z', first.opened) }
  const { start, clock } = world(functions, { leaseTtlMs: 600_000 })
  const held = heldCommit('z is done')
  const runtime = await start({}, held.seen)
  const other = await start({ mine: new Set() })
  const wait = { binding: { action_type: 'wait', params: { signal: 'go' } } }
  const steps = { a: wait, b: wait, x: { binding: { retry } }, w: { binding: { retry } }, y: {}, z: {} }
  const flow = flowOf(steps, { options: { concurrency: 2 } })
  const run = await runtime.submit(flow)
  await until(clock, () => called.length === 4)
  await passes(clock, 1_000) // x and w would be tried again, and find no room
  first.open()
  await inTime(clock, held.reached)
  await other.signal(run.run_id, 'go', 1)
  second.open()
  await passes(clock, 50)
  held.letGo()
  await until(clock, () => called.length === 6)
  await inTime(clock, run.rest())
  const graph = await runtime.project.context(run.context_id)
  const statuses = [flow.ids.a!, flow.ids.b!].map((step) => graph.get('step', step)?.data.status)
  expect(statuses).toEqual(['completed', 'in_progress'])
  await inTime(clock, Promise.all([runtime.close(), other.close()]))
})

const many = (count: number, call: string) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`s${i}`, { call }]))

it('keeps what many steps give at the same moment, though no single entry of a journal could', async () => {
  const runtime = await runtimeOf({ large: () => '€'.repeat(20_000) })
  const run = await runtime.submit(flowOf(many(600, 'large'), { options: { concurrency: 600 } }))
  const { status, outputs } = await run.result()
  expect(status).toBe('completed')
  expect(new Set(Object.values(outputs).map((output) => String(output).length))).toEqual(new Set([20_000]))
  expect(runtime.errors).toEqual([])
  await runtime.close()
})

it('keeps what many signals brought while it was paused, too', async () => {
  const runtime = await runtimeOf({})
  const names = ['a', 'b', 'c', 'd']
  const waits = names.map((signal) => [signal, { binding: { action_type: 'wait', params: { signal } } }] as const)
  const flow = flowOf(Object.fromEntries(waits))
  const run = await runtime.submit(flow)
  await run.rest()
  await runtime.pause(run.run_id)
  await run.rest()
  const payloadOf = (name: string) => name.repeat(9 * 1024 * 1024)
  for (const name of names) await runtime.signal(run.run_id, name, payloadOf(name))
  await runtime.resume(run.run_id)
  const { success, outputs } = await run.result()
  expect(success).toBe(true)
  expect(names.filter((name) => outputs[flow.ids[name]!] !== payloadOf(name))).toEqual([])
  await runtime.close()
})

it('keeps what many steps failed of at the same moment, too', async () => {
  const fails = () => {
    throw new Error('€'.repeat(60_000))
  }
  const runtime = await runtimeOf({ fails })
  const bindings = { on_failure: 'continue' } as const
  const steps = Object.fromEntries(
    Object.entries(many(100, 'fails')).map(([name, step]) => [name, { ...step, binding: bindings }]),
  )
  const run = await runtime.submit(flowOf(steps, { options: { concurrency: 100 } }))
  expect((await run.result()).error).toEqual({ code: 'step_failed', message: "100 of the plan's steps failed" })
  expect(runtime.errors).toEqual([])
  await runtime.close()
})

it('begins thousands of steps in several commits', async () => {
  const begun: number[] = []
  const starts = (event: ToldEvent) => 'sa' in event && event.sa === 'SAStepStarted'
  const runtime = await runtimeOf({}, { onCommit: ({ body }) => void begun.push(body.events.filter(starts).length) })
  const run = await runtime.submit(flowOf(many(2_001, 'noop'), { options: { concurrency: 5_000 } }))
  expect((await run.result()).status).toBe('completed')
  expect(begun.filter((count) => count > 0)).toEqual([2_000, 1])
  await runtime.close()
})
