import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundle, published } from '../../scripts/bundle.ts'

/** Of the repository. */
export const root = join(import.meta.dirname, '../..')
const out = join(root, 'bench/dist')
const bundled = join(out, 'bundled')

/** Compiles the product and our contestants as they are published, once per run. Throws when they do not compile. */
export async function build(): Promise<void> {
  if (process.env.MPLP_BENCH_BUILT === '1') return
  const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'bench/tsconfig.build.json'], {
    cwd: root,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`the contestants do not compile:\n${stdout}`)
  const ours = published().map((path) => join('src', path))
  const contestants = readdirSync(join(out, 'bench/contestants')).map((name) => join('bench/contestants', name))
  const entries = [...ours, ...contestants, 'bench/drift.js'].filter((path) => existsSync(join(out, path)))
  rmSync(bundled, { recursive: true, force: true })
  await bundle(entries, out, bundled)
  process.env.MPLP_BENCH_BUILT = '1'
}

/** A file of ours that people import or run, or a contestant, as it is published. */
export const built = (source: string): string => join(bundled, source.replace(/\.ts$/, '.js'))

/** Where a contestant's code is, ours or a peer's. */
export function moduleOf(name: string): string {
  const own = built(`bench/contestants/${name}.ts`)
  if (existsSync(own)) return pathToFileURL(own).href
  if (!peersAreInstalled()) throw new Error('not installed: npm run bench:setup')
  return pathToFileURL(join(root, 'bench/peers', `${name}.js`)).href
}

export const peersAreInstalled = (): boolean => existsSync(join(root, 'bench/peers/node_modules'))
