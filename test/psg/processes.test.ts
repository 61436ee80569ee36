import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { type Child, child } from '../support/child.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { contentsOf, withPlan, world } from './given.ts'
import { emptyModel, type ModelStep, model } from './model.ts'
import type { Tried } from './writer-process.ts'

const PROGRAM = new URL('writer-process.ts', import.meta.url)
const COUNT = 60

describe('psg: several processes on one graph', () => {
  it('leave what the model makes of their commits, in the order in which they landed', {
    timeout: 120_000,
  }, async () => {
    const path = join(tempFolder(), 'state.db')
    const store = await sqliteBackend({ path, synchronous: 'OFF', timeoutMs: 30_000 })
    const given = await world({ store, clock: manualClock({ seed: 99 }) })
    const { graph, context } = given
    const plan = await withPlan(given, { a: [], b: ['a'], c: [] })
    const writers = [1, 2].map((seed) => child(PROGRAM, [path, context, plan.id, String(seed), String(COUNT)]))
    for (const writer of writers) await writer.line('ready')
    for (const writer of writers) writer.tell('go')
    const tried = (await Promise.all(writers.map(report))).flat()
    expect(tried).toHaveLength(writers.length * COUNT)

    const m = emptyModel()
    const steps = plan.document.steps.map((step): [string, ModelStep] => [
      step.step_id,
      { status: step.status, description: step.description, waitsFor: [...step.dependencies!] },
    ])
    model.addPlan(m, plan.id, 'A plan', new Map(steps))
    const modelled = m.plans.get(plan.id)!
    const refused = tried.filter(({ landed }) => !landed)
    const landed = tried.filter(({ landed }) => landed).sort((a, b) => a.revision - b.revision)
    expect(landed.map(({ revision }) => revision)).toEqual(landed.map((_, i) => i + 3)) // no gap, none twice
    for (let revision = 2; revision < landed.length + 3; revision++) {
      for (const one of refused)
        if (one.revision === revision) expect(attempt(structuredClone(modelled), one)).toBe(false)
      const next = landed[revision - 2]
      if (next) expect(attempt(modelled, next), JSON.stringify(next)).toBe(true)
    }
    expect(refused.length).toBeGreaterThan(0)

    await graph.refresh()
    const document = await graph.document('plan', plan.id)
    expect(document.steps.map((step) => [step.step_id, step.status, step.description, step.dependencies])).toEqual(
      [...modelled.steps].map(([id, step]) => [id, step.status, step.description, step.waitsFor]),
    )
    expect(await graph.verify()).toEqual([])
    expect(contentsOf((await openGraph(store, context)).state)).toEqual(contentsOf(graph.state))
    await store.close()
  })
})

function attempt(plan: Parameters<typeof model.describe>[0], { deed, step, other, text }: Tried): boolean {
  switch (deed) {
    case 'describe':
      return model.describe(plan, step, text)
    case 'wait':
      return model.waitFor(plan, step, other)
    case 'move':
      return model.moveStep(plan, step, text)
    case 'add':
      return model.addStep(plan, step, { status: 'pending', description: text, waitsFor: [other] })
  }
}

async function report(writer: Child): Promise<readonly Tried[]> {
  await writer.line('done')
  return writer.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Tried)
}
