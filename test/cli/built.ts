import { spawnSync } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface Built {
  /** `dist/cli/main.js`, for plain Node. */
  readonly main: string
  /** A new folder in which `mplp-runtime` can be imported, and whatever else of ours is named. */
  project(...packages: readonly string[]): string
  /** The same with nothing installed but the package and what it depends on; `dist/cli/main.js` of that copy. */
  bare(): { readonly folder: string; readonly main: string }
}

/** The package as it is published, compiled into a folder that goes away with the test file. Below node_modules, so that it finds what it depends on. */
export function built(): Built {
  const home = join(ROOT, 'node_modules/.cache', `mplp-built-${process.pid}`)
  mkdirSync(home, { recursive: true })
  afterAll(() => rmSync(home, { recursive: true, force: true }))
  copyFileSync(join(ROOT, 'package.json'), join(home, 'package.json'))
  const compiler = join(ROOT, 'node_modules/.bin/tsc')
  const out = spawnSync(compiler, ['-p', 'tsconfig.build.json', '--outDir', join(home, 'dist')], { cwd: ROOT })
  const main = join(home, 'dist/cli/main.js')
  if (!existsSync(main)) throw new Error(`nothing was compiled: ${out.stdout}`)
  return {
    main,
    project(...packages) {
      const folder = tempFolder()
      mkdirSync(join(folder, 'node_modules'))
      symlinkSync(home, join(folder, 'node_modules/mplp-runtime'))
      for (const name of packages) symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
      return folder
    },
    bare() {
      const folder = tempFolder()
      const copy = join(folder, 'node_modules/mplp-runtime')
      cpSync(home, copy, { recursive: true })
      const { dependencies } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as { dependencies: object }
      for (const name of Object.keys(dependencies)) {
        mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true })
        symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
      }
      return { folder, main: join(copy, 'dist/cli/main.js') }
    },
  }
}
