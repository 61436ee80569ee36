import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import type { ProjectConfig } from 'vitest/node'
import { skipReporter } from './test/support/reporter.ts'

const PACKAGE = 'test/repository/package.test.ts'
const KILLS = 'test/**/*.kill.test.ts'

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    reporters: [
      'default',
      skipReporter(),
      ...(process.env.MPLP_TEST_RESULTS ? [jsonInto(process.env.MPLP_TEST_RESULTS)] : []),
    ],
    pool: 'forks',
    maxWorkers: availableParallelism(),
    testTimeout: 60_000, // what hangs ends here; what is slow is no failure
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } }, // on a busy machine a second is nothing
    projects: [
      project('unit', { include: ['test/**/*.test.ts'], exclude: [KILLS, 'test/repository/**'] }),
      project('repository', { include: ['test/repository/**/*.test.ts'], exclude: [PACKAGE] }),
      // Processes die here, after the others have run: beside a hundred busy tests a slow one looks like a hung one.
      project('kill', { include: [KILLS], testTimeout: 120_000, sequence: { groupOrder: 1 } }),
      // Not part of `npm test`: it packs, installs and compiles, which takes a minute.
      project('package', { include: [PACKAGE], testTimeout: 240_000, sequence: { groupOrder: 2 } }),
    ],
  },
})

function project(name: string, test: ProjectConfig): TestProjectInlineConfiguration {
  return {
    extends: true,
    test: { name, ...test, exclude: [...configDefaults.exclude, ...(test.exclude ?? [])] },
  }
}

function jsonInto(outputFile: string): ['json', { outputFile: string }] {
  return ['json', { outputFile }]
}
