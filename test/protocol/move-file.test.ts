import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { moveFile } from '../../src/protocol/move-file.ts'
import { tempFolder } from '../support/temp-folder.ts'

const refused = vi.hoisted(() => ({ code: '' }))
vi.mock('node:fs', async (actual) => {
  const fs = await actual<typeof import('node:fs')>()
  const linkSync = (from: string, to: string) => {
    if (refused.code !== '') throw Object.assign(new Error(refused.code), { code: refused.code })
    fs.linkSync(from, to)
  }
  return { ...fs, linkSync }
})

/** Where a file system answers so when a file is to have a second name. */
function given(code: string) {
  refused.code = code
  const [from, to] = ['from', 'to'].map((name) => join(tempFolder(), name)) as [string, string]
  writeFileSync(from, 'ours')
  return { from, to }
}

it.each(['', 'EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK'])('gives a file another name: %s', (code) => {
  const { from, to } = given(code)
  moveFile(from, to)
  expect([existsSync(from), readFileSync(to, 'utf8')]).toEqual([false, 'ours'])
})

it.each(['', 'EPERM'])('replaces nothing: %s', (code) => {
  const { from, to } = given(code)
  writeFileSync(to, 'theirs')
  expect(() => moveFile(from, to)).toThrow(code || 'EEXIST')
  expect([from, to].map((path) => readFileSync(path, 'utf8'))).toEqual(['ours', 'theirs'])
})

it('tells whatever else is wrong', () => {
  const { from, to } = given('EROFS')
  expect(() => moveFile(from, to)).toThrow('EROFS')
  expect(existsSync(from)).toBe(true)
})
