/** 10,000 plans that each wait for a person: how long it takes to put them there, and what memory the process keeps for them. */
import { onGround } from './contest/contest.ts'
import { STORE_TITLES } from './contest/entrants.ts'
import { quick } from './contest/settings.ts'
import type { StoreName } from './contestants/contestant.ts'
import { figure, tell } from './report.ts'

const PLANS = quick ? 500 : 10_000
const ENTRANTS: Partial<Record<StoreName, readonly string[]>> = {
  memory: ['ours', 'xstate'],
  sqlite: ['ours', 'langgraph'],
  postgres: ['ours', 'dbos'],
}

await onGround(async ({ contest }) => {
  for (const [store, names] of Object.entries(ENTRANTS) as [StoreName, readonly string[]][]) {
    const entrants = names.map((name) => ({ name }))
    const task = { kind: 'waiting', size: PLANS } as const
    const scores = await contest(store, entrants, task, {
      warmUp: { kind: 'waiting', size: 100 },
      rounds: 1,
      collect: true,
    })
    const rows = scores.map(({ name, rounds: [round], failed, version }) => [
      name,
      round
        ? {
            'plans/s': figure((PLANS / round.wallMs) * 1000),
            'CPU µs/plan': figure((round.cpuMs * 1000) / PLANS),
            'heap bytes/plan': figure(round.heapBytes! / PLANS),
            'resident MB more': figure(round.residentBytes! / 2 ** 20),
            version,
          }
        : { 'plans/s': `failed: ${failed}` },
    ])
    tell(`${PLANS.toLocaleString('en')} plans waiting for a person, ${STORE_TITLES[store]}`, Object.fromEntries(rows))
  }
})
