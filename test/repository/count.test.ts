import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'
import { ROOT } from './imports.ts'

const test = (status: string) => ({ status })
const file = (...statuses: string[]) => ({
  status: statuses.includes('failed') ? 'failed' : 'passed',
  assertionResults: statuses.map(test),
})

it('counts tests, and each other step as one', () => {
  expect(count({ install: step(0), test: step(0, [file('passed', 'passed', 'skipped')]), check: step(0) })).toEqual([
    '4 passed, 0 failed',
    0,
  ])
})

it('counts failed tests and fails', () => {
  expect(count({ test: step(1, [file('passed', 'failed', 'failed')]) })).toEqual(['1 passed, 2 failed', 1])
})

it('counts a file that did not load, beside others that ran', () => {
  const broken = { status: 'failed', assertionResults: [] }
  expect(count({ test: step(1, [file('passed', 'failed'), broken]) })).toEqual(['1 passed, 2 failed', 1])
})

it('counts a file whose hook threw, so that its tests were skipped, likewise', () => {
  const hooked = { status: 'failed', assertionResults: [test('skipped'), test('skipped')] }
  expect(count({ test: step(1, [file('passed', 'failed'), hooked]) })).toEqual(['1 passed, 2 failed', 1])
})

it('counts a step that failed outside its tests, or never began', () => {
  expect(count({ test: step(1, [file('passed')]) })).toEqual(['1 passed, 1 failed', 1])
  expect(count({ install: step(0), test: step(127) })).toEqual(['1 passed, 1 failed', 1])
})

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

function count(steps: Record<string, Step>): [lastLine: string, exit: number | null] {
  const folder = tempFolder()
  for (const [name, { exit, results }] of Object.entries(steps)) {
    writeFileSync(join(folder, `${name}.exit`), `${exit}\n`)
    if (results) writeFileSync(join(folder, `${name}.json`), JSON.stringify(results))
  }
  const { stdout, status } = spawnSync(process.execPath, [join(ROOT, '.ci/count.mjs'), folder], { encoding: 'utf8' })
  return [stdout.trim(), status]
}
