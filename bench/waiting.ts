/** 10,000 plans that each wait for a person: how long it takes to put them there, and what memory the process keeps for them. */
import { onGround, type Score } from './contest/contest.ts'
import { STORE_TITLES } from './contest/entrants.ts'
import { quick } from './contest/settings.ts'
import type { StoreName } from './contestants/contestant.ts'
import { figure, tell } from './report.ts'

const OURS = quick ? 500 : 10_000
/** Peers do fewer: some need minutes for more, and what a plan takes is told by these. */
const THEIRS = quick ? 200 : 2_000
const ENTRANTS: Partial<Record<StoreName, readonly string[]>> = {
  memory: ['ours', 'xstate'],
  sqlite: ['ours', 'langgraph'],
  postgres: ['ours', 'dbos'],
}

await onGround(async ({ contest }) => {
  for (const [store, names] of Object.entries(ENTRANTS) as [StoreName, readonly string[]][]) {
    const rows: { [name: string]: Row } = {}
    for (const name of names) {
      const size = name === 'ours' ? OURS : THEIRS
      const options = { warmUp: { kind: 'waiting', size: 100 }, rounds: 1, collect: true } as const
      const [score] = await contest(store, [{ name }], { kind: 'waiting', size }, options)
      rows[name] = rowOf(score!, size)
    }
    tell(`Plans waiting for a person, ${STORE_TITLES[store]}`, rows)
  }
})

type Row = { readonly [column: string]: string | number }

function rowOf({ rounds: [round], failed, version }: Score, size: number): Row {
  if (!round) return { plans: size, 'plans/s': `failed: ${failed}` }
  return {
    plans: size,
    'plans/s': figure((size / round.wallMs) * 1000),
    'CPU µs/plan': figure((round.cpuMs * 1000) / size),
    'heap bytes/plan': figure(round.heapBytes! / size),
    'resident MB more': figure(round.residentBytes! / 2 ** 20),
    version,
  }
}
