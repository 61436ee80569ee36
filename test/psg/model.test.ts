import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, it } from 'vitest'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { begin, beginnings, realOf, sequences } from './commands.ts'
import type { Real } from './deeds.ts'
import { lasting } from './given.ts'
import { type OtherProcess, otherProcess, type Room } from './writers.ts'

/** Few or many ended plans are kept in memory, and values trail or do not: nobody is to notice. */
const rooms: fc.Arbitrary<Room> = fc.record({
  keepEnded: fc.constantFrom(0, 1, 16),
  mostTrailing: fc.constantFrom(0, 1, 4, 1024),
})

/** Runs so many sequences, each on a store of its own. */
async function agreeOn(numRuns: number, setUp: (seed: number, room: Room) => Promise<Real>): Promise<void> {
  await fc.assert(
    fc.asyncProperty(beginnings, sequences(20), fc.nat(), rooms, async (plans, commands, seed, room) => {
      const r = await setUp(seed, room)
      const m = await begin(r, plans)
      await fc.asyncModelRun(async () => ({ model: m, real: r }), commands)
      for (const writer of r.writers) await writer.close()
      await r.store.close()
    }),
    { numRuns },
  )
}

const inMemory = (): (() => Promise<Backend>) => {
  const store = lasting(memoryBackend())
  return async () => store
}

function inFile(): { readonly path: string; readonly open: () => Promise<Backend> } {
  const path = join(tempFolder(), 'state.db')
  return { path, open: () => sqliteBackend({ path, synchronous: 'OFF', timeoutMs: 30_000 }) }
}

describe('psg: two writers, a store and a model', () => {
  let other: OtherProcess
  beforeAll(() => {
    other = otherProcess()
  })
  afterAll(() => other.kill())

  it('agree after every step of any sequence, in memory', { timeout: 300_000 }, () =>
    agreeOn(920, (seed, room) => realOf(inMemory(), { seed, ...room })),
  )

  it('agree after every step of any sequence, in SQLite', { timeout: 300_000 }, () =>
    agreeOn(40, (seed, room) => realOf(inFile().open, { seed, ...room })),
  )

  it(
    'agree after every step of any sequence, in SQLite, when the second is another process',
    { timeout: 300_000 },
    () =>
      agreeOn(40, (seed, room) => {
        const { path, open } = inFile()
        return realOf(open, { seed, ...room }, (context) => other.writer(path, context, seed + 1, room))
      }),
  )
})
