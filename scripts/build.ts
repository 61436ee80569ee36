import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { bundle, published } from './bundle.ts'

// src -> dist, and test/contracts -> dist/testing. The suites are published because whoever writes a backend, transport
// or adapter of their own proves it with them; they live with the tests, so that nothing in src can import them.
// `tsx scripts/build.ts <folder>` builds into another folder than dist.

const root = join(import.meta.dirname, '..')
const dist = resolve(process.argv[2] ?? join(root, 'dist'))
const modules = join(dist, '.modules')
const compile = (project: string, outDir: string) =>
  execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', project, '--outDir', outDir], {
    cwd: root,
    stdio: 'inherit',
  })

rmSync(dist, { recursive: true, force: true })
compile('tsconfig.build.json', modules)
compile('tsconfig.testing.json', join(dist, '.testing'))

const compiled = join(dist, '.testing/test/contracts')
for (const entry of readdirSync(compiled, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue
  const path = join(entry.parentPath, entry.name)
  const target = join(modules, 'testing', relative(compiled, path))
  mkdirSync(dirname(target), { recursive: true })
  // What was src/vsl two folders up is now dist/vsl one folder up.
  writeFileSync(target, readFileSync(path, 'utf8').replaceAll('../src/', ''))
}

await bundle(published(), modules, dist)
cpSync(modules, dist, { recursive: true, filter: (path) => !path.endsWith('.js') }) // the types stay as they are
for (const temporary of [modules, join(dist, '.testing')]) rmSync(temporary, { recursive: true })
