import { lstat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { type Config, checkConfig, configFromEnv, DEFAULTS, mergedConfig } from '../config.ts'
import { CONFIG_FILES } from '../config-check.ts'
import { retold } from '../protocol/retold.ts'
import { storePath } from '../vsl/vsl.ts'
import { readValue } from './read-value.ts'

/** File, then environment, then flags; later ones win. Paths in the file count from its folder, those in variables and flags from the working directory. */
export async function loadConfig(
  cwd: string,
  flags: { readonly config?: string; readonly store?: string },
): Promise<Config> {
  const file = flags.config === undefined ? await firstOf(cwd) : resolve(cwd, flags.config)
  const read = file === undefined ? {} : checked(file, await readValue(file))
  const fromFile = file === undefined || dirname(file) === resolve(cwd) ? read : rebased(read, dirname(file))
  return mergedConfig(fromFile, configFromEnv(), flags.store === undefined ? {} : storeNamed('--store', flags.store))
}

/** The same from anywhere. The store too that holds where none is named: whoever names the file means its project. */
function rebased(config: Config, folder: string): Config {
  const { vsl = DEFAULTS.vsl, root, mcp } = config
  const path = typeof vsl === 'string' ? storePath(vsl) : undefined
  const servers = Object.entries(mcp ?? {}).map(([name, server]) => [
    name,
    { ...server, ...(server.cwd !== undefined && { cwd: resolve(folder, server.cwd) }) },
  ])
  return {
    ...config,
    vsl: path === undefined ? vsl : `${String(vsl).split(':', 1)[0]}:${resolve(folder, path)}`,
    ...(root !== undefined && { root: resolve(folder, root) }),
    ...(mcp && { mcp: Object.fromEntries(servers) }),
  }
}

/** What is wrong in the file is told by the file's name: it may have another than is expected. */
const checked = (file: string, value: unknown): Config =>
  retold(
    file,
    (path) => path,
    () => checkConfig(value),
  )

/** The store that a word of the command line names. What is wrong with it is told by that word. */
export const storeNamed = (by: string, vsl: string): { readonly vsl: string } => {
  retold(
    'the command line',
    () => by,
    () => checkConfig({ vsl }),
  )
  return { vsl }
}

async function firstOf(cwd: string): Promise<string | undefined> {
  for (const name of CONFIG_FILES) {
    const path = resolve(cwd, name)
    // What cannot be looked at, or leads to nothing, is there: to go on as if it were not would be to work on another store.
    const isThere = await lstat(path).then(
      () => true,
      ({ code }: NodeJS.ErrnoException) => code !== 'ENOENT',
    )
    if (isThere) return path
  }
  return undefined
}
