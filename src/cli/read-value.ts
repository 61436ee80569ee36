import { readFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { InvalidInput, MplpError } from '../protocol/errors.ts'

/** The value that a JSON, YAML, JavaScript or TypeScript file holds; of a module its default export, called if it is a function. Throws InvalidInput. */
export async function readValue(path: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw wrong(path, 'readable', cause.code === 'ENOENT' ? 'does not exist' : `cannot be read (${cause.code})`, cause)
  })
  if (!/\.(json|ya?ml|[cm]?[jt]s)$/.test(path))
    throw wrong(path, 'extension', 'is none of .json, .yaml, .js, .mjs, .ts')
  if (path.endsWith('.json')) return understood(path, () => JSON.parse(text.replace(/^\uFEFF/, ''))) // Windows' editors begin with a mark
  if (/\.ya?ml$/.test(path)) {
    const { parse } = await import('yaml')
    return understood(path, () => parse(text, { prettyErrors: false }))
  }
  const { default: value } = await imported(path)
  return typeof value === 'function' ? made(path, value as () => unknown) : value
}

function understood(path: string, parse: () => unknown): unknown {
  try {
    return parse()
  } catch (cause) {
    throw wrong(path, 'syntax', `cannot be understood: ${firstLine(cause)}`, cause)
  }
}

async function imported(path: string): Promise<{ default?: unknown }> {
  try {
    return await import(pathToFileURL(path).href).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ERR_UNKNOWN_FILE_EXTENSION') throw error
      return (await import('./import-typescript.ts')).importTypeScript(path)
    })
  } catch (cause) {
    if (cause instanceof MplpError) throw cause
    throw wrong(path, 'loadable', `cannot be loaded: ${firstLine(cause)}`, cause)
  }
}

async function made(path: string, make: () => unknown): Promise<unknown> {
  try {
    return await make()
  } catch (cause) {
    if (cause instanceof MplpError) throw cause
    throw wrong(path, 'loadable', `cannot be called: ${firstLine(cause)}`, cause)
  }
}

const wrong = (path: string, rule: string, message: string, cause?: unknown): InvalidInput =>
  new InvalidInput(path, [{ path: '', rule, message }], { cause })

/** What went wrong, without the rest of it. */
export const firstLine = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n', 1)[0]!
