import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { eventKind } from '../../src/protocol/base-event.ts'
import { type Clock, manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { isValid, problems } from '../../src/protocol/validate.ts'
import type { BornEvent, Changes } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { decide, endPlan, move, proposePlan } from '../../src/psg/moves.ts'
import { nodeKey, statusOf } from '../../src/psg/node.ts'
import { RunEvent } from '../../src/psg/run-event.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { begin, beginnings, realOf, sequences } from './commands.ts'
import {
  actionOf,
  add,
  by,
  confirmData,
  decisionData,
  edgeCount,
  lasting,
  planOf,
  remove,
  runOf,
  set,
  storeContents,
  toldBy,
  traceOf,
  withPlan,
  world,
} from './given.ts'

async function eventsOf(store: Backend, graph: string): Promise<BornEvent[]> {
  const events: BornEvent[] = []
  for await (const entry of store.read(graph)) events.push(...eventsIn(entry))
  return events
}

const families = (events: readonly BornEvent[], family: string) =>
  events.map(({ event }) => event).filter((event) => event.event_family === family)

interface Told {
  readonly operation: string
  readonly node_type: string
  readonly node_id: string
  readonly status?: string
}

/** What exists, and in which status, by the events alone. */
function replayed(events: readonly BornEvent[]): Map<string, string | undefined> {
  const known = new Map<string, string | undefined>()
  for (const update of families(events, 'graph_update'))
    for (const { operation, node_type, node_id, status } of (update.payload as unknown as { changes: Told[] })
      .changes) {
      const key = `${node_type}/${node_id}`
      if (operation === 'node_delete') known.delete(key)
      else known.set(key, status)
    }
  return known
}

/** The statuses of plans and steps by the stages alone, each of which must begin where the last one ended. */
function staged(events: readonly BornEvent[]): Map<string, string> {
  const known = new Map<string, string>()
  for (const { payload } of families(events, 'pipeline_stage')) {
    const { resource_type, resource_id, from_status, to_status } = payload as { readonly [field: string]: string }
    if (resource_type !== 'plan' && resource_type !== 'step') continue
    const key = `${resource_type}/${resource_id}`
    if (known.has(key)) expect(from_status, key).toBe(known.get(key))
    known.set(key, to_status!)
  }
  return known
}

describe('psg/events', () => {
  it('are valid, add up to the graph, replay to its statuses and are stamped in order, whatever is done', {
    timeout: 120_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(beginnings, sequences(10), fc.nat(), async (plans, commands, seed) => {
        const store = lasting(memoryBackend())
        const r = await realOf(async () => store, { seed, keepEnded: 16, mostTrailing: 4 })
        const m = await begin(r, plans)
        await fc.asyncModelRun(async () => ({ model: m, real: r }), commands)

        const graph = await openGraph(store, r.context)
        const all = await graph.at(graph.revision)
        const events = await eventsOf(store, r.context)
        const sum = (field: string) =>
          families(events, 'graph_update').reduce((total, event) => total + (event[field] as number), 0)
        expect(sum('node_delta')).toBe(all.size)
        expect(sum('edge_delta')).toBe(all.edges)
        expect(all.edges).toBe(edgeCount(all))
        const stored = new Map([...all.nodes()].map((node) => [nodeKey(node.kind, node.id), statusOf(node)]))
        expect(replayed(events)).toEqual(stored)
        for (const [key, status] of staged(events)) if (stored.has(key)) expect(status, key).toBe(stored.get(key))
        for (const { event } of events) expect(problems(eventKind(event), event), event.event_type).toEqual([])
        const stamps = events.map(({ event }) => event.timestamp)
        for (const stamp of stamps) expect(stamp).toMatch(/T\d\d:\d\d:\d\d\.\d{6}Z$/)
        expect(stamps).toEqual([...new Set(stamps)].sort())
        expect(new Set(events.map(({ event }) => event.event_id)).size).toBe(events.length)
      }),
      { numRuns: 60 },
    )
  })

  it('tells one graph_update per commit, and names it by what happened', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, { a: [], b: [] })
    const [a, b] = [plan.step('a'), plan.step('b')]
    const told = async (changes: Parameters<typeof graph.commit>[0]) => {
      const commit = await graph.commit(changes, by)
      const [update, ...more] = families(toldBy(commit), 'graph_update')
      expect(more).toEqual([])
      return update
    }
    const edge = { kind: 'edge_add', from: b, to: a } as const
    expect(await told([edge])).toMatchObject({ update_kind: 'edge_add', node_delta: 0, edge_delta: 1 })
    expect(await told([{ ...edge, kind: 'edge_delete' }])).toMatchObject({ update_kind: 'edge_delete', edge_delta: -1 })
    expect(await told([set('step', a, { description: 'x' })])).toMatchObject({
      update_kind: 'node_update',
      node_delta: 0,
      edge_delta: 0,
    })
    expect(await told([move('step', a, 'skipped')])).toMatchObject({
      update_kind: 'node_update',
      node_delta: 0,
      edge_delta: 0,
    })
    expect(await told([remove('step', b)])).toMatchObject({
      update_kind: 'node_delete',
      node_delta: -1,
      edge_delta: -1,
    })
    expect(await told(planOf(given, { c: [], d: ['c'] }).changes)).toMatchObject({
      update_kind: 'bulk',
      event_type: 'plan_created',
      node_delta: 3,
      edge_delta: 4, // plan to context, plan to each step, step to step
    })
  })

  it('is told of the plan that it is about, whatever else landed with it; of two plans it is none’s', async () => {
    const given = await world()
    const [one, other, third] = [planOf(given, { a: [] }), planOf(given, { b: [] }), planOf(given, { c: [] })]
    const told = async (changes: Changes) => {
      const updates = toldBy(await given.graph.commit(changes, by))
      return updates.filter(({ event }) => event.event_family === 'graph_update').map(({ plan_id }) => plan_id)
    }
    expect(await told([set('context', given.context, { title: 'Another' }), ...one.changes])).toEqual([one.id])
    expect(await told([...other.changes, ...third.changes])).toEqual([undefined])
  })

  it('is valid by the schema of its family', async () => {
    const given = await world()
    const plan = await withPlan(given, undefined, 'in_progress')
    await given.graph.commit([move('step', plan.step('build'), 'in_progress')], by)
    const events = await eventsOf(given.store, given.context)
    for (const event of families(events, 'graph_update')) expect(isValid('graph-update-event', event)).toBe(true)
    for (const event of families(events, 'pipeline_stage')) expect(isValid('pipeline-stage-event', event)).toBe(true)
  })

  it('splits what is larger than 500 changes, and stays exact', async () => {
    const given = await world()
    const names = Array.from({ length: 1200 }, (_, i) => `s${i}`)
    const steps = Object.fromEntries(names.map((name, i) => [name, i === 0 ? [] : [names[i - 1]!]]))
    const commit = await given.graph.commit(planOf(given, steps).changes, by)
    const updates = families(toldBy(commit), 'graph_update')
    expect(updates.map((update) => (update.payload as { changes: unknown[] }).changes.length)).toEqual([500, 500, 201])
    expect(updates.map((update) => update.node_delta)).toEqual([500, 500, 201])
    expect(updates.reduce((sum, update) => sum + (update.edge_delta as number), 0)).toBe(1 + 1200 + 1199)
    expect(updates.every((update) => update.update_kind === 'bulk')).toBe(true)
  })

  it('counts the edge of a Confirm when what it asks about comes to be', async () => {
    const given = await world()
    const { graph, store, id } = given
    const plan = await withPlan(given, { a: [] }, 'in_progress')
    const [action, confirm] = [id(), id()]
    const before = graph.state.edges
    const asked = await graph.commit([add('confirm', confirm, confirmData(confirm, 'other', action))], by)
    expect(families(toldBy(asked), 'graph_update')).toMatchObject([{ node_delta: 1, edge_delta: 0 }])
    await graph.commit([move('step', plan.step('a'), 'in_progress')], by)
    const begun = await graph.commit([add('action', action, actionOf(action, plan.step('a')))], by)
    expect(families(toldBy(begun), 'graph_update')).toMatchObject([{ node_delta: 1, edge_delta: 2 }])
    expect(graph.state.edges).toBe(before + 2)
    expect(await graph.verify()).toEqual([])
    const reopened = await openGraph(store, graph.id, { clock: given.clock })
    expect(reopened.state.edges).toBe(graph.state.edges)
  })

  it('tells each move of a plan and its steps, its activation, and each decision, by stage', async () => {
    const given = await world()
    const { graph, store, context } = given
    const plan = await withPlan(given, { a: [] }, 'in_progress')
    await graph.commit([move('step', plan.step('a'), 'in_progress')], by)
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    await graph.commit([move('context', context, 'suspended')], by)
    const stages = families(await eventsOf(store, context), 'pipeline_stage')
    expect(
      stages.map(({ event_type, pipeline_id, stage_id, stage_status }) => [
        event_type,
        pipeline_id,
        stage_id,
        stage_status,
      ]),
    ).toEqual([
      ['context_activated', context, 'context', 'running'],
      ['plan_status_changed', plan.id, 'plan', 'pending'],
      ['confirm_decision_added', plan.id, expect.any(String), 'completed'],
      ['plan_status_changed', plan.id, 'plan', 'pending'],
      ['plan_status_changed', plan.id, 'plan', 'running'],
      ['step_started', plan.id, plan.step('a'), 'running'],
      ['step_failed', plan.id, plan.step('a'), 'failed'],
      ['plan_status_changed', plan.id, 'plan', 'failed'], // it had started
      ['context_deactivated', context, 'context', 'pending'],
    ])
    for (const event of stages) expect(isValid('pipeline-stage-event', event)).toBe(true)
  })

  it('tells of each decision what it came to itself, also of several in one commit', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given)
    const asks = { requested_by_role: 'planner', needed: 2 }
    const decided = async (changes: Changes) =>
      families(toldBy(await graph.commit(changes, by)), 'pipeline_stage')
        .filter(({ event_type }) => event_type === 'confirm_decision_added')
        .map(({ payload }) => payload as JsonObject)
        .map(({ decided_by_role, from_status, to_status }) => [decided_by_role, from_status, to_status])
    await graph.commit(proposePlan(graph, plan.id, asks), by)
    const confirm = confirmOf(graph, plan.id)!.id
    const said = (decided_by_role: string, status: 'approved' | 'rejected', at: number) => {
      const id = graph.clock.uuid()
      return add('decision', id, decisionData(id, status, decided_by_role), { owner: confirm, at })
    }

    expect(await decided(decide(graph, confirm, { decided_by_role: 'ann', status: 'approved' }))).toEqual([
      ['ann', 'pending', 'pending'],
    ])
    const changed = [said('ben', 'rejected', 1), said('ann', 'approved', 2), said('cy', 'approved', 3)]
    const follows = [move('confirm', confirm, 'approved'), move('plan', plan.id, 'approved')]
    expect(await decided([...changed, ...follows])).toEqual([
      ['ben', 'pending', 'rejected'],
      ['ann', 'rejected', 'pending'],
      ['cy', 'pending', 'approved'],
    ])
  })

  it('tells a plan that never started as skipped when it is cancelled', async () => {
    const given = await world()
    const plan = await withPlan(given)
    const commit = await given.graph.commit(endPlan(given.graph, plan.id, 'cancelled'), by)
    expect(families(toldBy(commit), 'pipeline_stage').at(-1)).toMatchObject({
      stage_id: 'plan',
      stage_status: 'skipped',
    })
  })

  it('tells nothing of its caller behind the end of a plan', async () => {
    const given = await world()
    const plan = await withPlan(given)
    const event = { event_type: 'execution_failed', event_family: 'cost_budget', payload: {} }
    const commit = await given.graph.commit(endPlan(given.graph, plan.id, 'cancelled'), {
      ...by,
      events: [{ event }],
    })
    expect(
      toldBy(commit)
        .map(({ event: told }) => told.event_type)
        .slice(-3),
    ).toEqual(['execution_failed', 'plan_status_changed', expect.any(String)])
    expect(toldBy(commit).at(-1)?.event.event_family).toBe('graph_update')
  })

  it('carries the events of its caller, with stamps of its own', async () => {
    const { graph } = await world({ project_id: '33333333-3333-4333-8333-333333333333' })
    const event = {
      event_type: 'budget_near',
      event_family: 'cost_budget',
      event_id: 'mine',
      timestamp: 'yesterday',
      payload: { left: 1 },
    }
    const commit = await graph.commit([], { ...by, events: [{ plan_id: 'p', event }] })
    expect(commit.body.changes).toEqual([])
    expect(toldBy(commit)).toEqual([
      {
        plan_id: 'p',
        event: {
          event_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          timestamp: expect.stringMatching(/\.\d{6}Z$/),
          project_id: '33333333-3333-4333-8333-333333333333',
          event_type: 'budget_near',
          event_family: 'cost_budget',
          payload: { left: 1 },
        },
      },
    ])
  })

  it.each([
    ['an unknown family', { event_type: 'x', event_family: 'gossip' }],
    ['no shape of the protocol', { event_type: 'x' }],
    [
      'a stage without a pipeline',
      { event_type: 'x', event_family: 'pipeline_stage', stage_id: 's', stage_status: 'running' },
    ],
    [
      'a pipeline by another kind of id than the protocol’s',
      {
        event_type: 'x',
        event_family: 'pipeline_stage',
        pipeline_id: '123e4567-e89b-12d3-a456-426614174000',
        stage_id: 's',
        stage_status: 'running',
      },
    ],
    ['a type that says nothing', { event_type: ' ', event_family: 'intent' }],
    [
      'a profile’s event without its payload',
      { event_type: 'SAStepStarted', sa_id: '33333333-3333-4333-8333-333333333333' },
    ],
  ])('refuses an event of its caller with %s, and leaves nothing behind', async (_, event) => {
    const { graph, store, context } = await world()
    const before = await storeContents(store)
    const commit = graph.commit([set('context', context, { title: 'x' })], {
      ...by,
      events: [{ event: event as never }],
    })
    await expect(commit).rejects.toBeInstanceOf(InvalidInput)
    expect(await storeContents(store)).toEqual(before)
    expect(graph.get('context', context)?.data.title).toBe('The shop')
  })

  it('makes the events of a run whole, by what the entry says of the run', async () => {
    const given = await world()
    const plan = await withPlan(given, { build: [] }, 'in_progress')
    const [run, trace, execution_id, action_id] = [given.id(), given.id(), given.id(), given.id()]
    const step_id = plan.step('build')
    const execution = {
      event_type: 'execution_started',
      event_family: 'runtime_execution',
      execution_id,
      executor_kind: 'worker',
      status: 'running',
      payload: { action_id },
    }
    const commit = await given.graph.commit(
      [
        add('trace', trace, traceOf(trace, given.context, given.id(), { plan_id: plan.id })),
        add('run', run, runOf(run, plan.id, trace)),
      ],
      {
        ...by,
        run,
        events: [new RunEvent({ sa: 'SAStepStarted', payload: { step_id } }), new RunEvent({ execution, step_id })],
      },
    )
    const told = toldBy(commit).filter(({ event }) => /^SA|^execution/.test(event.event_type))
    const born = { event_id: expect.any(String), timestamp: expect.any(String) }
    const subject = { context_id: given.context, plan_id: plan.id, trace_id: trace }
    expect(told).toEqual([
      {
        plan_id: plan.id,
        event: { ...born, event_type: 'SAStepStarted', sa_id: run, ...subject, payload: { step_id } },
      },
      { plan_id: plan.id, event: { ...born, ...execution, payload: { action_id, step_id, ...subject } } },
    ])
    for (const { event } of told) expect(problems(eventKind(event), event), event.event_type).toEqual([])
  })

  it.each([undefined, '33333333-3333-4333-8333-333333333333'])(
    'refuses an event of a run in a commit of the run %s, and leaves nothing behind',
    async (run) => {
      const { graph, store, id } = await world()
      const before = await storeContents(store)
      const events = [new RunEvent({ sa: 'SAStepStarted', payload: { step_id: id() } })]
      await expect(graph.commit([], { ...by, ...(run && { run }), events })).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [expect.objectContaining({ path: 'run', rule: 'reference' })],
      })
      expect(await storeContents(store)).toEqual(before)
    },
  )

  it('goes on counting when the clock goes back, or stands still, or the graph is opened anew', async () => {
    const store = memoryBackend()
    let now = Date.UTC(2026, 5, 1)
    const clock: Clock = { ...manualClock(), now: () => now }
    const { graph, context } = await world({ store, clock })
    for (const jump of [0, 0, -60_000, 1, -1, 0.3337, 7.00001]) {
      now += jump
      await graph.commit([set('context', context, { title: `at ${now}` })], by)
    }
    const reopened = await openGraph(store, context, { clock })
    await reopened.commit([set('context', context, { title: 'again' })], by)
    await graph.commit([set('context', context, { title: 'and again' })], by)
    const stamps = (await eventsOf(store, context)).map(({ event }) => event.timestamp)
    expect(stamps).toEqual([...new Set(stamps)].sort())
    for (const stamp of stamps) expect(stamp).toMatch(/\.\d{6}Z$/)
  })

  it('says who decided, and what became of the Confirm', async () => {
    const { graph, context, id } = await world()
    const confirm = id()
    await graph.commit([add('confirm', confirm, confirmData(confirm, 'context', context))], by)
    const commit = await graph.commit(
      decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner', reason: 'no' }),
      by,
    )
    expect(families(toldBy(commit), 'pipeline_stage')[0]!.payload).toMatchObject({
      resource_type: 'confirm',
      resource_id: confirm,
      from_status: 'pending',
      to_status: 'rejected',
      decided_by_role: 'owner',
      reason: 'no',
    })
  })

  it('leaves a family out when it is switched off, for proofs', async () => {
    const { graph, context } = await world({ switched: new Set(['event.graph_update']) })
    const commit = await graph.commit([set('context', context, { title: 'x' })], by)
    expect(toldBy(commit)).toEqual([])
    expect((await graph.verify()).map(({ rule }) => rule)).toEqual(['delta.nodes'])
  })
})
