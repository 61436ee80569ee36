import fc from 'fast-check'
import { expect, it } from 'vitest'
import { bindSteps } from '../../src/orchestrator/bind.ts'
import { unheld } from '../../src/orchestrator/depends.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import type { Step } from '../../src/protocol/types.ts'

const step = (step_id: string, ...dependencies: readonly string[]): Step => ({
  step_id,
  description: step_id,
  status: 'pending',
  dependencies: [...dependencies],
})

it('says of every two steps whether one depends on the other, as a search from each would', () => {
  const plan = fc
    .array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 2, maxLength: 80 })
    .map((lists) => lists.map((on, at) => step(`s${at}`, ...(at === 0 ? [] : on.map((n) => `s${n % at}`)))))
  fc.assert(
    fc.property(plan, (steps) => {
      const pairs = steps.flatMap(({ step_id }) => steps.map((other) => ({ step: step_id, on: other.step_id })))
      const byId = new Map(steps.map((one) => [one.step_id, one]))
      const reaches = (from: string, to: string): boolean => {
        const seen = new Set(byId.get(from)!.dependencies)
        for (const one of seen) for (const next of byId.get(one)!.dependencies!) seen.add(next)
        return seen.has(to)
      }
      const wrong = new Set(unheld(steps, pairs))
      for (const pair of pairs) expect(wrong.has(pair)).toBe(!reaches(pair.step, pair.on))
    }),
    { numRuns: 50 },
  )
})

it('refuses what is not in the plan, and leaves a circle to the graph', () => {
  const steps = [step('a', 'b'), step('b', 'a'), step('c')]
  const ghost = { step: 'c', on: 'nobody' }
  expect(unheld(steps, [ghost, { step: 'a', on: 'c' }])).toEqual([ghost])
})

it('binds a long plan whose steps all refer to one far away', () => {
  const ids = Array.from({ length: 20_000 }, () => systemClock.uuid())
  const steps = ids.map((id, i) => step(id, ...ids.slice(Math.max(0, i - 1), i)))
  const far = (i: number) => ({ action_type: 'function', params: i > 0 ? { args: { $from: ids[i >> 1]! } } : {} })
  const bindings = { steps: Object.fromEntries(ids.map((id, i) => [id, far(i)])) }
  expect(bindSteps(steps, bindings, undefined, (id) => id)).toHaveLength(20_000)
})
