// Counts the tests of every step in a folder of results, and the steps that are no tests as one each; what failed is named again before the count.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const folder = process.argv[2]
let passed = 0
const failed = []

for (const name of readdirSync(folder).filter((file) => file.endsWith('.exit'))) {
  const step = name.replace('.exit', '')
  const succeeded = readFileSync(join(folder, name), 'utf8').trim() === '0'
  const results = join(folder, `${step}.json`)
  const { numPassedTests, testResults } = existsSync(results)
    ? JSON.parse(readFileSync(results, 'utf8'))
    : { numPassedTests: 0, testResults: [] }
  const failures = testResults.flatMap(failuresIn)
  passed += numPassedTests
  failed.push(...failures)
  // A step can fail outside its tests: it never began, or something was thrown between them.
  if (!succeeded && failures.length === 0) failed.push(`${step}: failed outside its tests, see above`)
  if (succeeded && numPassedTests === 0) passed++
}

for (const failure of failed) console.log(`failed: ${failure}`)
console.log(`${passed} passed, ${failed.length} failed`)
process.exitCode = failed.length === 0 ? 0 : 1

/** A file can fail without a failed test: it did not load, or a hook threw. */
function failuresIn({ name, status, message, assertionResults }) {
  const file = relative('.', name)
  const tests = assertionResults.filter((test) => test.status === 'failed')
  if (status === 'failed' && tests.length === 0) return [`${file}: ${message}`]
  return tests.map(({ fullName, failureMessages }) => `${file} > ${fullName}\n${failureMessages.join('\n')}`)
}
