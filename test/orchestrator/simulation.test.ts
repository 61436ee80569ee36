import { describe, expect, it } from 'vitest'
import { crashesOf, simulate } from '../support/simulation.ts'

const SEEDS = 500

describe('a run in a simulated world', () => {
  it('ends well whatever order answers come in', async () => {
    for (let seed = 1; seed <= 20; seed++)
      expect({ seed, faults: (await simulate(seed)).faults }).toEqual({ seed, faults: [] })
  })

  it('survives a crash at every single call of store and adapter, before and after it took effect', async () => {
    const { calls } = await simulate(1)
    for (let call = 1; call <= calls; call++)
      for (const when of ['before', 'after'] as const)
        expect({ call, when, faults: (await simulate(1, [{ call, when }])).faults }).toEqual({ call, when, faults: [] })
  }, 300_000)

  it(`survives one to three crashes under ${SEEDS} seeds`, async () => {
    const { calls } = await simulate(1)
    for (let seed = 1; seed <= SEEDS; seed++) {
      const crashes = crashesOf(seed, calls)
      expect({ seed, crashes, faults: (await simulate(seed, crashes)).faults }).toEqual({ seed, crashes, faults: [] })
    }
  }, 300_000)
})
