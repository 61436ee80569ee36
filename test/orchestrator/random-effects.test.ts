import fc from 'fast-check'
import { describe, it } from 'vitest'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { allTakenBack, type Death, deaths, type Fate, fateAt, holders, workBinding } from '../support/held-things.ts'

interface Story {
  readonly fates: readonly Fate[]
  readonly dying: readonly Death[]
}
const story: fc.Arbitrary<Story> = fc.record({
  fates: fc
    .integer({ min: 1, max: 5 })
    .chain((length) => fc.tuple(...Array.from({ length }, (_, i) => fc.record(fateAt(i))))),
  dying: deaths,
})

/** Lives a story through and takes it back. */
async function takenBack({ fates, dying }: Story, seed: number) {
  const { clock, ask, comesTo, takenBack } = holders(dying, seed, (grip) => ({
    async work(args, call) {
      const { step } = args as { step: number }
      await grip.all(fates[step]!, `${step}`, call)
      grip.fails(step, fates[step]!.failures)
      return step
    },
  }))
  const specs: { [name: string]: StepSpec } = {}
  for (const [i, fate] of fates.entries())
    specs[`s${i}`] = { after: fate.after.map((n) => `s${n}`), binding: workBinding(fate, i) }
  const flow = flowOf(specs, {}, clock)
  const { plan_id, context_id } = flow.plan
  await ask((runtime) => runtime.submit(flow))
  await comesTo(async () => ((await ask((runtime) => runtime.get(plan_id)))?.phase === 'ended' ? true : undefined))
  return takenBack(context_id, plan_id)
}

describe('what any plan did', () => {
  it('is all taken back, and once, by the run itself or afterwards, but for what nobody lived to tell', async () => {
    await allTakenBack(story, takenBack, 100)
  }, 240_000)
})
