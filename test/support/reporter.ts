import type { Reporter, TestModule } from 'vitest/node'

/** Names every skipped test with its reason at the end of a run: a test that did not run is not a test that passed. */
export const skipReporter: Reporter = {
  onTestRunEnd(modules) {
    const skipped = reasons(modules)
    for (const [reason, titles] of skipped) {
      process.stdout.write(`\n skipped, because ${reason}:\n${titles.map((title) => `   ${title}\n`).join('')}`)
    }
  },
}

function reasons(modules: readonly TestModule[]): Map<string, string[]> {
  const byReason = new Map<string, string[]>()
  for (const module of modules) {
    for (const test of module.children.allTests('skipped')) {
      const result = test.result()
      const reason = (result.state === 'skipped' && result.note) || 'it was not chosen, or says no reason'
      byReason.set(reason, [...(byReason.get(reason) ?? []), `${module.relativeModuleId} > ${test.fullName}`])
    }
  }
  return byReason
}
