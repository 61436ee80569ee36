import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import {
  InvalidInput,
  NotFound,
  OutcomeUnknown,
  Refused,
  RuleViolation,
  Unavailable,
} from '../../src/protocol/errors.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { firstActionOf, stepOfFirst } from '../../src/psg/first-action.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { move } from '../../src/psg/moves.ts'
import { pathsOf } from '../../src/psg/paths.ts'
import { openProject, type ProjectOptions } from '../../src/psg/project.ts'
import { withEncryption } from '../../src/vsl/encrypted.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { faultAt, faultyBackend } from '../support/faulty-backend.ts'
import { actionOf, add, by, confirmData, contextOf, META, planOf, set, storeContents, toldBy } from './given.ts'

async function project(options: ProjectOptions = {}) {
  const store = memoryBackend()
  const clock = manualClock()
  const opened = await openProject(store, { clock, ...options })
  return { store, clock, id: clock.uuid, project: opened }
}

const roleOf = (role_id: string, name: string) => ({ meta: META, role_id, name })

describe('psg/project', () => {
  it.each([undefined, {}, { revision: '1', token: 0 }])('refuses a store whose head gives %o', async (head) => {
    const opening = openProject({ ...memoryBackend(), head: async () => head as never })
    await expect(opening).rejects.toThrow(Refused)
    await expect(opening).rejects.toThrow(/its head gives .*; give { revision, token }/)
  })

  it('has an id that is minted once, also when two open it at the same time or a reply is lost', async () => {
    const { store, project: first } = await project()
    expect((await openProject(store)).id).toBe(first.id)
    const fresh = memoryBackend()
    const [a, b] = await Promise.all([openProject(fresh), openProject(fresh)])
    expect(a.id).toBe(b.id)
    for (const fault of ['lose-reply', 'lose-call'] as const) {
      const clock = manualClock()
      const faulty = faultyBackend(memoryBackend(), faultAt('commit', 0, fault), clock)
      const opened = await openProject(faulty, { clock })
      expect((await openProject(faulty, { clock })).id).toBe(opened.id)
    }
    const silent = faultyBackend(
      memoryBackend(),
      ({ method }) => (method === 'commit' ? 'lose-call' : undefined),
      manualClock(),
    )
    await expect(openProject(silent)).rejects.toBeInstanceOf(OutcomeUnknown)
  })

  it('is not opened without the keys of an encrypted store, and says that it needs them', async () => {
    const store = memoryBackend()
    await openProject(await withEncryption(store, [{ id: 'k', key: new Uint8Array(32) }]))
    const before = await storeContents(store)
    const error = await openProject(store).catch((e) => e)
    expect(error).toBeInstanceOf(Refused)
    expect(error.remedy).toContain('keys')
    expect(await storeContents(store)).toEqual(before)
  })

  it('opens each context once, and says when there is none', async () => {
    const { project: p, id } = await project()
    const context = id()
    await expect(p.context(context)).rejects.toBeInstanceOf(NotFound)
    const created = await p.create(contextOf(context), by)
    expect(await p.context(context)).toBe(created)
    expect(await p.opening(context)).toBe(created)
    p.forget(context)
    const again = await p.context(context)
    expect(again).not.toBe(created)
    expect(again.get('context', context)?.data.title).toBe('The shop')
    await expect(p.create(contextOf(context), by)).rejects.toBeInstanceOf(RuleViolation)
  })

  it('tries again to open what could not be opened', async () => {
    const store = memoryBackend()
    const clock = manualClock()
    let failing = false
    const faulty = faultyBackend(store, ({ method }) => (failing && method === 'head' ? 'refuse' : undefined), clock)
    const p = await openProject(faulty, { clock })
    const context = clock.uuid()
    await (await openProject(store, { clock })).create(contextOf(context), by)
    failing = true
    await expect(p.context(context)).rejects.toBeInstanceOf(Unavailable)
    failing = false
    expect((await p.context(context)).get('context', context)).toBeDefined()
  })

  it('names itself in the events of its graphs', async () => {
    const { project: p, id } = await project()
    const graph = await p.create(contextOf(id()), by)
    const commit = await graph.commit([set('context', graph.id, { title: 'x' })], by)
    expect(toldBy(commit)[0]!.event.project_id).toBe(p.id)
  })

  it('finds anything by its id alone', async () => {
    const { project: p, id } = await project()
    const graph = await p.create(contextOf(id()), by)
    const plan = planOf({ context: graph.id, id })
    await graph.commit(plan.changes, by)
    expect(await p.locate(plan.step('build'))).toEqual({ kind: 'step', graph: graph.id, group: plan.id })
    expect(await p.locate(graph.id)).toEqual({ kind: 'context', graph: graph.id, group: '-' })
    expect(await p.locate(id())).toBeUndefined()
  })

  it('finds nothing under a name longer than any id, as a path may be, and refuses one that is no text', async () => {
    const { project: p } = await project()
    expect(await p.locate('x'.repeat(3_000))).toBeUndefined()
    for (const asked of [p.context('x'.repeat(3_000)), p.verify({ contexts: ['x'.repeat(3_000)] })])
      await expect(asked).rejects.toBeInstanceOf(NotFound)
    for (const name of ['a\0b', '\ud800']) await expect(p.locate(name)).rejects.toBeInstanceOf(InvalidInput)
  })

  it('finds the first action of a step through the step, and any other by itself', async () => {
    const { store, project: p, id } = await project({ mostTrailing: 0 })
    const graph = await p.create(contextOf(id()), by)
    const plan = planOf({ context: graph.id, id }, { build: [] })
    await graph.commit(plan.changes, by)
    const step = plan.step('build')
    const [first, second] = [firstActionOf(step), id()]
    expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(stepOfFirst(first)).toBe(step)
    const fence = (await store.acquire(graph.id, thisHolder('test'), 1_000))!.token
    await graph.commit([add('action', first, actionOf(first, step)), add('action', second, actionOf(second, step))], {
      ...by,
      fence,
    })
    const rows = [first, second].map((action) => `id/action/${action}`)
    expect([...(await store.getMany(rows)).keys()]).toEqual([rows[1]])
    for (const action of [first, second])
      expect(await p.locate(action)).toEqual({ kind: 'action', graph: graph.id, group: plan.id })
    await graph.commit([move('step', step, 'skipped'), move('plan', plan.id, 'cancelled')], { ...by, fence })
    const other = await openGraph(store, graph.id) // nothing of a plan that has ended
    expect(other.get('action', first)).toBeUndefined()
    expect((await other.find('action', first))?.data.step_id).toBe(step)
    expect(await graph.verify()).toEqual([])
    await expect(graph.commit([add('action', first, actionOf(first, step))], { ...by, fence })).rejects.toMatchObject({
      violations: [{ rule: 'id.unique', node: `action/${first}` }],
    })
  })

  it('knows roles by id, else by name; retired ones by id only', async () => {
    const { project: p, id } = await project()
    const [one, two] = [id(), id()]
    await p.import([['role', roleOf(one, 'builder')]], by)
    await p.import([['role', roleOf(two, 'builder')]], by)
    expect(p.role('builder')?.role_id).toBe(one)
    expect(p.role(two)?.name).toBe('builder')
    expect(p.role('nobody')).toBeUndefined()
    await p.graph.commit([{ kind: 'node_update', node: 'role', id: one, set: {}, retired: true }], by)
    expect(p.role('builder')?.role_id).toBe(two)
    expect(p.role(one)?.role_id).toBe(one)
  })

  it('brings back a role that was retired since, retires it again, and leaves what somebody else retired', async () => {
    const { store, clock, project: p, id } = await project()
    const [one, two] = [id(), id()]
    await p.import(
      [
        ['role', roleOf(one, 'builder')],
        ['role', roleOf(two, 'tester')],
      ],
      by,
    )
    const { revision } = p.graph
    const retired = (role: string) => [{ kind: 'node_update', node: 'role', id: role, set: {}, retired: true }] as const
    await p.graph.commit(retired(one), by)
    const back = await p.graph.restore({ ...by, to: revision })
    expect(back).toEqual({
      changes: [{ kind: 'node_update', node: 'role', id: one, set: {}, retired: false }],
      conflicts: [],
    })
    expect(p.role('builder')?.role_id).toBe(one)
    expect((await openProject(store, { clock })).role('builder')?.role_id).toBe(one)
    await p.graph.restore({ ...by, to: revision + 1 })
    expect(p.role('builder')).toBeUndefined()

    await p.graph.commit([set('role', two, { description: 'mine' })], { ...by, run: 'r1' })
    await p.graph.commit(retired(two), { ...by, run: 'r2' })
    expect(await p.graph.restore({ ...by, to: revision, of: 'r1' })).toMatchObject({
      changes: [],
      conflicts: [{ kind: 'role', id: two, message: expect.stringContaining('somebody else') }],
    })
    expect(p.role('tester')).toBeUndefined()
    expect(await p.graph.verify()).toEqual([])
  })

  it('refuses unknown roles in strict mode only, and hears of roles that others add', async () => {
    const { store, clock, id, project: p } = await project({ strict: true })
    const lax = await openProject(store, { clock })
    const graph = await p.create(contextOf(id()), by)
    const plan = planOf({ context: graph.id, id })
    await graph.commit(plan.changes, by)
    const assign = (agent_role: string) => [set('step', plan.step('build'), { agent_role })]
    await expect(graph.commit(assign('builder'), by)).rejects.toMatchObject({
      violations: [{ rule: 'reference.role', node: `step/${plan.step('build')}`, path: 'agent_role' }],
    })
    const role = id()
    await lax.import([['role', roleOf(role, 'builder')]], by)
    await graph.commit(assign('builder'), by)
    await graph.commit(assign(role), by)
    await graph.commit(assign('runtime'), by) // the runtime itself is nobody's role
    await graph.commit(assign(''), by)
    const laxGraph = await lax.context(graph.id)
    await laxGraph.commit(assign('anybody'), by)
  })

  it('imports nothing when a part of it does not hold', async () => {
    const { project: p, id, store } = await project()
    const context = id()
    const plan = planOf({ context, id }, { a: ['b'], b: ['a'] })
    const before = await storeContents(store)
    const documents = [
      ['role', roleOf(id(), 'builder')],
      ['context', contextOf(context)],
      ['plan', plan.document],
    ] as const
    await expect(p.import(documents, by)).rejects.toMatchObject({ violations: [{ rule: 'plan.acyclic' }] })
    expect(await storeContents(store)).toEqual(before)
  })

  it('imports nothing when an id is taken in another context', async () => {
    const { project: p, id, store } = await project()
    const graph = await p.create(contextOf(id()), by)
    const plan = planOf({ context: graph.id, id })
    await graph.commit(plan.changes, by)
    const other = id()
    const before = await storeContents(store)
    const documents = [
      ['role', roleOf(id(), 'builder')],
      ['context', contextOf(other)],
      ['plan', { ...plan.document, context_id: other }],
    ] as const
    await expect(p.import(documents, by)).rejects.toMatchObject({ violations: [{ rule: 'id.unique' }, {}, {}, {}] })
    expect(await storeContents(store)).toEqual(before)
  })

  it('puts an imported Confirm beside what it asks about', async () => {
    const { project: p, id } = await project()
    const graph = await p.create(contextOf(id()), by)
    const confirm = id()
    const result = await p.import([['confirm', confirmData(confirm, 'context', graph.id)]], by)
    expect(result.graph).toBe(graph)
    const stray = id()
    const unknown = confirmData(stray, 'other', id())
    await expect(p.import([['confirm', unknown]], by)).rejects.toMatchObject({
      problems: [{ path: 'context_id', rule: 'one_context' }],
    })
    await p.import([['confirm', unknown]], { ...by, context: graph.id })
    expect(graph.get('confirm', stray)).toBeDefined()
  })

  it('imports nothing into a context that is not there', async () => {
    const { project: p, store, id } = await project()
    const before = await storeContents(store)
    const documents = [['confirm', confirmData(id(), 'other', id())]] as const
    await expect(p.import(documents, { ...by, context: id() })).rejects.toBeInstanceOf(NotFound)
    await expect(p.import(documents, undefined as never)).rejects.toBeInstanceOf(InvalidInput)
    expect(await storeContents(store)).toEqual(before)
  })

  it.each([
    ['no list', undefined],
    ['nothing', []],
    ['no pairs', ['plan']],
    ['no document', [['plan', undefined]]],
    ['no kind', [['nonsense', {}]]],
    ['an invalid document', [['context', { context_id: 'x' }]]],
    [
      'documents of two contexts',
      [
        ['context', contextOf('00000000-0000-4000-8000-000000000001')],
        ['context', contextOf('00000000-0000-4000-8000-000000000002')],
      ],
    ],
  ])('refuses to import %s', async (_, documents) => {
    const { project: p } = await project()
    await expect(p.import(documents as never, by)).rejects.toBeInstanceOf(InvalidInput)
  })

  it('refuses names that could not stand in a key', async () => {
    const { project: p } = await project()
    await expect(p.context('')).rejects.toBeInstanceOf(InvalidInput)
    await expect(p.context('a/b')).rejects.toBeInstanceOf(InvalidInput)
    await expect(p.create({ context_id: 'x' }, by)).rejects.toBeInstanceOf(InvalidInput)
  })
})

describe('psg/paths', () => {
  async function paths() {
    const given = await project()
    const context = given.id()
    const at = pathsOf(given.project)
    return { ...given, at, context, plan: planOf({ context, id: given.id }) }
  }

  it('posts and gets contexts and plans as documents', async () => {
    const { at, context, plan } = await paths()
    expect(await at.postContext(contextOf(context), by)).toEqual(contextOf(context))
    expect(await at.getContext(context)).toEqual(contextOf(context))
    expect(await at.postPlan(plan.document, by)).toEqual(plan.document)
    expect(await at.getPlan(plan.id)).toEqual(plan.document)
  })

  it('takes a plan along its whole life by its status', async () => {
    const { at, context, plan, project: p, id } = await paths()
    await at.postContext(contextOf(context), by)
    await at.postPlan(plan.document, by)
    const proposing = { requested_by_role: 'planner', roles: ['owner'], reason: 'please' }
    expect((await at.patchPlanStatus(plan.id, 'proposed', { ...by, proposing })).status).toBe('proposed')
    const graph = await p.context(context)
    const confirm = confirmOf(graph, plan.id)!
    expect(confirm.data).toMatchObject({
      status: 'pending',
      requested_by_role: 'planner',
      reason: 'please',
      target_id: plan.id,
    })
    await expect(at.patchPlanStatus(plan.id, 'approved', by)).rejects.toMatchObject({
      violations: [{ rule: 'guard.plan.approved' }],
    })
    const decision_id = id()
    await graph.commit(
      [
        add(
          'decision',
          decision_id,
          { decision_id, status: 'approved', decided_by_role: 'owner', decided_at: '2026-01-01T00:00:00Z' },
          { owner: confirm.id },
        ),
        set('confirm', confirm.id, { status: 'approved' }),
      ],
      by,
    )
    expect((await at.patchPlanStatus(plan.id, 'approved', by)).status).toBe('approved')
    expect((await at.patchPlanStatus(plan.id, 'in_progress', { ...by, usedBy: 'run 1' })).status).toBe('in_progress')
    const failed = await at.patchPlanStatus(plan.id, 'failed', by)
    expect([failed.status, ...failed.steps.map(({ status }) => status)]).toEqual([
      'failed',
      'skipped',
      'skipped',
      'skipped',
    ])
  })

  it('deletes a draft with all its parts, leaving tombstones', async () => {
    const { at, context, plan, project: p, id } = await paths()
    await at.postContext(contextOf(context), by)
    await at.postPlan(plan.document, by)
    const graph = await p.context(context)
    const binding = id()
    await graph.commit(
      [add('binding', binding, { binding_id: binding, step_id: plan.step('build'), action_type: 'x', params: {} })],
      by,
    )
    await at.deletePlan(plan.id, by)
    await expect(at.getPlan(plan.id)).rejects.toBeInstanceOf(NotFound)
    expect(graph.state.tombstone('binding', binding)).toBeDefined()
    await expect(at.postPlan(plan.document, by)).rejects.toMatchObject({
      violations: expect.arrayContaining([expect.objectContaining({ rule: 'id.unique' })]),
    })
    expect(await graph.verify()).toEqual([])
    await expect(at.deletePlan(plan.id, by)).rejects.toBeInstanceOf(NotFound)
  })

  it('refuses to delete a plan that somebody was asked about', async () => {
    const { at, context, plan } = await paths()
    await at.postContext(contextOf(context), by)
    await at.postPlan(plan.document, by)
    await at.patchPlanStatus(plan.id, 'proposed', by)
    await at.patchPlanStatus(plan.id, 'draft', by)
    await expect(at.deletePlan(plan.id, by)).rejects.toMatchObject({ violations: [{ rule: 'delete.referenced' }] })
  })

  it('says what is not there and refuses what does not fit', async () => {
    const { at, context, plan, id } = await paths()
    await expect(at.getContext(context)).rejects.toBeInstanceOf(NotFound)
    await expect(at.getPlan(id())).rejects.toBeInstanceOf(NotFound)
    await expect(at.postPlan(plan.document, by)).rejects.toBeInstanceOf(NotFound)
    await expect(at.postPlan({ title: 'x' }, by)).rejects.toBeInstanceOf(InvalidInput)
    await expect(at.postContext(null, by)).rejects.toBeInstanceOf(InvalidInput)
    await at.postContext(contextOf(context), by)
    await at.postPlan(plan.document, by)
    await expect(at.patchPlanStatus(plan.id, 'asleep' as never, by)).rejects.toMatchObject({
      problems: [{ path: 'status' }],
    })
    await expect(at.patchPlanStatus(id(), 'proposed', by)).rejects.toBeInstanceOf(NotFound)
  })
})
