import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidInput } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import { jsonFault } from '../protocol/json-fault.ts'
import { isMissing, unlessMissing } from '../protocol/missing-file.ts'
import { YamlFault, yamlIn } from './yaml-text.ts'

/** A YAML file that was read: what it holds, and on which line each part of it stands. */
export interface Source {
  readonly value: unknown
  /** `script.yaml:7`, for what a path leads to, or the nearest thing around it. */
  at(...path: readonly (string | number)[]): string
}

/** `undefined` when there is no such file. Throws InvalidInput with the line for what is no YAML. */
export async function readYaml(path: string, shown: string): Promise<Source | undefined> {
  const text = await readText(path, shown)
  if (text === undefined) return undefined
  try {
    const { value, lineOf } = yamlIn(text)
    return { value, at: (...path) => [shown, lineOf(path)].filter((part) => part !== undefined).join(':') }
  } catch (cause) {
    if (!(cause instanceof YamlFault)) throw cause
    throw invalid(`${shown}:${cause.line}`, 'syntax', `${cause.message} (column ${cause.column})`, cause)
  }
}

/** Every `.json` of a folder by its name without ending; none when there is no such folder. */
export async function readJsonFolder(folder: string, shown: string): Promise<{ readonly [name: string]: Json }> {
  const found: { [name: string]: Json } = {}
  for (const name of (await namesIn(folder)).filter((name) => name.endsWith('.json')).sort()) {
    const text = (await readText(join(folder, name), `${shown}/${name}`)) ?? ''
    found[name.slice(0, -'.json'.length)] = parsedJson(text, `${shown}/${name}`)
  }
  return found
}

/** One JSON value per line; `undefined` when there is no such file. */
export async function readLines(path: string, shown: string): Promise<readonly Json[] | undefined> {
  const text = await readText(path, shown)
  return text?.split('\n').flatMap((line, i) => (line.trim() === '' ? [] : [parsedJson(line, shown, i)]))
}

/** Every file below a folder as text, by its path; `undefined` when there is no such folder. */
export async function readTree(folder: string): Promise<{ readonly [path: string]: string } | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(unlessMissing)
  if (!entries) return undefined
  const found: { [path: string]: string } = {}
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    found[path.slice(folder.length + 1)] = await readFile(path, 'utf8')
  }
  return found
}

export const invalid = (file: string, rule: string, message: string, cause?: unknown): InvalidInput =>
  new InvalidInput('golden flow', [{ path: file, rule, message }], { cause })

async function readText(path: string, shown: string): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (isMissing(cause)) return undefined
    throw invalid(shown, 'readable', `cannot be read (${cause.code})`, cause)
  })
  return text?.replace(/^\uFEFF/, '') // the protocol's own fixtures may begin with a byte order mark
}

function parsedJson(text: string, shown: string, before = 0): Json {
  try {
    return JSON.parse(text) as Json
  } catch (cause) {
    const { line, message } = jsonFault(text, cause)
    throw invalid(`${shown}:${before + line}`, 'syntax', message, cause)
  }
}

export const namesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder).catch(unlessMissing)) ?? []
