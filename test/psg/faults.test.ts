import { describe, expect, it } from 'vitest'
import { FencedOut, MplpError, OutcomeUnknown, Unavailable } from '../../src/protocol/errors.ts'
import type { Changes, CommitOptions } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { takeApart } from '../../src/psg/document.ts'
import { openGraph, type ProjectGraph } from '../../src/psg/graph.ts'
import { decide, endPlan, move, proposePlan, startPlan } from '../../src/psg/moves.ts'
import { statusOf } from '../../src/psg/node.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { type Call, type Fault, faultyBackend } from '../support/faulty-backend.ts'
import {
  add,
  by,
  contentsOf,
  contextOf,
  hurriedClock,
  META,
  planOf,
  remove,
  set,
  storeContents,
  world,
} from './given.ts'

const id = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
const [CONTEXT, DIALOG] = [id(1), id(2)]

/** A history with something of everything; each step may be tried again until it has succeeded. */
function script(): readonly ((graph: ProjectGraph) => Promise<unknown>)[] {
  let next = 10
  const fresh = { context: CONTEXT, id: () => id(next++) }
  const one = planOf(fresh, { build: [], test: ['build'] })
  const two = planOf(fresh, { only: [], other: [] })
  const commit = (changes: Changes, options: CommitOptions = by) => {
    return (graph: ProjectGraph) => graph.commit(changes, options) // the same changes at every try
  }
  const decided = (decide: (graph: ProjectGraph) => Changes) => {
    const deciders = new WeakMap<ProjectGraph, () => Changes>()
    return (graph: ProjectGraph) => {
      const decider = deciders.get(graph) ?? (() => decide(graph))
      deciders.set(graph, decider)
      return graph.commit(decider, { ...by, reads: [['plan', one.id]] })
    }
  }
  const dialog = { meta: META, dialog_id: DIALOG, context_id: CONTEXT, status: 'active' as const, messages: [] }
  return [
    commit(takeApart('context', contextOf(CONTEXT))),
    commit(one.changes),
    commit([
      set('plan', one.id, { title: 'renamed' }),
      { kind: 'edge_delete', from: one.step('test'), to: one.step('build') },
    ]),
    commit([{ kind: 'edge_add', from: one.step('test'), to: one.step('build') }]),
    decided((graph) => proposePlan(graph, one.id, { requested_by_role: 'planner' })),
    decided((graph) => decide(graph, confirmOf(graph, one.id)!.id, { status: 'approved', decided_by_role: 'owner' })),
    decided((graph) => startPlan(graph, one.id, 'a run')),
    commit([move('step', one.step('build'), 'in_progress')]),
    commit([move('step', one.step('build'), 'completed'), move('step', one.step('test'), 'in_progress')]),
    decided((graph) => endPlan(graph, one.id, 'failed')),
    commit(two.changes),
    commit([remove('step', two.step('other'))]),
    commit([add('dialog', DIALOG, dialog)]),
    (graph) => graph.require('step', one.step('test')), // it has ended and left memory
    (graph) => graph.restore({ ...by, to: 11 }),
    (graph) => graph.refresh(),
    (graph) => graph.reload(),
  ]
}

/** What must be there in the end, whatever went wrong on the way. */
async function outcome(store: Backend): Promise<unknown> {
  const graph = await openGraph(store, CONTEXT)
  const all = await graph.at(graph.revision)
  const counts: { [kind: string]: number } = {}
  for (const { kind } of all.nodes()) counts[kind] = (counts[kind] ?? 0) + 1
  const steps = [...all.nodes()].filter((node) => node.kind === 'step').map((node) => [node.id, node.data])
  return { revision: graph.revision, counts, steps: steps.sort(), findings: await graph.verify() }
}

/** Runs the script on a store that fails where it is told to. Each step is tried until it succeeds. */
async function run(choose: (call: Call) => Fault | undefined) {
  const store = memoryBackend()
  const clock = hurriedClock()
  const faulty = faultyBackend(store, choose, clock)
  const errors: unknown[] = []
  const trying = async <T>(step: () => Promise<T>): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await step()
      } catch (error) {
        errors.push(error)
        if (!(error instanceof MplpError && error.retryable) || attempt === 5) throw error
      }
    }
  }
  const graph = await trying(() => openGraph(faulty, CONTEXT, { clock, keepEnded: 0, mostTrailing: 0 }))
  for (const step of script()) {
    await trying(() => step(graph))
    await agree(store, graph)
  }
  return { calls: faulty.calls, outcome: await outcome(store), errors }
}

async function agree(store: Backend, graph: ProjectGraph): Promise<void> {
  const fresh = await openGraph(store, graph.id, { keepEnded: 100 })
  const groups = [...graph.state.groups()]
  await fresh.reading([], () => undefined, groups)
  expect(graph.revision).toBe(fresh.revision)
  expect(contentsOf(graph.state)).toEqual(contentsOf(fresh.state, groups))
}

describe('psg: a store that fails at any single call', () => {
  for (const fault of ['refuse', 'lose-reply', 'lose-call'] as const) {
    it(`leaves memory, store and outcome as they ought to be: ${fault}`, { timeout: 120_000 }, async () => {
      const smooth = await run(() => undefined)
      expect(smooth.errors).toEqual([])
      expect(smooth.outcome).toMatchObject({
        findings: [],
        counts: { context: 1, plan: 2, step: 4, confirm: 1, gate: 1, decision: 1 },
      })
      expect(new Set(smooth.calls.map(({ method }) => method))).toEqual(
        new Set(['head', 'scan', 'read', 'commit', 'getMany']),
      )
      for (const { index, method } of smooth.calls) {
        const rough = await run((call) => (call.index === index ? fault : undefined))
        expect(rough.outcome, `call ${index}, ${method}`).toEqual(smooth.outcome)
        for (const error of rough.errors) expect(error).toBeInstanceOf(Unavailable)
        expect(rough.errors.length).toBe(method === 'commit' && fault !== 'refuse' ? 0 : 1)
      }
    })
  }
})

describe('psg: a process that dies at any single call', () => {
  it('leaves a store that holds together, with each step done wholly or not at all', { timeout: 120_000 }, async () => {
    const smooth = await run(() => undefined)
    for (const { index } of smooth.calls) {
      const store = memoryBackend()
      const clock = hurriedClock()
      let die: () => void = () => undefined
      const death = new Promise<'dead'>((resolve) => {
        die = () => resolve('dead')
      })
      const choose = (call: Call): Fault | undefined => {
        if (call.index !== index) return undefined
        die()
        return 'crash'
      }
      const living = async () => {
        const graph = await openGraph(faultyBackend(store, choose, clock), CONTEXT, {
          clock,
          keepEnded: 0,
          mostTrailing: 3,
        })
        for (const step of script()) await step(graph)
      }
      expect(await Promise.race([living(), death])).toBe('dead')
      const heir = await openGraph(store, CONTEXT)
      expect(await heir.verify()).toEqual([])
      await heir
        .commit(
          [add('dialog', id(3), { meta: META, dialog_id: id(3), context_id: CONTEXT, status: 'active', messages: [] })],
          by,
        )
        .catch(
          (error) => expect(error).toMatchObject({ violations: [{ rule: 'reference.resolves' }] }), // it died before the context was there
        )
    }
  })
})

/** A store on which every commit gets no reply while it is silent; what it gets may land or not. */
async function silentWorld(fault: 'lose-reply' | 'lose-call') {
  const store = memoryBackend()
  const clock = hurriedClock()
  const silence = { on: false, reads: false }
  const faulty = faultyBackend(
    store,
    ({ method }) => {
      if (silence.on && method === 'commit') return fault
      return silence.reads && method === 'read' ? 'refuse' : undefined
    },
    clock,
  )
  const given = await world({ store: faulty, clock })
  return { ...given, store, faulty, silence }
}

describe('psg: a write whose outcome nobody knows', () => {
  it('lets nothing else in, and is done once the store speaks again', async () => {
    const { graph, store, silence, context } = await silentWorld('lose-call')
    const mine: Changes = [set('context', context, { title: 'mine' })]
    silence.on = true
    const before = await storeContents(store)
    await expect(graph.commit(mine, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    await expect(graph.commit([set('context', context, { title: 'another' })], by)).rejects.toBeInstanceOf(
      OutcomeUnknown,
    )
    await expect(graph.check([set('context', context, { title: 'another' })], by)).rejects.toBeInstanceOf(
      OutcomeUnknown,
    )
    expect(await storeContents(store)).toEqual(before)
    expect(graph.get('context', context)?.data.title).toBe('The shop')

    silence.on = false
    const after = await graph.commit([set('context', context, { summary: 'later' })], by)
    expect(after.revision).toBe(3)
    expect(graph.get('context', context)?.data).toMatchObject({ title: 'mine', summary: 'later' })
    const again = await graph.commit(mine, by) // the caller who was told that nobody knows asks once more
    expect(again.revision).toBe(2)
    expect(graph.revision).toBe(3)
    await agree(store, graph)
    expect(await graph.verify()).toEqual([])
  })

  it('is told to whoever asks again, when it had landed', async () => {
    const { graph, store, silence, context } = await silentWorld('lose-reply')
    const mine: Changes = [set('context', context, { title: 'mine' })]
    silence.on = true
    silence.reads = true // or the entry in its place would tell
    await expect(graph.commit(mine, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    expect((await store.head(context)).revision).toBe(2)
    silence.on = false
    silence.reads = false
    const again = await graph.commit(mine, by)
    expect(again.revision).toBe(2)
    expect((await store.head(context)).revision).toBe(2)
    await agree(store, graph)
  })

  it.each(['refresh', 'reload', 'find'] as const)('is recognised when %s meets it in the journal', async (how) => {
    const { graph, store, silence, context, id: fresh } = await silentWorld('lose-reply')
    const mine: Changes = [set('context', context, { title: 'mine' })]
    silence.on = true
    silence.reads = true
    await expect(graph.commit(mine, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    silence.reads = false
    if (how === 'find') await graph.find('plan', fresh())
    else await graph[how]()
    expect(graph.get('context', context)?.data.title).toBe('mine')
    silence.reads = true
    expect((await graph.commit(mine, by)).revision).toBe(2) // known by now: the store, which says nothing at all, is not asked
    silence.on = false
    silence.reads = false
    expect((await graph.commit([set('context', context, { title: 'next' })], by)).revision).toBe(3)
    await agree(store, graph)
  })

  it('is known again where it began the graph, and reading it anew has met it', async () => {
    const { store, faulty, silence, id: fresh, graph: other } = await silentWorld('lose-reply')
    const context = fresh()
    const graph = await openGraph(faulty, context, { clock: other.clock })
    const mine = takeApart('context', contextOf(context))
    silence.on = true
    silence.reads = true
    await expect(graph.commit(mine, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    silence.on = false
    silence.reads = false
    await graph.reload()
    expect((await graph.commit(mine, by)).revision).toBe(1)
    expect([graph.revision, graph.state.size]).toEqual([1, 1]) // not taken in once more
    expect((await graph.commit([set('context', context, { title: 'next' })], by)).revision).toBe(2)
    await agree(store, graph)
  })

  it('gives way when somebody else took its id, and lets others in', async () => {
    const { graph, store, silence, context, id: fresh } = await silentWorld('lose-call')
    const { changes } = planOf({ context, id: fresh }, { a: [] })
    silence.on = true
    await expect(graph.commit(changes, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    const elsewhere = fresh()
    const other = await openGraph(store, elsewhere, { clock: graph.clock })
    await other.commit(takeApart('context', contextOf(elsewhere)), by)
    const taken = changes.map((change) =>
      'data' in change && 'context_id' in change.data
        ? { ...change, data: { ...change.data, context_id: elsewhere } }
        : change,
    )
    await other.commit(taken as Changes, by)
    silence.on = false
    expect((await graph.commit([set('context', context, { title: 'free' })], by)).revision).toBe(2)
    await expect(graph.commit(changes, by)).rejects.toMatchObject({
      violations: [{ rule: 'id.unique' }, { rule: 'id.unique' }],
    })
    await agree(store, graph)
  })

  it('gives way when somebody else took its place, and can be tried anew', async () => {
    const { graph, store, silence, context } = await silentWorld('lose-call')
    const mine: Changes = [set('context', context, { title: 'mine' })]
    silence.on = true
    await expect(graph.commit(mine, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    const other = await openGraph(store, context)
    await other.commit([set('context', context, { summary: 'theirs' })], by)
    silence.on = false
    const again = await graph.commit(mine, by)
    expect(again.revision).toBe(3)
    expect(graph.get('context', context)?.data).toMatchObject({ title: 'mine', summary: 'theirs' })
    await agree(store, graph)
  })

  it('is given up when its owner was replaced meanwhile', async () => {
    const { graph, store, silence, context } = await silentWorld('lose-call')
    const holder = { id: 'h', boot: '', pid: 1, started: '' }
    const lease = (await store.acquire(context, holder, 1000))!
    const mine: Changes = [set('context', context, { title: 'mine' })]
    silence.on = true
    await expect(graph.commit(mine, { ...by, fence: lease.token })).rejects.toBeInstanceOf(OutcomeUnknown)
    await store.release(lease)
    await store.acquire(context, holder, 1000)
    silence.on = false
    await expect(graph.commit(mine, { ...by, fence: lease.token })).rejects.toBeInstanceOf(FencedOut)
    expect((await graph.commit([set('context', context, { title: 'free' })], by)).revision).toBe(2)
    await agree(store, graph)
  })

  it('stays in doubt while the store is away: nobody is told that nothing was written', async () => {
    const { graph, store, faulty, context } = await silentWorld('lose-call')
    const mine: Changes = [set('context', context, { title: 'mine' })]
    const away = { ...faulty, commit: async () => Promise.reject(new OutcomeUnknown(context)) }
    const doubting = await openGraph(away as Backend, context, { clock: graph.clock })
    await expect(doubting.commit(mine, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    away.commit = async () => Promise.reject(new Unavailable('the store', 'later'))
    await expect(doubting.commit(mine, by)).rejects.toBeInstanceOf(OutcomeUnknown)
    await expect(doubting.commit([set('context', context, { title: 'x' })], by)).rejects.toBeInstanceOf(Unavailable)
    away.commit = store.commit as never
    expect((await doubting.commit(mine, by)).revision).toBe(2)
    expect(statusOf(doubting.get('context', context))).toBe('active')
    await agree(store, doubting)
  })
})
