import { readFileSync } from 'node:fs'
import { basename, isAbsolute, join } from 'node:path'
import { rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')

/**
 * One file for each of these, with all it stands on that none above it has, so that the light ones do not bring the heavy ones with them: `mplp`
 * begins with the first. What is imported only when it is needed stays apart.
 */
const SHARED = [
  'protocol/errors',
  'protocol/version',
  'vsl/vsl',
  'ael/ael',
  'bus/bus',
  'protocol/protocol',
  'psg/psg',
  'orchestrator/orchestrator',
]

/**
 * Puts the compiled modules of a folder together, as they are published: what is imported by name stays where it was, what several share lies in
 * `shared`, once. Three hundred modules take twice as long to import as a dozen.
 */
export async function bundle(entries: readonly string[], from: string, to: string): Promise<void> {
  const bundled = await rolldown({
    cwd: from,
    input: Object.fromEntries(entries.map((entry) => [entry.replace(/\.js$/, ''), join(from, entry)])),
    external: (id) => !id.startsWith('.') && !isAbsolute(id),
    platform: 'node',
  })
  await bundled.write({
    dir: to,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'shared/[name]-[hash].js', // as deep as the modules were: what they find by a path of their own they still find
    codeSplitting: {
      groups: SHARED.map((module) => ({
        name: basename(module),
        test: (id) => id.endsWith(join('/', `${module}.js`)),
      })),
    },
  })
  await bundled.close()
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
