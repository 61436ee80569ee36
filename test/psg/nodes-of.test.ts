import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { NotFound } from '../../src/protocol/errors.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { endPlan } from '../../src/psg/moves.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { countingScans } from '../support/counting-scans.ts'
import { replicated } from '../support/replicated.ts'
import { add, by, META, remove, set, traceOf, type World, withPlan, world } from './given.ts'

const STEPS = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`s${i}`, []]))

/** A plan of fifty steps that has ended, and what is needed to read it anew. */
async function given(mostTrailing: number, options: Parameters<typeof world>[0] = {}) {
  const here = await world({ mostTrailing, ...options })
  const plan = await withPlan(here, STEPS)
  await here.graph.commit([set('step', plan.step('s7'), { description: 'the seventh' })], by)
  await here.graph.commit([remove('step', plan.step('s9'))], by)
  await here.graph.commit(endPlan(here.graph, plan.id, 'cancelled'), by)
  return { here, plan }
}
const opened = ({ store, context, clock }: World, counted = store) => openGraph(counted, context, { clock })

const traced = ({ context, id }: World, plan_id: string, trace: string) =>
  add('trace', trace, traceOf(trace, context, id(), { plan_id }))

describe('psg/graph: nodes of some kinds', () => {
  it.each([
    ['are written', 0],
    ['trail behind the journal', 1_024],
  ])('reads no others where values %s, and brings no group into memory', async (_, mostTrailing) => {
    const { here, plan } = await given(mostTrailing)
    const { store, seen } = countingScans(here.store)
    const graph = await opened(here, store)
    const before = seen()
    const [head] = await graph.nodesOf(plan.id, ['plan'])
    expect(head!.data).toMatchObject({ title: 'A plan', status: 'cancelled' })
    expect(seen() - before).toBeLessThanOrEqual(1)
    const steps = await graph.nodesOf(plan.id, ['step'])
    expect(graph.state.hasGroup(plan.id)).toBe(false)
    await graph.load(plan.id)
    const loaded = [...graph.state.nodesOf(plan.id)].filter(({ kind }) => kind === 'step')
    expect(steps).toHaveLength(49)
    expect(byId(steps)).toEqual(byId(loaded))
    expect(byId(await graph.nodesOf(plan.id, ['step']))).toEqual(byId(loaded))
  })

  it('reads of what trails only the entries from the first to the last that tell of the group', async () => {
    const { here, plan } = await given(1_024)
    const last = here.graph.revision
    for (let n = 0; n < 50; n++) await here.graph.commit([set('context', here.context, { summary: `${n}` })], by)
    let entries = 0
    const counting: Backend = {
      ...here.store,
      async *read(stream, from) {
        for await (const entry of here.store.read(stream, from)) {
          entries++
          yield entry
        }
      },
    }
    const graph = await opened(here, counting)
    for (const ask of [() => graph.nodesOf(plan.id, ['plan']), () => graph.load(plan.id)]) {
      entries = 0
      await ask()
      expect(entries).toBeLessThanOrEqual(last + 1)
    }
    expect(byId([...graph.state.nodesOf(plan.id)])).toEqual(byId([...here.graph.state.nodesOf(plan.id)]))
  })

  it('takes in what others have written meanwhile', async () => {
    const { here, plan } = await given(0)
    const [graph, headOnly, other] = [await opened(here), await opened(here), await opened(here)]
    const trace = here.id()
    await other.commit([traced(here, plan.id, trace), set('context', here.context, { summary: 'theirs' })], by)
    expect(await headOnly.nodesOf(plan.id, ['plan'])).toMatchObject([{ kind: 'plan' }])
    expect(await graph.nodesOf(plan.id, ['trace'])).toMatchObject([{ id: trace }])
    expect(graph.revision).toBe(other.revision)
    expect(graph.get('context', here.context)!.data.summary).toBe('theirs')
  })

  it('tells what a store holds that was set back', async () => {
    const clock = manualClock()
    const { store, lag, failOver } = replicated(clock)
    const { here, plan } = await given(0, { clock, store })
    lag()
    const graph = await openGraph(store, here.context, { clock, onError: () => undefined })
    await (await opened(here)).commit([traced(here, plan.id, here.id())], by)
    await graph.commit([set('context', here.context, { summary: 'lost' })], by)
    expect(await graph.nodesOf(plan.id, ['trace'])).toHaveLength(1)
    failOver()
    expect((await graph.nodesOf(plan.id, ['plan', 'trace'])).map(({ id }) => id)).toEqual([plan.id])
    expect(graph.setBacks).toBe(1)
    expect(graph.get('context', here.context)!.data.summary).toBeUndefined()
  })

  it('puts a plan together from them', async () => {
    const { here, plan } = await given(0)
    const graph = await opened(here)
    const document = await graph.document('plan', plan.id)
    expect(graph.state.hasGroup(plan.id)).toBe(false)
    expect(document).toEqual(await here.graph.document('plan', plan.id))
    expect(document.steps.map(({ description }) => description).slice(5, 9)).toEqual(['s5', 's6', 'the seventh', 's8'])
  })

  it('puts together also what another process has brought back, and what lies in a group that somebody named', async () => {
    const here = await world()
    const { graph, context, id } = here
    const plan = await withPlan(here, { build: [] })
    const { revision } = graph
    await graph.commit([remove('step', plan.step('build')), remove('plan', plan.id)], by)
    await expect(graph.document('plan', plan.id)).rejects.toThrow(NotFound)
    await (await opened(here)).restore({ to: revision, ...by })
    expect((await graph.document('plan', plan.id)).steps).toMatchObject([{ description: 'build' }])
    const dialog = { meta: META, dialog_id: id(), context_id: context, status: 'active' as const, messages: [] }
    await graph.commit([add('dialog', dialog.dialog_id, dialog, { group: 'talks' })], by)
    expect(await graph.document('dialog', dialog.dialog_id)).toEqual(dialog)
    await expect(graph.document('plan', 'build/ship')).rejects.toThrow(NotFound)
  })
})

const byId = <N extends { readonly id: string }>(nodes: readonly N[]) =>
  nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1))
