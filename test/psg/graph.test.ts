import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { FencedOut, InvalidInput, RevisionConflict, RuleViolation, TooLarge } from '../../src/protocol/errors.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { Change, Changes } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { INDEX } from '../../src/psg/indexes.ts'
import { decide, endPlan, move, proposePlan } from '../../src/psg/moves.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { failingListeners } from '../support/failing-listeners.ts'
import { faultyBackend } from '../support/faulty-backend.ts'
import {
  actionOf,
  add,
  bindingOf,
  by,
  confirmData,
  contentsOf,
  file,
  META,
  type NamedPlan,
  planOf,
  remove,
  runOf,
  set,
  storeContents,
  TIME,
  traceOf,
  violationsOf,
  withPlan,
  world,
} from './given.ts'

describe('psg/graph: a commit', () => {
  it('looks at what is changed beside a move, whichever of the two comes first', async () => {
    const given = await world()
    const { graph } = given
    const plan = await withPlan(given, { a: [] })
    const changes = [set('plan', plan.id, { title: undefined }), move('plan', plan.id, 'cancelled')]
    for (const order of [changes, changes.toReversed()])
      await expect(graph.commit(order, by)).rejects.toMatchObject({ violations: [{ rule: 'schema', path: 'title' }] })
  })

  it('looks at what is taken away after a move as at anything that is taken away', async () => {
    const given = await world()
    const { id, step } = await withPlan(given, { a: [], b: [] }, 'in_progress')
    const changes = [move('step', step('a'), 'in_progress'), remove('step', step('a'))]
    const violations = await violationsOf(given.graph.commit(changes, by))
    expect(violations).toContainEqual(expect.objectContaining({ rule: 'plan.frozen', node: `step/${step('a')}` }))
    expect(given.graph.get('plan', id)!.data.status).toBe('in_progress')
  })

  it('takes nothing for a move that only changes more of what it adds', async () => {
    const given = await world()
    const { id, changes } = planOf(given, { a: [] }, { status: 'approved' })
    const imported = changes.map((change) => ({ ...change, imported: true }) as Change)
    await given.graph.commit([...imported, set('plan', id, { title: 'renamed' })], by)
    expect(given.graph.get('plan', id)!.data).toMatchObject({ status: 'approved', title: 'renamed' })
  })

  it('tells every rule that is broken, at every node, not the first alone', async () => {
    const given = await world()
    const { graph, id } = given
    const plan = await withPlan(given, { a: [], b: ['a'] })
    const other = planOf(given, { x: ['y'], y: ['x'] }, { status: 'approved' })
    const untitled = set('plan', other.id, { title: '' })
    const nobody = id()
    const violations = await violationsOf(
      graph.commit(
        [
          ...other.changes,
          untitled,
          remove('step', plan.step('a')),
          set('plan', nobody, { title: 'x' }),
          move('step', plan.step('b'), 'in_progress'),
          add('binding', id(), bindingOf(nobody, 'another id')),
        ],
        by,
      ),
    )
    expect(new Set(violations.map(({ rule }) => rule))).toEqual(
      new Set([
        'node.exists',
        'schema',
        'plan.acyclic',
        'delete.referenced',
        'guard.step.plan_running',
        'guard.step.dependencies',
        'reference.resolves',
        'id.fixed',
      ]),
    )
    const error = await graph.commit([...other.changes, untitled], by).catch((e) => e)
    expect(error).toBeInstanceOf(RuleViolation)
    expect(error.graph).toBe(graph.id)
    expect(error.message).toContain('[schema]')
  })

  it('is refused when it has neither a change nor an event, and lands with an event alone', async () => {
    const { graph, context, id } = await world()
    await expect(graph.commit([], by)).rejects.toMatchObject({ problems: [{ path: 'changes', rule: 'min_items' }] })
    const dialog = id()
    const data = { meta: META, dialog_id: dialog, context_id: context, status: 'active' as const, messages: [] }
    const neverWas = graph.commit([add('dialog', dialog, data), remove('dialog', dialog)], by)
    await expect(neverWas).rejects.toBeInstanceOf(InvalidInput)
    const event = { event_type: 'seen', event_family: 'external_integration', payload: {} }
    expect((await graph.commit([], { ...by, events: [{ event }] })).revision).toBe(2)
    expect(await graph.verify()).toEqual([])
  })

  it('takes a field away that is set to undefined', async () => {
    const { graph, context, store, clock } = await world()
    await graph.commit([set('context', context, { summary: 'x', language: 'de' })], by)
    await graph.commit([set('context', context, { summary: undefined })], by)
    expect(graph.get('context', context)?.data).not.toHaveProperty('summary')
    expect(graph.get('context', context)?.data.language).toBe('de')
    await expect(graph.commit([set('context', context, { title: undefined })], by)).rejects.toMatchObject({
      violations: [{ rule: 'schema', path: 'title' }],
    })
    const reopened = await openGraph(store, context, { clock })
    expect(contentsOf(reopened.state)).toEqual(contentsOf(graph.state))
  })

  it('keeps nothing of what its caller can still change', async () => {
    const { graph, context } = await world()
    const tags = ['one']
    const changes = [set('context', context, { tags })] as Changes[number][]
    const landing = graph.commit(changes, by)
    tags.push('two')
    changes.length = 0
    await landing
    expect(graph.get('context', context)?.data.tags).toEqual(['one'])
    const { data } = graph.get('context', context)!
    expect(() => Object.assign(data, { title: 'x' })).toThrow(TypeError)
    await graph.refresh()
    expect(graph.get('context', context)?.data.tags).toEqual(['one'])
  })

  it('finds the group of a node also when what it hangs on comes later in the same commit', async () => {
    const given = await world()
    const { graph, id } = given
    const plan = planOf(given, { a: [] })
    const binding = id()
    const bound = add('binding', binding, bindingOf(plan.step('a'), binding))
    await graph.commit([bound, ...plan.changes.toReversed()], by)
    expect(graph.get('binding', binding)?.group).toBe(plan.id)
    expect(graph.get('step', plan.step('a'))?.group).toBe(plan.id)
  })

  it('refuses ids that are taken in another context, and tells all of them', async () => {
    const store = memoryBackend()
    const clock = manualClock()
    const one = await world({ store, clock })
    const two = await world({ store, clock })
    const plan = await withPlan(one, { a: [], b: [] })
    const copy = planOf(two, { a: [], b: [] })
    const stolen = [
      add('plan', plan.id, { ...copy.document, plan_id: plan.id, steps: [] }),
      add('step', plan.step('a'), { step_id: plan.step('a'), description: 'x', status: 'pending' }, { owner: plan.id }),
    ]
    const before = await storeContents(store)
    const violations = await violationsOf(two.graph.commit(stolen, by))
    expect(violations.map(({ rule, node }) => [rule, node]).sort()).toEqual([
      ['id.unique', `plan/${plan.id}`],
      ['id.unique', `step/${plan.step('a')}`],
    ])
    expect(await storeContents(store)).toEqual(before)
  })

  it('refuses an id that is taken by what has ended and left memory', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph } = given
    const plan = await withPlan(given, { a: [] })
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    const other = await withPlan(given, { a: [] })
    expect(graph.state.hasGroup(plan.id)).toBe(false)
    const taken = { step_id: plan.step('a'), description: 'x', status: 'pending' as const }
    const violations = await violationsOf(graph.commit([add('step', taken.step_id, taken, { owner: other.id })], by))
    expect(violations).toMatchObject([{ rule: 'id.unique', node: `step/${taken.step_id}` }])
  })

  it('says closed, not unknown, of what has ended and left memory', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const plan = await withPlan(given, { a: [] })
    await given.graph.commit(endPlan(given.graph, plan.id, 'cancelled'), by)
    await given.graph.refresh()
    expect(given.graph.get('plan', plan.id)).toBeUndefined()
    const violations = await violationsOf(given.graph.commit([set('plan', plan.id, { title: 'x' })], by))
    expect(violations.map(({ rule }) => rule)).toContain('closed')
  })

  it('asks the store for nothing but to commit, when all it names is in memory', async () => {
    const store = memoryBackend()
    const clock = manualClock()
    const faulty = faultyBackend(store, () => undefined, clock)
    const given = await world({ store: faulty, clock })
    const plan = await withPlan(given, { a: [] }, 'in_progress')
    const from = faulty.calls.length
    const action = given.id()
    await given.graph.commit(
      [move('step', plan.step('a'), 'in_progress'), add('action', action, actionOf(action, plan.step('a')))],
      by,
    )
    expect(faulty.calls.slice(from).map(({ method }) => method)).toEqual(['commit'])
  })

  it('lets the store refuse what is too large, and has then done nothing', async () => {
    const { graph, context, store } = await world()
    const before = await storeContents(store)
    const huge = set('context', context, { summary: 'x'.repeat(33 * 1024 * 1024) })
    await expect(graph.commit([huge], by)).rejects.toBeInstanceOf(TooLarge)
    expect(await storeContents(store)).toEqual(before)
    expect(graph.get('context', context)?.data.summary).toBeUndefined()
    expect((await graph.commit([set('context', context, { summary: 'x' })], by)).revision).toBe(2)
  })

  it('is refused under a token that is no longer the owner’s', async () => {
    const { graph, store, context } = await world()
    const holder = { id: 'h', boot: '', pid: 1, started: '' }
    const old = (await store.acquire(context, holder, 1000))!
    await store.release(old)
    const lease = (await store.acquire(context, holder, 1000))!
    const changes = [set('context', context, { title: 'x' })]
    await expect(graph.commit(changes, { ...by, fence: old.token })).rejects.toBeInstanceOf(FencedOut)
    expect(graph.revision).toBe(1)
    expect((await graph.commit(changes, { ...by, fence: lease.token })).revision).toBe(2)
  })

  it('lands in the order of the calls', async () => {
    const { graph, context } = await world()
    const commits = await Promise.all(
      Array.from({ length: 20 }, (_, i) => graph.commit([set('context', context, { title: `t${i}` })], by)),
    )
    expect(commits.map(({ revision }) => revision)).toEqual(Array.from({ length: 20 }, (_, i) => i + 2))
    expect(graph.get('context', context)?.data.title).toBe('t19')
  })

  it('writes who, why and for which run into the journal', async () => {
    const { graph, context, store } = await world()
    await graph.commit([set('context', context, { title: 'x' })], { actor: 'ann', reason: 'better', run: 'r1' })
    const bodies: unknown[] = []
    for await (const { body } of store.read(context, { after: 1 })) bodies.push(body)
    expect(bodies).toMatchObject([
      {
        commit_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        actor: 'ann',
        reason: 'better',
        run: 'r1',
        changes: [
          {
            key: `${context}/-/context/${context}`,
            before: { data: { title: 'The shop' } },
            after: { data: { title: 'x' } },
          },
        ],
      },
    ])
  })
})

describe('psg/graph: several writers', () => {
  it('draft again on what others wrote, and keep both', async () => {
    const { graph, context, store, clock } = await world()
    const other = await openGraph(store, context, { clock })
    await other.commit([set('context', context, { summary: 'theirs' })], by)
    const { revision } = await graph.commit([set('context', context, { title: 'mine' })], by)
    expect(revision).toBe(3)
    expect(graph.get('context', context)?.data).toMatchObject({ title: 'mine', summary: 'theirs' })
  })

  it('are judged by what is true, not by what one of them last heard', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const other = await openGraph(store, context, { clock })
    const plan = await withPlan(given, { a: [], b: ['a'] }, 'in_progress')
    await other.commit([move('step', plan.step('a'), 'in_progress')], by)
    await other.commit([move('step', plan.step('a'), 'completed')], by)
    expect(graph.get('step', plan.step('a'))?.data.status).toBe('pending')
    await graph.commit([move('step', plan.step('b'), 'in_progress')], by) // its memory alone would have said no
    expect(graph.get('step', plan.step('a'))?.data.status).toBe('completed')
  })

  it('cannot both make the same move', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const other = await openGraph(store, context, { clock })
    const plan = await withPlan(given, { a: [] }, 'in_progress')
    const begin = (writer: typeof graph) => writer.commit([move('step', plan.step('a'), 'in_progress')], by)
    const results = await Promise.allSettled([begin(graph), begin(other)])
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const lost = results.find((result) => result.status === 'rejected') as PromiseRejectedResult
    expect(lost.reason.violations).toMatchObject([{ rule: 'lifecycle.step.in_progress->in_progress' }])
  })

  it('decide anew when a function decides: two approvals at once make two of two', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const plan = await withPlan(given)
    await graph.commit(proposePlan(graph, plan.id, { requested_by_role: 'planner', needed: 2 }), by)
    const other = await openGraph(store, context, { clock })
    const confirm = confirmOf(graph, plan.id)!.id
    const approve = (writer: typeof graph, decided_by_role: string) =>
      writer.commit(() => decide(writer, confirm, { status: 'approved', decided_by_role }), by)
    await Promise.all([approve(graph, 'ann'), approve(other, 'ben')])
    await graph.refresh()
    expect(graph.get('confirm', confirm)?.data.status).toBe('approved')
    expect(graph.get('plan', plan.id)?.data.status).toBe('approved')
  })

  it('give up after five attempts when somebody is always faster', async () => {
    const { graph, store, context } = await world()
    const other = await openGraph(store, context)
    const chased = await openGraph(
      {
        ...store,
        async commit(write) {
          await other.commit([set('context', context, { summary: `faster than ${write.expected}` })], by)
          return store.commit(write)
        },
      },
      context,
    )
    await expect(chased.commit([set('context', context, { title: 'x' })], by)).rejects.toBeInstanceOf(RevisionConflict)
    await graph.refresh()
    expect(graph.revision).toBe(6)
    expect(graph.get('context', context)?.data.title).toBe('The shop')
  })

  it('find what others added to a group that they have loaded', async () => {
    const given = await world()
    const { graph, store, clock, context, id } = given
    const plan = await withPlan(given, { a: [] })
    const other = await openGraph(store, context, { clock })
    const step_id = id()
    await graph.commit([add('step', step_id, { step_id, description: 'x', status: 'pending' }, { owner: plan.id })], by)
    expect(other.get('step', step_id)).toBeUndefined()
    expect((await other.find('step', step_id))?.data.description).toBe('x')
    expect(other.revision).toBe(graph.revision)
  })

  it('hold a plan that another has added as soon as they hear of it', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const other = await openGraph(store, context, { clock })
    const told: string[] = []
    other.watch((deltas) => told.push(...deltas.map(({ id }) => id)))
    const plan = await withPlan(given, { a: [], b: ['a'] })
    await other.refresh()
    expect(contentsOf(other.state)).toEqual(contentsOf(graph.state))
    expect(told).toEqual([plan.id, plan.step('a'), plan.step('b')])
  })

  it('hold all of such a plan, in whatever order its parts were added', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const other = await openGraph(store, context, { clock })
    await graph.commit(planOf(given, { a: [], b: ['a'] }).changes.toReversed(), by)
    await other.refresh()
    expect(contentsOf(other.state)).toEqual(contentsOf(graph.state))
  })

  it('find all of a plan that another has brought back, though it was gone when they came', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    const plan = await withPlan(given, { a: [], b: [], c: [] })
    await graph.commit([remove('step', plan.step('c'))], by)
    await graph.commit([set('step', plan.step('b'), { description: 'touched first' })], by)
    await graph.commit([remove('plan', plan.id), remove('step', plan.step('a')), remove('step', plan.step('b'))], by)
    const other = await openGraph(store, context, { clock })
    await graph.restore({ ...by, to: 3 })
    await other.refresh()
    await other.require('plan', plan.id)
    expect(contentsOf(other.state)).toEqual(contentsOf(graph.state))
    await other.restore({ ...by, to: 2 }) // with what had been deleted before
    expect((await other.document('plan', plan.id)).steps.map(({ description }) => description)).toEqual(['a', 'b', 'c'])
    expect(await other.verify()).toEqual([])
  })

  it('are refused a check that nobody can say yes to, however often others write meanwhile', async () => {
    const { graph, store, clock, context } = await world()
    let writes = 0
    const busy: Backend = {
      ...store,
      async *read(stream, from) {
        if (writes-- > 0) await graph.commit([set('context', context, { title: `t${writes}` })], by)
        yield* store.read(stream, from)
      },
    }
    const other = await openGraph(busy, context, { clock })
    const impossible = [move('context', context, 'draft')]
    writes = 2
    await expect(other.check(impossible, by)).rejects.toThrow(RuleViolation)
    writes = 100
    await expect(other.check(impossible, by)).rejects.toThrow(RevisionConflict)
  })

  it('load what began to trail while they were loading what trails', async () => {
    for (const use of ['commit', 'query'] as const) {
      const { graph, store, clock, context } = await world()
      let meanwhile: (() => Promise<unknown>) | undefined
      const slow: Backend = {
        ...store,
        async *scan(prefix, from) {
          yield* store.scan(prefix, from)
          const once = meanwhile
          meanwhile = undefined
          await once?.()
        },
      }
      const digest = digestOf('x')
      const file = { path: 'a', type: 'file', digest, size: 1, mode: 0o644, mtime: TIME, kept: false } as const
      const finding = { finding_id: 'f', what: 'added', path: 'x', severity: 'low', found_at: TIME, digest } as const
      await graph.commit([add('file', 'a', file)], by)
      const other = await openGraph(slow, context, { clock })
      meanwhile = () => graph.commit([add('finding', 'f', finding)], by)
      if (use === 'commit') await other.commit([set('context', context, { title: 'x' })], by)
      else expect((await other.query({ kind: 'file' })).nodes).toHaveLength(1)
      expect(await graph.verify()).toEqual([])
    }
  })

  it.each(failingListeners('its own fault'))('commit as before where who is told of it %s', async (_, fails) => {
    const { store, clock, context } = await world()
    const thrown: unknown[] = []
    const graph = await openGraph(store, context, { clock, onCommit: fails, onError: (error) => thrown.push(error) })
    await graph.commit([set('context', context, { title: 'x' })], by)
    const other = await openGraph(store, context, { clock, onError: (error) => thrown.push(error) })
    other.watch(fails)
    await graph.commit([set('context', context, { title: 'y' })], by)
    await other.refresh()
    expect([graph, other].map((one) => one.get('context', context)?.data.title)).toEqual(['y', 'y'])
    expect(thrown).toEqual(Array(3).fill(new Error('its own fault')))
  })

  it('are told of what the others commit, and a watcher that throws hurts nobody', async () => {
    const { graph, store, clock, context } = await world()
    const thrown: unknown[] = []
    const other = await openGraph(store, context, { clock, onError: (error) => thrown.push(error) })
    const seen: string[][] = []
    const stopThrowing = other.watch(() => {
      throw new Error('a watcher’s own fault')
    })
    const stop = other.watch((deltas) => seen.push(deltas.map(({ kind, id }) => `${kind}/${id}`)))
    await graph.commit([set('context', context, { title: 'x' })], by)
    await other.refresh()
    await other.commit([set('context', context, { title: 'own' })], by)
    expect(seen).toEqual([[`context/${context}`]])
    expect(thrown).toHaveLength(1)
    stopThrowing()
    stop()
    await graph.commit([set('context', context, { title: 'y' })], by)
    await other.refresh()
    expect(seen).toHaveLength(1)
  })
})

describe('psg/graph: memory', () => {
  it('holds what has not ended; the rest comes when it is asked for and goes when others come', async () => {
    const given = await world({ keepEnded: 1, mostTrailing: 0 })
    const { graph, store, clock, context } = given
    const plans: NamedPlan[] = []
    for (let i = 0; i < 4; i++) {
      const plan = await withPlan(given, { a: [] })
      plans.push(plan)
      if (i < 3) await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    }
    await graph.refresh()
    const loaded = () => plans.map((plan) => graph.state.hasGroup(plan.id))
    expect(loaded()).toEqual([false, false, true, true])
    expect((await graph.require('step', plans[0]!.step('a'))).data.status).toBe('skipped')
    expect((await graph.require('plan', plans[1]!.id)).data.status).toBe('cancelled')
    await graph.refresh()
    expect(loaded()).toEqual([false, true, false, true])
    const reopened = await openGraph(store, context, { clock })
    expect([...reopened.state.groups()].sort()).toEqual(['-', plans[3]!.id].sort())
    expect(graph.state.edges).toBe(contentsOf(graph.state).edges.length)
    await reopened.load(plans[1]!.id)
    expect(contentsOf(graph.state, [plans[1]!.id])).toEqual(contentsOf(reopened.state, [plans[1]!.id])) // it came back as if for the first time
  })

  it('does not lose a plan that is opened again', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, id, context } = given
    const plan = await withPlan(given, { a: [] })
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    const [trace, run] = [id(), id()]
    const traced = {
      meta: META,
      trace_id: trace,
      context_id: context,
      plan_id: plan.id,
      root_span: { trace_id: trace, span_id: id() },
      status: 'running' as const,
    }
    const undoing = {
      run_id: run,
      plan_id: plan.id,
      trace_id: trace,
      phase: 'undoing' as const,
      options: {},
      spent: {},
    }
    await graph.commit([add('trace', trace, traced), add('run', run, undoing)], by)
    await graph.refresh()
    await graph.refresh()
    expect(graph.get('run', run)?.data.phase).toBe('undoing')
    expect(await graph.verify()).toEqual([])
    await graph.commit([set('run', run, { phase: 'ended' }), move('trace', trace, 'completed')], { ...by, fence: 0 })
    await graph.refresh()
    expect(graph.get('run', run)).toBeUndefined()
    expect(await graph.verify()).toEqual([])
  })

  it('lets go of what others have ended', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, store, clock, context } = given
    const plan = await withPlan(given, { a: [] })
    const other = await openGraph(store, context, { clock, mostTrailing: 0 })
    await other.commit(endPlan(other, plan.id, 'cancelled'), by)
    await graph.refresh()
    await graph.refresh()
    expect(graph.state.hasGroup(plan.id)).toBe(false)
  })

  it('lets go of what has ended while its values trail, and writes them out all the same', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 4 }) // the first of them is the context's own
    const { graph, store, context } = given
    const valuesOf = async (group: string) => {
      let count = 0
      for await (const _ of store.scan(`${context}/${group}/`)) count++
      return count
    }
    const plan = await withPlan(given, { a: [] })
    await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
    await graph.refresh()
    expect([graph.state.hasGroup(plan.id), await valuesOf(plan.id)]).toEqual([false, 0])
    expect((await graph.require('step', plan.step('a'))).data.status).toBe('skipped')
    await graph.commit([set('context', context, { title: 'the fourth' })], by)
    expect(await valuesOf(plan.id)).toBe(0)
    await graph.commit([set('context', context, { title: 'the fifth' })], by)
    await graph.refresh()
    expect([graph.state.hasGroup(plan.id), await valuesOf(plan.id)]).toEqual([false, 2])
    expect((await graph.require('step', plan.step('a'))).data.status).toBe('skipped')
    expect(await graph.verify()).toEqual([])
  })

  it('needs nothing of what trails in memory, neither to add to it nor to write it out', async () => {
    const given = await world()
    const { graph, store, clock, context } = given
    await graph.commit([add('file', 'a.ts', file('a.ts'))], by)
    const other = await openGraph(store, context, { clock, mostTrailing: 3 })
    await other.commit([set('context', context, { title: 'the third' })], by)
    expect(other.state.hasGroup('files')).toBe(false)
    await other.commit([set('context', context, { title: 'the fourth' })], by)
    expect(other.state.hasGroup('files')).toBe(false)
    expect((await store.getMany([`${context}/files/file/a.ts`])).size).toBe(1)
    expect(await other.verify()).toEqual([])
  })

  it('tells whoever watches what others have written when it is read anew', async () => {
    const { graph, store, context, clock } = await world({ mostTrailing: 0 })
    const told: unknown[] = []
    graph.watch((commit) => told.push(commit))
    const other = await openGraph(store, context, { clock, mostTrailing: 0 })
    await other.commit([set('context', context, { title: 'theirs' })], by)
    await graph.reload()
    expect(graph.revision).toBe(other.revision)
    expect(told).toHaveLength(1)
  })

  it('is not touched by a reload that fails', async () => {
    const store = memoryBackend()
    const clock = manualClock()
    let failing = false
    const faulty = faultyBackend(store, ({ method }) => (failing && method === 'scan' ? 'refuse' : undefined), clock)
    const { graph, context } = await world({ store: faulty, clock })
    const before = contentsOf(graph.state)
    failing = true
    await expect(graph.reload()).rejects.toMatchObject({ code: 'unavailable' })
    expect(contentsOf(graph.state)).toEqual(before)
    failing = false
    expect((await graph.commit([set('context', context, { title: 'x' })], by)).revision).toBe(2)
  })

  it('mixes no revisions when others write while a group is being read', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, store, clock, context } = given
    const ended = await withPlan(given, { a: [], b: [] })
    const open = await withPlan(given, { a: [] })
    await graph.commit(endPlan(graph, ended.id, 'cancelled'), by)
    const writer = await openGraph(store, context, { clock })
    const slow = {
      ...store,
      async *scan(prefix: string, from?: object) {
        for await (const pair of store.scan(prefix, from)) {
          if (prefix.includes(ended.id) && pair[0].includes('/step/'))
            await writer.commit([set('plan', open.id, { title: `while ${pair[0]} was read` })], by)
          yield pair
        }
      },
    }
    const reader = await openGraph(slow, context, { clock, keepEnded: 0 })
    const title = await reader.reading([['plan', ended.id]], (state) => state.get('plan', open.id)?.data.title)
    expect(title).toContain('was read')
    expect(reader.revision).toBe((await store.head(context)).revision)
    const fresh = await openGraph(store, context, { clock })
    await fresh.load(ended.id)
    expect(contentsOf(reader.state)).toEqual(contentsOf(fresh.state))
  })

  it('finds parts by what they belong to, and files by their group', async () => {
    const given = await world({ keepEnded: 0, mostTrailing: 0 })
    const { graph, id, context, store, clock } = given
    const dialog = id()
    const message = { role: 'user' as const, content: 'hello', timestamp: TIME }
    await graph.commit(
      [
        add('dialog', dialog, { meta: META, dialog_id: dialog, context_id: context, status: 'active', messages: [] }),
        add('message', `${dialog}/0`, message, { owner: dialog, at: 0 }),
        add('file', 'src/a.ts', file('src/a.ts')),
      ],
      by,
    )
    await graph.commit([move('dialog', dialog, 'completed')], by)
    const reopened = await openGraph(store, context, { clock })
    expect(reopened.get('message', `${dialog}/0`)).toBeUndefined()
    expect((await reopened.find('message', `${dialog}/0`))?.data.content).toBe('hello')
    expect(reopened.get('file', 'src/a.ts')).toBeUndefined()
    expect((await reopened.find('file', 'src/a.ts'))?.data.size).toBe(1)
    expect(await reopened.find('file', 'src/b.ts')).toBeUndefined()
  })

  it('knows all files as soon as it has added one', async () => {
    const { graph, context, store, clock } = await world()
    await graph.commit([add('file', 'a.ts', file('a.ts'))], by)
    const late = await openGraph(store, context, { clock })
    const twice = late.commit([add('file', 'a.ts', file('a.ts', 2))], by)
    expect(await violationsOf(twice)).toMatchObject([{ rule: 'id.unique', node: 'file/a.ts' }])
    const later = await openGraph(store, context, { clock })
    await later.commit([add('file', 'b.ts', file('b.ts'))], by)
    expect((await later.find('file', 'a.ts'))?.data.size).toBe(1)
    expect(await later.verify()).toEqual([])
  })

  it('knows all files also when it hears of one that is called like their group', async () => {
    const { graph, context, store, clock } = await world()
    await graph.commit([add('file', 'a.ts', file('a.ts'))], by)
    const other = await openGraph(store, context, { clock })
    await graph.commit([add('file', 'files', file('files'))], by)
    await other.refresh()
    expect((await other.find('file', 'a.ts'))?.data.size).toBe(1)
  })
})

describe('psg/graph: the indexes', () => {
  it('tell what runs, what waits, what is due and where everything is, without loading it', async () => {
    const given = await world()
    const { graph, store, id, context } = given
    const listed = async (prefix: string) => {
      const keys: string[] = []
      for await (const [key] of store.scan(prefix)) keys.push(key)
      return keys
    }
    const plan = await withPlan(given, { a: [] }, 'proposed')
    const confirm = confirmOf(graph, plan.id)!.id
    expect(await listed('waiting/')).toEqual([INDEX.waiting(confirm)])
    await graph.commit(decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' }), by)
    expect(await listed('waiting/')).toEqual([])
    expect(await listed('running/')).toEqual([])
    await graph.commit(
      [
        move('plan', plan.id, 'in_progress'),
        set('gate', [...graph.state.referrers('confirm', confirm, 'GATES')][0]!.id, { used_by: 'r' }),
      ],
      by,
    )
    expect(await listed('running/')).toEqual([]) // without a run it is nobody's to look after
    const [trace, run] = [id(), id()]
    const traced = traceOf(trace, context, id(), { plan_id: plan.id })
    await graph.commit([add('trace', trace, traced), add('run', run, runOf(run, plan.id, trace))], by)
    expect(await listed('running/')).toEqual([INDEX.running(plan.id)])
    for (const phase of ['waiting', 'paused'] as const) {
      await graph.commit([set('run', run, { phase })], { ...by, fence: 0 })
      expect(await listed('running/')).toEqual([])
      expect(await listed('resting/')).toEqual([INDEX.resting(plan.id)])
      await graph.commit([set('run', run, { phase: 'running' })], { ...by, fence: 0 })
      expect(await listed('running/')).toEqual([INDEX.running(plan.id)])
      expect(await listed('resting/')).toEqual([])
    }
    const timer = id()
    await graph.commit([add('timer', timer, { timer_id: timer, due: TIME, purpose: 'wait', target: 'x' })], by)
    expect(await listed('timer/')).toEqual([INDEX.timer(TIME, timer)])
    await graph.commit([set('timer', timer, { fired: true })], by)
    expect(await listed('timer/')).toEqual([])
    expect(await listed(INDEX.open(context, ''))).toEqual([INDEX.open(context, plan.id)])
    const ending = [...endPlan(graph, plan.id, 'failed'), move('trace', trace, 'failed')]
    await graph.commit([...ending, set('run', run, { phase: 'ended' })], { ...by, fence: 0 })
    expect(await listed('running/')).toEqual([])
    expect(await listed(INDEX.open(context, ''))).toEqual([])
    expect((await store.getMany([INDEX.id('step', plan.step('a'))])).get(INDEX.id('step', plan.step('a')))).toEqual({
      graph: context,
      group: plan.id,
    })
    await graph.commit([add('confirm', timer, confirmData(timer, 'context', context))], by)
    expect(await listed('waiting/')).toEqual([INDEX.waiting(timer)])
  })
})
