/** One step, then 1,000 that wait for it alone, then one that waits for all of them. */
import { onGround } from './contest/contest.ts'
import { ENTRANTS, STORE_TITLES, STORES } from './contest/entrants.ts'
import { rates } from './contest/rates.ts'
import { tell } from './report.ts'

const WIDTH = 1_000

await onGround(async ({ contest }) => {
  for (const store of STORES) {
    const scores = await contest(store, ENTRANTS[store], { kind: 'fan', size: WIDTH })
    const { rows, plot } = rates(scores, WIDTH + 2, 'steps')
    tell(`A fan-out 1 -> 1,000 -> 1 ${STORE_TITLES[store]}`, rows, undefined, plot)
  }
})
