import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { InvalidInput } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'

interface Loader {
  readonly name: string
  readonly load: (module: never, path: string) => Promise<{ default?: unknown }>
}

/** Who can read TypeScript better than Node can: what a project has for its own code serves its config as well. */
const LOADERS: readonly Loader[] = [
  {
    name: 'jiti',
    load: async ({ createJiti }: { createJiti: (from: string) => Importing }, path) => createJiti(path).import(path),
  },
  {
    name: 'tsx/esm/api',
    load: ({ tsImport }: { tsImport: (url: string, from: string) => Promise<{ default?: unknown }> }, path) =>
      tsImport(pathToFileURL(path).href, import.meta.url),
  },
]
interface Importing {
  import(path: string): Promise<{ default?: unknown }>
}

/**
 * As the project reads its own, whatever Node it runs on: by itself Node reads no TypeScript before 22.18, and later none that is more than types, nor a
 * module in a project that calls its files CommonJS. Throws InvalidInput with the remedy where nobody can.
 */
export async function importTypeScript(path: string): Promise<{ default?: unknown }> {
  for (const { name, load } of LOADERS) {
    const found = resolved(name, path) ?? resolved(name, import.meta.url)
    if (found !== undefined) return asImported(await load((await import(pathToFileURL(found).href)) as never, path))
  }
  return import(pathToFileURL(path).href).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ERR_UNKNOWN_FILE_EXTENSION') throw cause
    const message = `is TypeScript, which Node ${process.versions.node} cannot read: use Node 22.18 or later, npm install --save-dev tsx, or write JavaScript or JSON`
    throw new InvalidInput(path, [{ path: '', rule: 'loadable', message }], { cause })
  })
}

/** In a project that does not say that its modules are modules, a loader makes CommonJS of them: the export lies one deeper. */
function asImported(module: { default?: unknown }): { default?: unknown } {
  const inner = module.default
  return isObject(inner) && inner.__esModule === true ? { default: inner.default } : module
}

/** What a module at `from` would import by this name. Node tells another module only what it would require: the twin beside it is meant. */
function resolved(name: string, from: string): string | undefined {
  try {
    const required = createRequire(from).resolve(name)
    const twin = required.replace(/\.cjs$/, '.mjs')
    return existsSync(twin) ? twin : required
  } catch {
    return undefined // not installed there
  }
}
