import type { Dirent } from 'node:fs'
import { descend } from '../protocol/each.ts'
import { Refused } from '../protocol/errors.ts'
import { isUnchanged, type Observed } from './observe.ts'
import { disk, Elsewhere, isUnreadable, type Root, unlessElsewhere } from './root.ts'
import type { Select } from './select.ts'

export interface ScanOptions {
  readonly signal?: AbortSignal
  /** Called now and then, and at the end. */
  readonly onProgress?: (progress: ScanProgress) => void
  /** Read every file, whatever its times say; content that was too large to keep and no longer is, is kept. */
  readonly thorough?: boolean
  /** Only what lies in these folders. */
  readonly folders?: readonly string[]
}

export interface ScanProgress {
  readonly folders: number
  readonly files: number
  /** Files that may have changed, and have to be read. */
  readonly suspects: number
}

export interface Scan extends ScanProgress {
  /** What may differ from what is known: paths on the disk that are new or have other times, and known paths that were not met. */
  readonly paths: readonly string[]
  /** Folders, or their rules, and files that could not be read, and what no path can name (EILSEQ): of them and what is known below them nothing is said. */
  readonly unreadable: readonly { readonly path: string; readonly code: string }[]
}

/** What a scan holds the disk against. */
export interface Known {
  get(path: string): Observed | undefined
  /** Every path that is believed in or was met before. */
  paths(): Iterable<string>
}

const FOLDERS_AT_ONCE = 16
const TELL_EVERY = 1_000
/** Of what has a name that is not UTF-8. */
const NOT_TEXT = 'EILSEQ'

/**
 * Walks everything that belongs and says what to look at. Compares times only, reads no content, and does not follow links. Throws Refused when the
 * root itself is gone, or its rules cannot be read: that is not ten thousand deleted files, or new ones.
 */
export async function scan(root: Root, select: Select, known: Known, options: ScanOptions = {}): Promise<Scan> {
  const { signal, onProgress, thorough = false, folders: starts = [''] } = options
  const met = new Set<string>()
  const suspects: string[] = []
  const unreadable: { path: string; code: string }[] = []
  let [folders, files] = [0, 0]
  const progress = (): ScanProgress => ({ folders, files, suspects: suspects.length })

  async function visit(folder: string): Promise<readonly string[]> {
    signal?.throwIfAborted()
    const nameless: Dirent[] = []
    const entries = await root
      .list(folder, (entry) => nameless.push(entry))
      .catch((error: NodeJS.ErrnoException) => {
        if (folder === '')
          throw new Refused(`${root.path} is gone or cannot be read`, 'bring it back first', { cause: error })
        if (error instanceof Elsewhere) return [] as Dirent[]
        unreadable.push({ path: folder, code: error.code ?? error.message })
      })
    folders++
    if (!entries) return [] // neither are its rules known: those that were stay in force
    const names = new Set(entries.map((entry) => entry.name))
    const isRuled = await select
      .enter(folder, names, (path) => textAt(root, path))
      .then(
        () => true,
        (error) => passBy(folder, error), // without its rules nobody knows what belongs
      )
    if (!isRuled) return []
    const inside: string[] = []
    const here: string[] = []
    const pathOf = ({ name }: Dirent) => (folder === '' ? name : `${folder}/${name}`)
    for (const entry of entries)
      if (belongs(entry, pathOf(entry))) (entry.isDirectory() ? inside : here).push(pathOf(entry))
    for (const entry of nameless)
      if (belongs(entry, pathOf(entry))) unreadable.push({ path: pathOf(entry), code: NOT_TEXT })
    await Promise.all(here.map(meet))
    return inside
  }

  const belongs = (entry: Dirent, path: string): boolean =>
    entry.isDirectory() ? select.hasFolder(path) : (entry.isFile() || entry.isSymbolicLink()) && select.hasFile(path)

  function passBy(path: string, error: NodeJS.ErrnoException): false {
    if (!isUnreadable(error.code)) throw error
    if (path === '')
      throw new Refused(`the ignore rules in ${root.path} cannot be read`, MAKE_READABLE, { cause: error })
    unreadable.push({ path, code: error.code! })
    return false
  }

  async function meet(path: string): Promise<void> {
    const before = thorough ? undefined : known.get(path)
    if (before === undefined)
      suspects.push(path) // looked at in any case: its times would tell nothing
    else {
      const stats = await root.stat(path).catch((error) => passBy(path, error))
      if (stats === undefined) return // gone since its folder was read: as a path that is not met
      if (stats && !isUnchanged(stats, before)) suspects.push(path)
    }
    met.add(path)
    if (++files % TELL_EVERY === 0) onProgress?.(progress())
  }

  await descend(starts, FOLDERS_AT_ONCE, visit)
  signal?.throwIfAborted()
  const isIn = (path: string, folder: string) => folder === '' || path.startsWith(`${folder}/`)
  const isAsked = (path: string) =>
    starts.some((folder) => isIn(path, folder)) && !unreadable.some((folder) => isIn(path, folder.path))
  for (const path of known.paths()) if (!met.has(path) && select.hasFile(path) && isAsked(path)) suspects.push(path)
  onProgress?.(progress())
  return { ...progress(), paths: suspects.sort(), unreadable }
}

/** Of ignore rules: to hold every path against millions of lines takes hours, in which nothing else is done. */
const MOST_BYTES = 256 * 1024
export const MAKE_READABLE = `make them readable, and no larger than ${MOST_BYTES} bytes`

/** The text of a small file; `undefined` when it cannot be had. Throws EFBIG for a larger one. */
export async function textAt(root: Root, path: string): Promise<string | undefined> {
  const opened = await root.open(path).catch(unlessElsewhere) // a link, or gone
  if (!opened) return undefined
  const { fd, stats } = opened
  try {
    if (stats.size > MOST_BYTES) throw Object.assign(new Error(`${path} is too large`), { code: 'EFBIG' })
    const buffer = Buffer.alloc(stats.size)
    const { bytesRead } = await disk.read(fd, buffer, 0, stats.size, 0)
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    disk.close(fd)
  }
}
