import { type FSWatcher as Handle, type Stats, watch as watchNames } from 'node:fs'
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

/** Chokidar is never ready when a folder vanishes while it reads it. Folders that it finds later are told of as they are found. */
const LONGEST_READY_MS = 5_000

/**
 * Tells which paths below a folder may have changed; what happened to them is for others to find out. Watches folders, not files: the system names
 * the file, and fifty thousand of them cost no more than their folders do.
 */
export async function watchFolder(root: string, options: WatchOptions): Promise<Watching> {
  const { clock, settleMs } = options
  const restless = new Map<string, { last: number; readonly first: number }>()
  const stop = new AbortController()
  /** Which folder it is that is watched under a name. */
  const watched = new Map<string, { readonly identity: string; readonly handle: Handle }>()
  /** It may have been moved away or removed. */
  let isRootMoved = false
  const beyond = overLimit(root, options.onError)
  const inTurn = serially() // what is found while the watches are put up waits for that
  let settling: Promise<void> | undefined
  let told: Promise<void> = Promise.resolve()
  let watcher: FSWatcher

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
    const isNew = await watchedAnew(paths)
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

  /**
   * Chokidar finds the folders; what happens in them we have the system tell us, from before it reads them on. It would begin only afterwards, and of
   * what happens to a large folder meanwhile nobody would know.
   */
  function attend(full: string, stats: Stats): boolean {
    if (watched.has(full)) return false
    try {
      const handle = watchNames(full, (_, name) => stirs(full, name))
      handle.on('error', () => handle.close()) // as some systems tell of its end
      watched.set(full, { identity: identityOf(stats), handle })
      return true
    } catch (error) {
      beyond.takes(error) // anything else chokidar meets too, and tells
      return false
    }
  }
  function stirs(folder: string, name: string | null): void {
    if (name === basename(folder)) {
      if (folder === root) isRootMoved = true // a folder tells of its own end under its own name
      happened(folder)
    }
    happened(name === null ? folder : join(folder, name))
  }
  function leave(folder: string): void {
    watched.get(folder)?.handle.close()
    watched.delete(folder)
  }

  const { watch } = await import('chokidar')
  async function watching(): Promise<FSWatcher> {
    beyond.clear()
    let isReady = false
    const watcher = watch(root, {
      ignoreInitial: true,
      followSymlinks: false,
      atomic: false,
      ignored(full, stats) {
        if (stats === undefined) return false
        if (!stats.isDirectory() || (full !== root && options.isIgnored(pathOf(full)))) return true
        if (attend(full, stats) && isReady) happened(full)
        return false
      },
    })
    watcher.on('error', (error) => beyond.takes(error) || options.onError(error))
    watcher.on('unlinkDir', (folder) => {
      leave(folder)
      happened(folder)
    })
    const ready = new AbortController()
    watcher.once('ready', () => ready.abort())
    await clock.sleep(LONGEST_READY_MS, AbortSignal.any([ready.signal, stop.signal])).catch(() => undefined) // ready, or closed
    isReady = true
    beyond.tell()
    return watcher
  }
  async function stopWatching(): Promise<void> {
    await watcher.close()
    for (const folder of [...watched.keys()]) leave(folder)
  }
  const begin = async () => {
    watcher = await watching()
  }
  await inTurn(begin)
  const anew = () =>
    inTurn(async () => {
      if (stop.signal.aborted) return
      await stopWatching()
      await begin()
    })

  /** Has one of these folders been replaced? Then everything is watched anew: what happened meanwhile is for a scan to find. */
  async function watchedAnew(paths: readonly string[]): Promise<boolean> {
    const replaced = await Promise.all(paths.map(isReplaced))
    if (!replaced.includes(true)) return false
    await anew()
    return true
  }

  /** The system goes on watching what a folder was, whatever has its name now. One that is not watched is from now on. */
  async function isReplaced(path: string): Promise<boolean> {
    const folder = join(root, path)
    const there = await disk.lstat(folder).catch(() => undefined) // gone, or kept from us
    if (there?.isDirectory()) {
      const known = watched.get(folder)
      if (known) return known.identity !== identityOf(there)
      await inTurn(async () => {
        // Chokidar has passed it by, having read before it came, or it could not be watched then.
        if (!stop.signal.aborted && !options.isIgnored(path) && attend(folder, there)) watcher.add(folder)
      })
    } else if (path === '')
      options.onError(new Refused(`${root} is gone, and no longer watched`, 'bring it back and track it anew'))
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
      await inTurn(stopWatching)
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
