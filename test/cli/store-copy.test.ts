import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { timeIn } from '../../src/cli/time-in.ts'
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

it('leaves out what has ended, tells which, and what is left works', { timeout: 60_000 }, async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'mplp.config.mjs'), `export default { root: '.', functions: { noop: () => null } }`)
  const write = { action_type: 'file_operation', params: { operation: 'write', path: 'a.txt', content: 'a' } }
  const wait = { action_type: 'wait', params: { signal: 'go' } }
  writeFileSync(join(folder, 'ends.json'), JSON.stringify({ title: 'Ends', steps: { write } }))
  writeFileSync(join(folder, 'waits.json'), JSON.stringify({ title: 'Waits', steps: { wait } }))
  const ended = JSON.parse((await mplpHere(folder, ['run', 'ends.json', '--json'])).out)
  const waiting = JSON.parse((await mplpHere(folder, ['run', 'waits.json', '--json'])).out)
  const copied = await mplpHere(folder, ['store', 'copy', 'sqlite:./.mplp/young.db', '--without-ended', '0d', '--json'])
  expect(JSON.parse(copied.out)).toMatchObject({ left_out: [ended.context_id], behind: [] })
  expect((await mplpHere(folder, ['store', 'copy', 'memory:', '--without-ended', '1d'])).out).toContain(
    'left out: 0 contexts',
  )

  const young = (...args: string[]) => mplpHere(folder, [...args, '--store', 'sqlite:./.mplp/young.db'])
  expect((await young('store', 'verify')).code).toBe(0)
  expect((await young('drift', 'scan')).code).toBe(0) // the folder's own context is kept, with what it knows of the files
  expect((await young('show', ended.plan_id)).err).toContain(`there is no`)
  expect((await young('why', 'a.txt')).out).toContain('a.txt')
  expect((await young('signal', waiting.plan_id, 'go')).code).toBe(0)
  expect((await young('resume', waiting.plan_id)).code).toBe(0)
})

it.each([
  ['90d', '2025-10-03T12:00:00.000Z'],
  ['12h', '2026-01-01T00:00:00.000Z'],
  ['30m', '2026-01-01T11:30:00.000Z'],
  ['2026-08-01', '2026-08-01T00:00:00Z'],
  ['2026-08-01T10:00:00+02:00', '2026-08-01T10:00:00+02:00'],
])('takes %s for a time', (text, expected) => {
  expect(timeIn('--when', text, Date.parse('2026-01-01T12:00:00Z'))).toBe(expected)
})
