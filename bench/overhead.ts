/** What we add, on and off: a bus with a subscriber, a profile's events, an approval by a person, encryption, and the drift check before every write of a file. */
import { type Entrant, onGround, type Score } from './contest/contest.ts'
import { STORE_TITLES } from './contest/entrants.ts'
import { quick, rounds } from './contest/settings.ts'
import { writtenByKind } from './contest/written.ts'
import type { Task } from './contestants/host.ts'
import { figure, median, tell } from './report.ts'

const OFF = 'ours'
const EXTRAS: readonly Entrant[] = [
  { name: OFF },
  { name: 'with a bus and a subscriber', module: 'ours', extra: 'bus' },
  { name: 'without the events of the SA profile', module: 'ours', extra: 'no-profile' },
  { name: 'with an approval by a person', module: 'ours', extra: 'approval' },
  { name: 'encrypted', module: 'ours', extra: 'encryption' },
]
const FILES: readonly Entrant[] = [
  { name: 'files written', module: 'ours-files' },
  { name: 'files written into a tracked folder', module: 'ours-files', extra: 'files' },
]
const CHAIN: Task = { kind: 'chain', size: quick ? 200 : 1_000 }
const PLANS: Task = { kind: 'plans', size: 5, count: quick ? 100 : 500, atOnce: 50 }
const WRITES: Task = { kind: 'chain', size: 200 }

const TRACE_NOTE =
  'bytes as JSON, in the values and in the journal; segments are the trace, and cannot be switched off: a run without them could not be explained'

/** There are many sides, and all warm up before every round. */
const FEWER = { rounds: Math.ceil(0.6 * rounds) }

await onGround(async ({ contest }) => {
  for (const store of ['memory', 'sqlite', 'postgres'] as const) {
    const chains = await contest(store, EXTRAS, CHAIN, FEWER)
    tell(
      `What we add to a chain of ${CHAIN.size.toLocaleString('en')} steps, ${STORE_TITLES[store]}`,
      rowsOf(chains, CHAIN.size),
    )
    const plans = await contest(store, EXTRAS, PLANS, FEWER)
    tell(`What we add to ${PLANS.count} plans of five steps, ${STORE_TITLES[store]}`, rowsOf(plans, 5 * PLANS.count))
  }
  const files = await contest('sqlite', FILES, WRITES, FEWER)
  tell(
    `What we add to a chain of ${WRITES.size} steps that write files, ${STORE_TITLES.sqlite}`,
    rowsOf(files, WRITES.size),
  )
  tell('What a step of a chain writes', await writtenByKind(200), TRACE_NOTE)
})

/** The first is what the others are held against. */
function rowsOf(scores: readonly Score[], steps: number) {
  const rateOf = ({ rounds }: Score) => median(rounds.map(({ wallMs }) => (steps / wallMs) * 1000))
  const cpuOf = ({ rounds }: Score) => median(rounds.map(({ cpuMs }) => (cpuMs * 1000) / steps))
  const off = scores[0]!
  const rows = scores.map((score) => [
    score.name,
    score.rounds.length === 0
      ? { 'steps/s': `failed: ${score.failed}` }
      : {
          'steps/s': figure(rateOf(score)),
          'of off': figure(rateOf(score) / rateOf(off)),
          'CPU µs/step': figure(cpuOf(score)),
          'CPU of off': figure(cpuOf(score) / cpuOf(off)),
          rounds: score.rounds.length,
        },
  ])
  return Object.fromEntries(rows)
}
