import { isUtf8 } from 'node:buffer'
import { constants, type Dirent } from 'node:fs'
import { lstat, open, readdir } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { InvalidInput } from '../protocol/errors.ts'
import { text } from '../protocol/fields.ts'
import type { Json } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import { repeatedName } from './repeated-name.ts'

/** Tells what is wrong, by which rule, and where. */
export type Found = (rule: string, path: string, message: string) => void

/** The files of a pack by their path in it. */
export type PackFiles = ReadonlyMap<string, Buffer>

export const TIMELINE = 'timeline/events.ndjson'
/** Lies beside the pack. */
export const POINTERS = 'evidence_pointers.json'
/** What the checksums themselves lie in: nothing else of a pack is without one. */
export const INTEGRITY: ReadonlySet<string> = new Set(['integrity/sha256sums.txt', 'integrity/pack.sha256'])
export const MOST_FILES = 1_000
const MOST_FOLDERS = 1_000
export const MOST_BYTES = 50 * 1024 * 1024
const EXTENSIONS: ReadonlySet<string> = new Set(['.json', '.ndjson', '.yaml', '.yml', '.txt', '.sha256'])

/** Plain files only, within the limits of the contract; a link is a finding and is not followed, and neither is anything that became one meanwhile. */
export async function readPack(root: string, found: Found): Promise<PackFiles> {
  const files = new Map<string, Buffer>()
  const folders = ['']
  let left = MOST_BYTES
  for (let i = 0; i < folders.length; i++) {
    for (const entry of await entriesOf(root, folders[i]!, found)) {
      const path = folders[i] === '' ? entry.name : `${folders[i]}/${entry.name}`
      if (entry.isDirectory()) {
        if (folders.length >= MOST_FOLDERS) {
          found('layout.folders', '.', `holds more than ${MOST_FOLDERS} folders`)
          return files
        }
        folders.push(path)
        continue
      }
      if (!entry.isFile()) {
        found('layout.plain', path, 'is neither a file nor a folder')
        continue
      }
      checkName(path, found)
      if (files.size >= MOST_FILES) {
        found('layout.files', '.', `holds more than ${MOST_FILES} files`)
        return files
      }
      const bytes = await readPlain(join(root, path), left).catch((error: Error) => error)
      if (bytes === 'too large') {
        found('layout.size', path, `comes to more than ${MOST_BYTES} bytes with the files before it`)
        return files
      }
      if (bytes instanceof Error) found('layout.readable', path, `cannot be read: ${reasonOf(bytes)}`)
      else {
        left -= bytes.length
        files.set(path, bytes)
      }
    }
  }
  return files
}

/** A file of the pack as JSON; that it is missing, or is none, is a finding. */
export function jsonIn(files: PackFiles, path: string, found: Found): Json | undefined {
  const bytes = files.get(path)
  if (!bytes) {
    found('layout.missing', path, 'is missing')
    return undefined
  }
  const value = parsed(bytes.toString('utf8'))
  if (value === undefined) found('layout.json', path, 'is not JSON')
  return value
}

/** Every text of the pack that is JSON, whatever it is for, is one that all read alike: UTF-8, and in no object a name twice. */
export function checkAllTexts(files: PackFiles, found: Found): void {
  for (const [path, bytes] of files) {
    if (/json$/.test(path) && !isUtf8(bytes)) found('layout.utf8', path, 'is not UTF-8: readers would not agree')
    const text = bytes.toString('utf8')
    if (path.endsWith('.ndjson')) checkLines(text, path, found)
    else if (path.endsWith('.json')) checkNames(text, path, found)
  }
}

/** To find out that a text is no JSON takes longer than to read it. */
const MOST_BROKEN = 1_000

function checkLines(text: string, path: string, found: Found): void {
  let broken = 0
  for (const [line, at] of linesIn(text)) {
    if (checkNames(line, `${path}:${at}`, found)) continue
    if (++broken > MOST_BROKEN) return found('layout.json', path, `is not JSON in more than ${MOST_BROKEN} lines`)
  }
}

/** A text that is no JSON is another's finding: of one that seems to have a name twice it is told by `false`. */
export function checkNames(text: string, at: string, found: Found): boolean {
  const name = repeatedName(text)
  if (name === undefined) return true
  const isJson = parsed(text) !== undefined
  if (isJson)
    found('layout.twice', at, `has an object with two values for ${name.slice(0, 80)}: readers would not agree`)
  return isJson
}

/** Every line of the timeline that holds something, as far as it is JSON, with its number. */
export function* timelineIn(files: PackFiles): Iterable<readonly [event: Json | undefined, number: number]> {
  for (const [line, number] of linesIn(files.get(TIMELINE)?.toString('utf8') ?? ''))
    if (line.trim() !== '') yield [parsed(line), number]
}

/** The lines that are not empty, one after the other: there may be fifty million that are. */
export function* linesIn(text: string): Iterable<readonly [line: string, number: number]> {
  let number = 1
  for (let at = 0; at < text.length; number++) {
    const end = text.indexOf('\n', at)
    const next = end < 0 ? text.length : end
    if (next > at) yield [text.slice(at, next), number]
    at = next + 1
  }
}

export function parsed(line: string): Json | undefined {
  try {
    return JSON.parse(line) as Json
  } catch {
    return undefined // the caller says which file, and that it is not JSON
  }
}

export const isFolder = async (path: string): Promise<boolean> =>
  lstat(path).then(
    (stat) => stat.isDirectory(),
    () => false,
  )

export const isThere = async (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  )

/** Throws InvalidInput for what names no folder. */
export function checkFolder(folder: unknown): void {
  if (!text.fits(folder)) throw new InvalidInput('folder', [problem('', 'type', `must be ${text.says}`, folder)])
}

/** One file, if it is one and no larger than that. */
export async function readPlain(path: string, most: number): Promise<Buffer | 'too large'> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new Error('is no plain file')
    if (stat.size > most) return 'too large'
    const bytes = Buffer.alloc(stat.size)
    let size = 0
    while (size < bytes.length) {
      const { bytesRead } = await file.read(bytes, size, bytes.length - size)
      if (bytesRead === 0) break // it has become shorter
      size += bytesRead
    }
    return bytes.subarray(0, size)
  } finally {
    await file.close()
  }
}

async function entriesOf(root: string, folder: string, found: Found): Promise<readonly Dirent[]> {
  try {
    const entries = await readdir(join(root, folder), { withFileTypes: true })
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  } catch (error) {
    found('layout.readable', folder || '.', `cannot be read: ${reasonOf(error as Error)}`)
    return []
  }
}

function checkName(path: string, found: Found): void {
  if (path.includes('\\') || path.includes('..'))
    found('layout.name', path, 'has a name that could lead out of the pack')
  if (!EXTENSIONS.has(extname(path))) found('layout.extension', path, 'has an extension that packs do not have')
}

/** Without the path, which is told beside it and may lie outside of the pack. */
const reasonOf = (error: NodeJS.ErrnoException): string => error.code ?? error.message
