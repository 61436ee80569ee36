// Counts the tests of every step in a folder of results, and the steps that are no tests as one each.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const folder = process.argv[2]
let passed = 0
let failed = 0

for (const name of readdirSync(folder).filter((file) => file.endsWith('.exit'))) {
  const succeeded = readFileSync(join(folder, name), 'utf8').trim() === '0'
  const results = join(folder, name.replace('.exit', '.json'))
  const counts = existsSync(results) ? counted(JSON.parse(readFileSync(results, 'utf8'))) : { passed: 0, failed: 0 }
  passed += counts.passed
  failed += counts.failed
  // A step can fail outside its tests: it never began, or something was thrown between them.
  if (!succeeded && counts.failed === 0) failed++
  if (succeeded && counts.passed === 0) passed++
}

console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1

/** A file can fail without a failed test: it did not load, or a hook threw. */
function counted({ numPassedTests, numFailedTests, testResults }) {
  const broken = testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && assertionResults.every((test) => test.status !== 'failed'),
  )
  return { passed: numPassedTests, failed: numFailedTests + broken.length }
}
