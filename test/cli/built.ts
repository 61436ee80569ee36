import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { tempFolder } from '../support/temp-folder.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface Built {
  /** `dist/cli/main.js`, for plain Node. */
  readonly main: string
  /** A new folder in which `mplp-runtime` is installed, and whatever else of ours is named. */
  project(...packages: readonly string[]): string
}

/** The package as it is published, with nothing beside it but what it depends on, in a folder that goes away with the test file. */
export function built(): Built {
  const modules = join(tempFolder(), 'node_modules')
  const home = join(modules, 'mplp-runtime')
  mkdirSync(home, { recursive: true })
  copyFileSync(join(ROOT, 'package.json'), join(home, 'package.json'))
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { dependencies: object }
  for (const name of Object.keys(dependencies)) install(modules, name)
  const out = spawnSync(process.execPath, ['--import', 'tsx', 'scripts/build.ts', join(home, 'dist')], { cwd: ROOT })
  const main = join(home, 'dist/cli/main.js')
  if (!existsSync(main)) throw new Error(`nothing was built: ${out.stdout}${out.stderr}`)
  return {
    main,
    project(...packages) {
      const folder = tempFolder()
      mkdirSync(join(folder, 'node_modules'))
      symlinkSync(home, join(folder, 'node_modules/mplp-runtime'))
      for (const name of packages) install(join(folder, 'node_modules'), name)
      return folder
    },
  }
}

function install(modules: string, name: string): void {
  mkdirSync(dirname(join(modules, name)), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
}
