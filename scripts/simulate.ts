/** `npm run simulate -- --seeds 10000 [--from 1]`: runs the simulated world under many seeds, each with one to three crashes; ends with one line of JSON. */
import { parseArgs } from 'node:util'
import { crashesOf, simulate } from '../test/support/simulation.ts'

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '1000' }, from: { type: 'string', default: '1' } },
})
const [seeds, from] = [Number(values.seeds), Number(values.from)]
if (!Number.isSafeInteger(seeds) || seeds < 1 || !Number.isSafeInteger(from)) {
  console.error('usage: npm run simulate -- --seeds N [--from SEED]')
  process.exit(64)
}
const { calls } = await simulate(1)
const failing: number[] = []
for (let seed = from; seed < from + seeds; seed++) {
  const crashes = crashesOf(seed, calls)
  const { faults } = await simulate(seed, crashes)
  if (faults.length > 0) {
    failing.push(seed)
    console.error(`seed ${seed} with crashes ${JSON.stringify(crashes)}: ${faults.join('; ')}`)
  }
  if (process.stderr.isTTY && seed % 100 === 0) process.stderr.write(`\r${seed - from + 1} of ${seeds}`)
}
console.log(JSON.stringify({ seeds, failing }))
process.exitCode = failing.length > 0 ? 1 : 0
