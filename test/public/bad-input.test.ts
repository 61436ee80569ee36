import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ael } from './ael.ts'
import { bus } from './bus.ts'
import { type Doors, findings } from './doors.ts'
import { drift } from './drift.ts'
import { golden } from './golden.ts'
import { protocol } from './protocol.ts'
import { psg } from './psg.ts'
import { vsl } from './vsl.ts'

const ROOT = join(import.meta.dirname, '../..')
/** What can be imported, by the name behind that of the package. */
const TABLES: { readonly [entry: string]: Doors } = {
  './protocol': protocol,
  ...vsl,
  './psg': psg,
  ...bus,
  ...ael,
  './drift': drift,
  './golden': golden,
}
const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

it.each(Object.entries(TABLES))('%s refuses what it cannot work with by a typed error', async (entry, doors) => {
  const source = exports[entry].default.replace('./dist/', './src/').replace(/js$/, 'ts')
  expect(await findings(entry, { ...(await import(join(ROOT, source))) }, doors)).toEqual([])
})
