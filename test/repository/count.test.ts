import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'
import { ROOT } from './imports.ts'

const test = (status: string) => ({
  status,
  fullName: `has ${status}`,
  failureMessages: status === 'failed' ? ['why'] : [],
})
const file = (...statuses: string[]) => ({
  name: join(process.cwd(), 'test/a.test.ts'),
  message: '',
  status: statuses.includes('failed') ? 'failed' : 'passed',
  assertionResults: statuses.map(test),
})
const BROKEN = { name: join(process.cwd(), 'test/b.test.ts'), message: 'a hook threw', status: 'failed' }

it('counts tests, and each other step as one', () => {
  expect(count({ install: step(0), test: step(0, [file('passed', 'passed', 'skipped')]), check: step(0) })).toEqual([
    ['4 passed, 0 failed'],
    0,
  ])
})

it('counts failed tests, names them, and fails', () => {
  expect(count({ test: step(1, [file('passed', 'failed', 'failed')]) })).toEqual([
    [FAILED, 'why', FAILED, 'why', '1 passed, 2 failed'],
    1,
  ])
})

it.each([
  ['that did not load', []],
  ['whose hook threw, so that its tests were skipped', [test('skipped'), test('skipped')]],
])('counts a file %s, beside others that ran', (_, assertionResults) => {
  expect(count({ test: step(1, [file('passed', 'failed'), { ...BROKEN, assertionResults }]) })).toEqual([
    [FAILED, 'why', 'failed: test/b.test.ts: a hook threw', '1 passed, 2 failed'],
    1,
  ])
})

it('counts a step that failed outside its tests, or never began', () => {
  const told = ['failed: test: failed outside its tests, see above', '1 passed, 1 failed']
  expect(count({ test: step(1, [file('passed')]) })).toEqual([told, 1])
  expect(count({ install: step(0), test: step(127) })).toEqual([told, 1])
})

const FAILED = 'failed: test/a.test.ts > has failed'

interface Step {
  readonly exit: number
  readonly results?: object
}

/** A step's exit code, and what vitest's JSON reporter would have written of these files. */
function step(exit: number, files?: ReturnType<typeof file>[]): Step {
  if (!files) return { exit }
  const having = (status: string) => files.flatMap((f) => f.assertionResults).filter((t) => t.status === status).length
  return { exit, results: { numPassedTests: having('passed'), numFailedTests: having('failed'), testResults: files } }
}

function count(steps: Record<string, Step>): [lines: readonly string[], exit: number | null] {
  const folder = tempFolder()
  for (const [name, { exit, results }] of Object.entries(steps)) {
    writeFileSync(join(folder, `${name}.exit`), `${exit}\n`)
    if (results) writeFileSync(join(folder, `${name}.json`), JSON.stringify(results))
  }
  const { stdout, status } = spawnSync(process.execPath, [join(ROOT, '.ci/count.mjs'), folder], { encoding: 'utf8' })
  return [stdout.trim().split('\n'), status]
}
