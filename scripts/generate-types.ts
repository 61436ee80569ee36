import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { outputs } from './generate/outputs.ts'

// schemas/mplp -> src/protocol: types, compiled validators, and the schemas themselves as a module.
// With --check nothing is written; the exit code says whether what is there is up to date.

const root = join(import.meta.dirname, '..')

if (process.argv.includes('--check')) {
  const stale = [...outputs(root)].filter(([path, text]) => !existsSync(path) || readFileSync(path, 'utf8') !== text)
  for (const [path] of stale) console.error(`${relative(root, path)} is not what schemas/mplp says`)
  if (stale.length > 0) {
    console.error('run: npx tsx scripts/generate-types.ts')
    process.exitCode = 1
  }
} else {
  for (const [path, text] of outputs(root)) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
}
