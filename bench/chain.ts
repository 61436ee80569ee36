/** A plan of 1,000 no-op steps, each waiting for the one before and durable before the next begins. */
import { onGround } from './contest/contest.ts'
import { ENTRANTS, STORE_TITLES, STORES } from './contest/entrants.ts'
import { rates } from './contest/rates.ts'
import { tell } from './report.ts'

const STEPS = 1_000
const PACED = { name: 'raw, paced', module: 'raw', extra: 'paced' } as const

await onGround(async ({ contest }) => {
  for (const store of STORES) {
    const entrants = ENTRANTS[store].flatMap((one) => (one.name === 'raw' ? [one, PACED] : [one]))
    const scores = await contest(store, entrants, { kind: 'chain', size: STEPS })
    const { rows, plot } = rates(scores, STEPS, 'steps')
    tell(`A chain of 1,000 steps ${STORE_TITLES[store]}`, rows, undefined, plot)
  }
})
