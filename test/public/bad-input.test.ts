import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { ael } from './ael.ts'
import { bus } from './bus.ts'
import { type Doors, findings } from './doors.ts'
import { drift } from './drift.ts'
import { golden } from './golden.ts'
import { close, orchestrator, root, server } from './orchestrator.ts'
import { protocol } from './protocol.ts'
import { psg } from './psg.ts'
import { vsl } from './vsl.ts'

const ROOT = join(import.meta.dirname, '../..')
/** Everything that can be imported, by what stands behind the package's name. */
const TABLES: { readonly [entry: string]: Doors } = {
  './protocol': protocol,
  ...vsl,
  './psg': psg,
  ...bus,
  ...ael,
  './drift': drift,
  './golden': golden,
  './orchestrator': orchestrator,
  './server': server,
  '.': root,
}
/** Its suites are read by a test runner, which says what is wrong with them. */
const SUITES = './testing'

const exported: { readonly [entry: string]: string | { readonly default: string } } = JSON.parse(
  readFileSync(join(ROOT, 'package.json'), 'utf8'),
).exports
const modules = Object.entries(exported).flatMap(([entry, target]) =>
  typeof target === 'string' || entry === SUITES ? [] : [[entry, target.default] as const],
)

afterAll(close)

it.each(modules)('%s refuses what it cannot work with by a typed error', async (entry, built) => {
  const source = built.replace('./dist/', './src/').replace(/js$/, 'ts')
  expect(await findings(entry, { ...(await import(join(ROOT, source))) }, TABLES[entry] ?? {})).toEqual([])
})
