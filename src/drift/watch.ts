import type { Stats } from 'node:fs'
import { basename, join, relative, sep } from 'node:path'
import type { FSWatcher } from 'chokidar'
import type { Clock } from '../protocol/clock.ts'
import { Refused } from '../protocol/errors.ts'
import { serially } from '../vsl/serially.ts'
import { disk } from './root.ts'

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

/**
 * Tells which paths below a folder may have changed; what happened to them is for others to find out. Watches folders, not files: the system names
 * the file, and fifty thousand of them cost no more than their folders do.
 */
export async function watchFolder(root: string, options: WatchOptions): Promise<Watching> {
  const { clock, settleMs } = options
  const restless = new Map<string, { last: number; readonly first: number }>()
  const stop = new AbortController()
  /** Which folder it is that is watched under a name. */
  const watched = new Map<string, string>()
  /** Folders that may have been moved away or removed: the system goes on watching what they were, whatever has their names now. */
  const moved = new Set<string>()
  const beyond = overLimit(root, options.onError)
  let settling: Promise<void> | undefined

  /** Half of a save is not drift, and neither is the moment between an editor's removing a file and its putting the new one in place. */
  async function settle(): Promise<void> {
    while (restless.size > 0) {
      await clock.sleep(settleMs / 2, stop.signal)
      const now = clock.now()
      // A clock that was set back would let them wait until it has caught up.
      const hasPassed = (ms: number, since: number) => Math.abs(now - since) >= ms
      const quiet = [...restless].filter(
        ([, { first, last }]) => hasPassed(settleMs, last) || hasPassed(settleMs * LONGEST_WAITS, first),
      )
      for (const [path] of quiet) restless.delete(path)
      const gone = quiet.flatMap(([path]) => (moved.delete(path) ? [path] : []))
      const isNew = gone.length > 0 && (await watchedAnew(gone))
      beyond.tell()
      if (quiet.length > 0) options.onSettled([...quiet.map(([path]) => path), ...(isNew ? [''] : [])])
    }
  }

  const pathOf = (full: string) => relative(root, full).replaceAll(sep, '/')
  const happened = (full: string) => {
    const path = pathOf(full)
    if (stop.signal.aborted || (path === '' && !moved.has(path)) || path === '..' || path.startsWith('../')) return
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

  const { watch } = await import('chokidar')
  async function watching(): Promise<FSWatcher> {
    watched.clear()
    beyond.clear()
    const watcher = watch(root, {
      ignoreInitial: true,
      followSymlinks: false,
      atomic: false,
      ignored(full, stats) {
        if (stats === undefined) return false
        if (!stats.isDirectory() || (full !== root && options.isIgnored(pathOf(full)))) return true
        if (!watched.has(full)) watched.set(full, identityOf(stats))
        return false
      },
    })
    watcher.on('error', (error) => beyond.takes(error) || options.onError(error))
    watcher.on('raw', (_, name: string | null, details) => {
      const { watchedPath } = details as { readonly watchedPath?: string }
      if (watchedPath === undefined) return
      if (name === basename(watchedPath)) {
        moved.add(pathOf(watchedPath)) // a folder tells of its own end under its own name
        happened(watchedPath)
      }
      happened(name === null ? watchedPath : join(watchedPath, name))
    })
    watcher.on('addDir', happened)
    watcher.on('unlinkDir', (folder) => {
      watched.delete(folder)
      happened(folder)
    })
    await new Promise<void>((resolve) => watcher.once('ready', resolve))
    beyond.tell()
    return watcher
  }
  let watcher = await watching()
  const inTurn = serially()
  const anew = () =>
    inTurn(async () => {
      if (stop.signal.aborted) return
      await watcher.close()
      watcher = await watching()
    })

  /** Has one of these folders been replaced? Then everything is watched anew: what happened meanwhile is for a scan to find. */
  async function watchedAnew(paths: readonly string[]): Promise<boolean> {
    const replaced = await Promise.all(paths.map(isReplaced))
    if (!replaced.includes(true)) return false
    await anew()
    return true
  }

  async function isReplaced(path: string): Promise<boolean> {
    const folder = join(root, path)
    const there = await disk.lstat(folder).catch(() => undefined) // gone, or kept from us
    if (there?.isDirectory()) return watched.has(folder) && watched.get(folder) !== identityOf(there)
    if (path === '')
      options.onError(new Refused(`${root} is gone, and no longer watched`, 'bring it back and track it anew'))
    return false
  }

  return {
    async quiet() {
      while (settling) await settling
    },
    anew,
    async close() {
      stop.abort()
      await settling
      await inTurn(() => watcher.close())
    },
  }
}

/** The number alone may be given again at once. */
const identityOf = ({ ino, birthtimeMs }: Stats): string => `${ino} ${birthtimeMs}`

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
      const which = count === 1 ? '1 folder' : `${count} folders`
      const what = `${which} in ${root} cannot be watched: the system's limit is reached`
      onError(new Refused(what, `raise ${LIMITS[String(last?.code)]}, or scan every so often`, { cause: last }))
    },
    clear(): void {
      folders.clear()
      told = 0
    },
  }
}
