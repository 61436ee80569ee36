/** `npm run bench [-- name …]`: each benchmark in a process of its own, one after another. Without a name, all of them. */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'

const PARTS: ReadonlySet<string> = new Set(['run', 'report', 'events-clients'])
const known = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -'.ts'.length))
  .filter((name) => !PARTS.has(name))
const chosen = process.argv.length > 2 ? process.argv.slice(2) : known
const unknown = chosen.find((name) => !known.includes(name))
if (unknown !== undefined) {
  console.error(`there is no benchmark ${unknown}; there are ${known.join(', ')}`)
  process.exit(64)
}
for (const name of chosen) {
  console.log(`\n${name}`)
  const { status } = spawnSync(process.execPath, ['--import', 'tsx', new URL(`${name}.ts`, import.meta.url).pathname], {
    stdio: 'inherit',
  })
  if (status !== 0) process.exitCode = 1
}
