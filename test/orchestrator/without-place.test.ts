import { expect, it } from 'vitest'
import { collabDocument, contextDocument, planDocument, roleDocument } from '../support/agents.ts'
import { flowOf } from '../support/flows.ts'
import { inTime, passes, until } from '../support/on-a-clock.ts'
import { withPlaces, working } from '../support/places.ts'

const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 0 } as const
const type = { action_type: 'function' } as const

it('says of a run which of its steps would go on if there was a place for them, and nothing once there was', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const flow = flowOf({
    a: working('a'),
    b: working('b'),
    after: working('after', {}, ['b']),
    asked: working('asked', { approval: 'ask' }),
    other: working('other', { action_type: 'other' }),
  })
  const run = await runtime.submit(flow)
  await until(clock, () => begun.length === 2)
  expect(run.withoutPlace).toEqual([{ step_id: flow.ids.b, ...type }])
  expect((await runtime.get(run.run_id)).withoutPlace).toEqual(run.withoutPlace)
  await endAll('a', 'other')
  await until(clock, () => begun.length === 3)
  expect(run.withoutPlace).toEqual([])
  await inTime(clock, run.cancel())
  await inTime(clock, run.result())
  expect(run.withoutPlace).toEqual([])
  await inTime(clock, runtime.close())
})

it('says it in the process that has no place, and nothing in another', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const other = await start({ mine: new Set() })
  const run = await runtime.submit(flowOf({ a: working('a'), b: working('b') }))
  await until(clock, () => begun.length === 1)
  expect(run.withoutPlace).toHaveLength(1)
  expect((await other.get(run.run_id)).withoutPlace).toEqual([])
  await endAll('a', 'b')
  await inTime(clock, run.result())
  await inTime(clock, Promise.all([runtime.close(), other.close()]))
})

it('says it of a further attempt and of an approved action too, but not while the run is paused', async () => {
  const { start, clock, begun, end, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const late = { retry: { ...retry, delay_ms: 60_000 } }
  const flow = flowOf({
    later: working('later', late),
    a: working('a', { retry }),
    asks: working('asks', { approval: 'ask' }),
  })
  const run = await runtime.submit(flow)
  await end('later', 'fail')
  await until(clock, () => begun.length === 2)
  const other = await runtime.submit(flowOf({ b: working('b') }))
  await passes(clock, 100)
  await end('a', 'fail')
  await until(clock, () => begun.length === 3)
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
  const steps = () => new Set(run.withoutPlace.map(({ step_id }) => step_id))
  await until(clock, () => steps().size === 2)
  expect(steps()).toEqual(new Set([flow.ids.a, flow.ids.asks]))
  await runtime.pause(run.run_id)
  expect(await inTime(clock, run.rest())).toBe('waiting')
  expect(run.withoutPlace).toEqual([])
  await runtime.resume(run.run_id)
  await endAll('b')
  await until(clock, () => begun.length === 4)
  await endAll(begun[3]!, begun[3] === 'a' ? 'asks' : 'a', 'later')
  for (const one of [run, other]) expect(await inTime(clock, one.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('says nothing of a run that is to pause while something of it is under way', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const run = await runtime.submit(flowOf({ a: working('a'), b: working('b') }))
  await until(clock, () => begun.length === 1)
  const graph = await runtime.project.context(run.context_id)
  await runtime.pause(run.run_id)
  await until(clock, () => graph.get('run', run.run_id)?.data.pausing === true)
  expect(run.withoutPlace).toEqual([])
  await runtime.resume(run.run_id)
  await until(clock, () => run.withoutPlace.length === 1)
  await endAll('a', 'b')
  await inTime(clock, run.result())
  await inTime(clock, runtime.close())
})

it('says it of the way back', async () => {
  const { start, clock, begun, end, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const inverse = { ...type, params: { name: 'work', args: 'undo' } }
  const steps = { a: working('a', { inverse }), b: working('b', {}, ['a']) }
  const flow = flowOf(steps, { options: { on_failure: 'compensate' } })
  const run = await runtime.submit(flow)
  await endAll('a')
  await until(clock, () => begun.length === 2)
  const other = await runtime.submit(flowOf({ c: working('c') }))
  await passes(clock, 200)
  await end('b', 'fail')
  await until(clock, () => run.phase === 'undoing')
  expect(run.withoutPlace).toEqual([{ step_id: flow.ids.a, ...type }])
  await endAll('c', 'undo')
  for (const one of [run, other]) await inTime(clock, one.result())
  await inTime(clock, runtime.close())
})

it('says it of turns in a session: of those who could begin now, not of all that are to come', async () => {
  const { start, clock, begun, endAll } = withPlaces({ function: 1 })
  const runtime = await start()
  const context = contextDocument(clock)
  const collab = collabDocument(context, 'swarm', ['ann:dev', 'bob:dev'], clock)
  const plan = planDocument(context, { one: {}, two: {}, three: {} }, clock)
  await runtime.call('context', { intent: 'create', ...context })
  await runtime.call('role', { intent: 'create', ...roleDocument('dev', clock) })
  await runtime.call('collab', { intent: 'create', ...collab })
  const steps = Object.entries(plan.ids).map(([name, id]) => [id, { ...type, params: { name: 'work', args: name } }])
  const run = await runtime.submit({
    context: context.context_id,
    plan,
    bindings: { steps: Object.fromEntries(steps) },
    options: { profile: 'map', session: { collab_id: collab.collab_id } },
  })
  await until(clock, () => begun.length === 1)
  expect(run.withoutPlace).toEqual([{ step_id: plan.ids.two, ...type }])
  await endAll('one', 'two', 'three')
  expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})
