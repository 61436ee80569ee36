/**
 * `npm run simulate -- --seeds 10000 [--from 1] [--processes 2]`: runs the simulated world under many seeds, each with one to three crashes; or with two
 * processes that share a store. Ends with one line of JSON.
 */
import { parseArgs } from 'node:util'
import { crashesOf, simulate } from '../test/support/simulation.ts'
import { simulateTwo } from '../test/support/two-processes/simulate.ts'

const USAGE = `usage: npm run simulate -- [--seeds N] [--from SEED] [--processes 1|2]
  --seeds      how many worlds: 1000 when absent
  --from       the seed of the first: 1 when absent
  --processes  1: a process that crashes one to three times (when absent)
               2: two processes on one store that are killed, frozen and closed while people wish for this and that`

const { seeds, from, processes } = asked()
const faultsOf = processes === 2 ? withTwo : await withOne()
const failing: number[] = []
for (let seed = from; seed < from + seeds; seed++) {
  const said = await faultsOf(seed)
  if (said !== undefined) {
    failing.push(seed)
    console.error(`seed ${seed} ${said}`)
  }
  if (process.stderr.isTTY && seed % 100 === 0) process.stderr.write(`\r${seed - from + 1} of ${seeds}`)
}
console.log(JSON.stringify({ seeds, failing }))
process.exitCode = failing.length > 0 ? 1 : 0

function asked(): { readonly seeds: number; readonly from: number; readonly processes: number } {
  try {
    const { values } = parseArgs({
      options: {
        seeds: { type: 'string', default: '1000' },
        from: { type: 'string', default: '1' },
        processes: { type: 'string', default: '1' },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    const [seeds, from, processes] = [Number(values.seeds), Number(values.from), Number(values.processes)]
    if (Number.isSafeInteger(seeds) && seeds >= 1 && Number.isSafeInteger(from) && (processes === 1 || processes === 2))
      return { seeds, from, processes }
  } catch (error) {
    console.error(String(error))
  }
  console.error(USAGE)
  process.exit(64)
}

async function withOne(): Promise<typeof withTwo> {
  const { calls } = await simulate(1)
  return async (seed) => {
    const crashes = crashesOf(seed, calls)
    const { faults } = await simulate(seed, crashes)
    return faults.length > 0 ? `with crashes ${JSON.stringify(crashes)}: ${faults.join('; ')}` : undefined
  }
}

/** What is wrong under a seed, if something is. */
async function withTwo(seed: number): Promise<string | undefined> {
  const { faults, trace } = await simulateTwo(seed)
  return faults.length > 0 ? [faults.join('; '), ...trace].join('\n  ') : undefined
}
