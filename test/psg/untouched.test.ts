import { expect, it } from 'vitest'
import { RevisionConflict } from '../../src/protocol/errors.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { changedBy, untouched } from '../../src/psg/untouched.ts'
import { add, by, file, remove, set, withPlan, world } from './given.ts'

async function given() {
  const one = await world()
  const plan = await withPlan(one, { a: [] })
  await one.graph.commit([add('file', 'f', file('f')), add('file', 'g', file('g'))], by)
  const other = await openGraph(one.store, one.context, { clock: one.clock })
  await other.load('files')
  return { ...one, other, plan: plan.id, since: one.graph.revision }
}
const names = [['file', 'f']] as const

it('holds as long as others change something else', async () => {
  const { graph, other, plan, since } = await given()
  await other.commit([set('plan', plan, { title: 'before' })], by)
  const refuseIfTouched = await untouched(graph, since, names)
  await other.commit([set('plan', plan, { title: 'afterwards' }), remove('file', 'g')], by)
  await graph.refresh()
  refuseIfTouched()
  expect(graph.revision).toBe(since + 2)
})

it.each([
  ['changed', [set('file', 'f', { path: 'f' })]],
  ['deleted', [remove('file', 'f')]],
] as const)('no longer does once one of the nodes was %s', async (_, changes) => {
  const { graph, other, since } = await given()
  const refuseIfTouched = await untouched(graph, since, names)
  await other.commit(changes, by)
  refuseIfTouched() // nobody here knows yet
  await graph.refresh()
  expect(refuseIfTouched).toThrow(RevisionConflict)
})

it('does not when that happened between planning and asking', async () => {
  const { graph, other, since } = await given()
  await other.commit([set('file', 'f', { path: 'f' })], by)
  await graph.refresh()
  expect(await untouched(graph, since, names)).toThrow(RevisionConflict)
})

it('sees that something has come where there was nothing', async () => {
  const { graph, other, since } = await given()
  const refuseIfTouched = await untouched(graph, since, [['file', 'h']])
  await other.commit([add('file', 'h', file('h'))], by)
  await graph.refresh()
  expect(refuseIfTouched).toThrow(RevisionConflict)
})

it('is about the nodes that changes name, and the step whose dependencies they change', () => {
  const edge = { kind: 'edge_delete', from: 's', to: 't' } as const
  expect(changedBy([set('file', 'f', { path: 'f' }), remove('file', 'g'), edge])).toEqual([
    ['file', 'f'],
    ['file', 'g'],
    ['step', 's'],
  ])
})
