/** What a step costs in a chain of 100, 1,000, 10,000 and 100,000 steps; submitting, checking and ending the plan included. */
import { type Ground, onGround } from './contest/contest.ts'
import { STORE_TITLES } from './contest/entrants.ts'
import { member } from './contest/member.ts'
import { quick, rounds } from './contest/settings.ts'
import type { StoreName } from './contestants/contestant.ts'
import type { Task } from './contestants/host.ts'
import { figure, median, tell } from './report.ts'

const SIZES = quick ? [100, 1_000, 10_000] : [100, 1_000, 10_000, 100_000]
/** How far each goes: where a larger plan would take minutes, it stops. */
const ENTRANTS: Partial<Record<StoreName, { readonly [name: string]: number }>> = {
  memory: { ours: 100_000, xstate: 10_000, langgraph: 1_000 },
  sqlite: { ours: 100_000, floor: 100_000, xstate: 10_000, langgraph: 1_000 },
  postgres: { ours: 10_000, floor: 10_000, dbos: 10_000 },
}
const SMALL = 1_000
const WARM_UPS = 4
const NOTE =
  'CPU µs of the process per step, in brackets µs of the wall; growth is the CPU time of the largest beside that in plans of 100'
/** A journal of 100,000 steps in memory is larger than the heap that Node takes unasked. */
const ROOM = { flags: ['--max-old-space-size=12288'], patienceMs: 300_000 }

type Cost = { readonly cpu: number; readonly wall: number }

await onGround(async (ground) => {
  for (const [store, limits] of Object.entries(ENTRANTS) as [StoreName, { [name: string]: number }][]) {
    const rows: { [name: string]: { [column: string]: string } } = {}
    for (const [name, most] of Object.entries(limits))
      rows[name] = await costs(ground, store, name, most).then(rowOf, (error: Error) => ({
        growth: `failed: ${error.message}`,
      }))
    tell(`What a step costs in plans of different length, ${STORE_TITLES[store]}`, rows, NOTE)
  }
})

/** One process does all sizes in turn, warmed up, so that nothing but the length differs. */
async function costs(ground: Ground, store: StoreName, name: string, most: number): Promise<Map<number, Cost[]>> {
  const entered = await member(name, await ground.place(store, { name }), ROOM)
  try {
    for (let time = 0; time < WARM_UPS; time++) await entered.run(taskOf(100))
    await entered.run(taskOf(1_000))
    const sizes = SIZES.filter((size) => size <= most)
    const found = new Map(sizes.map((size) => [size, [] as Cost[]]))
    for (let round = 0; round < Math.min(rounds, 3); round++)
      for (const size of sizes) {
        if (round > 0 && size >= 10_000) continue
        const { cpuMs, wallMs } = await entered.run(taskOf(size))
        const steps = Math.max(size, SMALL)
        found.get(size)!.push({ cpu: (cpuMs * 1000) / steps, wall: (wallMs * 1000) / steps })
      }
    return found
  } finally {
    await entered.close()
  }
}

/** Small plans one after another until as many steps are done: a single one would be over in a blink. */
function taskOf(size: number): Task {
  return size < SMALL ? { kind: 'plans', size, count: SMALL / size, atOnce: 1 } : { kind: 'chain', size }
}

function rowOf(found: ReadonlyMap<number, readonly Cost[]>): { [column: string]: string } {
  const medians = [...found].map(
    ([size, each]) => [size, median(each.map(({ cpu }) => cpu)), median(each.map(({ wall }) => wall))] as const,
  )
  const cells = medians.map(([size, cpu, wall]) => [
    `${size.toLocaleString('en')} steps`,
    `${figure(cpu)} (${figure(wall)})`,
  ])
  return { ...Object.fromEntries(cells), growth: figure(medians.at(-1)![1] / medians[0]![1]) }
}
