import { describe, expect, it } from 'vitest'
import { eachSince } from '../../src/psg/since.ts'
import { collect } from '../contracts/backend/given.ts'
import { add, by, file, remove, set, withPlan, world } from './given.ts'

describe('psg/since', () => {
  it('tells of each revision what `diff` and `at` do, in two readings of the journal', async () => {
    const given = await world()
    const { graph, context } = given
    const plan = await withPlan(given, { a: [], b: [] })
    await graph.commit([add('file', 'x', file('x')), set('context', context, { title: 'y' })], by)
    await graph.commit([remove('step', plan.step('b')), set('context', context, { title: 'z' })], by)
    await graph.commit([remove('file', 'x')], by)
    await graph.commit([set('context', context, { title: 'y' })], by)

    let readings = 0
    const read: typeof graph.store.read = (...args) => {
      readings++
      return graph.store.read(...args)
    }
    const revisions = Array.from({ length: graph.revision }, (_, i) => i)
    const told = await collect(eachSince({ id: graph.id, store: { read } }, revisions, graph.revision))
    expect(readings).toBe(2)
    const byKey = (one: { id: string }, other: { id: string }) => (one.id < other.id ? -1 : 1)
    for (const [revision, { kinds, differences }] of told.entries()) {
      const expected = await graph.diff(revision, graph.revision)
      expect(differences.toSorted(byKey)).toEqual(expected.toSorted(byKey))
      expect([...kinds].sort()).toEqual(
        [...new Set([...(await graph.at(revision)).nodes()].map(({ kind }) => kind))].sort(),
      )
    }
    expect(told).toHaveLength(revisions.length)
  })
})
