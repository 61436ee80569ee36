import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openRuntime } from '../../src/compose.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { mplpHere } from './here.ts'

it('takes away what has ended, tells which, and what is left works', { timeout: 60_000 }, async () => {
  const folder = tempFolder()
  const mplp = (...args: string[]) => mplpHere(folder, args)
  writeFileSync(join(folder, 'mplp.config.mjs'), `export default { root: '.', functions: { noop: () => null } }`)
  const write = { action_type: 'file_operation', params: { operation: 'write', path: 'a.txt', content: 'a' } }
  const wait = { action_type: 'wait', params: { signal: 'go' } }
  writeFileSync(join(folder, 'ends.json'), JSON.stringify({ title: 'Ends', steps: { write } }))
  writeFileSync(join(folder, 'waits.json'), JSON.stringify({ title: 'Waits', steps: { wait } }))
  const ended = JSON.parse((await mplp('run', 'ends.json', '--json')).out)
  const waiting = JSON.parse((await mplp('run', 'waits.json', '--json')).out)

  expect((await mplp('store', 'trim', '1d')).out).toBe('0 contexts and 0 blobs taken away\n')
  expect((await mplp('store', 'trim', '0d', '--dry-run')).out).toBe(
    `1 context would be taken away\n${ended.context_id}\n`,
  )
  expect((await mplp('show', ended.plan_id)).code).toBe(0)
  const trimmed = await mplp('store', 'trim', '0d', '--json')
  expect(JSON.parse(trimmed.out)).toEqual({
    contexts: [ended.context_id],
    behind: [],
    unreadable: [],
    blobs: 0,
  })

  expect((await mplp('store', 'verify')).code).toBe(0)
  expect((await mplp('drift', 'scan')).code).toBe(0) // the folder's own context is kept, with what it knows of the files
  expect((await mplp('show', ended.plan_id)).err).toContain('there is no')
  expect((await mplp('why', 'a.txt')).out).toContain('a.txt')
  expect((await mplp('signal', waiting.plan_id, 'go')).code).toBe(0)
  expect((await mplp('resume', waiting.plan_id)).code).toBe(0)
})

it('is done by a process that stays, and by none that only runs something, where the config says how long', {
  timeout: 60_000,
}, async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify({ keep_ended_days: 0 }))
  const wait = { action_type: 'wait', params: { signal: 'go' } }
  writeFileSync(join(folder, 'waits.json'), JSON.stringify({ title: 'Waits', steps: { wait } }))
  const run = JSON.parse((await mplpHere(folder, ['run', 'waits.json', '--json'])).out)
  await mplpHere(folder, ['signal', run.plan_id, 'go'])
  expect((await mplpHere(folder, ['resume', run.plan_id])).code).toBe(0)
  await mplpHere(folder, ['run', 'waits.json']) // another, which does not take the first away
  expect((await mplpHere(folder, ['list', '--ended'])).out).toContain(run.plan_id)
  const runtime = await openRuntime({ vsl: `sqlite:${join(folder, '.mplp/state.db')}`, keep_ended_days: 0 })
  onTestFinished(() => runtime.close())
  await expect.poll(() => runtime.get(run.run_id).catch(({ code }) => code)).toBe('not_found')
})
