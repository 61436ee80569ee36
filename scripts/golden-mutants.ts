/**
 * `npm run golden:mutants`: switches off one rule at a time by its id, in the real code path, and shows that a golden flow which names it fails. An
 * allowed arrow of a lifecycle is forbidden, a forbidden one allowed, an invariant not looked at, an event not told. The last line is JSON: mutants,
 * killed, survivors; those that no flow can notice are counted apart, each with its reason.
 */
import { fileURLToPath } from 'node:url'
import { type GoldenFlow, readFlows } from '../src/golden/flow.ts'
import { inMemory, ownDriver } from '../src/golden/own-driver.ts'
import { type FlowResult, runFlow } from '../src/golden/run-flow.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { EXCUSED, mutants } from './golden-mutants/mutants.ts'

const AT_ONCE = 8
const HANGS_MS = 15_000

const began = performance.now()
const flows = await readFlows(fileURLToPath(new URL('../golden-flows', import.meta.url)))
const all = mutants()
const waiting = all.filter((id) => !(id in EXCUSED))
const survivors: string[] = []
await refuseIfBroken()
await Promise.all(Array.from({ length: AT_ONCE }, work))
for (const [id, reason] of Object.entries(EXCUSED).sort()) console.log(`excused ${id}: ${reason}`)
for (const line of survivors.sort()) console.log(`survived ${line}`)
const excused = Object.keys(EXCUSED).length
const killed = all.length - excused - survivors.length
const seconds = Math.round((performance.now() - began) / 1000)
console.log(JSON.stringify({ mutants: all.length, killed, excused, survivors: survivors.length, seconds }))
process.exitCode = survivors.length === 0 ? 0 : 1

async function work(): Promise<void> {
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    const naming = flows.filter((flow) => flow.rules.includes(id!))
    if (naming.length === 0) survivors.push(`${id}: no flow names it`)
    else if (!(await noticed(naming, id))) survivors.push(`${id}: ${naming.map(({ name }) => name).join(', ')} pass`)
    if (process.stderr.isTTY) process.stderr.write(`\r${waiting.length} left `)
  }
}

/** Up to the first that fails. */
async function noticed(naming: readonly GoldenFlow[], id: string): Promise<boolean> {
  for (const flow of naming) if ((await mutated(flow, new Set([id]))).status !== 'passed') return true
  return false
}

/** A flow that fails without any mutant proves nothing about one, and an excuse for what is no mutant hides nothing. */
async function refuseIfBroken(): Promise<void> {
  const idle = Object.keys(EXCUSED).find((id) => !all.includes(id))
  if (idle !== undefined) throw new Error(`${idle} is excused, but is no mutant`)
  for (const flow of flows.filter(({ rules }) => rules.length > 0)) {
    const { status, reason } = await mutated(flow, new Set())
    if (status !== 'passed') throw new Error(`${flow.name} ${status} without any mutant: ${reason}`)
  }
}

function mutated(flow: GoldenFlow, switched: ReadonlySet<string>): Promise<FlowResult> {
  const driver = ownDriver({ switched, open: async () => inMemory(memoryBackend()) })
  return runFlow(flow, driver, 'memory', { limitMs: HANGS_MS }) // a mutant may hang, which is noticed too
}
