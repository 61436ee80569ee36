import { createHash } from 'node:crypto'
import type { Stats } from 'node:fs'
import { Refused } from '../protocol/errors.ts'
import { type Digest, digestOf } from '../protocol/json.ts'
import type { Agreed, FileShape } from '../psg/change.ts'
import type { Room } from './room.ts'
import { disk, Elsewhere, elsewhere, type Opened, opensNoLinks, type Root } from './root.ts'
import { nameOf, parentOf } from './select.ts'

/** A file as the disk shows it. */
export type Observed = FileShape & Pick<Agreed, 'mtime_ms' | 'ctime_ms' | 'ino' | 'racy'>

export interface Observing {
  readonly now: () => number
  /** What was known of the file before: with the same times it is the same. */
  readonly known?: Observed
  /** Its folder has just shown it, as a file or a link: it is opened without being asked for first. */
  readonly listed?: boolean
  /** Read whole, and handed to `keep`, up to this many bytes. */
  readonly keepBytes: number
  /** Stores content that was not known; what it answers says whether it is kept. */
  readonly keep: (bytes: Uint8Array, digest: Digest) => Promise<boolean>
  /** Memory to read a file into; fresh when absent. */
  readonly space?: (size: number) => Buffer
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
 * is read again. Throws Elsewhere for a file that does not stand still, Refused when the root itself is gone.
 */
export async function observe(root: Root, path: string, observing: Observing): Promise<Observed | undefined> {
  for (let attempt = observing.listed && opensNoLinks ? 0 : 1; ; attempt++) {
    try {
      return await (attempt === 0 ? fileAt(root, path, observing) : looked(root, path, observing))
    } catch (error) {
      if (!(error instanceof Elsewhere) || attempt === ATTEMPTS) throw error
    }
  }
}

async function looked(root: Root, path: string, observing: Observing): Promise<Observed | undefined> {
  const stats = await root.stat(path)
  // What a link leads to in the place of a folder does not lie there.
  const isThere = stats !== undefined && (await root.hasFolder(parentOf(path)))
  // Without the root nothing is there, and that is not ten thousand deleted files.
  if (!isThere && !(await root.hasFolder(''))) throw new Refused(`${root.path} is gone`, 'bring it back first')
  if (!isThere || (root.foldsCase && !(await isCalled(root, path)))) return undefined
  return isUnchanged(stats, observing.known) ? observing.known : lookedInto(root, path, stats, observing)
}

/** Where case does not count, README answers to Readme as well; its folder knows what it is called. */
async function isCalled(root: Root, path: string): Promise<boolean> {
  const name = nameOf(path)
  return (await root.list(parentOf(path))).some((entry) => entry.name === name)
}

/** Can it be told from its times alone that a file is as it was? */
export const isUnchanged = (stats: Stats, known: Observed | undefined): known is Observed =>
  known !== undefined && !known.racy && isAsMet(stats, known)

/** Has nobody touched a file since it was looked at, as far as its times can tell? */
export const isAsMet = (stats: Stats, known: Observed): boolean =>
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
  if (type === 'file') return fileAt(root, path, observing, stats)
  const seen = seenIn(stats, observing.now())
  if (type !== 'link') return seen
  const target = await root.held(path, {}, (place) =>
    disk.readlink(place.real, { encoding: 'buffer' }).catch(elsewhere(path)),
  )
  const digest = digestOf(target)
  return { ...seen, size: target.length, digest, kept: await observing.keep(target, digest) }
}

type Seen = { -readonly [F in keyof Observed]: Observed[F] }

/** What can be told without its content. */
function seenIn(stats: Stats, now: number): Seen {
  const { mtimeMs: mtime_ms, ctimeMs: ctime_ms, ino, size } = stats
  const seen: Seen = { type: typeOf(stats), size, mode: modeOf(stats), mtime_ms, ctime_ms, ino, kept: false }
  // A write in the same tick as an earlier one leaves the same times: what is that young is read again next time.
  if (Math.max(mtime_ms, ctime_ms) > now - RACY_MS) seen.racy = true
  return seen
}

/** A plain file. Throws Elsewhere when there is none, or not the one that was met. */
async function fileAt(root: Root, path: string, observing: Observing, met?: Stats): Promise<Observed> {
  const { memory, keepBytes, keep, now } = observing
  const file = await root.open(path)
  const leave = await memory?.enter(Math.min(file.stats.size, keepBytes) + OVERHEAD)
  try {
    const seen = seenIn(file.stats, now())
    const { digest, bytes } = await contentOf(file, met ?? file.stats, path, observing)
    seen.digest = digest
    seen.kept = bytes !== undefined && (await keep(bytes, digest))
    return seen
  } finally {
    leave?.()
  }
}

async function contentOf(
  { fd, stats }: Opened,
  met: Stats,
  path: string,
  { keepBytes, space = Buffer.allocUnsafe }: Observing,
): Promise<{ digest: Digest; bytes?: Uint8Array }> {
  try {
    if (!isSame(stats, met)) throw new Elsewhere(path)
    const content =
      stats.size <= keepBytes ? await whole(fd, space(stats.size)) : { digest: await digested(fd, stats.size) }
    if (!isSame(disk.fstat(fd), stats)) throw new Elsewhere(path)
    return content
  } finally {
    disk.close(fd)
  }
}

async function whole(fd: number, buffer: Buffer): Promise<{ digest: Digest; bytes: Uint8Array }> {
  let length = 0
  while (length < buffer.length) {
    const { bytesRead } = await disk.read(fd, buffer, length, buffer.length - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  const bytes = buffer.subarray(0, length) // what grew or shrank meanwhile has other times afterwards
  return { digest: digestOf(bytes), bytes }
}

/** Not to its end, which may move on as fast as it is read. */
async function digested(fd: number, size: number): Promise<Digest> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(CHUNK)
  for (let at = 0; at < size; ) {
    const { bytesRead } = await disk.read(fd, buffer, 0, Math.min(CHUNK, size - at), at)
    if (bytesRead === 0) break
    hash.update(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
  return `sha256:${hash.digest('hex')}`
}

const isSame = (a: Stats, b: Stats): boolean =>
  a.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs
