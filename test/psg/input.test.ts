import { describe, expect, it } from 'vitest'
import { InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import type { Signal } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { pathsOf } from '../../src/psg/paths.ts'
import { openProject } from '../../src/psg/project.ts'
import { decide, dot, endPlan, mermaid, path, proposePlan } from '../../src/psg/psg.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { add, by, set, storeContents, withPlan, world } from './given.ts'

const cyclic: { self?: unknown } = {}
cyclic.self = cyclic
const nested = (levels: number) => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)
const EVENT = { event_type: 'x', event_family: 'intent' }
const ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
const update = (set: unknown) => [{ kind: 'node_update', node: 'context', id: 'c', set }]

describe('psg: a commit that is none', () => {
  it.each([
    ['changes', undefined],
    ['changes', 'node_add'],
    ['changes[0]', [null]],
    ['changes[0]', ['node_add']],
    ['changes[0].kind', [{}]],
    ['changes[0].kind', [{ kind: 'node_move', node: 'plan', id: 'x' }]],
    ['changes[0].node', [{ kind: 'node_delete', node: 'nonsense', id: 'x' }]],
    ['changes[0].node', [{ kind: 'node_delete', node: 'constructor', id: 'x' }]],
    ['changes[0].id', [{ kind: 'node_delete', node: 'plan', id: '' }]],
    ['changes[0].id', [{ kind: 'node_delete', node: 'plan', id: 7 }]],
    ['changes[0].set', [{ kind: 'node_update', node: 'plan', id: 'x' }]],
    ['changes[0].set', [{ kind: 'node_update', node: 'plan', id: 'x', set: [] }]],
    ['changes[0].retired', [{ kind: 'node_update', node: 'role', id: 'x', set: {}, retired: 'yes' }]],
    ['changes[0].data', [{ kind: 'node_add', node: 'plan', id: 'x' }]],
    ['changes[0].imported', [{ kind: 'node_add', node: 'plan', id: 'x', data: {}, imported: 'yes' }]],
    ['changes[0].revived', [{ kind: 'node_add', node: 'plan', id: 'x', data: {}, revived: 1n }]],
    ['changes[0].owner', [{ kind: 'node_add', node: 'step', id: 'x', data: {}, owner: 7 }]],
    ['changes[0].at', [{ kind: 'node_add', node: 'step', id: 'x', data: {}, at: -1 }]],
    ['changes[0].group', [{ kind: 'node_add', node: 'file', id: 'x', data: {}, group: 'a/b' }]],
    ['changes[0].group', [{ kind: 'node_add', node: 'file', id: 'x', data: {}, group: '' }]],
    ['changes[0].from', [{ kind: 'edge_add', to: 'x' }]],
    ['changes[0].to', [{ kind: 'edge_delete', from: 'x', to: null }]],
    ['changes[0].set.title', update({ title: Number.NaN })],
    ['changes[0].set.root.a[1]', update({ root: { a: [1, () => 1] } })],
    ['changes[0].set.root.at', update({ root: { at: new Date(0) } })],
    ['changes[0].set.root.map', update({ root: { map: new Map() } })],
    ['changes[0].set.root.self', update({ root: cyclic })],
    ['changes[0].set.root.a.a', update({ root: nested(1_024) })],
    ['changes[0].set.root.n', update({ root: { n: 1n } })],
    ['changes[0].set.tags[0]', update({ tags: [undefined] })],
  ])('is refused, naming %s', async (path, changes) => {
    const { graph, store } = await world()
    const before = await storeContents(store)
    const error = await graph.commit(changes as never, by).catch((e) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems).toMatchObject([{ path, rule: expect.any(String), message: expect.any(String) }])
    await expect(graph.check(changes as never, by)).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.commit((() => changes) as never, by)).rejects.toBeInstanceOf(InvalidInput)
    expect(await storeContents(store)).toEqual(before)
  })

  it.each([
    ['options', undefined],
    ['actor', { reason: 'r' }],
    ['actor', { actor: '', reason: 'r' }],
    ['reason', { actor: 'a' }],
    ['fence', { ...by, fence: '1' }],
    ['fence', { ...by, fence: -1 }],
    ['module', { ...by, module: 7 }],
    ['run', { ...by, run: '' }],
    ['termination', { ...by, termination: 7 }],
    ['events', { ...by, events: {} }],
    ['events[0]', { ...by, events: [{}] }],
    ['events[0]', { ...by, events: [{ sa: 'SAStepStarted', payload: {} }] }],
    ['events[0]', { ...by, events: [{ event: { event_type: '' } }] }],
    ['events[0].event_id', { ...by, events: [{ event_id: 'mine', event: EVENT }] }],
    ['events[0].event_id', { ...by, events: [{ event_id: ID.toUpperCase(), event: EVENT }] }],
    ['events[0].plan_id', { ...by, events: [{ plan_id: 7, event: EVENT }] }],
    ['reads', { ...by, reads: [['nonsense', 'x']] }],
    ['reads', { ...by, reads: 'plan' }],
  ])('is refused for its options, naming %s', async (path, options) => {
    const { graph, context, store } = await world()
    const before = await storeContents(store)
    const error = await graph
      .commit([{ kind: 'node_update', node: 'context', id: context, set: { title: 'x' } }], options as never)
      .catch((e) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems).toMatchObject([{ path }])
    expect(await storeContents(store)).toEqual(before)
  })

  it.each(['a\0b', '\ud800', 'x'.repeat(1000)])(
    'is refused for an id that no key can hold, when its values are to follow',
    async (id) => {
      const { graph, context, store } = await world()
      const before = await storeContents(store)
      const signal: Required<Omit<Signal, 'taken'>> = { signal_id: id, name: 'n', payload: 1 } // all that is ever written of one
      const refused = graph.commit([add('signal', id, signal)], by)
      await expect(refused).rejects.toBeInstanceOf(InvalidInput)
      expect(await storeContents(store)).toEqual(before)
      await graph.commit([set('context', context, { title: 'x' })], by)
    },
  )

  it('lists everything that is wrong with its form', async () => {
    const { graph } = await world()
    const error = await graph.commit([{ kind: 'node_add' }, null, { kind: 'edge_add' }] as never, by).catch((e) => e)
    expect(error.problems.map(({ path }: { path: string }) => path)).toEqual([
      'changes[0].node',
      'changes[0].id',
      'changes[0].data',
      'changes[1]',
      'changes[2].from',
      'changes[2].to',
    ])
  })

  it('keeps odd but honest JSON: __proto__ as a member, lone surrogates, minus zero as zero', async () => {
    const { graph, context, store, clock } = await world()
    const root = JSON.parse('{"domain":"d","environment":"e","__proto__":{"x":1},"odd":"\\ud800","zero":-0}')
    await graph.commit([{ kind: 'node_update', node: 'context', id: context, set: { root } }], by)
    const reopened = await openGraph(store, context, { clock })
    const kept = (await reopened.document('context', context)).root
    expect(JSON.stringify(kept)).toBe(JSON.stringify((await graph.document('context', context)).root))
    expect(Object.keys(kept)).toContain('__proto__')
    expect(Object.is((kept as { zero?: number }).zero, 0)).toBe(true)
  })
})

describe('psg: questions that are none', () => {
  it.each([
    ['find', 'nonsense', 'x'],
    ['find', 'plan', ''],
    ['require', 'plan', 7],
    ['history', 'nonsense', 'x'],
    ['history', 'plan', undefined],
    ['why', 'plan', ''],
  ] as const)('are refused: %s(%s, %s)', async (method, kind, id) => {
    const { graph } = await world()
    await expect(graph[method](kind as never, id as never)).rejects.toBeInstanceOf(InvalidInput)
  })

  it.each([
    [10n, 'where.title'],
    [Number.NaN, 'where.title'],
    [() => 1, 'where.title'],
    [new Date(0), 'where.title'],
    [cyclic, 'where.title.self'],
  ])('are refused: a condition that is not JSON', async (value, path) => {
    const { graph } = await world()
    await expect(graph.query({ kind: 'context', where: { title: value as never } })).rejects.toMatchObject({
      problems: [{ path, rule: 'json' }],
    })
  })

  it.each([null, undefined, 7])('are refused: %s instead of what is asked for', async (nothing) => {
    const given = await world()
    const { graph, store, context } = given
    const plan = await withPlan(given, { build: [] }, 'proposed')
    const confirm = confirmOf(graph, plan.id)!.id
    const before = await storeContents(store)
    await expect(graph.restore(nothing as never)).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.snapshot('one', nothing as never)).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.query(nothing as never)).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.reading(nothing as never, () => 1)).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.reading([nothing as never], () => 1)).rejects.toBeInstanceOf(InvalidInput)
    expect(() => path(graph.state, nothing as never, ['context', context])).toThrow(InvalidInput)
    expect(() => path(graph.state, ['context', context], nothing as never)).toThrow(InvalidInput)
    expect(() => mermaid(graph.state, nothing as never)).toThrow(InvalidInput)
    expect(() => dot(graph.state, nothing as never)).toThrow(InvalidInput)
    expect(() => proposePlan(graph, plan.id, nothing as never)).toThrow(InvalidInput)
    expect(() => proposePlan(graph, nothing as never, { requested_by_role: 'lead' })).toThrow(InvalidInput)
    expect(() => decide(graph, confirm, nothing as never)).toThrow(InvalidInput)
    expect(() => endPlan(graph, nothing as never, 'cancelled')).toThrow(InvalidInput)
    expect(() => endPlan(graph, plan.id, 'cancelled', [] as never)).toThrow(InvalidInput)
    expect(await storeContents(store)).toEqual(before)
  })

  it('are refused: a restore that nobody can tell from a try, and a snapshot of no plan', async () => {
    const { graph, store } = await world()
    const before = await storeContents(store)
    await expect(graph.restore({ ...by, to: 0, dryRun: 0 as never })).rejects.toMatchObject({
      problems: [{ path: 'dryRun', rule: 'type' }],
    })
    await expect(graph.snapshot('one', { ...by, plan_id: 'nowhere' })).rejects.toBeInstanceOf(NotFound)
    expect(await storeContents(store)).toEqual(before)
  })

  it.each([
    ['clock', { clock: {} }],
    ['keepEnded', { keepEnded: -1 }],
    ['mostTrailing', { mostTrailing: 1.5 }],
    ['onCommit', { onCommit: 'me' }],
    ['onError', { onError: 7 }],
    ['switched', { switched: 'plan.acyclic' }],
    ['keepended', { keepended: 4 }],
  ])(
    'are refused: a graph and a project with %s that cannot work, before anything is written',
    async (path, options) => {
      const store = memoryBackend()
      const refused = { subject: expect.any(String), problems: [{ path }] }
      await expect(openGraph(store, ID, options as never)).rejects.toMatchObject(refused)
      await expect(openProject(store, options as never)).rejects.toMatchObject(refused)
      expect(await storeContents(store)).toEqual(await storeContents(memoryBackend()))
    },
  )

  it('are refused: a graph with a project or roles that are none, a project that is half strict, and either without a store', async () => {
    const store = memoryBackend()
    const refused = (path: string) => ({ problems: [{ path }] })
    await expect(openGraph(store, ID, { project_id: 'mine' })).rejects.toMatchObject(refused('project_id'))
    await expect(openGraph(store, ID, { roles: ['lead'] as never })).rejects.toMatchObject(refused('roles'))
    await expect(openProject(store, { strict: 'yes' as never })).rejects.toMatchObject(refused('strict'))
    await expect(openGraph(undefined as never, ID)).rejects.toMatchObject(refused('store'))
    await expect(openProject({} as never)).rejects.toMatchObject(refused('store'))
  })

  it('are refused: another status, or a proof, with options that are none', async () => {
    const store = memoryBackend()
    const project = await openProject(store)
    const { graph, context, id } = await world({ store })
    const plan = await withPlan({ graph, context, id, store, clock: graph.clock })
    const before = await storeContents(store)
    const { patchPlanStatus } = pathsOf(project)
    for (const [options, path] of [
      [undefined, 'options'],
      [{ ...by, proposing: 5 }, 'proposing'],
      [{ ...by, usedBy: 5 }, 'usedBy'],
    ] as const)
      await expect(patchPlanStatus(plan.id, 'proposed', options as never)).rejects.toMatchObject({
        problems: [{ path }],
      })
    for (const [options, path] of [
      [null, ''],
      [{ contexts: 5 }, 'contexts'],
      [{ contexts: [5] }, 'contexts'],
      [{ onProgress: 5 }, 'onProgress'],
      [{ signal: 5 }, 'signal'],
    ] as const)
      await expect(project.verify(options as never)).rejects.toMatchObject({ problems: [{ path }] })
    expect(await storeContents(store)).toEqual(before)
  })

  it('are refused: groups and graphs whose names could not stand in a key', async () => {
    const { graph, store } = await world()
    await expect(graph.load('a/b')).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.load('')).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.reading([['nonsense' as never, 'x']], () => 1)).rejects.toBeInstanceOf(InvalidInput)
    await expect(openGraph(store, '')).rejects.toBeInstanceOf(InvalidInput)
    await expect(openGraph(store, 'a/b')).rejects.toBeInstanceOf(InvalidInput)
  })
})
