import { access } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { type Config, checkConfig, configFromEnv, DEFAULTS, mergedConfig } from '../config.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { storePath } from '../vsl/vsl.ts'
import { readValue } from './read-value.ts'

const NAMES = ['mplp.config.ts', 'mplp.config.js', 'mplp.config.mjs', 'mplp.config.json']

/** File, then environment, then flags; later ones win. Paths in the file count from its folder, those in variables and flags from the working directory. */
export async function loadConfig(
  cwd: string,
  flags: { readonly config?: string; readonly store?: string },
): Promise<Config> {
  const file = flags.config === undefined ? await firstOf(cwd) : resolve(cwd, flags.config)
  const read = file === undefined ? {} : checked(file, await readValue(file))
  const fromFile = file === undefined || dirname(file) === resolve(cwd) ? read : rebased(read, dirname(file))
  return mergedConfig(fromFile, fromEnv(), flags.store === undefined ? {} : storeNamed('--store', flags.store))
}

/** The same from anywhere. The store too that holds where none is named: whoever names the file means its project. */
function rebased(config: Config, folder: string): Config {
  const { vsl = DEFAULTS.vsl, root, mcp } = config
  const path = storePath(vsl)
  const servers = Object.entries(mcp ?? {}).map(([name, server]) => [
    name,
    { ...server, ...(server.cwd !== undefined && { cwd: resolve(folder, server.cwd) }) },
  ])
  return {
    ...config,
    vsl: path === undefined ? vsl : `${vsl.slice(0, vsl.indexOf(':'))}:${resolve(folder, path)}`,
    ...(root !== undefined && { root: resolve(folder, root) }),
    ...(mcp && { mcp: Object.fromEntries(servers) }),
  }
}

/** What is wrong in the file is told by the file's name: it may have another than is expected. */
function checked(file: string, value: unknown): Config {
  try {
    return checkConfig(value)
  } catch (cause) {
    throw cause instanceof InvalidInput ? new InvalidInput(file, cause.problems, { cause }) : cause
  }
}

/** What is wrong in the environment is told by the variable's name. */
function fromEnv(): Config {
  try {
    return configFromEnv()
  } catch (cause) {
    if (!(cause instanceof InvalidInput) || cause.subject === 'environment') throw cause // that has the name
    const named = (path: string) => path.replace(/^[^.[]+/, (key) => `MPLP_${key.toUpperCase()}`)
    const problems = cause.problems.map((problem) => ({ ...problem, path: named(problem.path) }))
    throw new InvalidInput('environment', problems, { cause })
  }
}

/** The store that a word of the command line names. What is wrong with it is told by that word. */
export function storeNamed(by: string, vsl: string): Config {
  try {
    return checkConfig({ vsl })
  } catch (cause) {
    if (!(cause instanceof InvalidInput)) throw cause
    const problems = cause.problems.map((problem) => ({ ...problem, path: by }))
    throw new InvalidInput('the command line', problems, { cause })
  }
}

async function firstOf(cwd: string): Promise<string | undefined> {
  for (const name of NAMES) {
    const path = resolve(cwd, name)
    const isThere = await access(path).then(
      () => true,
      () => false, // the next name is tried
    )
    if (isThere) return path
  }
  return undefined
}
