import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { InvalidInput, MplpError } from '../protocol/errors.ts'
import { jsonFault } from '../protocol/json-fault.ts'
import { messageOf } from '../protocol/thrown.ts'

/** The value that a JSON, YAML, JavaScript or TypeScript file holds; of a module its default export, called if it is a function. Throws InvalidInput. */
export async function readValue(path: string): Promise<unknown> {
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) => {
    throw wrong(path, 'readable', cause.code === 'ENOENT' ? 'does not exist' : `cannot be read (${cause.code})`, cause)
  })
  if (!/\.(json|ya?ml|[cm]?[jt]s)$/.test(path))
    throw wrong(path, 'extension', 'is none of .json, .yaml, .js, .mjs, .ts')
  if (!isUtf8(bytes)) throw wrong(path, 'utf8', 'is not UTF-8; save it so') // as older PowerShells write; what is not would be changed in silence
  const text = bytes.toString()
  if (path.endsWith('.json')) return parsedJson(path, text.replace(/^\uFEFF/, '')) // Windows' editors begin with a mark
  if (/\.ya?ml$/.test(path)) return parsedYaml(path, text)
  const { default: value } = await imported(path)
  if (value === undefined) throw wrong(path, 'loadable', 'exports nothing by default; write export default before it')
  return typeof value === 'function' ? made(path, value as () => unknown) : value
}

function parsedJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const { line, message } = jsonFault(text, cause)
    throw wrong(path, 'syntax', `cannot be understood: ${message} at line ${line}`, cause)
  }
}

async function parsedYaml(file: string, text: string): Promise<unknown> {
  const { YamlFault, yamlIn } = await import('../golden/yaml-text.ts')
  try {
    return yamlIn(text, { stringKeys: true }).value // a step called 1.10 is not one called 1.1
  } catch (cause) {
    if (!(cause instanceof YamlFault)) throw cause
    const { path, message, line, column } = cause
    const says = `cannot be understood at line ${line}, column ${column}: ${message}`
    throw new InvalidInput(file, [{ path, rule: 'syntax', message: says }], { cause })
  }
}

async function imported(path: string): Promise<{ default?: unknown }> {
  try {
    if (/ts$/.test(path)) return await (await import('./import-typescript.ts')).importTypeScript(path)
    return await import(pathToFileURL(path).href)
  } catch (cause) {
    if (cause instanceof MplpError) throw cause
    throw wrong(path, 'loadable', `cannot be loaded: ${firstLine(cause)}${takenForCommonJs(path, cause)}`, cause)
  }
}

/** What helps where Node reads a module as CommonJS, as it does in a project that `npm init` has made. */
function takenForCommonJs(path: string, cause: unknown): string {
  const isTaken = cause instanceof SyntaxError && /outside a module|token 'export'/.test(cause.message)
  if (!isTaken) return ''
  const other = path.endsWith('ts') ? 'npm install --save-dev tsx' : 'end its name in .mjs'
  return `; Node takes it for CommonJS: ${other}, or write "type": "module" into package.json`
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
const firstLine = (error: unknown): string => messageOf(error).split('\n', 1)[0]!
