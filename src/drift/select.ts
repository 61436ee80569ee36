import ignore, { type Ignore } from 'ignore'
import picomatch from 'picomatch'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import type { Field } from '../protocol/fields.ts'
import { A_PATTERN } from '../protocol/path-pattern.ts'
import { problem } from '../protocol/problem.ts'

export interface Selection {
  /** Glob patterns of what belongs; everything when absent. */
  readonly include?: readonly string[]
  /** Glob patterns of what does not, every `node_modules` when absent; a folder that matches is not entered. */
  readonly exclude?: readonly string[]
  /** Names of files whose lines say, as git's do, what to leave alone: `.gitignore` and `.mplpignore`, the later ones overruling. */
  readonly ignoreFiles?: readonly string[]
}

/** Which paths belong to a context. */
export interface Select {
  /** Is this the name of a file that holds rules? */
  isRules(path: string): boolean
  /** Takes in the rules of a folder; `read` gives a file's text. Those of the folders above it have to be known. */
  enter(folder: string, names: ReadonlySet<string>, read: (path: string) => Promise<string | undefined>): Promise<void>
  isEntered(folder: string): boolean
  /** Could something below this folder belong? */
  hasFolder(folder: string): boolean
  hasFile(path: string): boolean
  /** Do the ignore files forbid it? That binds writers too. */
  isIgnored(path: string): boolean
}

/** Ours: the store's folder, and what a write is made of before it has its name. */
const TEMPORARY = /^\.mplp-[\w-]+\.tmp$/
const OURS = (name: string): boolean => name === '.git' || name === '.mplp' || TEMPORARY.test(name)

/** Packages that somebody installed: they are nobody's work, and more than all the rest. */
export const EXCLUDED = ['**/node_modules']

/** A name that starts with a dot is a name like any other, and so is one with a line end in it. */
export const GLOB = { dot: true, flags: 's' } as const

/** It is looked for in every folder. */
const A_NAME: Field = {
  says: 'a name of files, without folders',
  fits: (value) => A_PATTERN.fits(value) && !/[/\\]/.test(value as string),
}

export function selectFiles(selection: Selection = {}): Select {
  const { include = ['**'], exclude = EXCLUDED, ignoreFiles = ['.gitignore', '.mplpignore'] } = selection
  checkPatterns({ include, exclude, ignoreFiles })
  const included = picomatch([...include], GLOB)
  const excluded = picomatch([...exclude], GLOB)
  const rules = new Map<string, Ignore | undefined>()
  const folders = new Map<string, boolean>()

  /** The nearest folder whose rules say something decides. */
  function isRuledOut(path: string, isFolder: boolean): boolean {
    for (let folder = parentOf(path); ; folder = parentOf(folder)) {
      const found = rules
        .get(folder)
        ?.test((folder === '' ? path : path.slice(folder.length + 1)) + (isFolder ? '/' : ''))
      if (found?.ignored) return true
      if (found?.unignored || folder === '') return false
    }
  }
  /** A folder that is ruled out takes everything below with it, whatever rules lie there. */
  function isOpen(folder: string): boolean {
    if (folder === '') return true
    const known = folders.get(folder)
    if (known !== undefined) return known
    const open = isOpen(parentOf(folder)) && !OURS(nameOf(folder)) && !isRuledOut(folder, true)
    if (rules.has(parentOf(folder))) folders.set(folder, open) // before that it was a guess
    return open
  }
  const isIgnored = (path: string) => !isOpen(parentOf(path)) || OURS(nameOf(path)) || isRuledOut(path, false)

  return {
    isRules: (path) => ignoreFiles.includes(nameOf(path)),
    isEntered: (folder) => rules.has(folder),
    async enter(folder, names, read) {
      const texts = await Promise.all(
        ignoreFiles.filter((name) => names.has(name)).map((name) => read(folder === '' ? name : `${folder}/${name}`)),
      )
      const found = texts.filter((text) => text !== undefined)
      if (rules.has(folder)) folders.clear() // they were judged by rules that may have gone
      rules.set(folder, found.length === 0 ? undefined : ignore({ ignorecase: IGNORE_CASE }).add(found.join('\n')))
    },
    hasFolder: (folder) => isOpen(folder) && (folder === '' || !excluded(folder)),
    hasFile: (path) =>
      included(path) && !excluded(path) && !isIgnored(path) && !foldersOf(path).some((at) => excluded(at)),
    isIgnored,
  }
}

/** Is a path what one of the patterns says, or below it? In whatever case, since some disks do not tell them apart. */
export function covering(patterns: readonly string[]): (path: string) => boolean {
  const matches = picomatch([...patterns], { ...GLOB, flags: 'si' })
  return (path) => matches(path) || foldersOf(path).some((folder) => matches(folder))
}

export const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')))
export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** The folders on the way to a path, the outermost first. */
export function foldersOf(path: string): readonly string[] {
  const folders: string[] = []
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) folders.push(path.slice(0, at))
  return folders
}

/** As git does it where names that differ in case only are one name. */
const IGNORE_CASE = process.platform === 'win32' || process.platform === 'darwin'

function checkPatterns(given: { readonly [option: string]: readonly string[] }): void {
  const problems: Problem[] = []
  for (const [option, patterns] of Object.entries(given)) {
    const { says, fits } = option === 'ignoreFiles' ? A_NAME : A_PATTERN
    if (!Array.isArray(patterns)) problems.push(problem(option, 'type', 'must be a list', patterns))
    else
      for (const [i, pattern] of patterns.entries())
        if (!fits(pattern)) problems.push(problem(`${option}[${i}]`, 'pattern', `must be ${says}`, pattern))
  }
  if (problems.length > 0) throw new InvalidInput('selection', problems)
}
