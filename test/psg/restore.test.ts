import { describe, expect, it, vi } from 'vitest'
import { InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import type { Digest, JsonObject } from '../../src/protocol/json.ts'
import type { Change, CommitOptions, EntryBody, Stored } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { takeApart } from '../../src/psg/document.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { decide, endPlan, move } from '../../src/psg/moves.ts'
import { touchedBy } from '../../src/psg/restore.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { overtaken } from '../support/overtaken.ts'
import {
  add,
  bindingOf,
  by,
  contentsOf,
  file,
  META,
  planOf,
  remove,
  set,
  TIME,
  walkTo,
  withPlan,
  world,
} from './given.ts'

const as = (run: string): CommitOptions => ({ ...by, run })

/** Steps of a plan, each of which waits for the one before it. */
const chained = (owner: string, after: string, ids: readonly string[]): readonly Change[] =>
  ids.map((step_id, i) => {
    const dependencies = [ids[i - 1] ?? after]
    return add('step', step_id, { step_id, description: 'd', status: 'pending', dependencies }, { owner })
  })

describe('psg/restore: what became of what a run changed', () => {
  const data = (size: number, mtime = TIME) => ({
    born: 1,
    data: { ...file('a', size), mtime } as unknown as JsonObject,
  })
  /** A file, as it was after each entry; those of the run are the ones told. */
  const became = (states: readonly Stored[], ours: readonly number[]) => {
    const entries = states.slice(1).map((after, i) => ({
      revision: i + 1,
      body: { changes: [{ key: 'c/files/file/a', before: states[i], after }] } as unknown as EntryBody,
    }))
    return touchedBy(entries, ({ revision }) => ours.includes(revision)).get('c/files/file/a')!
  }

  it('is somebody else’s once they have changed it, also where the run did so once more', () => {
    expect(became([data(1), data(2), data(3)], [1])).toMatchObject({ foreign: 2 })
    expect(became([data(1), data(2), data(3), data(4), data(4, 'later')], [1, 3])).toMatchObject({
      foreign: 4,
      isMixed: true,
    })
  })

  it('is the run’s where others have put it back, or have only looked at it', () => {
    expect(became([data(1), data(2), data(3), data(2)], [1]).foreign).toBeUndefined()
    expect(became([data(1), data(2), data(2, 'later')], [1]).foreign).toBeUndefined()
  })
})

describe('psg/restore: one run', () => {
  it('takes back what the run did, and nothing else', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const plan = await withPlan(given, { a: [], b: [] })
    await graph.commit([add('file', 'kept.ts', file('kept.ts', 1)), add('file', 'gone.ts', file('gone.ts', 2))], by)
    const { revision } = graph
    await graph.commit([set('file', 'kept.ts', { size: 10 }), add('file', 'new.ts', file('new.ts', 3))], as('r1'))
    await graph.commit([set('step', plan.step('a'), { description: 'theirs' })], as('r2'))
    await graph.commit([remove('file', 'gone.ts'), set('file', 'kept.ts', { size: 11 })], as('r1'))
    await graph.commit([set('step', plan.step('b'), { description: 'mine' })], as('r1'))
    const { changes, conflicts } = await graph.restore({ ...by, to: revision, of: 'r1' })
    expect(conflicts).toEqual([])
    expect(changes).toHaveLength(4)
    expect(graph.get('file', 'kept.ts')?.data.size).toBe(1)
    expect(graph.get('file', 'new.ts')).toBeUndefined()
    expect(graph.get('file', 'gone.ts')?.data.size).toBe(2)
    expect(graph.get('step', plan.step('b'))?.data.description).toBe('b')
    expect(graph.get('step', plan.step('a'))?.data.description).toBe('theirs')
    expect(await graph.verify()).toEqual([])
    const reopened = await openGraph(store, context, { clock })
    await reopened.load('files')
    expect(contentsOf(reopened.state)).toEqual(contentsOf(graph.state))
  })

  it('brings nothing into memory that only others have changed since', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    await graph.commit([add('file', 'a.ts', file('a.ts'))], as('r1'))
    const theirs = await withPlan(given, { a: [] })
    await graph.commit(endPlan(graph, theirs.id, 'cancelled'), as('r2'))
    const reopened = await openGraph(store, context, { clock })
    const { changes } = await reopened.restore({ ...by, to: 1, of: 'r1', dryRun: true })
    expect(changes).toEqual([{ kind: 'node_delete', node: 'file', id: 'a.ts' }])
    expect(reopened.state.hasGroup(theirs.id)).toBe(false)
  })

  it('goes back to what was before the run, not to what was before somebody else’s earlier change', async () => {
    const { graph, context } = await world()
    await graph.commit([set('context', context, { title: 'theirs' })], as('r2'))
    await graph.commit([set('context', context, { title: 'mine' })], as('r1'))
    await graph.restore({ ...by, to: 1, of: 'r1' })
    expect(graph.get('context', context)?.data.title).toBe('theirs')
  })

  it('lists what somebody else changed since, and leaves it', async () => {
    const given = await world()
    const { graph, context } = given
    await graph.commit([add('file', 'a.ts', file('a.ts', 1)), add('file', 'b.ts', file('b.ts', 1))], by)
    await graph.commit([set('file', 'a.ts', { size: 2 }), set('file', 'b.ts', { size: 2 })], as('r1'))
    await graph.commit([set('file', 'a.ts', { size: 3 })], as('r2'))
    await graph.commit([set('file', 'a.ts', { mode: 1 })], as('r1'))
    const { conflicts } = await graph.restore({ ...by, to: 2, of: 'r1' })
    expect(conflicts).toEqual([
      { kind: 'file', id: 'a.ts', revision: 4, message: expect.stringContaining('somebody else') },
    ])
    expect(graph.get('file', 'a.ts')?.data).toMatchObject({ size: 3, mode: 1 })
    expect(graph.get('file', 'b.ts')?.data.size).toBe(1)
    expect(context).toBe(graph.id)
  })

  it('lists what the run had put back itself, but changed once more after somebody else', async () => {
    const { graph } = await world()
    await graph.commit([add('file', 'a.ts', file('a.ts', 1))], by)
    for (const size of [2, 1]) await graph.commit([set('file', 'a.ts', { size })], as('r1'))
    await graph.commit([set('file', 'a.ts', { size: 3 })], as('r2'))
    await graph.commit([set('file', 'a.ts', { mode: 1 })], as('r1'))
    const { changes, conflicts } = await graph.restore({ ...by, to: 2, of: 'r1' })
    expect(changes).toEqual([])
    expect(conflicts).toMatchObject([{ id: 'a.ts', revision: 5 }])
  })

  it('does not mind what somebody else changed and put back, or only saw', async () => {
    const { graph } = await world()
    const own = ['put-back.ts', 'seen.ts', 'built-upon.ts']
    await graph.commit(
      own.map((path) => add('file', path, file(path, 1))),
      by,
    )
    await graph.commit(
      own.map((path) => set('file', path, { size: 2 })),
      as('r1'),
    )
    await graph.commit([set('file', 'put-back.ts', { size: 3 }), set('file', 'built-upon.ts', { size: 3 })], as('r2'))
    await graph.commit([set('file', 'put-back.ts', { size: 2 }), set('file', 'seen.ts', { mtime: TIME })], as('r2'))
    await graph.commit([set('file', 'built-upon.ts', { size: 2 })], as('r1'))
    const { conflicts } = await graph.restore({ ...by, to: 2, of: 'r1' })
    expect(conflicts).toMatchObject([{ id: 'built-upon.ts', revision: 4 }])
    expect(own.map((path) => graph.get('file', path)?.data.size)).toEqual([1, 1, 2])
  })

  it('keeps what the run made and somebody else has moved on, also when all else was put back', async () => {
    const { graph, id, context } = await world()
    const extension_id = id()
    const data = { meta: META, extension_id, context_id: context, name: 'n', version: '1.0.0' }
    const born = { ...data, extension_type: 'capability', status: 'registered' } as const
    await graph.commit([add('extension', extension_id, born)], as('r1'))
    await graph.commit([set('extension', extension_id, { name: 'x', status: 'active' })], as('r2'))
    await graph.commit([set('extension', extension_id, { name: 'n' })], as('r2'))
    const { changes, conflicts } = await graph.restore({ ...by, to: 1, of: 'r1' })
    expect(changes).toEqual([])
    expect(conflicts).toMatchObject([{ id: extension_id, revision: 3 }])
  })

  it('keeps what the run made and somebody else has come to need', async () => {
    const given = await world()
    const { graph, id } = given
    const plan = await withPlan(given, { a: [] })
    const step_id = id()
    const added = add('step', step_id, { step_id, description: 'of r1', status: 'pending' }, { owner: plan.id })
    await graph.commit([added], as('r1'))
    const binding = id()
    await graph.commit([add('binding', binding, bindingOf(step_id, binding))], as('r2'))
    const { conflicts, changes } = await graph.restore({ ...by, to: 2, of: 'r1' })
    expect(changes).toEqual([])
    expect(conflicts).toMatchObject([
      { kind: 'step', id: step_id, message: expect.stringContaining('[delete.referenced]') },
    ])
    expect(graph.get('step', step_id)).toBeDefined()
  })

  it('asks the rules once what of a chain stays that somebody else has come to need, and not once for each of it', async () => {
    const given = await world()
    const { graph, id } = given
    const plan = await withPlan(given, { a: [] })
    const { revision } = graph
    const chain = Array.from({ length: 20 }, id)
    await graph.commit(
      [...chained(plan.id, plan.step('a'), chain), set('context', given.context, { title: 'x' })],
      as('r1'),
    )
    const theirs = id()
    await graph.commit(chained(plan.id, chain.at(-1)!, [theirs]), as('r2'))
    const check = vi.spyOn(graph, 'check')
    const { changes, conflicts } = await graph.restore({ ...by, to: revision, of: 'r1' })
    expect(check.mock.calls.length).toBeLessThan(4)
    expect(changes.map((change) => change.kind)).toEqual(['node_update'])
    expect(conflicts.map((conflict) => conflict.id)).toEqual(chain)
    expect(conflicts.slice(-2)).toMatchObject([
      { message: `step ${chain.at(-2)} is needed by step ${chain.at(-1)}, which stays` },
      { message: expect.stringContaining(`is needed by step ${theirs} [delete.referenced]`) },
    ])
  })

  it('asks the rules once what of a chain cannot come back that waits for what somebody else has deleted', async () => {
    const given = await world()
    const { graph, id } = given
    const plan = await withPlan(given, { a: [], b: [], free: [] })
    const chain = Array.from({ length: 20 }, id)
    await graph.commit(chained(plan.id, plan.step('b'), chain), by)
    const { revision } = graph
    await graph.commit(
      [...chain, plan.step('free')].map((step) => remove('step', step)),
      as('r1'),
    )
    await graph.commit([remove('step', plan.step('b'))], as('r2'))
    const check = vi.spyOn(graph, 'check')
    const { changes, conflicts } = await graph.restore({ ...by, to: revision, of: 'r1' })
    expect(check.mock.calls.length).toBeLessThan(4)
    expect(changes).toMatchObject([{ kind: 'node_add', id: plan.step('free') }])
    expect(conflicts.map((conflict) => conflict.id)).toEqual(chain)
    expect(conflicts[1]).toMatchObject({
      message: `step ${chain[1]} needs step ${chain[0]}, which does not come back`,
    })
  })

  it('keeps how a step is executed that the run made and somebody else has changed', async () => {
    const given = await world()
    const { graph, id } = given
    const plan = await withPlan(given, { a: [] })
    const { revision } = graph
    const [step_id, binding] = [id(), id()]
    const born = { step_id, description: 'b', status: 'pending' as const }
    await graph.commit([add('step', step_id, born, { owner: plan.id, at: 1 })], as('r1'))
    await graph.commit([add('binding', binding, bindingOf(step_id, binding))], as('r1'))
    await graph.commit([set('step', step_id, { description: 'theirs' })], as('r2'))
    const { changes, conflicts } = await graph.restore({ ...by, to: revision, of: 'r1' })
    expect(changes).toEqual([])
    expect(conflicts).toMatchObject([
      { kind: 'step', id: step_id, revision: 5 },
      { kind: 'binding', id: binding, revision: 5 },
    ])
  })

  it('does not take a moved status for a change of the thing, unless the thing would go', async () => {
    const given = await world()
    const { graph, id } = given
    const { id: owner, document, step } = planOf(given, { broken: [], a: ['broken'], b: [] })
    const steps = document.steps.map((one) => (one.description === 'broken' ? { ...one, status: 'failed' } : one))
    await graph.commit(takeApart('plan', { ...document, steps }, { imported: true }), by)
    const step_id = id()
    const added = { step_id, description: 'of r1', status: 'pending' as const, dependencies: [step('broken')] }
    await graph.commit(
      [set('step', step('a'), { description: 'of r1' }), add('step', step_id, added, { owner })],
      as('r1'),
    )
    await graph.commit([move('step', step('a'), 'blocked'), move('step', step_id, 'blocked')], as('r2'))
    const { conflicts } = await graph.restore({ ...by, to: 2, of: 'r1' })
    expect(conflicts).toMatchObject([{ id: step_id, revision: 4 }])
    expect(graph.get('step', step('a'))?.data).toMatchObject({ description: 'a', status: 'blocked' })
  })

  it('finds what it needs in groups that have left memory', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, id, context } = given
    const dialogs = [id(), id(), id()]
    for (const dialog of dialogs) {
      const data = { meta: META, dialog_id: dialog, context_id: context, status: 'active' as const, messages: [] }
      await graph.commit([add('dialog', dialog, data)], by)
      await graph.commit([set('dialog', dialog, { started_at: TIME })], as('r1'))
      await graph.commit([move('dialog', dialog, 'cancelled')], by)
    }
    await graph.commit([add('file', 'a.ts', file('a.ts', 1))], as('r1'))
    const { conflicts, changes } = await graph.restore({ ...by, to: 1, of: 'r1' })
    expect(changes).toMatchObject([{ kind: 'node_delete', node: 'file' }])
    expect(conflicts.map(({ id: dialog }) => dialog).sort()).toEqual([...dialogs].sort()) // closed: they stay as they ended
  })

  it('only says what it would do when asked to', async () => {
    const { graph, context } = await world()
    await graph.commit([set('context', context, { title: 'x' })], as('r1'))
    const { changes } = await graph.restore({ ...by, to: 1, of: 'r1', dryRun: true })
    expect(changes).toMatchObject([{ kind: 'node_update', node: 'context', set: { title: 'The shop' } }])
    expect(graph.revision).toBe(2)
  })

  it.each([5, null, ''])('refuses %j as the run to take back', async (of) => {
    const { graph, context } = await world()
    await graph.commit([set('context', context, { title: 'x' })], as('r1'))
    const error = await graph.restore({ ...by, to: 1, of: of as never }).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(InvalidInput)
    expect((error as InvalidInput).problems).toMatchObject([{ path: 'of', rule: 'text' }])
  })

  it('leaves what was last seen of a file as it is: the disk has not gone back', async () => {
    const { graph } = await world()
    const agreed = (digest: string) => ({ ...file('a'), digest: digest as Digest, agreed: { digest } as never })
    await graph.commit([add('file', 'a', agreed('sha256:1'))], by)
    const { revision } = graph
    await graph.commit([set('file', 'a', agreed('sha256:2'))], by)
    await graph.restore({ ...by, to: revision })
    expect(graph.get('file', 'a')?.data).toMatchObject({ digest: 'sha256:1', agreed: { digest: 'sha256:2' } })
  })

  it('brings back into use what was retired and then deleted, and leaves retired what was so before', async () => {
    const { graph } = await world()
    const retire = (id: string) => ({ kind: 'node_update', node: 'file', id, set: {}, retired: true }) as const
    await graph.commit([add('file', 'a.ts', file('a.ts', 1)), add('file', 'b.ts', file('b.ts', 1))], by)
    await graph.commit([retire('b.ts')], by)
    await graph.commit([retire('a.ts')], as('r1'))
    await graph.commit([remove('file', 'a.ts'), remove('file', 'b.ts')], as('r1'))
    await graph.restore({ ...by, to: 3, of: 'r1' })
    expect(['a.ts', 'b.ts'].map((id) => graph.get('file', id)?.retired)).toEqual([undefined, true])
    expect(await graph.verify()).toEqual([])
  })

  it('brings back into use what was retired and is still there, unless somebody else has retired it', async () => {
    const { graph } = await world()
    const retire = (id: string) => ({ kind: 'node_update', node: 'file', id, set: {}, retired: true }) as const
    await graph.commit([add('file', 'a.ts', file('a.ts', 1)), add('file', 'b.ts', file('b.ts', 1))], by)
    await graph.commit([retire('a.ts'), set('file', 'b.ts', { size: 2 })], as('r1'))
    await graph.commit([retire('b.ts')], as('r2'))
    const { conflicts } = await graph.restore({ ...by, to: 2, of: 'r1' })
    expect(conflicts).toMatchObject([{ id: 'b.ts', revision: 4 }])
    expect(graph.get('file', 'a.ts')?.retired).toBeUndefined()
    expect(graph.get('file', 'b.ts')).toMatchObject({ retired: true, data: { size: 2 } })
  })

  it('brings back a field that was taken away', async () => {
    const { graph, context } = await world({ context: { summary: 'about shops' } })
    await graph.commit([set('context', context, { summary: undefined })], as('r1'))
    await graph.restore({ ...by, to: 1, of: 'r1' })
    expect(graph.get('context', context)?.data.summary).toBe('about shops')
  })

  it('brings back what was changed, moved on and then deleted as far as it had come', async () => {
    const { graph, id, context } = await world()
    const extension_id = id()
    const data = { meta: META, extension_id, context_id: context, name: 'n', version: '1.0.0' }
    const born = { ...data, extension_type: 'capability', status: 'registered' } as const
    await graph.commit([add('extension', extension_id, born)], by)
    await graph.commit([set('extension', extension_id, { name: 'x', status: 'active' })], as('r1'))
    await graph.commit([remove('extension', extension_id)], as('r1'))
    await graph.restore({ ...by, to: 2, of: 'r1' })
    expect(graph.get('extension', extension_id)?.data).toMatchObject({ name: 'n', status: 'active' })
    expect(await graph.verify()).toEqual([])
  })

  it('does nothing when there is nothing to take back', async () => {
    const { graph } = await world()
    expect(await graph.restore({ ...by, to: 0, of: 'nobody' })).toEqual({ changes: [], conflicts: [] })
    expect(graph.revision).toBe(1)
  })

  it('looks again when others write while it looks', async () => {
    const { graph, store, clock, context } = await world()
    await graph.commit([set('context', context, { title: 'x', summary: 'x' })], as('r1'))
    const other = await openGraph(store, context, { clock })
    let written = 0
    const hurried = await openGraph(
      {
        ...store,
        async commit(write) {
          if (written++ === 0) await other.commit([set('context', context, { title: 'theirs' })], by)
          return store.commit(write)
        },
      },
      context,
      { clock },
    )
    const { conflicts } = await hurried.restore({ ...by, to: 1, of: 'r1' })
    expect(conflicts).toMatchObject([{ kind: 'context', revision: 3 }])
    expect(hurried.get('context', context)?.data.title).toBe('theirs')
  })

  it('is not kept from it by those who never rest and write something else', async () => {
    const { graph, store, clock, context } = await world()
    await graph.commit([add('file', 'a.ts', file('a.ts', 1))], by)
    await graph.commit([set('file', 'a.ts', { size: 2 })], as('r1'))
    const slow = await openGraph(overtaken(store, graph), context, { clock })
    const { changes, conflicts } = await slow.restore({ ...by, to: 2, of: 'r1' })
    expect([changes, conflicts]).toMatchObject([[{ id: 'a.ts' }], []])
    expect(slow.get('file', 'a.ts')?.data.size).toBe(1)
    expect(await slow.verify()).toEqual([])
  })

  it('looks again when others come to need, while it looks, what would go', async () => {
    const given = await world()
    const { graph, store, clock, context, id } = given
    const plan = await withPlan(given, { a: [] })
    const { revision } = graph
    const [step_id, binding] = [id(), id()]
    const born = { step_id, description: 'b', status: 'pending' as const }
    await graph.commit([add('step', step_id, born, { owner: plan.id, at: 1 })], as('r1'))
    let isLate = false
    const overtakenOnce: Backend = {
      ...store,
      async commit(write) {
        if (!isLate) {
          isLate = true
          await graph.commit([add('binding', binding, bindingOf(step_id, binding))], by)
        }
        return store.commit(write)
      },
    }
    const hurried = await openGraph(overtakenOnce, context, { clock })
    const { changes, conflicts } = await hurried.restore({ ...by, to: revision, of: 'r1' })
    expect([changes, conflicts]).toMatchObject([[], [{ kind: 'step', id: step_id }]])
  })
})

describe('psg/restore: a whole context', () => {
  it('goes back to a snapshot by name or id: definitions, not lives', async () => {
    const given = await world()
    const { graph, context } = given
    const plan = await withPlan(given, { a: [], b: ['a'] })
    const ended = await withPlan(given, { a: [] })
    const snapshot = await graph.snapshot('before', { ...by, plan_id: plan.id })
    expect(snapshot.data).toMatchObject({ name: 'before', revision: 3, plan_id: plan.id })
    await graph.commit([set('context', context, { title: 'x' }), set('plan', plan.id, { title: 'x' })], by)
    await graph.commit([{ kind: 'edge_delete', from: plan.step('b'), to: plan.step('a') }], by)
    await graph.commit([remove('step', plan.step('b'))], by)
    await graph.commit(endPlan(graph, ended.id, 'cancelled'), by)
    await graph.commit([move('context', context, 'suspended')], by)
    const { conflicts } = await graph.restore({ ...by, to: 'before' })
    expect(conflicts).toEqual([])
    expect(graph.get('context', context)?.data).toMatchObject({ title: 'The shop', status: 'suspended' })
    expect(graph.get('plan', plan.id)?.data).toMatchObject({ title: 'A plan', status: 'draft' })
    expect(graph.get('step', plan.step('b'))?.data.dependencies).toEqual([plan.step('a')])
    expect(graph.get('plan', ended.id)?.data.status).toBe('cancelled')
    expect(graph.get('snapshot', snapshot.id)).toBeDefined()
    expect(await graph.verify()).toEqual([])
    expect((await graph.restore({ ...by, to: snapshot.id })).changes).toEqual([])
  })

  it('goes back to the later of two snapshots with one name', async () => {
    const { graph, context } = await world()
    await graph.snapshot('before', by)
    await graph.commit([set('context', context, { title: 'x' })], by)
    await graph.snapshot('before', by)
    await graph.commit([set('context', context, { title: 'y' })], by)
    await graph.restore({ ...by, to: 'before' })
    expect(graph.get('context', context)?.data.title).toBe('x')
  })

  it('can itself be taken back', async () => {
    const { graph, context } = await world()
    await graph.commit([set('context', context, { title: 'x' })], by)
    await graph.restore({ ...by, to: 1 })
    await graph.restore({ ...by, to: 2 })
    expect(graph.get('context', context)?.data.title).toBe('x')
  })

  it('brings a deleted plan back where it was, with its parts, and can delete it again', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, store, clock, context } = given
    const plan = await withPlan(given, { a: [], b: ['a'] })
    const before = contentsOf(graph.state)
    await graph.commit([remove('plan', plan.id), remove('step', plan.step('a')), remove('step', plan.step('b'))], by)
    expect(await graph.verify()).toEqual([])
    await graph.restore({ ...by, to: 2 })
    expect(contentsOf(graph.state)).toEqual(before)
    expect(await graph.verify()).toEqual([])
    await graph.restore({ ...by, to: 3 })
    expect(graph.get('plan', plan.id)).toBeUndefined()
    expect(await graph.verify()).toEqual([])
    const reopened = await openGraph(store, context, { clock })
    expect(contentsOf(reopened.state, ['-'])).toEqual(contentsOf(graph.state, ['-']))
  })

  it('brings back after a restart what was deleted before it', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const plan = await withPlan(given, { a: [], b: ['a'] })
    const before = contentsOf(graph.state)
    await graph.commit([remove('step', plan.step('b'))], by)
    const reopened = await openGraph(store, context, { clock })
    await reopened.restore({ ...by, to: 2 })
    expect(contentsOf(reopened.state)).toEqual(before)
    expect(await reopened.verify()).toEqual([])
  })

  it('lists what the rules keep: a plan that was proposed since stays as it is', async () => {
    const given = await world()
    const plan = await withPlan(given, { a: [] })
    const { graph } = given
    await graph.commit([set('plan', plan.id, { title: 'x' }), set('step', plan.step('a'), { description: 'x' })], by)
    await walkTo(given, plan.id, 'proposed')
    const { conflicts, changes } = await graph.restore({ ...by, to: 2 })
    expect(changes).toEqual([])
    expect(conflicts.map(({ kind, message }) => [kind, message.includes('[plan.frozen]')])).toEqual([
      ['plan', true],
      ['step', true],
    ])
  })

  it('keeps how the steps are executed of a plan that it keeps because people were asked about it', async () => {
    const given = await world()
    const { graph, id } = given
    const { revision } = graph
    const plan = await withPlan(given, { a: [], b: [] })
    const bindings = ['a', 'b'].map((name) => bindingOf(plan.step(name), id()))
    await graph.commit(
      bindings.map((data) => add('binding', data.binding_id, data)),
      by,
    )
    await walkTo(given, plan.id, 'proposed')
    const { id: confirm } = confirmOf(graph, plan.id)!
    await graph.commit(decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }), by)
    expect(graph.get('plan', plan.id)?.data.status).toBe('draft')
    const { changes, conflicts } = await graph.restore({ ...by, to: revision })
    expect(changes).toEqual([])
    expect(conflicts.map(({ kind }) => kind)).toEqual(['plan', 'step', 'step', 'binding', 'binding'])
    expect(bindings.map(({ binding_id }) => graph.get('binding', binding_id)?.data)).toEqual(bindings)
  })

  it('keeps what is history: messages, decisions, traces', async () => {
    const { graph, context, id } = await world()
    const dialog = id()
    const data = { meta: META, dialog_id: dialog, context_id: context, status: 'active' as const, messages: [] }
    await graph.commit([add('dialog', dialog, data)], by)
    await graph.commit(
      [add('message', `${dialog}/0`, { role: 'user', content: 'hello', timestamp: TIME }, { owner: dialog, at: 0 })],
      by,
    )
    expect(await graph.restore({ ...by, to: 2 })).toEqual({ changes: [], conflicts: [] })
    expect(graph.get('message', `${dialog}/0`)).toBeDefined()
  })

  it('is refused while something runs, but not for a plan that was imported as running', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, undefined, 'in_progress')
    await expect(graph.restore({ ...by, to: 1 })).rejects.toMatchObject({
      problems: [{ path: 'of', rule: 'nothing_runs' }],
    })
    await graph.commit(endPlan(graph, plan.id, 'failed'), by)
    expect((await graph.restore({ ...by, to: 1 })).changes).toEqual([])
  })

  it.each([-1, 99, 0.5, Number.NaN, undefined, {}])('refuses to go to %s', async (to) => {
    const { graph } = await world()
    await expect(graph.restore({ ...by, to: to as number })).rejects.toBeInstanceOf(InvalidInput)
  })

  it('says that there is no such snapshot', async () => {
    const { graph } = await world()
    await expect(graph.restore({ ...by, to: 'nowhere' })).rejects.toBeInstanceOf(NotFound)
    await expect(graph.snapshot('', by)).rejects.toMatchObject({ problems: [{ path: 'name' }] })
    await expect(graph.snapshot(1 as never, by)).rejects.toBeInstanceOf(InvalidInput)
  })
})

describe('psg/fork', () => {
  it('copies an ended plan as a new draft: new ids, pending steps, the same bindings', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, id } = given
    const plan = await withPlan(given, { a: [], b: ['a'] })
    const binding = id()
    const params = { text: { $from: plan.step('a'), path: 'out' }, n: 1 }
    const inverse = {
      action_type: 'function',
      params: { of: { $from: plan.step('b') }, to: { $from: plan.step('a') } },
    }
    await graph.commit([add('binding', binding, { ...bindingOf(plan.step('b'), binding), params, inverse })], by)
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    const fork = await graph.fork(plan.id, { actor: 'ann', reason: 'again' })
    expect(fork.id).not.toBe(plan.id)
    const document = await graph.document('plan', fork.id)
    expect(document).toMatchObject({ title: 'A plan', status: 'draft' })
    expect(document.steps.map(({ description, status }) => [description, status])).toEqual([
      ['a', 'pending'],
      ['b', 'pending'],
    ])
    const [a, b] = document.steps.map(({ step_id }) => step_id)
    expect(document.steps[1]!.dependencies).toEqual([a])
    const copies = [...graph.state.referrers('step', b!, 'BINDS')]
    expect(copies).toHaveLength(1)
    expect(copies[0]).toMatchObject({
      data: {
        action_type: 'function',
        params: { text: { $from: a, path: 'out' }, n: 1 },
        inverse: { params: { of: { $from: b }, to: { $from: a } } },
      },
    })
    expect(await graph.verify()).toEqual([])
    await walkTo(given, fork.id, 'in_progress')
  })

  it('says that there is no such plan', async () => {
    const { graph, id } = await world()
    await expect(graph.fork(id(), by)).rejects.toBeInstanceOf(NotFound)
  })
})
