import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildSync } from 'esbuild'

const root = join(import.meta.dirname, '..')

/**
 * Puts the compiled modules of a folder together, as they are published: what is imported by name stays where it was, what several share lies in
 * `shared`, once. Three hundred modules take twice as long to import as a dozen.
 */
export function bundle(entries: readonly string[], from: string, to: string): void {
  buildSync({
    absWorkingDir: from,
    entryPoints: entries.map((entry) => join(from, entry)),
    outbase: from,
    outdir: to,
    chunkNames: 'shared/[name]-[hash]', // as deep as the modules were: what they find by a path of their own they still find
    bundle: true,
    splitting: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'warning',
  })
}

/** What package.json lets people import and run, as files of the folder it is built into. */
export function published(): readonly string[] {
  const { exports, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  const modules = Object.values(exports).flatMap((target) => (typeof target === 'string' ? [] : [target.default]))
  return [...modules, ...Object.values(bin)].map((path) => path.replace('./dist/', ''))
}

interface Manifest {
  readonly exports: { readonly [name: string]: string | { readonly default: string } }
  readonly bin: { readonly [name: string]: string }
}
