import { createInterface } from 'node:readline'
import { manualClock } from '../../src/protocol/clock.ts'
import { RuleViolation } from '../../src/protocol/errors.ts'
import type { Changes } from '../../src/psg/change.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { children } from '../../src/psg/view.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { add, by, insisting, set } from './given.ts'

/** What a writer tried, and what became of it: at which revision it landed, or was refused. */
export type Tried = {
  readonly deed: 'describe' | 'add' | 'wait' | 'move'
  readonly step: string
  readonly other: string
  readonly text: string
  readonly landed: boolean
  readonly revision: number
}

// Writes to one plan as fast as it can, beside others who do the same. Says what it did, a line each.
const [path, context, plan, seed, count] = process.argv.slice(2) as [string, string, string, string, string]
const clock = manualClock({ seed: Number(seed) })
const store = await sqliteBackend({ path, synchronous: 'OFF', timeoutMs: 30_000 })
const graph = await openGraph(store, context)
console.log('ready')
for await (const _ of createInterface({ input: process.stdin })) break

const pick = <T>(list: readonly T[]): T => list[Math.floor(clock.random() * list.length)]!
for (let n = 0; n < Number(count); n++) {
  const steps = children(graph.state, 'plan', plan).map((step) => step.id)
  const deed = pick(['describe', 'describe', 'add', 'wait', 'wait', 'move'] as const)
  const [step, other] = [deed === 'add' ? clock.uuid() : pick(steps), pick(steps)]
  const text = deed === 'move' ? pick(['blocked', 'pending', 'skipped']) : `${seed} ${n}`
  try {
    const { revision } = await insisting(() => graph.commit(changesFor(deed, step, other, text), by))
    tell({ deed, step, other, text, landed: true, revision })
  } catch (error) {
    if (!(error instanceof RuleViolation)) throw error
    tell({ deed, step, other, text, landed: false, revision: graph.revision })
  }
}
await store.close()
console.log('done')

function changesFor(deed: Tried['deed'], step: string, other: string, text: string): Changes {
  if (deed === 'describe') return [set('step', step, { description: text })]
  if (deed === 'wait') return [{ kind: 'edge_add', from: step, to: other }]
  if (deed === 'move') return [set('step', step, { status: text })]
  const data = { step_id: step, description: text, status: 'pending' as const, dependencies: [other] }
  return [add('step', step, data, { owner: plan })]
}

function tell(tried: Tried): void {
  console.log(JSON.stringify(tried))
}
