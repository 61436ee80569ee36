import { describe, expect, it, onTestFinished } from 'vitest'
import { RuleViolation } from '../../src/protocol/errors.ts'
import { takeApart } from '../../src/psg/document.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'

const by = { actor: 'somebody', reason: 'a test' }

/** A runtime, and a flow whose plan lies in the graph as a draft. */
async function given(options: { imported?: true } = {}) {
  const runtime = await runtimeOf({ one: () => 1, two: () => 2 })
  onTestFinished(() => runtime.close())
  const { context, plan, bindings, ids } = flowOf({ one: {}, two: { after: ['one'] } })
  const graph = await runtime.project.create(context, by)
  await graph.commit(takeApart('plan', plan, options), by)
  return { runtime, graph, ids, flow: { context: graph.id, plan, bindings: bindings! } }
}

describe('a draft that lies in the graph', () => {
  it.each([{}, { imported: true } as const])('is run when it is submitted as it stands (%o)', async (options) => {
    const { runtime, graph, ids, flow } = await given(options)
    const run = await runtime.submit(flow)
    expect(await run.result()).toMatchObject({ success: true, outputs: { [ids.one!]: 1, [ids.two!]: 2 } })
    expect(await graph.verify()).toEqual([])
  })

  it('begins anew what has failed, when it is its fork, with the bindings that this had unless others are given', async () => {
    let isBroken = true
    const runtime = await runtimeOf({
      one: () => 1,
      two: () => (isBroken ? Promise.reject(new Error('broken')) : 2),
      three: () => 3,
    })
    onTestFinished(() => runtime.close())
    const { context_id, plan_id, result } = await runtime.submit(flowOf({ one: {}, two: { after: ['one'] } }))
    expect(await result()).toMatchObject({ status: 'failed' })
    isBroken = false
    const graph = await runtime.project.context(context_id)
    const forked = async () => graph.document('plan', (await graph.fork(plan_id, by)).id)
    const same = await runtime.submit({ context: context_id, plan: await forked() })
    expect(Object.values((await same.result()).outputs)).toEqual([1, 2])
    const plan = await forked()
    const steps = { [plan.steps[1]!.step_id]: { action_type: 'function', params: { name: 'three' } } }
    const other = await runtime.submit({ context: context_id, plan, bindings: { steps } })
    expect(Object.values((await other.result()).outputs)).toEqual([1, 3])
    const bindings = [...graph.state.nodesOf(plan.plan_id)].filter(({ kind }) => kind === 'binding')
    expect(bindings).toHaveLength(2)
    expect(await graph.verify()).toEqual([])
  })

  it('is not run as something else than it is', async () => {
    const { runtime, graph, flow } = await given()
    const { revision } = graph
    const other = { ...flow, plan: { ...flow.plan, title: 'another' } }
    await expect(runtime.submit(other)).rejects.toMatchObject({
      violations: expect.arrayContaining([expect.objectContaining({ rule: 'id.unique' })]),
    })
    expect(graph.revision).toBe(revision)
  })

  it('is run once, however many submit it at the same time', async () => {
    const { runtime, graph, flow } = await given()
    const all = await Promise.allSettled([runtime.submit(flow), runtime.submit(flow), runtime.submit(flow)])
    const refused = all.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    expect(refused).toEqual([expect.any(RuleViolation), expect.any(RuleViolation)])
    for (const one of all) if (one.status === 'fulfilled') await one.value.result()
    expect(await graph.verify()).toEqual([])
  })

  it('is not submitted while it has a run, which it was sent back to', async () => {
    const runtime = await runtimeOf({})
    onTestFinished(() => runtime.close())
    const flow = chainOf(1, { approval: {} })
    const { context_id } = await runtime.submit(flow)
    const [asked] = await runtime.waiting()
    await runtime.decide(asked!.confirm.confirm_id, { status: 'rejected', decided_by_role: 'lead' })
    await expect(runtime.submit({ ...flow, context: context_id })).rejects.toThrow(RuleViolation)
  })
})
