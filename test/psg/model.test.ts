import fc from 'fast-check'
import { describe, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { openGraph } from '../../src/psg/graph.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { begin, beginnings, type Real, sequences } from './commands.ts'
import { world } from './given.ts'

async function real(store: Backend, seed: number, keepEnded: number): Promise<Real> {
  const clock = manualClock({ seed })
  const { graph, context } = await world({ store, clock, keepEnded })
  const second = await openGraph(store, context, { clock, keepEnded })
  return { store, context, clock, writers: [graph, second], keepEnded, plans: [], dialogs: [], snapshots: [] }
}

describe('psg: two writers, a store and a model', () => {
  it('agree after every step of any sequence, in memory', { timeout: 300_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(
        beginnings,
        sequences(15),
        fc.nat(),
        fc.constantFrom(0, 1, 16),
        async (plans, commands, seed, keepEnded) => {
          const store = memoryBackend()
          const r = await real(store, seed, keepEnded)
          const m = await begin(r, plans)
          await fc.asyncModelRun(async () => ({ model: m, real: r }), commands)
        },
      ),
      { numRuns: Number(process.env.RUNS ?? 950), ...(process.env.SEED && { seed: Number(process.env.SEED) }) },
    )
  })
})
