import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidInput } from '../protocol/errors.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { jsonFault } from '../protocol/json-fault.ts'
import { isMissing } from '../protocol/missing-file.ts'
import { repeatedName } from './repeated-name.ts'
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
  for (const name of (await namesIn(folder, shown)).filter((name) => name.endsWith('.json')).sort()) {
    const text = (await readText(join(folder, name), `${shown}/${name}`)) ?? ''
    found[name.slice(0, -'.json'.length)] = parsedJson(text, `${shown}/${name}`)
  }
  return found
}

/** One JSON object per line; `undefined` when there is no such file. */
export async function readLines(path: string, shown: string): Promise<readonly JsonObject[] | undefined> {
  const text = await readText(path, shown)
  return text?.split('\n').flatMap((line, i) => (line.trim() === '' ? [] : [objectIn(line, shown, i)]))
}

function objectIn(line: string, shown: string, before: number): JsonObject {
  const value = parsedJson(line, shown, before)
  if (!isObject(value)) throw invalid(`${shown}:${before + 1}`, 'type', 'must be an object')
  return value as JsonObject
}

/** Every file below a folder as text, by its path; `undefined` when there is no such folder. */
export async function readTree(
  folder: string,
  shown = folder,
): Promise<{ readonly [path: string]: string } | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(unreadable(shown))
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

/** Of what is not there, nothing; of what cannot be read, why. */
const unreadable =
  (shown: string) =>
  (cause: NodeJS.ErrnoException): undefined => {
    if (!isMissing(cause)) throw invalid(shown, 'readable', `cannot be read (${cause.code})`, cause)
  }

async function readText(path: string, shown: string): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch(unreadable(shown))
  return text?.replace(/^\uFEFF/, '') // the protocol's own fixtures may begin with a byte order mark
}

/** `before` counts the lines above the text, where it is one of several. */
function parsedJson(text: string, shown: string, before?: number): Json {
  const at = (line: number) => `${shown}:${(before ?? 0) + line}`
  let value: Json
  try {
    value = JSON.parse(text)
  } catch (cause) {
    const { line, message } = jsonFault(text, cause)
    throw invalid(at(line), 'syntax', message, cause)
  }
  const name = repeatedName(text)
  if (name === undefined) return value
  throw invalid(before === undefined ? shown : at(1), 'syntax', `${name} stands twice in one object; leave one out`)
}

export const namesIn = async (folder: string, shown: string): Promise<readonly string[]> =>
  (await readdir(folder).catch(unreadable(shown))) ?? []
