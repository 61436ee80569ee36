import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'
import { mplpHere } from './here.ts'

it('leaves every step of a run in a file of its own in a copy that people read', { timeout: 60_000 }, async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'mplp.config.mjs'), `export default { functions: { noop: () => null } }`)
  const step = { action_type: 'function', params: { name: 'noop' } }
  writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Copied', steps: { one: step, two: step } }))
  expect((await mplpHere(folder, ['run', 'flow.json'])).code).toBe(0)
  expect((await mplpHere(folder, ['store', 'copy', 'file:./copy'])).code).toBe(0)
  const files = readdirSync(join(folder, 'copy', 'values'), { recursive: true }).map(String)
  const ofKind = (kind: string) => files.filter((file) => file.includes(`/${kind}/`) && !file.startsWith('id/'))
  expect([ofKind('step').length, ofKind('plan').length]).toEqual([2, 1])
  expect(files.filter((file) => file.includes('/written/'))).toEqual([])
})
