import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'
import { mplp, oneLine } from './mplp.ts'

const ADAPTER =
  "{ action_type: 'x', executor_kind: 'external', execute: async () => ({}), close: () => new Promise(() => {}) }"

// In a process of its own: only there can nothing be left to do.
it.each([
  ['a config', 'export default await new Promise(() => {})', ['list', '--config', 'it.mjs']],
  ['a flow', 'export default () => new Promise(() => {})', ['run', 'it.mjs']],
])('says so where %s waits for what never comes', { timeout: 60_000 }, async (_, module, words) => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'it.mjs'), module)
  const stuck = await mplp(folder, words)
  expect(stuck.code).toBe(1)
  expect(oneLine(stuck)).toBe(
    'mplp: a promise that is awaited never settles; look for it in the config, its adapters and the flow',
  )
})

it('names an adapter that cannot be closed', { timeout: 60_000 }, async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'it.mjs'), `export default { vsl: 'memory:', adapters: [${ADAPTER}] }`)
  const ended = await mplp(folder, ['resume', '--config', 'it.mjs'])
  expect(ended.code).toBe(1)
  expect(oneLine(ended)).toBe('mplp: closing the adapter for actions of type x did not end within 10000 ms')
})
