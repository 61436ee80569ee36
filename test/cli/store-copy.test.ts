import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
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

it('encrypts a copy, changes its key, and lays it open again', { timeout: 60_000 }, async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'mplp.config.mjs'), `export default { functions: { noop: () => 'the launch code' } }`)
  const step = { action_type: 'function', params: { name: 'noop' } }
  writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Copied', steps: { one: step } }))
  const [a, b] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
  onTestFinished(() => void vi.unstubAllEnvs())
  vi.stubEnv('KEY_OF_COPY', a)
  const mplp = (store: string, ...args: string[]) => mplpHere(folder, [...args, '--store', store])
  const saysAll = (store: string) => mplp(store, 'list', '--ended', '--json')
  const bytesOf = (file: string) => readFileSync(join(folder, file), 'latin1')

  expect((await mplp('sqlite:./plain.db', 'run', 'flow.json')).code).toBe(0)
  const { out: expected } = await saysAll('sqlite:./plain.db')
  expect((await mplp('sqlite:./plain.db', 'store', 'copy', 'sqlite:./a.db', '--key-env', 'KEY_OF_COPY')).code).toBe(0)
  expect([bytesOf('plain.db').includes('launch code'), bytesOf('a.db').includes('launch code')]).toEqual([true, false])
  expect((await saysAll('sqlite:./a.db')).err).toContain('the store is encrypted')

  vi.stubEnv('MPLP_ENCRYPTION_KEY', a)
  vi.stubEnv('KEY_OF_COPY', b)
  expect(await saysAll('sqlite:./a.db')).toMatchObject({ code: 0, out: expected })
  expect((await mplp('sqlite:./a.db', 'store', 'copy', 'sqlite:./b.db', '--key-env', 'KEY_OF_COPY')).code).toBe(0)
  expect((await mplp('sqlite:./a.db', 'store', 'copy', 'sqlite:./b.db')).err).toContain('target of the copy is refused')
  expect((await saysAll('sqlite:./b.db')).err).toContain('is not the key of this store')
  expect((await saysAll('sqlite:./plain.db')).err).toContain('mplp store copy <to> --key-env')

  vi.stubEnv('MPLP_ENCRYPTION_KEY', b)
  expect((await mplp('sqlite:./b.db', 'store', 'copy', 'sqlite:./open.db', '--decrypt')).code).toBe(0)
  vi.stubEnv('MPLP_ENCRYPTION_KEY', undefined)
  expect(await saysAll('sqlite:./open.db')).toMatchObject({ code: 0, out: expected })
  expect((await mplp('sqlite:./open.db', 'store', 'verify')).code).toBe(0)
})

it.each([
  ['90d', '2026-06-03T12:00:00.000Z'],
  ['12h', '2026-09-01T00:00:00.000Z'],
  ['30m', '2026-09-01T11:30:00.000Z'],
  ['0d', '2026-09-01T12:00:00.000Z'],
  ['2026-08-01', '2026-08-01T00:00:00Z'],
  ['2026-08-01T10:00:00+02:00', '2026-08-01T10:00:00+02:00'],
])('takes %s for a time', (text, expected) => {
  expect(timeIn('--when', text, NOON)).toBe(expected)
})

it.each(['2062-08-01', '2026-09-01T12:00:01Z'])(
  'takes %s for no time: it is still to come, and would take all',
  (text) => {
    const problems = [expect.objectContaining({ path: '--when', rule: 'past', found: `"${text}"` })]
    expect(() => timeIn('--when', text, NOON)).toThrow(expect.objectContaining({ problems }))
  },
)
const NOON = Date.parse('2026-09-01T12:00:00Z')
