import { isUtf8 } from 'node:buffer'
import * as fs from 'node:fs'
import { constants, type Dirent, type Stats } from 'node:fs'
import { basename, dirname, join, sep } from 'node:path'
import { promisify } from 'node:util'
import { DESCRIPTORS, hasDescriptors } from '../protocol/descriptors.ts'
import { InvalidInput, Refused } from '../protocol/errors.ts'
import { problem } from '../protocol/problem.ts'

/** The disk below one folder. Paths have slashes and start at the folder; no link is followed, so nothing outside is ever read or written. */
export interface Root {
  /** The folder by its real path. */
  readonly path: string
  /** Are names that differ in case only one name here? */
  readonly foldsCase: boolean
  /** What stands there; `undefined` when nothing does, or when one of its folders is not a folder. */
  stat(path: string): Promise<Stats | undefined>
  /**
   * What lies in a folder. A name that is not UTF-8 is no text, so no path leads there: such a thing is left out, and handed to `onNameless` under the
   * nearest name that can be shown. Throws Elsewhere when the folder is not there, or not below the root.
   */
  list(folder: string, onNameless?: (entry: Dirent) => void): Promise<readonly Dirent[]>
  /** Is it a folder, reached without a link? */
  hasFolder(folder: string): Promise<boolean>
  /** Opens a plain file to read. Throws Elsewhere for anything else, and never waits for a pipe. */
  open(path: string): Promise<Opened>
  /** Keeps the folder of a path open while `work` goes on, so that nobody can slip another one under it. */
  held<T>(path: string, how: { readonly create?: boolean }, work: (place: Place) => Promise<T>): Promise<T>
}

/** A plain file; to be closed by who had it opened. */
export interface Opened {
  readonly fd: number
  readonly stats: Stats
}

/** A name in a folder that is held open. */
export interface Place {
  /** Where to open, rename or unlink it. */
  readonly real: string
  /** Another name in the same folder. */
  beside(name: string): string
  /** Makes a rename or an unlink in this folder outlive a crash. */
  sync(): Promise<void>
}

/** What a path names is gone, is no longer what it was, or lies outside: look again, and believe nothing of it. */
export class Elsewhere extends Error {
  override readonly name = 'Elsewhere'
}

/** What may have to wait for the disk does so beside us. */
export const disk = {
  lstat: promisify(fs.lstat),
  open: promisify(fs.open),
  read: promisify(fs.read),
  readlink: promisify(fs.readlink),
  readdir: promisify(fs.readdir),
  realpath: promisify(fs.realpath.native), // the other looks at each folder on the way, which Node's own permissions may forbid
  mkdir: promisify(fs.mkdir),
  fsync: promisify(fs.fsync),
  // Of what is open these are there at once: the way to another thread and back would cost many times as much.
  fstat: fs.fstatSync,
  close: fs.closeSync,
}

/** Opens a folder as a root. Throws Refused when it is none. */
export async function openRoot(folder: string): Promise<Root> {
  const path = await disk.realpath(folder).catch((cause) => {
    throw new Refused(`${folder} is not a folder that can be read`, 'create it first', { cause })
  })
  if (!(await disk.lstat(path)).isDirectory())
    throw new Refused(`${folder} is not a folder`, 'name the folder to track')
  const full = (at: string) => (at === '' ? path : path + sep + at.replaceAll('/', sep))
  const folders = sharedFolders()

  const root: Root = {
    path,
    foldsCase: await foldsCase(path),
    stat: (at) => disk.lstat(full(at)).catch(unlessGone),
    async list(at, onNameless = () => undefined) {
      const fd = await openFolder(full(at))
      try {
        return await listed(wayThrough(fd, full(at)), onNameless)
      } finally {
        disk.close(fd)
      }
    },
    async hasFolder(at) {
      const fd = await folders.enter(full(at)).catch(unlessElsewhere)
      if (fd !== undefined) folders.leave(full(at), fd)
      return fd !== undefined
    },
    async open(at) {
      const target = full(at)
      const folder = dirname(target)
      const fd = await folders.enter(folder)
      try {
        return await openFile(wayThrough(fd, folder) + target.slice(folder.length), at)
      } finally {
        folders.leave(folder, fd)
      }
    },
    async held(at, { create = false }, work) {
      const target = full(at)
      if (create) await makeFolders(root, dirname(at))
      const fd = await openFolder(dirname(target))
      try {
        const way = wayThrough(fd, dirname(target))
        const name = target.slice(dirname(target).length + 1)
        return await work({
          real: join(way, name),
          beside: (other) => join(way, other),
          sync: () => disk.fsync(fd),
        })
      } finally {
        disk.close(fd)
      }
    },
  }
  return root
}

/** Throws InvalidInput for what cannot be a path below a root, whatever is on the disk. */
export function checkPath(path: unknown, name = 'path'): asserts path is string {
  const parts = typeof path === 'string' ? path.split('/') : []
  const isText = typeof path === 'string' && !path.includes('\0') && path.isWellFormed()
  if (isText && parts.every((part) => part !== '' && !/^\.\.?$/.test(part))) return
  throw new InvalidInput(name, [
    problem(name, 'path', 'must be a path from the root on, with slashes and without ..', path),
  ])
}

/** Throws InvalidInput for what is no list of such paths. */
export function checkPaths(paths: unknown): asserts paths is readonly string[] {
  if (!Array.isArray(paths)) throw new InvalidInput('paths', [problem('paths', 'type', 'must be a list', paths)])
  for (const path of paths) checkPath(path)
}

/** Asked of the root's own name, which is there for certain; a name without letters has to be taken for what is usual. */
async function foldsCase(path: string): Promise<boolean> {
  const name = basename(path)
  const other = name === name.toLowerCase() ? name.toUpperCase() : name.toLowerCase()
  if (other === name) return process.platform === 'darwin' || process.platform === 'win32'
  const [here, there] = await Promise.all([disk.lstat(path), disk.lstat(join(dirname(path), other)).catch(unlessGone)])
  return there !== undefined && there.ino === here.ino && there.dev === here.dev
}

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK // without the last, opening a pipe waits for a writer
/** Does the system refuse to open what has become a link? Where it would follow, look first. */
export const opensNoLinks = Boolean(constants.O_NOFOLLOW)
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

const wayThrough = (fd: number, path: string): string => (hasDescriptors ? `${DESCRIPTORS}/${fd}` : path)
const realOf = (fd: number, path: string): Promise<string> =>
  hasDescriptors ? disk.readlink(`${DESCRIPTORS}/${fd}`) : disk.realpath(path)

/** What stands for bytes that are not UTF-8. A name may also have it as a character of its own, so the bytes decide. */
const REPLACEMENT = '\uFFFD'

async function listed(way: string, onNameless: (entry: Dirent) => void): Promise<readonly Dirent[]> {
  const entries = (await disk.readdir(way, { withFileTypes: true })) as Dirent[]
  if (!entries.some(({ name }) => name.includes(REPLACEMENT))) return entries
  const raw = (await disk.readdir(way, { withFileTypes: true, encoding: 'buffer' })) as unknown as Dirent<Buffer>[]
  return raw.flatMap((entry) => {
    const isText = isUtf8(entry.name)
    const named = Object.assign(entry as unknown as Dirent, { name: entry.name.toString() })
    if (isText) return [named]
    onNameless(named)
    return []
  })
}

async function openFile(way: string, path: string): Promise<Opened> {
  const fd = await disk.open(way, READ).catch(elsewhere(path))
  try {
    const stats = disk.fstat(fd)
    if (!stats.isFile()) throw new Elsewhere(path)
    return { fd, stats }
  } catch (error) {
    disk.close(fd)
    throw error
  }
}

async function openFolder(path: string): Promise<number> {
  const fd = await disk.open(path, FOLDER).catch(elsewhere(path))
  try {
    if ((await realOf(fd, path)) !== path) throw new Elsewhere(path)
    return fd
  } catch (error) {
    disk.close(fd)
    throw error
  }
}

/** Folders that are held open while somebody looks into them: a thousand files of one folder need it checked once. */
function sharedFolders() {
  const open = new Map<string, { readonly fd: Promise<number>; users: number }>()
  return {
    async enter(path: string): Promise<number> {
      const shared = open.get(path) ?? { fd: openFolder(path), users: 0 }
      open.set(path, shared)
      shared.users++
      try {
        return await shared.fd
      } catch (error) {
        if (--shared.users === 0) open.delete(path)
        throw error
      }
    },
    leave(path: string, fd: number): void {
      if (--open.get(path)!.users > 0) return
      open.delete(path)
      disk.close(fd)
    },
  }
}

/** One level at a time, each in a folder that is held: `mkdir -p` would follow a link. */
async function makeFolders(root: Root, folder: string): Promise<void> {
  if (folder === '.') return
  if ((await root.stat(folder))?.isDirectory()) return
  await makeFolders(root, dirname(folder))
  await root.held(folder, {}, async (place) => {
    await disk.mkdir(place.real).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    await place.sync()
  })
}

// No file can have such a name; asked for a link's target, and it is no link; a socket, or a device that nobody drives.
const GONE = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'EINVAL', 'ENXIO', 'ENODEV']
export const isGone = (code: string | undefined): boolean => GONE.includes(code ?? '')

/** There is something, and it is kept from us, as by a server or a mount that does not answer, or more than we read. */
export const isUnreadable = (code: string | undefined): boolean => UNREADABLE.includes(code ?? '')
const UNREADABLE = ['EACCES', 'EPERM', 'EIO', 'EFBIG', 'ENOTCONN', 'ESTALE', 'ETIMEDOUT', 'EHOSTDOWN']

/** For a `catch`: what was there a moment ago is not any more. */
export const elsewhere = (path: string) => (error: NodeJS.ErrnoException) => {
  if (isGone(error.code)) throw new Elsewhere(path, { cause: error })
  throw error
}

/** For a `catch`: nothing when it does not stand still, or is not there. */
export const unlessElsewhere = (error: unknown): undefined => {
  if (!(error instanceof Elsewhere)) throw error
}

/** For a `catch`: nothing when there is no such file. */
export const unlessGone = (error: NodeJS.ErrnoException): undefined => {
  if (!isGone(error.code)) throw error
  return undefined
}
