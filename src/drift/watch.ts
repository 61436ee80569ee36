import { type Dirent, type FSWatcher, type Stats, watch as watchNames } from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import type { Clock } from '../protocol/clock.ts'
import { allOf, descend } from '../protocol/each.ts'
import { Refused } from '../protocol/errors.ts'
import { counted } from '../protocol/shown.ts'
import { serially } from '../vsl/serially.ts'
import { disk, isGone, isUnreadable } from './root.ts'

export interface WatchOptions {
  readonly clock: Clock
  /** A path counts as settled when nothing happened to it for this long. */
  readonly settleMs: number
  /** Need a folder not be watched? */
  readonly isIgnored: (folder: string) => boolean
  /** Paths that something happened to and that are quiet now; a folder stands for everything in it, and '' for the root. */
  readonly onSettled: (paths: readonly string[]) => void
  /** The system cannot watch, or not all of it: from now on only scans find everything. */
  readonly onError: (error: unknown) => void
}

export interface Watching {
  /** Everything that happened so far has been told. */
  quiet(): Promise<void>
  /** Folders may be ignored that were not, or the other way round: from now on those are watched that need it. What happened meanwhile is not told. */
  anew(): Promise<void>
  close(): Promise<void>
}

/** A file that never comes to rest is told about all the same. */
const LONGEST_WAITS = 20

const FOLDERS_AT_ONCE = 16

/**
 * Tells which paths below a folder may have changed; what happened to them is for others to find out. Watches folders, not files: the system names
 * the file, and fifty thousand of them cost no more than their folders do.
 */
export async function watchFolder(root: string, options: WatchOptions): Promise<Watching> {
  const { clock, settleMs } = options
  const restless = new Map<string, { last: number; readonly first: number }>()
  const stop = new AbortController()
  /** Which folder it is that is watched under a name. */
  const watched = new Map<string, { readonly identity: string; readonly handle: FSWatcher }>()
  /** It may have been moved away or removed. */
  let isRootMoved = false
  const beyond = overLimit(root, options.onError)
  const inTurn = serially() // what is found while the watches are put up waits for that
  let settling: Promise<void> | undefined
  let told: Promise<void> = Promise.resolve()

  /** Half of a save is not drift, and neither is the moment between an editor's removing a file and its putting the new one in place. */
  async function settle(): Promise<void> {
    while (restless.size > 0) {
      const telling = tell()
      told = telling.catch(() => undefined) // closed
      await telling
    }
  }
  async function tell(): Promise<void> {
    await clock.sleep(settleMs / 2, stop.signal)
    const now = clock.now()
    // A clock that was set back would let them wait until it has caught up.
    const hasPassed = (ms: number, since: number) => Math.abs(now - since) >= ms
    const quiet = [...restless].filter(
      ([, { first, last }]) => hasPassed(settleMs, last) || hasPassed(settleMs * LONGEST_WAITS, first),
    )
    const paths = quiet.map(([path]) => path)
    for (const path of paths) restless.delete(path)
    if (paths.includes('')) isRootMoved = false
    const isNew = await keepUp(paths)
    beyond.tell()
    if (paths.length > 0) options.onSettled(isNew ? [...paths, ''] : paths)
  }

  const pathOf = (full: string) => relative(root, full).replaceAll(sep, '/')
  const happened = (full: string) => {
    const path = pathOf(full)
    if (stop.signal.aborted || (path === '' && !isRootMoved) || path === '..' || path.startsWith('../')) return
    const now = clock.now()
    const known = restless.get(path)
    if (known) known.last = now
    else restless.set(path, { first: now, last: now })
    settling ??= settle()
      .catch(() => undefined) // closed
      .finally(() => {
        settling = undefined
      })
  }

  /** Has the system tell us what happens in a folder and in those below it. */
  const attend = (folder: string): Promise<void> => descend([folder], FOLDERS_AT_ONCE, attendOne)
  /** The folders in it, read once it is watched: what comes later is told. */
  async function attendOne(full: string): Promise<readonly string[]> {
    if (stop.signal.aborted || watched.has(full) || (full !== root && options.isIgnored(pathOf(full)))) return []
    const stats = await disk.lstat(full).catch(() => undefined) // gone, or kept from us
    if (!stats?.isDirectory()) return []
    try {
      const handle = watchNames(full, (_, name) => stirs(full, name))
      handle.on('error', () => handle.close()) // as some systems tell of its end
      watched.set(full, { identity: identityOf(stats), handle })
    } catch (error) {
      if (!beyond.takes(error) && !isPassing(error)) options.onError(error)
    }
    const entries = await disk.readdir(full, { withFileTypes: true }).catch(() => [] as Dirent[])
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(full, name))
  }
  function stirs(folder: string, name: string | null): void {
    if (name === basename(folder)) {
      if (folder === root) isRootMoved = true // a folder tells of its own end under its own name
      happened(folder)
    }
    happened(name === null ? folder : join(folder, name))
  }
  function leave(gone: (folder: string) => boolean): void {
    for (const [folder, { handle }] of watched)
      if (gone(folder)) {
        handle.close()
        watched.delete(folder)
      }
  }

  const begin = async () => {
    beyond.clear()
    await attend(root)
    beyond.tell()
  }
  await inTurn(begin)
  const anew = () =>
    inTurn(async () => {
      leave(() => true)
      await begin()
    })

  /**
   * Folders that have come are watched before anybody is told of them, so that whoever looks then misses nothing. If one has been replaced, everything
   * is watched anew, true is returned, and what happened meanwhile is for a scan to find: the system goes on watching what a folder was.
   */
  async function keepUp(paths: readonly string[]): Promise<boolean> {
    const gone = new Set<string>()
    const stats = await allOf(paths, FOLDERS_AT_ONCE, (path) => disk.lstat(join(root, path)).catch(() => undefined))
    for (const [i, path] of paths.entries()) {
      const [folder, there] = [join(root, path), stats[i]]
      const known = watched.get(folder)
      if (!there?.isDirectory()) {
        if (path === '')
          options.onError(new Refused(`${root} is gone, and no longer watched`, 'bring it back and track it anew'))
        else if (known) gone.add(folder)
      } else if (!known) await inTurn(() => attend(folder))
      else if (known.identity !== identityOf(there)) {
        await anew()
        return true
      }
    }
    if (gone.size > 0) leave((folder) => isIn(folder, gone))
    return false
  }

  return {
    async quiet() {
      const before = new Set(restless.values()) // others may follow them without end
      do await told
      while (settling && [...restless.values()].some((one) => before.has(one)))
    },
    anew,
    async close() {
      stop.abort()
      await settling
      await inTurn(async () => leave(() => true))
    },
  }
}

/** The number alone may be given again at once. */
const identityOf = ({ ino, birthtimeMs }: Stats): string => `${ino} ${birthtimeMs}`

/** Gone again, or shut: a scan tells of those. */
const isPassing = (error: unknown): boolean => {
  const { code } = error as NodeJS.ErrnoException
  return isGone(code) || isUnreadable(code)
}

/** Is a path one of these folders, or below one? */
function isIn(path: string, folders: ReadonlySet<string>): boolean {
  for (let at = path; ; at = dirname(at)) {
    if (folders.has(at)) return true
    if (at === dirname(at)) return false
  }
}

/** Where the system says that it watches no more, and which of its settings that is. */
const LIMITS: { readonly [code: string]: string } = {
  ENOSPC: 'fs.inotify.max_user_watches',
  EMFILE: 'fs.inotify.max_user_instances and the number of open files',
}

/** The folders that the system has no watch left for, told of together: there may be as many as there are folders. */
function overLimit(root: string, onError: (error: unknown) => void) {
  const folders = new Set<string | undefined>()
  let last: NodeJS.ErrnoException | undefined
  let told = 0
  return {
    /** False when it is another error. */
    takes(error: unknown): boolean {
      const { code = '', path } = error as NodeJS.ErrnoException
      if (!Object.hasOwn(LIMITS, code)) return false
      folders.add(path)
      last = error as NodeJS.ErrnoException
      return true
    },
    /** Says how many there are, unless that was said. */
    tell(): void {
      const count = folders.size
      if (count === told) return
      told = count
      const what = `${counted(count, 'folder')} in ${root} cannot be watched: the system's limit is reached`
      onError(new Refused(what, `raise ${LIMITS[String(last?.code)]}, or scan every so often`, { cause: last }))
    },
    clear(): void {
      folders.clear()
      told = 0
    },
  }
}
