/** 1,000 plans of five steps, 50 at a time: how many a second, and how long one takes among the others. */
import { onGround } from './contest/contest.ts'
import { ENTRANTS, STORE_TITLES, STORES } from './contest/entrants.ts'
import { type Columns, rates } from './contest/rates.ts'
import { quick } from './contest/settings.ts'
import { figure, tell } from './report.ts'

const COUNT = quick ? 200 : 1_000
const plans = (count: number) => ({ kind: 'plans', size: 5, count, atOnce: 50 }) as const

const waits: Columns = (rounds) => {
  const all = rounds.flatMap(({ latencies = [] }) => latencies).sort((a, b) => a - b)
  const at = (share: number) => figure(all[Math.floor((all.length - 1) * share)]!)
  return { 'p50 ms': at(0.5), 'p99 ms': at(0.99) }
}

await onGround(async ({ contest }) => {
  for (const store of STORES) {
    const scores = await contest(store, ENTRANTS[store], plans(COUNT), { warmUp: plans(200) })
    const { rows, plot } = rates(scores, COUNT, 'plans', waits)
    tell(
      `${COUNT.toLocaleString('en')} plans of five steps, 50 at a time, ${STORE_TITLES[store]}`,
      rows,
      undefined,
      plot,
    )
  }
})
