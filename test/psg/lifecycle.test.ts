import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { RuleViolation } from '../../src/protocol/errors.ts'
import { type LifecycleKind, lifecycles, mayMove, moveRule, statusesOf } from '../../src/protocol/lifecycle.ts'
import type { ConfirmStatus } from '../../src/protocol/types.ts'
import type { Change, Changes } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openGraph, type ProjectGraph } from '../../src/psg/graph.ts'
import { decide, endPlan, move, proposePlan, startPlan } from '../../src/psg/moves.ts'
import { statusOf } from '../../src/psg/node.ts'
import { children } from '../../src/psg/view.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import {
  add,
  by,
  confirmData,
  META,
  set,
  TIME,
  toldBy,
  traceOf,
  violationsOf,
  type World,
  walkTo,
  withPlan,
  world,
} from './given.ts'

type Moving = Exclude<LifecycleKind, 'segment'>

/** How an object of a kind is brought into a status, and the changes that take it on to another. */
interface Life {
  readonly arrive: (world: World, status: string) => Promise<string>
  readonly leave?: (world: World, id: string, from: string, to: string) => Changes
}

const LIVES: { readonly [K in Moving]: Life } = {
  context: simple('context', ({ context }, _id, status) => [set('context', context, { status })]),
  trace: simple('trace', ({ context, id }, trace, status) => [
    add('trace', trace, traceOf(trace, context, id(), { status: status as never }), { imported: true }),
  ]),
  dialog: simple('dialog', ({ context }, dialog_id, status) => [
    add(
      'dialog',
      dialog_id,
      { meta: META, dialog_id, context_id: context, status: status as never, messages: [] },
      { imported: true },
    ),
  ]),
  collab: simple('collab', ({ context }, collab_id, status) => [
    add(
      'collab',
      collab_id,
      {
        meta: META,
        collab_id,
        context_id: context,
        title: 't',
        purpose: 'p',
        mode: 'pair',
        status: status as never,
        participants: [],
        created_at: TIME,
      },
      { imported: true },
    ),
    add(
      'participant',
      `${collab_id}/0`,
      { participant_id: 'p', kind: 'agent' },
      { owner: collab_id, at: 0, imported: true },
    ),
  ]),
  extension: simple('extension', ({ context }, extension_id, status) => [
    add(
      'extension',
      extension_id,
      {
        meta: META,
        extension_id,
        context_id: context,
        name: 'n',
        extension_type: 'other',
        version: '1.0.0',
        status: status as never,
      },
      { imported: true },
    ),
  ]),
  network: simple('network', ({ context }, network_id, status) => [
    add(
      'network',
      network_id,
      { meta: META, network_id, context_id: context, name: 'n', topology_type: 'mesh', status: status as never },
      { imported: true },
    ),
  ]),
  core: simple('core', (_world, core_id, status) => [
    add(
      'core',
      core_id,
      {
        meta: META,
        core_id,
        protocol_version: '1.0.0',
        status: status as never,
        modules: [{ module_id: 'plan', version: '1.0.0', status: 'enabled' }],
      },
      { imported: true },
    ),
  ]),
  plan: {
    async arrive(world, status) {
      const plan = await withPlan(world)
      if (status === 'proposed' || status === 'approved' || status === 'in_progress')
        await walkTo(world, plan.id, status)
      else if (status !== 'draft') {
        await walkTo(world, plan.id, 'in_progress')
        await world.graph.commit(endPlan(world.graph, plan.id, status as 'failed'), by)
      }
      return plan.id
    },
    leave({ graph }, id, from, to) {
      if (to === 'proposed' && from === 'draft') return proposePlan(graph, id, { requested_by_role: 'planner' })
      if (to === 'approved' && from === 'proposed')
        return decide(graph, confirmOf(graph, id)!.id, { status: 'approved', decided_by_role: 'owner' })
      if (to === 'in_progress') return startPlan(graph, id, 'a run')
      if (to === 'completed' || to === 'failed' || to === 'cancelled') return endPlan(graph, id, to)
      return [move('plan', id, to)]
    },
  },
  step: {
    async arrive(world, status) {
      const plan = await withPlan(world, { needed: [], only: ['needed'] }, 'in_progress')
      const id = plan.step('only')
      const way = status === 'completed' || status === 'failed' ? ['in_progress'] : []
      for (const station of [...way, status].filter((to) => to !== 'pending'))
        await world.graph.commit(stepMoves(world, id, station), by)
      return id
    },
    leave: (world, id, _from, to) => stepMoves(world, id, to),
  },
  confirm: {
    async arrive(world, status) {
      const { graph, id, context } = world
      const confirm = id()
      await graph.commit([add('confirm', confirm, confirmData(confirm, 'context', context))], by)
      if (status !== 'pending')
        await graph.commit(decide(graph, confirm, { status: status as 'approved', decided_by_role: 'owner' }), by)
      return confirm
    },
    leave(world, id, from, to) {
      if (to !== 'approved' && to !== 'rejected') return [move('confirm', id, to)]
      const isAllowed = mayMove('confirm', from as ConfirmStatus, to)
      return isAllowed
        ? decide(world.graph, id, { status: to, decided_by_role: 'owner' })
        : decidedAnyhow(world, id, to)
    },
  },
}

/** What deciding would be where it is refused before the graph is asked. */
function decidedAnyhow({ id }: Pick<World, 'id'>, confirm: string, status: 'approved' | 'rejected'): Changes {
  const decision = { decision_id: id(), status, decided_by_role: 'owner', decided_at: new Date(0).toISOString() }
  return [
    { kind: 'node_add', node: 'decision', id: decision.decision_id, owner: confirm, at: 1, data: decision },
    move('confirm', confirm, status),
  ]
}

/** A step begins once what it needs is done, and is blocked once that has failed. */
function stepMoves({ graph }: World, id: string, to: string): Changes {
  const needed = graph.get('step', id)!.data.dependencies![0]!
  const through = { in_progress: ['skipped'], blocked: ['in_progress', 'failed'] }[to] ?? []
  return [...through.map((station) => move('step', needed, station)), move('step', id, to)]
}

/** An object that is brought into a status by being imported in it. */
function simple(kind: Moving, make: (world: World, id: string, status: string) => Changes): Life {
  return {
    async arrive(world, status) {
      const id = kind === 'context' ? world.context : world.id()
      if (statusOf(world.graph.get(kind, id)) !== status) await world.graph.commit(make(world, id, status), by)
      return id
    },
  }
}

describe('psg: a status moves along its lifecycle, and nowhere else', () => {
  for (const kind of Object.keys(LIVES) as Moving[]) {
    const { arrive, leave = (_w, id, _from, to) => [set(kind, id, { status: to }) as Change] } = LIVES[kind]
    describe(kind, () => {
      for (const from of statusesOf(kind)) {
        for (const to of statusesOf(kind).filter((status) => status !== from)) {
          const allowed = mayMove(kind, from as never, to as never)
          it(`${allowed ? 'goes' : 'does not go'} from ${from} to ${to}`, async () => {
            const given = await worldFor(kind, from)
            const id = await arrive(given, from)
            const { graph } = given
            if (kind === 'confirm' && from === 'rejected' && to === 'pending') return proposedAgain(given)
            const revision = graph.revision
            const commit = graph.commit(leave(given, id, from, to), by)
            if (allowed) {
              await commit
              expect(statusOf(graph.get(kind, id))).toBe(to)
            } else {
              const error = await commit.catch((e) => e)
              expect(error).toBeInstanceOf(RuleViolation)
              expect(error.violations.map(({ rule }: { rule: string }) => rule)).toContain(
                moveRule(kind, from as never, to as never),
              )
              expect(statusOf(graph.get(kind, id))).toBe(from)
              expect(graph.revision).toBe(revision)
            }
          })
        }
      }
    })
  }

  describe('segment', () => {
    for (const from of statusesOf('segment')) {
      for (const to of ['completed', 'failed', 'cancelled', 'skipped'] as const) {
        const allowed = lifecycles.segment[from].includes(to)
        it(`${allowed ? 'ends' : 'does not end'} from ${from} as ${to}`, async () => {
          const { graph, context, id } = await world()
          const [trace, segment] = [id(), id()]
          const start = add(
            'segment',
            segment,
            { segment_id: segment, label: 'l', status: from },
            { owner: trace, at: 0 },
          )
          await graph.commit([add('trace', trace, traceOf(trace, context, id())), start], by)
          const data = { segment_id: segment, status: to, finished_at: TIME }
          const commit = graph.commit([add('segment_end', segment, data, { owner: trace })], by)
          if (allowed) await commit
          else await expect(commit).rejects.toMatchObject({ violations: [{ rule: 'segment.end' }] })
        })
      }
    }
  })

  it('walks several stations in one commit and checks and tells each', async () => {
    const given = await world()
    const plan = await withPlan(given)
    const { graph } = given
    await graph.commit(
      [...proposePlan(graph, plan.id, { requested_by_role: 'planner' }), move('plan', plan.id, 'draft')],
      by,
    )
    const commit = await graph.commit(
      [move('plan', plan.id, 'proposed'), move('plan', plan.id, 'draft'), move('plan', plan.id, 'proposed')],
      by,
    )
    const stages = toldBy(commit).filter(({ event }) => event.event_family === 'pipeline_stage')
    expect(stages.map(({ event }) => event.payload)).toMatchObject([
      { from_status: 'draft', to_status: 'proposed' },
      { from_status: 'proposed', to_status: 'draft' },
      { from_status: 'draft', to_status: 'proposed' },
    ])
  })

  it('keeps a rejected Confirm of a single call rejected', async () => {
    const { graph, id } = await world()
    const confirm = id()
    await graph.commit([add('confirm', confirm, confirmData(confirm, 'other', id()))], by)
    await graph.commit(decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }), by)
    const again = graph.commit(decidedAnyhow({ id }, confirm, 'approved'), by)
    await expect(again).rejects.toMatchObject({ violations: [{ rule: 'lifecycle.confirm.rejected->approved' }] })
  })
})

describe('psg: what a start waits for', () => {
  for (const status of statusesOf('step')) {
    const met = status === 'completed' || status === 'skipped'
    it(`${met ? 'starts' : 'does not start'} a step whose dependency is ${status}`, async () => {
      const given = await world()
      const plan = await withPlan(
        given,
        { broken: [], a: status === 'blocked' ? ['broken'] : [], b: ['a'] },
        'in_progress',
      )
      const through = status === 'completed' || status === 'failed' ? ['in_progress', status] : [status]
      for (const to of status === 'blocked' ? ['in_progress', 'failed'] : [])
        await given.graph.commit([move('step', plan.step('broken'), to)], by)
      for (const to of through.filter((station) => station !== 'pending'))
        await given.graph.commit([move('step', plan.step('a'), to)], by)
      const start = given.graph.commit([move('step', plan.step('b'), 'in_progress')], by)
      await startsOnly(met, start, 'guard.step.dependencies')
    })
  }

  for (const status of statusesOf('plan').filter((one) => one !== 'in_progress')) {
    it(`does not start a step while its plan is ${status}`, async () => {
      const given = await world()
      const plan = await LIVES.plan.arrive(given, status)
      const [step] = children(given.graph.state, 'plan', plan)
      await startsOnly(
        false,
        given.graph.commit([move('step', step!.id, 'in_progress')], by),
        'guard.step.plan_running',
      )
    })
  }

  for (const status of statusesOf('context').filter((one) => one !== 'draft')) {
    const met = status === 'active'
    it(`${met ? 'starts' : 'does not start'} a plan in a context that is ${status}`, async () => {
      const given = await world()
      const { graph, context } = given
      const plan = await withPlan(given, undefined, 'approved')
      for (const to of status === 'closed' ? ['archived', status] : met ? [] : [status])
        await graph.commit([move('context', context, to)], by)
      await startsOnly(met, graph.commit(startPlan(graph, plan.id, 'a run'), by), 'guard.plan.start')
    })

    it(`${met ? 'starts' : 'does not start'} a step in a context that is ${status}`, async () => {
      const given = await world()
      const { graph, context } = given
      const plan = await withPlan(given, undefined, 'in_progress')
      for (const to of status === 'closed' ? ['archived', status] : met ? [] : [status])
        await graph.commit([move('context', context, to)], by)
      await startsOnly(met, graph.commit([move('step', plan.step('build'), 'in_progress')], by), 'guard.step.context')
    })
  }
})

async function startsOnly(met: boolean, start: Promise<unknown>, rule: string): Promise<void> {
  if (met) await start
  else expect((await violationsOf(start)).map((violation) => violation.rule)).toContain(rule)
}

/** A rejected Confirm is pending again when its plan is proposed again, and only then. */
async function proposedAgain(given: World): Promise<void> {
  const { graph } = given
  const plan = await withPlan(given, undefined, 'proposed')
  const confirm = confirmOf(graph, plan.id)!.id
  await graph.commit(decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }), by)
  expect(statusOf(graph.get('plan', plan.id))).toBe('draft')
  await graph.commit(proposePlan(graph, plan.id, { requested_by_role: 'planner' }), by)
  expect(statusOf(graph.get('confirm', confirm))).toBe('pending')
}

async function worldFor(kind: Moving, from: string): Promise<World> {
  if (kind === 'context') return world({ context: { status: from as never }, switched: new Set(['birth']) })
  if (kind !== 'core') return world()
  const clock = manualClock()
  const store = memoryBackend()
  const graph: ProjectGraph = await openGraph(store, clock.uuid(), { clock })
  return { clock, store, graph, context: graph.id, id: clock.uuid }
}
