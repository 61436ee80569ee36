import { expect, it } from 'vitest'
import { INDEX } from '../../src/psg/indexes.ts'
import { timedRuns, untimedRuns } from '../../src/psg/past-runs.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collect, write } from '../contracts/backend/given.ts'
import { countingScans } from '../support/counting-scans.ts'

const NOW = Date.UTC(2026, 5, 1)
const MINUTE = 60_000

/** As our clock makes them, that long ago. */
function idOf(ago: number, n = 0): string {
  const time = (NOW - ago).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-4000-8000-${String(n).padStart(12, '0')}`
}

async function given(ids: readonly string[]): Promise<{ store: Backend; seen: () => number }> {
  const store = memoryBackend()
  await store.commit(
    write('g', 0, { puts: ids.map((run) => [INDEX.id('run', run), { graph: 'g', group: `plan of ${run}` }]) }),
  )
  return countingScans(store)
}

it('gives the runs whose ids tell a time, the newest first, each once', async () => {
  const ages = Array.from({ length: 500 }, (_, n) => n * n * 7 * MINUTE) // from a moment to years ago
  const { store } = await given([...ages.map((ago, n) => idOf(ago, n)), 'ffffffff-0000-4000-8000-000000000000'])
  const runs = await collect(timedRuns(store, NOW))
  expect(runs.map(({ run }) => run)).toEqual(ages.map((ago, n) => idOf(ago, n)))
  expect(runs[3]).toEqual({
    run: idOf(ages[3]!, 3),
    submitted: NOW - ages[3]!,
    graph: 'g',
    group: `plan of ${idOf(ages[3]!, 3)}`,
  })
})

it('reads no further back than somebody asks', async () => {
  const recent = Array.from({ length: 10 }, (_, n) => idOf(n * MINUTE))
  const old = Array.from({ length: 5_000 }, (_, n) => idOf((n + 600) * MINUTE, n))
  const { store, seen } = await given([...recent, ...old])
  for await (const { run } of timedRuns(store, NOW)) if (run === recent[9]) break
  expect(seen()).toBeLessThan(20)
})

it('gives those apart whose ids somebody chose', async () => {
  const chosen = ['00ab3344-5566-4788-99aa-bbccddeeff00', 'c0ffee00-0000-4000-8000-000000000000']
  const { store } = await given([...chosen, idOf(0), idOf(MINUTE), idOf(-MINUTE / 2)])
  expect((await collect(untimedRuns(store, NOW))).map(({ run }) => run)).toEqual(chosen)
  expect((await collect(timedRuns(store, NOW))).map(({ run }) => run)).toEqual([
    idOf(-MINUTE / 2),
    idOf(0),
    idOf(MINUTE),
  ])
})
