import { describe, expect, it } from 'vitest'
import { Corrupt, InvalidInput } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { diffOf, graphAt, historyOf } from '../../src/psg/history.ts'
import { decide, endPlan, move, proposePlan } from '../../src/psg/moves.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { add, by, contentsOf, file, planOf, remove, set, withPlan, world } from './given.ts'

describe('psg/history', () => {
  it('tells every change of a node, with who, why and for which run, also after a restart', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, store, clock, context } = given
    const plan = planOf(given, { a: [] })
    const a = plan.step('a')
    await graph.commit(plan.changes, { actor: 'ann', reason: 'a plan' })
    await graph.commit([set('step', a, { description: 'better' })], { actor: 'ben', reason: 'words', run: 'r1' })
    await graph.commit([set('context', context, { title: 'beside' })], by)
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), { actor: 'cy', reason: 'no more' })
    const expected = [
      { revision: 2, actor: 'ann', reason: 'a plan', after: { description: 'a', status: 'pending' } },
      {
        revision: 3,
        actor: 'ben',
        reason: 'words',
        run: 'r1',
        before: { description: 'a' },
        after: { description: 'better' },
      },
      { revision: 5, actor: 'cy', before: { status: 'pending' }, after: { status: 'skipped', description: 'better' } },
    ]
    const past = await graph.history('step', a)
    expect(past).toMatchObject(expected)
    expect(past.every(({ at }) => /\.\d{6}Z$/.test(at))).toBe(true)
    const reopened = await openGraph(store, context, { clock })
    expect(await reopened.history('step', a)).toEqual(past)
    expect(await reopened.history('step', given.id())).toEqual([])
  })

  it('tells what happened to something that was deleted and came back, from its birth on', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, { a: [], b: [] })
    const b = plan.step('b')
    await graph.commit([remove('step', b)], by)
    expect((await graph.history('step', b)).map(({ revision, after }) => [revision, after === undefined])).toEqual([
      [2, false],
      [3, true],
    ])
    await graph.commit([add('step', b, plan.document.steps[1]!, { owner: plan.id, revived: true })], by)
    expect((await graph.history('step', b)).map(({ revision }) => revision)).toEqual([2, 3, 4])
    expect(graph.get('step', b)).toMatchObject({ born: 2, at: 1, owner: plan.id })
  })

  it('tells that something was retired, and that it is in use again', async () => {
    const given = await world()
    const { graph, context } = given
    const retire = (retired: boolean) =>
      graph.commit([{ kind: 'node_update', node: 'context', id: context, set: {}, retired }], by)
    await retire(true)
    await graph.commit([set('context', context, { title: 'other' })], by)
    await retire(false)
    const past = await graph.history('context', context)
    expect(past.map(({ retired }) => retired)).toEqual([undefined, true, true, undefined])
    const differs = async (from: number, to: number) =>
      (await graph.diff(from, to)).map(({ before, after, retired }) => [before?.title, after?.title, retired])
    const { title } = past[0]!.after!
    expect(await differs(1, 2)).toEqual([[title, title, true]])
    expect(await differs(2, 1)).toEqual([[title, title, false]])
    expect(await differs(2, 3)).toEqual([[title, 'other', undefined]])
    expect(await differs(0, 2)).toEqual([[undefined, title, true]])
    expect(await differs(1, 4)).toEqual([[title, 'other', undefined]])
  })

  it('tells each decision on a Confirm, also one that does not settle it', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, { a: [] })
    const asked = { requested_by_role: 'runtime', roles: ['dba', 'lead'], needed: 2 }
    await graph.commit(proposePlan(graph, plan.id, asked), { actor: 'ann', reason: 'asked' })
    const { id } = confirmOf(graph, plan.id)!
    for (const decided_by_role of ['dba', 'lead'])
      await graph.commit(decide(graph, id, { status: 'approved', decided_by_role }), {
        actor: decided_by_role,
        reason: `${decided_by_role} has looked`,
      })
    const past = await graph.history('confirm', id)
    expect(past.map(({ actor, told, after }) => [actor, told, after?.status])).toEqual([
      ['ann', undefined, 'pending'],
      ['dba', 'decision approved', 'pending'],
      ['lead', undefined, 'approved'],
    ])
  })

  it('does not take one path for the end of another', async () => {
    const { graph } = await world()
    await graph.commit(
      [add('file', 'src/a.ts', file('src/a.ts')), add('file', 'lib/file/src/a.ts', file('lib/file/src/a.ts'))],
      by,
    )
    await graph.commit([set('file', 'lib/file/src/a.ts', { size: 2 })], by)
    expect(await graph.history('file', 'src/a.ts')).toHaveLength(1)
    expect(await graph.history('file', 'lib/file/src/a.ts')).toHaveLength(2)
  })

  it('shows the graph as it was at every revision, and as it is at the last', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, store, clock, context } = given
    const pictures = [contentsOf((await openGraph(store, given.id(), { clock })).state), contentsOf(graph.state)]
    const plan = planOf(given, { a: [], b: ['a'], c: [] })
    const steps = [
      () => graph.commit(plan.changes, by),
      () => graph.commit([{ kind: 'edge_add', from: plan.step('c'), to: plan.step('b') }], by),
      () => graph.commit([remove('step', plan.step('c'))], by),
      () => graph.commit([move('step', plan.step('a'), 'skipped')], by),
      () => graph.commit(endPlan(graph, plan.id, 'cancelled'), by),
    ]
    for (const step of steps) {
      await step()
      pictures.push(contentsOf(graph.state))
    }
    const reopened = await openGraph(store, context, { clock })
    for (const [revision, picture] of pictures.entries())
      expect(contentsOf(await reopened.at(revision)), `at ${revision}`).toEqual(picture)
  })

  it('tells what differs between two revisions, each node once, in either direction', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, { a: [], b: [] })
    const [a, b] = [plan.step('a'), plan.step('b')]
    await graph.commit([set('step', a, { description: 'x' })], by)
    await graph.commit([set('step', a, { description: 'a' }), remove('step', b)], by)
    await graph.commit([set('plan', plan.id, { title: 'y' })], by)
    expect(await graph.diff(2, 3)).toMatchObject([
      { kind: 'step', id: a, before: { description: 'a' }, after: { description: 'x' } },
    ])
    const forth = await graph.diff(2, 5)
    expect(forth.map(({ kind, id }) => [kind, id])).toEqual([
      ['step', b],
      ['plan', plan.id],
    ]) // a is again as it was
    expect(forth[0]).not.toHaveProperty('after')
    const back = await graph.diff(5, 2)
    expect(back.map(({ before, after }) => [after, before])).toEqual(forth.map(({ before, after }) => [before, after]))
    expect(await graph.diff(4, 4)).toEqual([])
    expect((await graph.diff(0, 1)).map(({ kind }) => kind)).toEqual(['context'])
  })

  it('knows revisions that others have made since', async () => {
    const { graph, store, clock, context } = await world()
    const other = await openGraph(store, context, { clock })
    await other.commit([set('context', context, { title: 'x' })], by)
    expect((await graph.at(2)).get('context', context)?.data.title).toBe('x')
    expect(await graph.diff(1, 2)).toHaveLength(1)
  })

  it.each([null, {}, { changes: [{ key: 'g/-/step/s', status: ['pending', 'completed'] }] }])(
    'is Corrupt, and tells no other story, where an entry says %j',
    async (odd) => {
      const { graph, store, clock, context } = await world({ mostTrailing: 100 })
      await graph.commit([set('context', context, { title: 'x' })], by)
      const read: Backend['read'] = async function* (...asked) {
        for await (const entry of store.read(...asked)) {
          const body = odd && { ...(entry.body as JsonObject), changes: undefined, ...odd }
          yield entry.revision === 2 ? { ...entry, body: body as Json } : entry
        }
      }
      const damaged = { id: context, store: { ...store, read } }
      for (const ask of [
        () => openGraph(damaged.store, context, { clock }),
        () => historyOf(damaged, 'context', context),
        () => graphAt(damaged, 2),
        () => diffOf(damaged, 1, 2),
      ])
        await expect(ask()).rejects.toThrow(Corrupt)
      expect((await graphAt(damaged, 1)).get('context', context)).toBeDefined()
    },
  )

  it('is Corrupt where a value is no node', async () => {
    const { store, clock, context } = await world({ mostTrailing: 0 })
    const key = `${context}/-/context/${context}`
    await store.commit({ stream: 'x', expected: 0, inserts: [], puts: [[key, { born: 1 }]], deletes: [] })
    const error = await openGraph(store, context, { clock }).catch((e: unknown) => e)
    expect(error).toBeInstanceOf(Corrupt)
    expect((error as Corrupt).message).toContain(key)
  })

  it.each([-1, 1.5, Number.NaN, 99, '1'])('refuses %s as a revision', async (revision) => {
    const { graph } = await world()
    await expect(graph.at(revision as number)).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.diff(0, revision as number)).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.diff(revision as number, 0)).rejects.toBeInstanceOf(InvalidInput)
  })
})
