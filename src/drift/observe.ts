import { createHash } from 'node:crypto'
import type { Stats } from 'node:fs'
import { type Digest, digestOf } from '../protocol/json.ts'
import type { Agreed, FileShape } from '../psg/change.ts'
import type { Room } from './each.ts'
import { disk, Elsewhere, elsewhere, type Root } from './root.ts'
import { nameOf, parentOf } from './select.ts'

/** A file as the disk shows it. */
export type Observed = FileShape & Pick<Agreed, 'mtime_ms' | 'ctime_ms' | 'ino' | 'racy'>

export interface Observing {
  readonly now: () => number
  /** What was known of the file before: with the same times it is the same. */
  readonly known?: Observed
  /** Read whole, and handed to `keep`, up to this many bytes. */
  readonly keepBytes: number
  /** Stores content that was not known; what it answers says whether it is kept. */
  readonly keep: (bytes: Uint8Array, digest: Digest) => Promise<boolean>
  /** How much may be in memory at once, of all that are being looked at. */
  readonly memory?: Room
}

/** Times as coarse as any file system's, FAT's included. */
const RACY_MS = 2_000
const CHUNK = 1024 * 1024
/** What a file costs beside its content. */
const OVERHEAD = 16 * 1024
const ATTEMPTS = 3

/**
 * What lies at a path: `undefined` for nothing. Reads only what its times say may have changed, and what was still being written when it was read
 * is read again. Throws Elsewhere for a file that does not stand still.
 */
export async function observe(root: Root, path: string, observing: Observing): Promise<Observed | undefined> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await looked(root, path, observing)
    } catch (error) {
      if (!(error instanceof Elsewhere) || attempt === ATTEMPTS) throw error
    }
  }
}

async function looked(root: Root, path: string, observing: Observing): Promise<Observed | undefined> {
  const stats = await root.stat(path)
  if (stats === undefined || (root.foldsCase && !(await isCalled(root, path)))) return undefined
  return isUnchanged(stats, observing.known) ? observing.known : lookedInto(root, path, stats, observing)
}

/** Where case does not count, README answers to Readme as well; its folder knows what it is called. */
async function isCalled(root: Root, path: string): Promise<boolean> {
  const name = nameOf(path)
  return (await root.list(parentOf(path))).some((entry) => entry.name === name)
}

/** Can it be told from its times alone that a file is as it was? */
export const isUnchanged = (stats: Stats, known: Observed | undefined): known is Observed =>
  known !== undefined &&
  !known.racy &&
  known.size === stats.size &&
  known.mtime_ms === stats.mtimeMs &&
  known.ctime_ms === stats.ctimeMs &&
  known.ino === stats.ino &&
  known.type === typeOf(stats) &&
  known.mode === modeOf(stats)

const typeOf = (stats: Stats): Observed['type'] =>
  stats.isFile() ? 'file' : stats.isSymbolicLink() ? 'link' : stats.isDirectory() ? 'folder' : 'other'
/** A link's own permissions mean nothing, and differ between systems. */
const modeOf = (stats: Stats): number => (stats.isSymbolicLink() ? 0o777 : stats.mode & 0o777)

async function lookedInto(root: Root, path: string, stats: Stats, observing: Observing): Promise<Observed> {
  const type = typeOf(stats)
  // A write in the same tick as an earlier one leaves the same times: what is that young is read again next time.
  const racy = Math.max(stats.mtimeMs, stats.ctimeMs) > observing.now() - RACY_MS
  const seen = {
    type,
    size: stats.size,
    mode: modeOf(stats),
    mtime_ms: stats.mtimeMs,
    ctime_ms: stats.ctimeMs,
    ino: stats.ino,
    ...(racy && { racy }),
  }
  if (type === 'folder' || type === 'other') return { ...seen, kept: false }
  if (type === 'link') {
    const target = await root.held(path, {}, (place) =>
      disk.readlink(place.real, { encoding: 'buffer' }).catch(elsewhere(path)),
    )
    const digest = digestOf(target)
    return { ...seen, size: target.length, digest, kept: await observing.keep(target, digest) }
  }
  const leave = await observing.memory?.enter(Math.min(stats.size, observing.keepBytes) + OVERHEAD)
  try {
    const { digest, bytes } = await contentOf(root, path, stats, observing.keepBytes)
    return { ...seen, digest, kept: bytes !== undefined && (await observing.keep(bytes, digest)) }
  } finally {
    leave?.()
  }
}

async function contentOf(
  root: Root,
  path: string,
  stats: Stats,
  keepBytes: number,
): Promise<{ digest: Digest; bytes?: Uint8Array }> {
  const { fd, stats: before } = await root.open(path)
  try {
    if (!isSame(before, stats)) throw new Elsewhere(path)
    const content = before.size <= keepBytes ? await whole(fd, before.size) : { digest: await digested(fd) }
    if (!isSame(await disk.fstat(fd), before)) throw new Elsewhere(path)
    return content
  } finally {
    await disk.close(fd)
  }
}

async function whole(fd: number, size: number): Promise<{ digest: Digest; bytes: Uint8Array }> {
  const buffer = Buffer.allocUnsafe(size)
  let length = 0
  while (length < size) {
    const { bytesRead } = await disk.read(fd, buffer, length, size - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  const bytes = buffer.subarray(0, length) // what grew or shrank meanwhile has other times afterwards
  return { digest: digestOf(bytes), bytes }
}

async function digested(fd: number): Promise<Digest> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(CHUNK)
  for (let at = 0; ; ) {
    const { bytesRead } = await disk.read(fd, buffer, 0, CHUNK, at)
    if (bytesRead === 0) return `sha256:${hash.digest('hex')}`
    hash.update(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
}

const isSame = (a: Stats, b: Stats): boolean =>
  a.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs
