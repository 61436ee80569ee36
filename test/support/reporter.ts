import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node'

/** Names every skipped test with its reason at the end of a run: a test that did not run is not a test that passed. */
export function skipReporter(): Reporter {
  let vitest: Vitest | undefined
  return {
    onInit(instance) {
      vitest = instance
    },
    onTestRunEnd(modules) {
      if (vitest?.config.testNamePattern) return // the rest was left out on purpose
      for (const [reason, titles] of skippedByReason(modules)) {
        process.stdout.write(`\n skipped, because ${reason}:\n${titles.map((title) => `   ${title}\n`).join('')}`)
      }
    },
  }
}

function skippedByReason(modules: readonly TestModule[]): Map<string, string[]> {
  const byReason = new Map<string, string[]>()
  for (const module of modules) {
    for (const test of module.children.allTests('skipped')) {
      const reason = reasonOf(test)
      if (reason)
        byReason.set(reason, [...(byReason.get(reason) ?? []), `${module.relativeModuleId} > ${test.fullName}`])
    }
  }
  return byReason
}

/** None if the test was to run and a hook before it failed, which is reported as that. */
function reasonOf(test: TestCase): string | undefined {
  const result = test.result()
  if (result.state === 'skipped' && result.note) return result.note
  return test.options.mode === 'run' ? undefined : 'its author says so without a reason'
}
