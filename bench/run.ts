/**
 * `npm run bench [-- name …] [--rounds N] [--quick]`: each benchmark in a process of its own, one after another, on the compiled product. Without a
 * name, all of them. One that fails does not keep the others from running.
 */
import { fork } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { build, peersAreInstalled } from './contest/build.ts'
import { type Outcome, readResults, writeResults } from './contest/results.ts'
import { load, machine, rounds } from './contest/settings.ts'
import type { Table } from './report.ts'

const PARTS: ReadonlySet<string> = new Set(['run', 'report', 'goals', 'profile', 'events-clients'])
const MOST_MS = 15 * 60_000

const known = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -'.ts'.length))
  .filter((name) => !PARTS.has(name))
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string' }, quick: { type: 'boolean' } },
})
const unknown = positionals.find((name) => !known.includes(name))
if (unknown !== undefined) {
  console.error(`there is no benchmark ${unknown}; there are ${known.join(', ')}`)
  process.exit(64)
}
if (values.rounds !== undefined && !(Number(values.rounds) >= 1)) {
  console.error(`--rounds must be a number from 1, not ${values.rounds}`)
  process.exit(64)
}
if (!peersAreInstalled()) console.error('the peers are not installed, their rows will say so: npm run bench:setup')
await build()
for (const name of positionals.length > 0 ? positionals : known) {
  console.log(`\n${name}`)
  const outcome = await ran(name)
  if (outcome.failed !== undefined) {
    console.error(`${name}: ${outcome.failed}`)
    process.exitCode = 1
  }
  writeResults({ ...readResults(), [name]: outcome })
}

function ran(name: string): Promise<Outcome> {
  const tables: Table[] = []
  const [began, before, at] = [performance.now(), load(), new Date().toISOString()]
  const compiled = pathToFileURL(join(import.meta.dirname, 'contest/compiled.mjs')).href
  const program = fork(join(import.meta.dirname, `${name}.ts`), {
    env: {
      ...process.env,
      ...(values.rounds && { MPLP_BENCH_ROUNDS: values.rounds }),
      ...(values.quick && { MPLP_BENCH_QUICK: '1' }),
    },
    execArgv: ['--import', 'tsx', '--import', compiled], // not in NODE_OPTIONS: what a benchmark starts may want bare Node
  })
  program.on('message', (message: { table?: Table }) => message.table && tables.push(message.table))
  const impatience = setTimeout(() => program.kill('SIGTERM'), MOST_MS)
  return new Promise((resolve) => {
    program.once('exit', (code, signal) => {
      clearTimeout(impatience)
      resolve({
        at,
        machine: machine(),
        load: [before, load()],
        rounds: Number(values.rounds ?? (values.quick ? 2 : rounds)),
        seconds: (performance.now() - began) / 1000,
        ...(code !== 0 && { failed: `it ended with ${signal ?? `code ${code}`}` }),
        tables,
      })
    })
  })
}
