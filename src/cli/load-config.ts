import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Config, configFromEnv, mergedConfig } from '../config.ts'
import { InvalidInput } from '../protocol/errors.ts'

const NAMES = ['mplp.config.ts', 'mplp.config.js', 'mplp.config.mjs', 'mplp.config.json']

/** File, then environment, then flags; later ones win. */
export async function loadConfig(
  cwd: string,
  flags: { readonly config?: string; readonly store?: string },
): Promise<Config> {
  const file = flags.config === undefined ? await firstOf(cwd) : resolve(cwd, flags.config)
  const fromFile = file === undefined ? {} : await readConfig(file)
  return mergedConfig(fromFile, configFromEnv(), flags.store === undefined ? {} : { vsl: flags.store })
}

async function firstOf(cwd: string): Promise<string | undefined> {
  for (const name of NAMES) {
    const path = resolve(cwd, name)
    if (
      await readFile(path).then(
        () => true,
        () => false,
      )
    )
      return path
  }
  return undefined
}

/** The value that a JSON, YAML, JavaScript or TypeScript file holds. */
export async function readValue(path: string): Promise<unknown> {
  if (/\.(json|ya?ml)$/.test(path)) {
    const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
      throw new InvalidInput(
        path,
        [
          {
            path: '',
            rule: 'readable',
            message: cause.code === 'ENOENT' ? 'does not exist' : `cannot be read (${cause.code})`,
          },
        ],
        { cause },
      )
    })
    try {
      return path.endsWith('.json') ? JSON.parse(text) : (await import('yaml')).parse(text)
    } catch (cause) {
      throw new InvalidInput(
        path,
        [{ path: '', rule: 'syntax', message: `cannot be understood: ${(cause as Error).message}` }],
        { cause },
      )
    }
  }
  const module = await imported(path)
  return typeof module.default === 'function' ? module.default() : module.default
}

async function readConfig(path: string): Promise<unknown> {
  return readValue(path)
}

/** TypeScript needs a loader below Node 22.18: Node says so itself, and we say what to do. */
async function imported(path: string): Promise<{ default?: unknown }> {
  try {
    return await import(pathToFileURL(path).href)
  } catch (cause) {
    const error = cause as NodeJS.ErrnoException
    const message =
      error.code === 'ERR_UNKNOWN_FILE_EXTENSION'
        ? 'is TypeScript, which this Node cannot read by itself: start with NODE_OPTIONS="--import tsx", or write JavaScript or JSON'
        : error.code === 'ERR_MODULE_NOT_FOUND'
          ? 'does not exist, or imports something that does not'
          : `cannot be loaded: ${error.message}`
    throw new InvalidInput(path, [{ path: '', rule: 'loadable', message }], { cause })
  }
}
