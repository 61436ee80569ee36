import { expect, it } from 'vitest'
import { rollback } from '../../src/orchestrator/rollback.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { firstActionOf } from '../../src/psg/first-action.ts'
import { isKind } from '../../src/psg/node.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { flowOf } from '../support/flows.ts'
import { heldCommit, inTime, passes, until } from '../support/on-a-clock.ts'
import { withPlaces, working } from '../support/places.ts'

const statuses = async (runtime: Runtime, flow: ReturnType<typeof flowOf>) => {
  const graph = await runtime.project.context(flow.plan.context_id)
  return (step: string) => graph.get('step', flow.ids[step]!)?.data.status
}

/** What was told of a step's attempts, in order. */
async function attempts(store: Backend, flow: ReturnType<typeof flowOf>, step: string) {
  const told: unknown[] = []
  for await (const entry of store.read(flow.plan.context_id))
    for (const { event } of eventsIn(entry))
      if (
        event.event_family === 'runtime_execution' &&
        (event.payload as { step_id?: string }).step_id === flow.ids[step]
      )
        told.push(event.status)
  return told
}

const approved = { status: 'approved', decided_by_role: 'somebody' } as const

it('lets a step be pending, and tells nothing of it, until there is a place for its action', async () => {
  const { start, clock, begun, endAll, store } = withPlaces({ function: 1 })
  const runtime = await start()
  const [one, two] = [
    flowOf({ a: working('a') }),
    flowOf({ b: working('b'), other: { call: 'noop', binding: { action_type: 'other' } } }),
  ]
  const runs = [await runtime.submit(one), await runtime.submit(two)]
  const status = await statuses(runtime, two)
  await until(clock, () => status('other') === 'completed')
  await passes(clock, 500)
  expect(begun).toEqual(['a'])
  expect(status('b')).toBe('pending')
  expect(await attempts(store, two, 'b')).toEqual([])
  await endAll('a', 'b')
  for (const run of runs) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  expect(await attempts(store, two, 'b')).toEqual(['running', 'completed'])
  expect(runtime.errors).toEqual([])
  await inTime(clock, runtime.close())
})

it('gives the next place to the run that has waited longest, and each its turn', async () => {
  const { start, clock, begun, endAll } = withPlaces({ '*': 1 })
  const runtime = await start()
  const many = await runtime.submit(flowOf({ a: working('a1'), b: working('a2'), c: working('a3') }))
  const few = []
  for (const name of ['b', 'c']) few.push(await runtime.submit(flowOf({ s: working(name) })))
  await passes(clock, 200)
  await endAll('a1', 'a2', 'b', 'c', 'a3')
  for (const run of [many, ...few]) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  expect(begun).toEqual(['a1', 'a2', 'b', 'c', 'a3'])
  await inTime(clock, runtime.close())
})

it('begins as much at once as there are places', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 2 })
  const runtime = await start()
  const first = await runtime.submit(flowOf({ a: working('a'), b: working('b') }))
  await until(clock, () => begun.length === 2)
  const second = await runtime.submit(flowOf({ c: working('c'), d: working('d'), e: working('e') }))
  await passes(clock, 200)
  await Promise.all([endAll('a'), endAll('b')])
  await until(clock, () => begun.length === 4)
  await passes(clock, 200)
  expect(begun).toEqual(['a', 'b', 'c', 'd'])
  await endAll('c', 'd', 'e')
  for (const run of [first, second]) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('gives a place to the next run where the first in line has no room for a further step itself', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const first = await runtime.submit(flowOf({ a: working('a') }))
  await until(clock, () => begun.length === 1)
  const steps = { b: working('b'), long: working('long', { action_type: 'other' }) }
  const full = await runtime.submit(flowOf(steps, { options: { concurrency: 1 } }))
  await until(clock, () => begun.length === 2)
  const last = await runtime.submit(flowOf({ c: working('c') }))
  await passes(clock, 200)
  await endAll('a', 'c')
  expect(begun).toEqual(['a', 'long', 'c'])
  await endAll('long', 'b')
  for (const run of [first, full, last]) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('begins nothing that waits for a place while it is being closed, and the next process asks nobody about it', async () => {
  const { start, clock, begun, end, endAll, store } = withPlaces({ function: 1 })
  const first = await start()
  const flow = flowOf({
    a: working('a'),
    b: working('b', { on_interrupt: 'hold' }),
    c: working('c', { on_interrupt: 'hold' }),
  })
  const { run_id } = await first.submit(flow)
  await until(clock, () => begun.length > 0)
  const closed = first.close()
  await end('a')
  await inTime(clock, closed)
  expect(begun).toEqual(['a'])
  const second = await start()
  await endAll('b', 'c')
  expect(await inTime(clock, (await second.get(run_id)).result())).toMatchObject({ success: true })
  expect(await attempts(store, flow, 'b')).toEqual(['running', 'completed'])
  await inTime(clock, second.close())
})

it('begins no attempt that waits for a place while it is being closed, either', async () => {
  const { start, clock, begun, end, endAll, store } = withPlaces({ function: 2 })
  const first = await start()
  const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 0 } as const
  const flow = flowOf({ a: working('a', { retry }), b: working('b') })
  const { run_id } = await first.submit(flow)
  await until(clock, () => begun.length === 2)
  await first.submit(flowOf({ c: working('c') }))
  await passes(clock, 100)
  await end('a', 'fail')
  await until(clock, () => begun.length === 3)
  const closed = first.close()
  await endAll('c')
  await passes(clock, 200)
  await endAll('b')
  await inTime(clock, closed)
  expect(begun).toEqual(['a', 'b', 'c'])
  const second = await start()
  await endAll('a')
  expect(await inTime(clock, (await second.get(run_id)).result())).toMatchObject({ success: true })
  expect(await attempts(store, flow, 'a')).toEqual(['running', 'failed', 'running', 'completed'])
  await inTime(clock, second.close())
})

it('counts nothing as cut off that had no place when its process died', async () => {
  const { start, clock, begun, endAll, store } = withPlaces({ function: 1 })
  const first = await start()
  const flow = flowOf({ a: working('a'), b: working('b', { on_interrupt: 'hold' }) })
  const { run_id } = await first.submit(flow)
  await until(clock, () => begun.length > 0)
  first.die()
  const second = await start()
  await until(clock, () => begun.length === 2)
  await endAll('a', 'b')
  expect(await inTime(clock, (await second.get(run_id)).result())).toMatchObject({ success: true })
  expect(begun).toEqual(['a', 'a', 'b'])
  expect(await attempts(store, flow, 'b')).toEqual(['running', 'completed'])
  await inTime(clock, second.close())
})

it('lets what was cut off wait for its place, where the next process has fewer', async () => {
  const { start, clock, begun, endAll, layerWith, store } = withPlaces({ function: 2 })
  const first = await start()
  const flow = flowOf({ a: working('a'), b: working('b') })
  const { run_id } = await first.submit(flow)
  await until(clock, () => begun.length === 2)
  first.die()
  const second = await start({ layer: layerWith({ function: 1 }) })
  await until(clock, () => begun.length === 3)
  await passes(clock, 500)
  expect(begun).toEqual(['a', 'b', 'a'])
  await endAll('a', 'b')
  expect(await inTime(clock, (await second.get(run_id)).result())).toMatchObject({ success: true })
  for (const step of ['a', 'b'])
    expect(await attempts(store, flow, step)).toEqual(['running', 'failed', 'running', 'completed'])
  await inTime(clock, second.close())
})

it.each([0, 100])('lets an attempt after %i ms wait for its place, as it does an approved one', async (delay_ms) => {
  const { start, clock, begun, end, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const retry = { strategy: 'fixed', max_attempts: 2, delay_ms } as const
  const one = flowOf({ a: working('a', { retry }), asks: working('asks', { approval: 'ask' }) })
  const run = await runtime.submit(one)
  await until(clock, () => begun.length === 1)
  const other = await runtime.submit(flowOf({ b: working('b') }))
  await passes(clock, 100)
  await end('a', 'fail')
  await until(clock, () => begun.length === 2)
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, approved)
  await passes(clock, 500)
  expect(begun).toEqual(['a', 'b'])
  expect((await runtime.get(run.run_id)).phase).toBe('running') // one that was laid down would be woken by nobody
  await endAll('b')
  await until(clock, () => begun.length === 3)
  await endAll(begun[2]!, begun[2] === 'a' ? 'asks' : 'a')
  for (const one of [run, other]) expect(await inTime(clock, one.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('keeps nobody waiting who waits for something else beside a place', async () => {
  const { start, clock, begun, end, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const long = await runtime.submit(flowOf({ a: working('a') }))
  await until(clock, () => begun.length === 1)
  const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 0 } as const
  const wait = { binding: { action_type: 'wait', params: { ms: 1_000 } } }
  const person = working('person', { approval: 'ask' })
  const flow = flowOf({ b: working('b', { retry }), wait, person })
  const run = await runtime.submit(flow)
  const status = await statuses(runtime, flow)
  await until(clock, () => status('wait') === 'completed')
  expect(begun).toEqual(['a'])
  await end('a')
  await end('b', 'fail')
  await endAll('b')
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, approved)
  await endAll('person')
  for (const one of [long, run]) expect(await inTime(clock, one.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('takes back what was done once there is a place for that', async () => {
  const { start, clock, begun, end, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const inverse = { action_type: 'function', params: { name: 'work', args: 'undo' } }
  const run = await runtime.submit(
    flowOf({ a: working('a', { inverse }), b: working('b', {}, ['a']) }, { options: { on_failure: 'compensate' } }),
  )
  await endAll('a')
  await until(clock, () => begun.length === 2)
  const other = await runtime.submit(flowOf({ c: working('c') }))
  await passes(clock, 200)
  await end('b', 'fail')
  await until(clock, () => begun.length === 3)
  await passes(clock, 500)
  expect(begun).toEqual(['a', 'b', 'c'])
  await endAll('c', 'undo')
  expect(await inTime(clock, run.result())).toMatchObject({ success: false })
  expect(await inTime(clock, other.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('has nothing on record of a rollback that waits for a place', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const inverse = { action_type: 'function', params: { name: 'work', args: 'undo' } }
  const run = await runtime.submit(flowOf({ a: working('a', { inverse }) }))
  await endAll('a')
  await inTime(clock, run.result())
  const other = await runtime.submit(flowOf({ b: working('b') }))
  await until(clock, () => begun.length === 2)
  const graph = await runtime.project.context(run.context_id)
  const inverses = () =>
    [...graph.state.nodes()].filter((node) => isKind(node, 'action') && node.data.compensates).length
  const impatient = new AbortController()
  const first = rollback({ graph, layer: runtime.layer }, run.run_id, { signal: impatient.signal })
  await passes(clock, 200)
  impatient.abort()
  const error = expect.objectContaining({ code: 'action_aborted' })
  expect(await inTime(clock, first)).toMatchObject({ effects: [{ status: 'failed', error }] })
  expect(inverses()).toBe(0)
  const second = rollback({ graph, layer: runtime.layer }, run.run_id)
  await passes(clock, 200)
  expect(begun).toEqual(['a', 'b'])
  await endAll('b', 'undo')
  expect(await inTime(clock, second)).toMatchObject({ status: 'done', effects: [{ status: 'undone' }] })
  expect(inverses()).toBe(1)
  const last = await runtime.submit(flowOf({ c: working('c') }))
  await endAll('c')
  for (const one of [other, last]) expect(await inTime(clock, one.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('waits no longer for a run that is cancelled or paused in line', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const first = await runtime.submit(flowOf({ a: working('a') }))
  await until(clock, () => begun.length === 1)
  const cancelled = await runtime.submit(flowOf({ b: working('b') }))
  const paused = await runtime.submit(flowOf({ c: working('c') }))
  const last = await runtime.submit(flowOf({ d: working('d') }))
  await passes(clock, 200)
  await runtime.cancel(cancelled.run_id)
  await runtime.pause(paused.run_id)
  expect(await inTime(clock, cancelled.result())).toMatchObject({ status: 'cancelled' })
  expect(await inTime(clock, paused.rest())).toBe('waiting')
  await endAll('a', 'd')
  for (const run of [first, last]) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  await runtime.resume(paused.run_id)
  await endAll('c')
  expect(await inTime(clock, paused.result())).toMatchObject({ success: true })
  expect(begun).toEqual(['a', 'd', 'c'])
  await inTime(clock, runtime.close())
})

/** The second step's first action is in the commit that is held up. */
const twoSteps = () => {
  const flow = flowOf({ one: { call: 'noop', binding: { action_type: 'other' } }, two: working('two', {}, ['one']) })
  return { flow, held: heldCommit(firstActionOf(flow.ids.two!)) }
}

it('gives a place back that was taken for a step which somebody has cancelled before it could begin', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const { flow, held } = twoSteps()
  const runtime = await start({}, held.seen)
  const other = await start({ mine: new Set() })
  const run = await runtime.submit(flow)
  await inTime(clock, held.reached)
  await other.cancel(run.run_id)
  held.letGo()
  expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
  const next = await runtime.submit(flowOf({ b: working('b') }))
  await endAll('b')
  expect(await inTime(clock, next.result())).toMatchObject({ success: true })
  expect(begun).toEqual(['b'])
  await inTime(clock, Promise.all([runtime.close(), other.close()]))
})

it('gives a place back that was taken in a context which is no longer its own', async () => {
  const { start, clock, begun, endAll, layerWith } = withPlaces({})
  const { flow, held } = twoSteps()
  const layer = layerWith({ function: 1 })
  const slow = await start({ layer }, (store) => ({ ...held.seen(store), renew: async () => false }))
  const run = await slow.submit(flow)
  await inTime(clock, held.reached)
  const quick = await start({ layer })
  await passes(clock, 2_000)
  held.letGo()
  await endAll('two')
  expect(await inTime(clock, (await quick.get(run.run_id)).result())).toMatchObject({ success: true })
  expect(begun).toEqual(['two'])
  await inTime(clock, Promise.all([slow.close(), quick.close()]))
})
