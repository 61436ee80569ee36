import { describe, expect, it } from 'vitest'
import { InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { decide, endPlan, move, proposePlan } from '../../src/psg/moves.ts'
import { query } from '../../src/psg/query.ts'
import { children, dependants, dependencies, path, pendingConfirms, readySteps } from '../../src/psg/view.ts'
import { why } from '../../src/psg/why.ts'
import {
  actionOf,
  add,
  by,
  confirmData,
  file,
  type NamedPlan,
  planOf,
  remove,
  set,
  TIME,
  traceOf,
  withPlan,
  world,
} from './given.ts'

const named = (plan: NamedPlan, steps: readonly { readonly id: string }[]) =>
  steps.map(({ id }) => plan.document.steps.find((step) => step.step_id === id)!.description)

describe('psg/view', () => {
  it('holds a step back until everything it waits for is completed or skipped', async () => {
    const given = await world()
    const plan = await withPlan(given, { a: [], b: ['a'], c: ['a', 'b'], d: [] }, 'in_progress')
    const { graph } = given
    const ready = () => named(plan, readySteps(graph.state, plan.id))
    expect(ready()).toEqual(['a', 'd'])
    await graph.commit([move('step', plan.step('a'), 'in_progress')], by)
    expect(ready()).toEqual(['d'])
    await graph.commit([move('step', plan.step('a'), 'completed')], by)
    expect(ready()).toEqual(['d', 'b'])
    await graph.commit([move('step', plan.step('b'), 'skipped')], by)
    expect(ready()).toEqual(['d', 'c'])
    expect(readySteps(graph.state, given.id())).toEqual([])
  })

  it('orders ready steps by depth, then order_index, then place, the same in every process', async () => {
    const given = await world()
    const { graph, store, clock, context, id } = given
    const plan = planOf(given, { a: [], b: [], c: [] })
    await graph.commit(plan.changes, by)
    await graph.commit([set('step', plan.step('a'), { order_index: 9 })], by)
    const late = id()
    await graph.commit(
      [add('step', late, { step_id: late, description: 'late', status: 'pending' }, { owner: plan.id })],
      by,
    )
    const order = (state: typeof graph.state) => readySteps(state, plan.id).map((step) => step.data.description)
    expect(order(graph.state)).toEqual(['b', 'c', 'a', 'late'])
    expect(order((await openGraph(store, context, { clock })).state)).toEqual(['b', 'c', 'a', 'late'])
  })

  it('walks dependencies and dependants to any depth, nearest first, each once', async () => {
    const given = await world()
    const plan = await withPlan(given, { a: [], b: ['a'], c: ['a'], d: ['b', 'c'], e: ['d'] })
    const { state } = given.graph
    expect(named(plan, dependencies(state, plan.step('e')))).toEqual(['d', 'b', 'c', 'a'])
    expect(named(plan, dependencies(state, plan.step('e'), 2))).toEqual(['d', 'b', 'c'])
    expect(named(plan, dependants(state, plan.step('a')))).toEqual(['b', 'c', 'd', 'e'])
    expect(named(plan, dependants(state, plan.step('a'), 1))).toEqual(['b', 'c'])
    expect(dependants(state, plan.step('a'), 0)).toEqual([])
    expect(dependants(state, given.id())).toEqual([])
    expect(() => dependants(state, plan.step('a'), -1)).toThrow(InvalidInput)
    expect(() => dependencies(state, plan.step('a'), 'far' as never)).toThrow(InvalidInput)
  })

  it('gives the parts of an object in their order', async () => {
    const given = await world()
    const plan = await withPlan(given, { a: [], b: [], c: [] })
    expect(named(plan, children(given.graph.state, 'plan', plan.id))).toEqual(['a', 'b', 'c'])
    expect(children(given.graph.state, 'plan', given.id())).toEqual([])
  })

  it('finds the shortest way between two nodes, along edges of either direction', async () => {
    const given = await world()
    const plan = await withPlan(given, { a: [], b: ['a'] }, 'proposed')
    const { graph, context } = given
    const confirm = confirmOf(graph, plan.id)!
    const way = (from: readonly ['context' | 'step' | 'confirm', string], to: typeof from) =>
      path(graph.state, from, to).map((node) => node.kind)
    expect(way(['step', plan.step('b')], ['context', context])).toEqual(['step', 'plan', 'context'])
    expect(way(['confirm', confirm.id], ['step', plan.step('a')])).toEqual(['confirm', 'plan', 'step'])
    expect(way(['step', plan.step('a')], ['step', plan.step('b')])).toEqual(['step', 'step'])
    expect(way(['step', plan.step('a')], ['step', plan.step('a')])).toEqual(['step'])
    expect(way(['step', plan.step('a')], ['step', given.id()])).toEqual([])
  })

  it('lists Confirms that wait, oldest first', async () => {
    const given = await world()
    const { graph, id, context } = given
    const plan = await withPlan(given, undefined, 'proposed')
    const other = id()
    await graph.commit([add('confirm', other, confirmData(other, 'context', context))], by)
    const first = confirmOf(graph, plan.id)!.id
    expect(pendingConfirms(graph.state).map((confirm) => confirm.id)).toEqual([first, other])
    await graph.commit(decide(graph, first, { status: 'approved', decided_by_role: 'owner' }), by)
    expect(pendingConfirms(graph.state).map((confirm) => confirm.id)).toEqual([other])
  })
})

describe('psg/query', () => {
  it('finds nodes by kind and fields, page by page, in memory', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`s${i}`, []])))
    await graph.commit([set('step', plan.step('s3'), { agent_role: 'builder' })], by)
    const pages = []
    for (let after: string | undefined; ; ) {
      const page = query(graph.state, { kind: 'step', limit: 10, ...(after !== undefined && { after }) })
      pages.push(page.nodes.map((node) => node.id))
      if (page.next === undefined) break
      after = page.next
    }
    expect(pages.map((page) => page.length)).toEqual([10, 10, 5])
    expect(pages.flat()).toEqual(plan.document.steps.map((step) => step.step_id).sort())
    const where = (fields: { [field: string]: never }) =>
      query(graph.state, { kind: 'step', where: fields }).nodes.length
    expect(where({ agent_role: 'builder' } as never)).toBe(1)
    expect(where({ agent_role: 'nobody' } as never)).toBe(0)
    expect(where({ dependencies: [] } as never)).toBe(25)
    expect(query(graph.state, { kind: 'context', where: { 'root.domain': 'shop' } }).nodes).toHaveLength(1)
    expect(query(graph.state, { kind: 'context', where: { 'root.constructor': 'shop' } }).nodes).toHaveLength(0)
  })

  it('finds what has ended and left memory, in the store', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph } = given
    const ids: string[] = []
    for (let i = 0; i < 5; i++) {
      const plan = await withPlan(given, { a: [] })
      ids.push(plan.id)
      if (i < 4) await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    }
    await graph.refresh()
    expect(query(graph.state, { kind: 'plan' }).nodes).toHaveLength(1)
    const first = await graph.query({ kind: 'plan', where: { status: 'cancelled' }, limit: 3 })
    const second = await graph.query({ kind: 'plan', where: { status: 'cancelled' }, limit: 3, after: first.next! })
    expect([first.nodes.length, second.nodes.length, second.next]).toEqual([3, 1, undefined])
    expect([...first.nodes, ...second.nodes].map((node) => node.id).sort()).toEqual(ids.slice(0, 4).sort())
    expect((await graph.query({ kind: 'plan' })).nodes).toHaveLength(5)
    expect(graph.state.hasGroup(ids[0]!)).toBe(false)
  })

  it('goes on, page by page, behind what the journal alone tells yet', async () => {
    const given = await world()
    const plan = await withPlan(given, { a: [], b: [], c: [], d: [], e: [] })
    const found: string[] = []
    let after: string | undefined
    do {
      const page = await given.graph.query({ kind: 'step', limit: 2, ...(after !== undefined && { after }) })
      found.push(...page.nodes.map(({ id }) => id))
      after = page.next
    } while (after !== undefined && found.length < 10)
    expect(found).toEqual(plan.document.steps.map(({ step_id }) => step_id).sort())
  })

  it('finds nothing in the store that was deleted', async () => {
    const { graph } = await world({ mostTrailing: 0 })
    await graph.commit([add('file', 'a.ts', file('a.ts')), add('file', 'b.ts', file('b.ts'))], by)
    await graph.commit([remove('file', 'a.ts')], by)
    expect((await graph.query({ kind: 'file' })).nodes.map(({ id }) => id)).toEqual(['b.ts'])
  })

  it.each([
    ['kind', { kind: 'nonsense' }],
    ['limit', { kind: 'plan', limit: 0 }],
    ['limit', { kind: 'plan', limit: 1.5 }],
    ['where', { kind: 'plan', where: 'title' }],
    ['after', { kind: 'plan', after: 7 }],
  ])('refuses a query whose %s does not fit', async (at, asked) => {
    const { graph } = await world()
    const problems = [expect.objectContaining({ path: at })]
    expect(() => query(graph.state, asked as never)).toThrow(InvalidInput)
    await expect(graph.query(asked as never)).rejects.toMatchObject({ problems })
  })
})

describe('psg/why', () => {
  it('tells the chain that led to a file: context, plan, approvals, step, action; also when all has left memory', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, store, clock, context, id } = given
    const plan = await withPlan(given, { build: [] }, 'in_progress')
    const [action, confirm] = [id(), id()]
    await graph.commit(
      [
        move('step', plan.step('build'), 'in_progress'),
        add('action', action, actionOf(action, plan.step('build'))),
        add('confirm', confirm, confirmData(confirm, 'other', action, { reason: 'may it write?' })),
      ],
      by,
    )
    await graph.commit(decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' }), by)
    const file = {
      path: 'a.ts',
      type: 'file' as const,
      digest: 'sha256:00' as const,
      size: 1,
      mode: 1,
      mtime: TIME,
      kept: false,
    }
    await graph.commit([add('file', 'a.ts', { ...file, written_by: action })], by)
    await graph.commit(endPlan(graph, plan.id, 'failed'), by)
    const reopened = await openGraph(store, context, { clock, keepEnded: 0 })
    const chain = await reopened.why('file', 'a.ts')
    expect(chain.map(({ kind, says }) => [kind, says])).toEqual([
      ['context', 'The shop'],
      ['plan', 'A plan'],
      ['confirm', 'confirm'],
      ['step', 'build'],
      ['confirm', 'may it write?'],
      ['action', 'action'],
      ['file', 'a.ts'],
    ])
    expect(chain[1]).toMatchObject({ id: plan.id, status: 'failed' })
    expect(chain.map(({ by: whom }) => whom)).toEqual([
      undefined,
      undefined,
      ['owner'],
      undefined,
      ['owner'],
      undefined,
      undefined,
    ])
    expect(why(reopened.state, 'context', context).map(({ kind }) => kind)).toEqual(['context'])
  })

  it('tells by whom something was approved as it stands, and not who agreed to what was changed since', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, { build: [] })
    const propose = () =>
      proposePlan(graph, plan.id, { requested_by_role: 'planner', roles: ['a', 'b', 'c'], needed: 2 })
    await graph.commit(propose(), by)
    const { id } = confirmOf(graph, plan.id)!
    const say = (decided_by_role: string, status: 'approved' | 'rejected') =>
      graph.commit(decide(graph, id, { status, decided_by_role }), by)
    await say('c', 'approved')
    await say('b', 'rejected')
    await graph.commit(propose(), by)
    await say('a', 'approved')
    await say('b', 'approved')
    const chain = await graph.why('step', plan.step('build'))
    expect(chain.find(({ kind }) => kind === 'confirm')).toMatchObject({ id, status: 'approved', by: ['a', 'b'] })
  })

  it('tells why there is a segment, a decision, a timer, a gate', async () => {
    const given = await world()
    const { graph, id, context } = given
    const plan = await withPlan(given, { build: [] }, 'in_progress')
    const [action, trace, segment, timer] = [id(), id(), id(), id()]
    await graph.commit(
      [
        move('step', plan.step('build'), 'in_progress'),
        add('action', action, actionOf(action, plan.step('build'))),
        add('trace', trace, traceOf(trace, context, id(), { plan_id: plan.id })),
        add(
          'segment',
          segment,
          {
            segment_id: segment,
            label: 'try',
            status: 'running',
            attributes: { step_id: plan.step('build'), action_id: action },
          },
          { owner: trace },
        ),
        add('timer', timer, { timer_id: timer, due: TIME, purpose: 'retry', target: action }),
      ],
      by,
    )
    const kinds = async (kind: 'segment' | 'decision' | 'timer' | 'gate', node: string) =>
      (await graph.why(kind, node)).map((reason) => reason.kind)
    expect(await kinds('segment', segment)).toEqual([
      'context',
      'plan',
      'confirm',
      'step',
      'action',
      'trace',
      'segment',
    ])
    expect(await kinds('timer', timer)).toEqual(['context', 'plan', 'confirm', 'step', 'action', 'timer'])
    const confirm = confirmOf(graph, plan.id)!.id
    const [decision] = children(graph.state, 'confirm', confirm)
    expect(await kinds('decision', decision!.id)).toEqual(['context', 'plan', 'confirm', 'decision'])
    const [gate] = graph.state.referrers('confirm', confirm, 'GATES')
    expect(await kinds('gate', gate!.id)).toEqual(['context', 'plan', 'confirm', 'gate'])
  })

  it('says that there is no such thing', async () => {
    const { graph, id } = await world()
    await expect(graph.why('plan', id())).rejects.toBeInstanceOf(NotFound)
    await expect(graph.why('nonsense' as never, id())).rejects.toBeInstanceOf(InvalidInput)
  })
})
