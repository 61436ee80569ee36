import { describe, expect, it } from 'vitest'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import type { Decision } from '../../src/protocol/types.ts'
import { planDigest, verdict } from '../../src/psg/approval.ts'
import type { NodeAdd } from '../../src/psg/change.ts'
import { confirmOf, gateOf } from '../../src/psg/confirm.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { type Deciding, decide, endPlan, move, type Proposing, proposePlan, startPlan } from '../../src/psg/moves.ts'
import { pathsOf } from '../../src/psg/paths.ts'
import { openProject } from '../../src/psg/project.ts'
import { add, bindingOf, by, set, violationsOf, withPlan, world } from './given.ts'

async function proposed(options: Partial<Proposing> = {}) {
  const clock: ManualClock = manualClock()
  const given = await world({ clock })
  const { graph } = given
  const plan = await withPlan(given)
  const propose = (more: Partial<Proposing> = options) =>
    graph.commit(proposePlan(graph, plan.id, { requested_by_role: 'planner', ...more }), by)
  await propose()
  const confirm = confirmOf(graph, plan.id)!.id
  const say = (decided_by_role: string, status: Deciding['status'] = 'approved', more: Partial<Deciding> = {}) =>
    graph.commit(decide(graph, confirm, { status, decided_by_role, ...more }), by)
  const start = (usedBy = 'run 1') => graph.commit(startPlan(graph, plan.id, usedBy), by)
  const statuses = () => [graph.get('plan', plan.id)?.data.status, graph.get('confirm', confirm)?.data.status]
  return { ...given, clock, plan, confirm, propose, say, start, statuses }
}

const rules = async (commit: Promise<unknown>) => (await violationsOf(commit)).map(({ rule }) => rule)

describe('psg: approvals', () => {
  it('approve a plan when the one that is needed says so, and let it start once', async () => {
    const { say, start, statuses, graph, confirm } = await proposed()
    expect(statuses()).toEqual(['proposed', 'pending'])
    await say('owner')
    expect(statuses()).toEqual(['approved', 'approved'])
    await start()
    expect(statuses()).toEqual(['in_progress', 'approved'])
    expect(gateOf(graph, confirm)?.data.used_by).toBe('run 1')
    expect(await rules(start('run 2'))).toEqual(
      expect.arrayContaining(['approval.used', 'lifecycle.plan.in_progress->in_progress']),
    )
  })

  it('need as many roles as were asked for, each counted once', async () => {
    const { say, statuses } = await proposed({ needed: 2 })
    await say('ann')
    expect(statuses()).toEqual(['proposed', 'pending'])
    await say('ann')
    expect(statuses()).toEqual(['proposed', 'pending'])
    await say('ben')
    expect(statuses()).toEqual(['approved', 'approved'])
  })

  it('are ended by one who rejects, and counted anew when the plan is proposed again on the same Confirm', async () => {
    const { say, propose, statuses, graph, plan, confirm } = await proposed({ needed: 2 })
    await say('ann')
    await say('ben', 'rejected', { reason: 'not like this' })
    expect(statuses()).toEqual(['draft', 'rejected'])
    await graph.commit([set('step', plan.step('build'), { description: 'better' })], by)
    await propose()
    expect(confirmOf(graph, plan.id)?.id).toBe(confirm)
    expect(statuses()).toEqual(['proposed', 'pending'])
    await say('ben')
    expect(statuses()).toEqual(['proposed', 'pending']) // ann approved of something else
    await say('ann')
    expect(statuses()).toEqual(['approved', 'approved'])
    const { decisions } = await graph.document('confirm', confirm)
    expect(decisions!.map(({ decided_by_role, status }) => [decided_by_role, status])).toEqual([
      ['ann', 'approved'],
      ['ben', 'rejected'],
      ['ben', 'approved'],
      ['ann', 'approved'],
    ])
  })

  it('are asked of the same roles, and as many, when the plan is put up again and nobody says otherwise', async () => {
    const { plan, say, statuses, graph } = await proposed({ needed: 2, roles: ['ann', 'ben', 'cy'] })
    await say('ann', 'rejected')
    const { patchPlanStatus } = pathsOf(await openProject(graph.store, { clock: graph.clock }))
    await patchPlanStatus(plan.id, 'proposed', by)
    await graph.refresh()
    expect(await rules(say('somebody else'))).toEqual(['decision.allowed'])
    await say('ben')
    expect(statuses()).toEqual(['proposed', 'pending'])
    await say('ann', 'rejected')
    const again = (options: Partial<Proposing>) => () =>
      proposePlan(graph, plan.id, { requested_by_role: 'planner', ...options })
    expect(again({ roles: ['dora'] })).toThrow(InvalidInput)
    await graph.commit(again({ needed: 1, roles: ['dora'] }), by)
    await say('dora')
    expect(statuses()).toEqual(['approved', 'approved'])
  })

  it('do not outlive a plan that was taken back: what was said of the old one does not count for the new', async () => {
    const { say, propose, statuses, graph, plan } = await proposed({ needed: 2 })
    await say('ann')
    await graph.commit([move('plan', plan.id, 'draft')], by)
    await graph.commit([set('plan', plan.id, { title: 'another' })], by)
    await propose()
    await say('ben')
    expect(statuses()).toEqual(['proposed', 'pending'])
  })

  it('are of the roles that may, and of nobody else', async () => {
    const { say, statuses, confirm } = await proposed({ needed: 2, roles: ['ann', 'ben'] })
    const message = `role cy may not decide confirm ${confirm}, only ann, ben`
    expect(await violationsOf(say('cy'))).toMatchObject([{ rule: 'decision.allowed', message }])
    await say('ann')
    await say('ben')
    expect(statuses()).toEqual(['approved', 'approved'])
  })

  it('come too late after their time, and so does the start', async () => {
    const expires_at = '2026-01-01T00:10:00.000Z'
    const late = await proposed({ expires_at })
    await late.clock.advance(11 * 60_000)
    expect(await rules(late.say('owner'))).toContain('decision.allowed')
    const slow = await proposed({ expires_at })
    await slow.say('owner')
    await slow.clock.advance(10 * 60_000)
    expect(await rules(slow.start())).toEqual(['approval.bound'])
    const quick = await proposed({ expires_at })
    await quick.clock.advance(9 * 60_000)
    await quick.say('owner')
    await quick.start()
    expect(quick.statuses()).toEqual(['in_progress', 'approved'])
  })

  it('are refused when something else is up for decision than what was seen', async () => {
    const { say, propose, graph, plan, confirm, statuses } = await proposed()
    const seen = gateOf(graph, confirm)!.data.digest
    await graph.commit([move('plan', plan.id, 'draft')], by)
    await graph.commit([set('plan', plan.id, { title: 'another' })], by)
    await propose()
    const stale = () => decide(graph, confirm, { status: 'approved', decided_by_role: 'owner', digest: seen })
    expect(stale).toThrow(InvalidInput)
    await say('owner', 'approved', { digest: gateOf(graph, confirm)!.data.digest })
    expect(statuses()).toEqual(['approved', 'approved'])
  })

  it('hold for the plan as it was proposed, bindings included, whatever the order in which its parts were read', async () => {
    const given = await world()
    const { graph, store, clock, context, id } = given
    const plan = await withPlan(given)
    for (const name of ['build', 'test']) {
      const binding = id()
      await graph.commit([add('binding', binding, bindingOf(plan.step(name), binding, { name }))], by)
    }
    const late = id()
    await graph.commit(
      [add('step', late, { step_id: late, description: 'without a place', status: 'pending' }, { owner: plan.id })],
      by,
    )
    await graph.commit(proposePlan(graph, plan.id, { requested_by_role: 'planner' }), by)
    const reopened = await openGraph(store, context, { clock })
    const digest = (state: typeof graph.state) => planDigest(state.get('plan', plan.id)!, state.nodesOf(plan.id))
    expect(digest(reopened.state)).toBe(digest(graph.state))
    const reversed = [...graph.state.nodesOf(plan.id)].reverse() // as ids that were chosen may have it
    expect(planDigest(graph.get('plan', plan.id)!, reversed)).toBe(digest(graph.state))
    await reopened.commit(
      decide(reopened, confirmOf(reopened, plan.id)!.id, { status: 'approved', decided_by_role: 'owner' }),
      by,
    )
    await reopened.commit(startPlan(reopened, plan.id, 'run 1'), by)
    expect(reopened.get('plan', plan.id)?.data.status).toBe('in_progress')
  })

  it('digest what is to be done, not how far it has come', async () => {
    const given = await world()
    const plan = await withPlan(given)
    const { graph } = given
    const digest = () => planDigest(graph.get('plan', plan.id)!, graph.state.nodesOf(plan.id))
    const first = digest()
    await graph.commit([move('step', plan.step('test'), 'skipped')], by)
    expect(digest()).toBe(first)
    await graph.commit([set('step', plan.step('build'), { description: 'x' })], by)
    expect(digest()).not.toBe(first)
  })

  it('are bound to the plan as its commit leaves it, where the gate brings no digest', async () => {
    const given = await world()
    const plan = await withPlan(given)
    const { graph } = given
    const proposing = proposePlan(graph, plan.id, { requested_by_role: 'planner' })
    const { id, data } = proposing.at(-1) as NodeAdd<'gate'>
    const { digest: seen, ...unbound } = data
    const changed = set('step', plan.step('build'), { description: 'x' })
    await graph.commit([changed, ...proposing.slice(0, -1), add('gate', id, unbound)], by)
    expect(graph.get('gate', id)?.data.digest).toBe(
      planDigest(graph.get('plan', plan.id)!, graph.state.nodesOf(plan.id)),
    )
    expect(graph.get('gate', id)?.data.digest).not.toBe(seen)
  })

  it('that are locked keep no plan from its end, and stay open', async () => {
    const { graph, plan, confirm } = await proposed()
    await graph.commit([set('confirm', confirm, { governance: { locked: true } })], by)
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    expect(graph.get('plan', plan.id)?.data.status).toBe('cancelled')
    expect(graph.get('confirm', confirm)?.data.status).toBe('pending')
    expect(await graph.verify()).toEqual([])
  })

  it('are withdrawn with the plan, and a plan that is proposed after the last word has a new Confirm', async () => {
    const { graph, plan, confirm } = await proposed()
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    expect(graph.get('confirm', confirm)?.data.status).toBe('cancelled')
    const again = await proposed()
    await again.graph.commit([move('confirm', again.confirm, 'cancelled'), move('plan', again.plan.id, 'draft')], by)
    await again.propose()
    expect(confirmOf(again.graph, again.plan.id)?.id).not.toBe(again.confirm)
  })

  it('cancel the plan when that is what is decided', async () => {
    const { say, statuses, graph, plan } = await proposed()
    await say('owner', 'cancelled')
    expect(statuses()).toEqual(['cancelled', 'cancelled'])
    expect(graph.get('step', plan.step('build'))?.data.status).toBe('skipped')
  })

  it.each([
    ['needed', { needed: 0 }],
    ['needed', { needed: 1.5 }],
    ['needed', { needed: 3, roles: ['a', 'b', 'b'] }],
    ['roles', { roles: 'owner' }],
    ['roles', { roles: [1] }],
    ['expires_at', { expires_at: 'soon' }],
    ['requested_by_role', { requested_by_role: undefined }],
  ])('are not asked for with a %s that nobody could meet: %j', async (path, options) => {
    const given = await world()
    const plan = await withPlan(given)
    const propose = () => proposePlan(given.graph, plan.id, { requested_by_role: 'planner', ...options } as never)
    expect(propose).toThrow(InvalidInput)
    expect(() => propose()).toThrow(expect.objectContaining({ problems: [expect.objectContaining({ path })] }))
  })

  it.each([
    ['approved', 'approved'],
    ['approved', 'rejected'],
    ['cancelled', 'approved'],
    ['rejected', 'rejected'],
    ['rejected', 'cancelled'],
  ] as const)(
    'are given once: what is %s already, and by whom, is said to who would have it %s',
    async (first, then) => {
      const { say, confirm } = await proposed()
      await say('owner', first)
      const violations = await violationsOf((async () => say('ann', then))())
      expect(violations).toEqual([
        {
          rule: 'decision.allowed',
          node: confirm,
          path: 'status',
          message: `confirm ${confirm} is ${first} already, by owner`,
        },
      ])
    },
  )

  it('are not given by nobody, nor as anything else, nor to what is not there', async () => {
    const { graph, confirm } = await proposed()
    expect(() => decide(graph, confirm, { status: 'maybe' as never, decided_by_role: 'owner' })).toThrow(InvalidInput)
    expect(() => decide(graph, confirm, { status: 'approved' } as never)).toThrow(InvalidInput)
    expect(() => decide(graph, 'nobody', { status: 'approved', decided_by_role: 'owner' })).toThrow(NotFound)
    expect(() => proposePlan(graph, 'nobody', { requested_by_role: 'planner' })).toThrow(NotFound)
    expect(() => endPlan(graph, 'nobody', 'failed')).toThrow(NotFound)
  })
})

describe('psg: a verdict', () => {
  const said = (...words: readonly (readonly [string, Decision['status']])[]): Decision[] =>
    words.map(([decided_by_role, status], i) => ({
      decision_id: `${i}`,
      decided_by_role,
      status,
      decided_at: '2026-01-01T00:00:00Z',
    }))

  it.each([
    ['nothing was said', { needed: 1 }, said(), 'pending'],
    ['one of one approves', { needed: 1 }, said(['a', 'approved']), 'approved'],
    ['one of two approves', { needed: 2 }, said(['a', 'approved']), 'pending'],
    ['one approves twice', { needed: 2 }, said(['a', 'approved'], ['a', 'approved']), 'pending'],
    ['two of two approve', { needed: 2 }, said(['a', 'approved'], ['b', 'approved']), 'approved'],
    ['the last rejects', { needed: 2 }, said(['a', 'approved'], ['b', 'rejected']), 'rejected'],
    [
      'approvals before a rejection do not count',
      { needed: 2 },
      said(['a', 'approved'], ['b', 'rejected'], ['b', 'approved']),
      'pending',
    ],
    ['one who may not approves', { needed: 1, roles: ['a'] }, said(['b', 'approved']), 'pending'],
    ['the last cancels', { needed: 1 }, said(['a', 'cancelled']), 'cancelled'],
    ['there is no gate', undefined, said(['a', 'approved']), 'approved'],
  ] as const)('when %s', (_, gate, decisions, expected) => {
    expect(verdict(gate, decisions)).toBe(expected)
  })
})
