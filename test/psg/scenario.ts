import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { decide, endPlan, move, proposePlan, startPlan } from '../../src/psg/moves.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { actionOf, add, by, contentsOf, contextOf, insisting, META, planOf, set, TIME, traceOf } from './given.ts'

/** One store of a test: opened any number of times, as other processes would. */
export type Place = () => { open: () => Promise<Backend>; kept?: boolean }

/** A graph's whole life on one backend, asked about again after a restart. What holds on memory holds on all of them. */
export function graphScenario(name: string, place: Place): void {
  describe(`psg on ${name}`, () => {
    it.each([
      ['its values', 0],
      ['its journal', 1_024],
    ])('answers from %s after a restart as it did before', { timeout: 60_000 }, async (_, mostTrailing) => {
      const { open, kept = true } = place()
      let store = await open()
      const clock = manualClock({ seed: 7 })
      const project = await openProject(store, { clock, mostTrailing })
      const context = clock.uuid()
      const graph = await project.create(contextOf(context), by)
      const plan = planOf({ context, id: clock.uuid }, { build: [], test: ['build'], ship: ['test'] })
      await graph.commit(plan.changes, { actor: 'ann', reason: 'a plan' })
      await graph.snapshot('before', by)
      await graph.commit(
        proposePlan(graph, plan.id, { requested_by_role: 'planner', needed: 2, roles: ['ann', 'ben'] }),
        by,
      )
      const confirm = confirmOf(graph, plan.id)!.id
      for (const role of ['ann', 'ben'])
        await graph.commit(decide(graph, confirm, { status: 'approved', decided_by_role: role }), by)
      await graph.commit(startPlan(graph, plan.id, 'run 1'), by)
      const [trace, action, segment] = [clock.uuid(), clock.uuid(), clock.uuid()]
      const attempts = [0, 1, 2].map((at) => ({ segment_id: clock.uuid(), at, started_at: TIME }))
      await graph.commit([add('trace', trace, traceOf(trace, context, clock.uuid(), { plan_id: plan.id }))], by)
      await graph.commit(
        [
          move('step', plan.step('build'), 'in_progress'),
          add('action', action, { ...actionOf(action, plan.step('build')), began: attempts.slice(0, 1) }),
          add('segment', segment, { segment_id: segment, label: 'build', status: 'running' }, { owner: trace, at: 0 }),
        ],
        { ...by, run: 'run 1' },
      )
      for (const begun of [2, 3]) await graph.commit([set('action', action, { began: attempts.slice(0, begun) })], by)
      await graph.commit(
        [
          move('step', plan.step('build'), 'completed'),
          set('action', action, { status: 'completed', output: { ok: true } }),
          add(
            'segment_end',
            segment,
            { segment_id: segment, status: 'completed', finished_at: TIME },
            { owner: trace },
          ),
          set('context', context, { summary: 'built' }),
        ],
        { ...by, run: 'run 1' },
      )
      await graph.commit([...endPlan(graph, plan.id, 'failed'), move('trace', trace, 'failed')], by)
      const { conflicts } = await graph.restore({ ...by, to: 'before', of: 'run 1' })
      expect(conflicts).toEqual([])
      const fork = await graph.fork(plan.id, by)
      const dialog = clock.uuid()
      await project.import(
        [
          [
            'dialog',
            {
              meta: META,
              dialog_id: dialog,
              context_id: context,
              status: 'completed',
              messages: [{ role: 'user', content: 'hi\u0000💥', timestamp: TIME }],
            },
          ],
          ['role', { meta: META, role_id: clock.uuid(), name: 'builder' }],
        ],
        by,
      )
      const ask = async (g: typeof graph) => ({
        plan: await g.document('plan', plan.id),
        trace: await g.document('trace', trace),
        confirm: await g.document('confirm', confirm),
        dialog: await g.document('dialog', dialog),
        history: await g.history('step', plan.step('build')),
        why: await g.why('segment_end', segment),
        earlier: contentsOf(await g.at(3)),
        diff: await g.diff(2, g.revision),
        ended: (await g.query({ kind: 'plan', where: { status: 'failed' } })).nodes,
        findings: await g.verify(),
      })
      const before = await ask(graph)
      expect(before.findings).toEqual([])
      expect(before.plan.status).toBe('failed')
      expect(before.history).toHaveLength(3)
      expect(before.trace.segments).toMatchObject([{ status: 'completed', finished_at: TIME }])
      expect(graph.get('context', context)?.data.summary).toBeUndefined()

      if (kept) {
        await store.close()
        store = await open()
      }
      const again = await openProject(store, { clock })
      const reopened = await again.context(context)
      expect(again.id).toBe(project.id)
      expect(again.role('builder')).toBeDefined()
      expect(reopened.state.hasGroup(plan.id)).toBe(false)
      expect(reopened.state.hasGroup(fork.id)).toBe(true)
      expect(await ask(reopened)).toEqual(before)
      await reopened.commit([set('context', context, { title: 'goes on' })], by)
      expect(await reopened.verify()).toEqual([])
      await store.close()
    })

    it('lets two writers in, one after the other', { timeout: 60_000 }, async () => {
      const { open } = place()
      const store = await open()
      const beside = store.traits.processes === 'many' ? await open() : store
      const clock = manualClock({ seed: 8 })
      const context = clock.uuid()
      const one = await (await openProject(store, { clock })).create(contextOf(context), by)
      const two = await openGraph(beside, context)
      const plan = planOf({ context, id: clock.uuid }, { a: [], b: ['a'], c: ['a'] })
      await one.commit(plan.changes, by)
      const results = await Promise.allSettled([
        ...Array.from({ length: 5 }, (_, i) =>
          insisting(() => one.commit([set('context', context, { title: `one ${i}` })], by)),
        ),
        ...Array.from({ length: 5 }, (_, i) =>
          insisting(() => two.commit([set('context', context, { summary: `two ${i}` })], by)),
        ),
        insisting(() => one.commit([{ kind: 'edge_add', from: plan.step('b'), to: plan.step('c') }], by)),
        insisting(() => two.commit([{ kind: 'edge_add', from: plan.step('c'), to: plan.step('b') }], by)),
      ])
      const refused = results.filter((result) => result.status === 'rejected')
      expect(refused.map((result) => result.reason.violations)).toMatchObject([[{ rule: 'plan.acyclic' }]])
      await Promise.all([one.refresh(), two.refresh()])
      expect(one.revision).toBe(2 + 11)
      expect(contentsOf(two.state)).toEqual(contentsOf(one.state))
      expect(one.get('context', context)?.data).toMatchObject({
        title: expect.stringMatching(/^one/),
        summary: expect.stringMatching(/^two/),
      })
      expect(await two.verify()).toEqual([])
      await beside.close()
      await store.close()
    })
  })
}
