import { access } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Config, configFromEnv, mergedConfig } from '../config.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { readValue } from './read-value.ts'

const NAMES = ['mplp.config.ts', 'mplp.config.js', 'mplp.config.mjs', 'mplp.config.json']

/** File, then environment, then flags; later ones win. */
export async function loadConfig(
  cwd: string,
  flags: { readonly config?: string; readonly store?: string },
): Promise<Config> {
  const file = flags.config === undefined ? await firstOf(cwd) : resolve(cwd, flags.config)
  const fromFile = file === undefined ? {} : await readValue(file)
  return mergedConfig(fromFile, fromEnv(), flags.store === undefined ? {} : { vsl: flags.store })
}

/** What is wrong in the environment is told by the variable's name. */
function fromEnv(): Config {
  try {
    return mergedConfig(configFromEnv())
  } catch (cause) {
    if (!(cause instanceof InvalidInput) || cause.subject === 'environment') throw cause // that has the name
    const named = (path: string) => path.replace(/^[^.[]+/, (key) => `MPLP_${key.toUpperCase()}`)
    const problems = cause.problems.map((problem) => ({ ...problem, path: named(problem.path) }))
    throw new InvalidInput('environment', problems, { cause })
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
