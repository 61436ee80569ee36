/** What a step costs in a chain of 100, 1,000, 10,000 and 100,000 steps; submitting, checking and ending the plan included. */
import { onGround, type Score } from './contest/contest.ts'
import { STORE_TITLES } from './contest/entrants.ts'
import { quick } from './contest/settings.ts'
import type { StoreName } from './contestants/contestant.ts'
import type { Task } from './contestants/host.ts'
import { figure, median, tell } from './report.ts'

/** Each size as often as it takes to make so many steps that a round is no blink of an eye. */
const SIZES = quick ? [100, 1_000, 10_000] : [100, 1_000, 10_000, 100_000]
/** Peers stop where a round would take minutes. */
const ENTRANTS: Partial<Record<StoreName, { readonly [name: string]: number }>> = {
  memory: { ours: 100_000, xstate: 10_000, langgraph: 1_000 },
  sqlite: { ours: 100_000, floor: 100_000, xstate: 10_000, langgraph: 1_000 },
  postgres: { ours: 10_000, floor: 10_000, dbos: 10_000 },
}

/** A journal of 100,000 steps in memory is larger than the heap that Node takes unasked. */
const ROOM = { flags: ['--max-old-space-size=12288'], patienceMs: 300_000 }

const taskOf = (size: number): Task =>
  size < 1_000 ? { kind: 'plans', size, count: 1_000 / size, atOnce: 1 } : { kind: 'chain', size }

const NOTE = 'microseconds of the process per step, then of the wall; the last column is the largest beside 100 steps'

await onGround(async ({ contest }) => {
  for (const [store, limits] of Object.entries(ENTRANTS) as [StoreName, { [name: string]: number }][]) {
    const found = new Map<number, readonly Score[]>()
    for (const size of SIZES) {
      const entrants = Object.keys(limits).filter((name) => limits[name]! >= size)
      if (entrants.length === 0) continue
      const options = { warmUp: taskOf(Math.min(size, 1_000)), rounds: size < 10_000 ? 3 : 1, ...ROOM }
      found.set(
        size,
        await contest(
          store,
          entrants.map((name) => ({ name })),
          taskOf(size),
          options,
        ),
      )
    }
    const rows = Object.keys(limits).map((name) => [name, rowOf(name, found)] as const)
    tell(`CPU time of a step in plans of different length, ${STORE_TITLES[store]}`, Object.fromEntries(rows), NOTE)
  }
})

function rowOf(name: string, found: ReadonlyMap<number, readonly Score[]>) {
  const cells: [string, string][] = []
  const costs: number[] = []
  for (const [size, scores] of found) {
    const score = scores.find((one) => one.name === name)
    if (!score) continue
    const per = (ms: number) => (ms * 1000) / Math.max(size, 1_000)
    const cpu = median(score.rounds.map(({ cpuMs }) => per(cpuMs)))
    const wall = median(score.rounds.map(({ wallMs }) => per(wallMs)))
    costs.push(cpu)
    const told = score.rounds.length > 0 ? `${figure(cpu)} (${figure(wall)})` : `failed: ${score.failed}`
    cells.push([`${size.toLocaleString('en')} steps`, told])
  }
  return { ...Object.fromEntries(cells), growth: figure(costs.at(-1)! / costs[0]!) }
}
