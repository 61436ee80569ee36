import { describe, expect, it } from 'vitest'
import type { Change } from '../../src/psg/change.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { dependants, dependencies, path, readySteps } from '../../src/psg/view.ts'
import { add, by, planOf, violationsOf, type World, world } from './given.ts'

const STEPS = 100_000
const PER_COMMIT = 20_000

/** A plan in which each step waits for the one before it. */
async function withChain({ graph, context, id }: World, steps: number) {
  const ids = Array.from({ length: steps }, id)
  const plan = planOf({ context, id }, { first: [] })
  await graph.commit([plan.changes[0]!, stepOf(plan.id, ids, 0)], by)
  for (let at = 1; at < steps; at += PER_COMMIT)
    await graph.commit(
      ids.slice(at, at + PER_COMMIT).map((_, i) => stepOf(plan.id, ids, at + i)),
      by,
    )
  return { plan: plan.id, ids }
}

function stepOf(owner: string, ids: readonly string[], at: number): Change {
  const step_id = ids[at]!
  const dependencies = at === 0 ? [] : [ids[at - 1]!]
  return add('step', step_id, { step_id, description: `step ${at}`, status: 'pending', dependencies }, { owner, at })
}

describe('psg: large plans', () => {
  it('holds a chain of 100,000 steps, in memory and in the store', { timeout: 120_000 }, async () => {
    const given = await world()
    const { graph, store } = given
    const { plan, ids } = await withChain(given, STEPS)
    const [first, last] = [ids[0]!, ids.at(-1)!]

    const violations = await violationsOf(graph.commit([{ kind: 'edge_add', from: first, to: last }], by))
    expect(violations).toMatchObject([{ rule: 'plan.acyclic', node: `step/${first}`, path: 'dependencies' }])
    expect(violations[0]!.message).toContain(`(${STEPS} steps)`)
    await graph.commit([{ kind: 'edge_add', from: last, to: first }], by)

    expect(dependencies(graph.state, last)).toHaveLength(STEPS - 1)
    expect(dependants(graph.state, first)).toHaveLength(STEPS - 1)
    expect(dependants(graph.state, first, 1).map((step) => step.id)).toEqual([ids[1], last])
    expect(path(graph.state, ['step', ids[1]!], ['step', ids[50_000]!])).not.toEqual([])
    expect(readySteps(graph.state, plan).map((step) => step.id)).toEqual([first])

    const reopened = await openGraph(store, graph.id, { clock: given.clock })
    expect(reopened.state.size).toBe(graph.state.size)
    expect(reopened.state.plan(plan)!.ranks.get(last)).toBe(STEPS)
    expect(await reopened.verify()).toEqual([])
  })

  it('refuses cycles of length 1, 2 and 1,000 that come with their steps, naming each once', async () => {
    const given = await world()
    const ring = (size: number) => {
      const names = Array.from({ length: size }, (_, i) => `s${i}`)
      return planOf(given, Object.fromEntries(names.map((name, i) => [name, [names[(i + 1) % size]!]])))
    }
    for (const size of [1, 2, 1000]) {
      const plan = ring(size)
      const violations = await violationsOf(given.graph.commit(plan.changes, by))
      expect(violations.map(({ rule, node }) => [rule, node])).toEqual([['plan.acyclic', `step/${plan.step('s0')}`]])
    }
    const all = [ring(1), ring(2), ring(1000)]
    const violations = await violationsOf(
      given.graph.commit(
        all.flatMap((plan) => plan.changes),
        by,
      ),
    )
    expect(violations.map(({ node }) => node)).toEqual(all.map((plan) => `step/${plan.step('s0')}`))
  })

  it('checks a ladder of 60 diamonds, and the edge that would close it', async () => {
    const steps: { [name: string]: string[] } = { top: [] }
    let joint = 'top'
    for (let layer = 0; layer < 60; layer++) {
      steps[`l${layer}`] = [joint]
      steps[`r${layer}`] = [joint]
      joint = `j${layer}`
      steps[joint] = [`l${layer}`, `r${layer}`]
    }
    const given = await world()
    const plan = planOf(given, steps)
    await given.graph.commit(plan.changes, by)
    const [top, bottom] = [plan.step('top'), plan.step('j59')]
    expect(dependencies(given.graph.state, bottom)).toHaveLength(180)
    const violations = await violationsOf(given.graph.commit([{ kind: 'edge_add', from: top, to: bottom }], by))
    expect(violations).toMatchObject([{ rule: 'plan.acyclic' }])
  })
})
