import { join } from 'node:path'
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { openGraph } from '../../src/psg/graph.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { begin, beginnings, type Real, sequences } from './commands.ts'
import { world } from './given.ts'

/** Runs so many sequences, each on a store of its own, with few or many ended plans kept in memory. */
async function agreeOn(numRuns: number, maxCommands: number, open: () => Promise<Backend>): Promise<void> {
  await fc.assert(
    fc.asyncProperty(
      beginnings,
      sequences(maxCommands),
      fc.nat(),
      fc.constantFrom(0, 1, 16),
      async (plans, commands, seed, keepEnded) => {
        const store = await open()
        const r = await real(store, seed, keepEnded)
        const m = await begin(r, plans)
        await fc.asyncModelRun(async () => ({ model: m, real: r }), commands)
        await store.close()
      },
    ),
    { numRuns },
  )
}

async function real(store: Backend, seed: number, keepEnded: number): Promise<Real> {
  const clock = manualClock({ seed })
  const { graph, context } = await world({ store, clock, keepEnded })
  const second = await openGraph(store, context, { clock, keepEnded })
  return { store, context, clock, writers: [graph, second], keepEnded, plans: [], dialogs: [], snapshots: [] }
}

describe('psg: two writers, a store and a model', () => {
  it('agree after every step of any sequence, in memory', { timeout: 300_000 }, () =>
    agreeOn(960, 12, async () => memoryBackend()),
  )

  it('agree after every step of any sequence, in SQLite', { timeout: 300_000 }, () =>
    agreeOn(40, 12, () => sqliteBackend({ path: join(tempFolder(), 'state.db'), synchronous: 'OFF' })),
  )
})
