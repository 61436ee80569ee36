import { join, relative, sep } from 'node:path'
import type { Clock } from '../protocol/clock.ts'

export interface WatchOptions {
  readonly clock: Clock
  /** A path counts as settled when nothing happened to it for this long. */
  readonly settleMs: number
  /** Need a folder not be watched? */
  readonly isIgnored: (folder: string) => boolean
  /** Paths that something happened to and that are quiet now; a folder stands for everything in it. */
  readonly onSettled: (paths: readonly string[]) => void
  /** The system cannot watch, or not all of it: from now on only scans find everything. */
  readonly onError: (error: unknown) => void
}

export interface Watching {
  /** Everything that happened so far has been told. */
  quiet(): Promise<void>
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
  let settling: Promise<void> | undefined

  /** Half of a save is not drift, and neither is the moment between an editor's removing a file and its putting the new one in place. */
  async function settle(): Promise<void> {
    while (restless.size > 0) {
      await clock.sleep(settleMs / 2, stop.signal)
      const now = clock.now()
      const quiet = [...restless].filter(
        ([, { first, last }]) => now - last >= settleMs || now - first >= settleMs * LONGEST_WAITS,
      )
      for (const [path] of quiet) restless.delete(path)
      if (quiet.length > 0) options.onSettled(quiet.map(([path]) => path))
    }
  }

  const happened = (full: string) => {
    const path = relative(root, full).replaceAll(sep, '/')
    if (stop.signal.aborted || path === '' || path === '..' || path.startsWith('../')) return
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
  const watcher = watch(root, {
    ignoreInitial: true,
    followSymlinks: false,
    atomic: false,
    ignored: (full, stats) =>
      stats !== undefined &&
      (!stats.isDirectory() || (full !== root && options.isIgnored(relative(root, full).replaceAll(sep, '/')))),
  })
  watcher.on('error', options.onError)
  watcher.on('raw', (_, name: string | null, details) => {
    const { watchedPath } = details as { readonly watchedPath?: string }
    if (watchedPath !== undefined) happened(name === null ? watchedPath : join(watchedPath, name))
  })
  watcher.on('addDir', happened)
  watcher.on('unlinkDir', happened)
  await new Promise<void>((resolve) => watcher.once('ready', resolve))

  return {
    async quiet() {
      while (settling) await settling
    },
    async close() {
      stop.abort()
      await watcher.close()
      await settling
    },
  }
}
