import { spawnSync } from 'node:child_process'
import { delimiter, join } from 'node:path'

// Everything that can be said about the repository without running it. All of it, so that one round of repairs is enough.

const root = join(import.meta.dirname, '..')
const steps: readonly (readonly [name: string, command: string, ...args: string[]])[] = [
  ['format and lint', 'biome', 'check', '--error-on-warnings', '.'],
  ['types', 'tsc', '-p', '.'],
  ['generated files', 'tsx', 'scripts/generate-types.ts', '--check'],
  ['walls and manifest', 'vitest', 'run', 'test/repository/walls.test.ts', 'test/repository/manifest.test.ts'],
  ['unused exports and dependencies', 'knip'],
]

const { MPLP_TEST_RESULTS: _, ...env } = process.env // these tests are counted where all of them run
env.PATH = [join(root, 'node_modules/.bin'), env.PATH].join(delimiter)
const failed = steps.filter(
  ([, command, ...args]) => spawnSync(command, args, { cwd: root, env, stdio: 'inherit' }).status !== 0,
)
for (const [name, ...command] of failed) console.error(`failed: ${name} (${command.join(' ')})`)
process.exitCode = failed.length === 0 ? 0 : 1
