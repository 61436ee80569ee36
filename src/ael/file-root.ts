import { constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { DESCRIPTORS, hasDescriptors } from '../protocol/descriptors.ts'
import { Refused } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { denied, finalFailure } from './failure.ts'

/** A name in a folder that is held open, so that nobody can slip another folder or a link under it. */
export interface Place {
  /** From the root, with slashes. */
  readonly path: string
  /** Where to open, rename or unlink it. */
  readonly real: string
  /** Another name in the same folder. */
  beside(name: string): string
  /** Makes a rename or an unlink in this folder outlive a crash. */
  sync(): Promise<void>
}

export interface FileRoot {
  /**
   * Finds the place that a path names and keeps its folder open while `work` goes on. Throws action_denied when the folder lies outside of the
   * root, whatever links lead there; with `create`, missing folders are made. A link as last name is followed when `follow` says so.
   */
  at<T>(path: string, how: Way, work: (place: Place) => Promise<T>): Promise<T>
}

export interface Way {
  /** Missing folders are made, after this was told where the place will be; what it throws keeps them from being made. */
  readonly create?: (place: Pick<Place, 'path'>) => Promise<void>
  readonly follow?: boolean
}

/** Everything below one folder, by real path. */
export async function fileRoot(folder: string): Promise<FileRoot> {
  const root = await realpath(folder).catch((cause) => {
    throw new Refused(`${folder} is not a folder that can be read`, 'create it first', { cause })
  })
  const inside = (real: string): boolean => real === root || real.startsWith(root === sep ? sep : root + sep)

  const at: FileRoot['at'] = async (path, how, work) => {
    const target = resolve(root, path)
    if (!inside(target) || target === root) throw denied(`${path} is outside of the root`)
    if (how.create) await madeFolders(root, target, path, inside, how.create)
    const held = await heldFolder(dirname(target), path, inside)
    try {
      const place = placeIn(held, root, basename(target))
      const link = how.follow === true ? await linkedTo(place) : undefined
      if (link === undefined) return await work(place)
      return await at(relative(root, link), { ...how, follow: false }, work)
    } finally {
      await held.handle.close()
    }
  }
  return { at }
}

/** Why a path cannot be one of ours, whatever is on the disk; `undefined` when it can. */
export function pathProblem(path: unknown, name: string) {
  const bad =
    typeof path !== 'string' ||
    path === '' ||
    path.includes('\0') ||
    !path.isWellFormed() || // the disk has no such name: another file would be meant
    isAbsolute(path) ||
    path.split(/[\\/]/).includes('..')
  return bad
    ? { path: name, rule: 'path', message: 'must be a path below the root, without ..', found: shown(path) }
    : undefined
}

interface HeldFolder {
  readonly handle: FileHandle
  /** The folder itself, not the name it had. */
  readonly way: string
  readonly real: string
}

async function heldFolder(folder: string, path: string, inside: (real: string) => boolean): Promise<HeldFolder> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY).catch(noSuchFolder(path))
  try {
    const real = hasDescriptors ? await readlink(`${DESCRIPTORS}/${handle.fd}`) : await realpath(folder)
    if (!inside(real)) throw denied(`${path} is outside of the root`)
    return { handle, real, way: hasDescriptors ? `${DESCRIPTORS}/${handle.fd}` : real }
  } catch (error) {
    await handle.close()
    throw error
  }
}

const placeIn = ({ handle, way, real }: HeldFolder, root: string, name: string): Place => ({
  path: fromRoot(root, join(real, name)),
  real: join(way, name),
  beside: (other) => join(way, other),
  sync: () => handle.sync(),
})

async function linkedTo(place: Place): Promise<string | undefined> {
  const found = await lstat(place.real).catch(unlessMissing)
  if (!found?.isSymbolicLink()) return undefined
  return realpath(place.real).catch(() => {
    throw finalFailure(`${place.path} is a link to nothing`)
  })
}

/** One level at a time, each below a folder that was checked: `mkdir -p` would follow a link out of the root. */
async function madeFolders(
  root: string,
  target: string,
  path: string,
  inside: (real: string) => boolean,
  before: NonNullable<Way['create']>,
): Promise<void> {
  const names = relative(root, target).split(sep)
  let asked = false
  for (const [i, name] of names.slice(0, -1).entries()) {
    const held = await heldFolder(join(root, ...names.slice(0, i)), path, inside)
    try {
      if ((await lstat(join(held.way, name)).catch(unlessMissing)) !== undefined) continue
      if (!asked) await before({ path: fromRoot(root, join(held.real, ...names.slice(i))) })
      asked = true
      await mkdir(join(held.way, name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
      })
    } finally {
      await held.handle.close()
    }
  }
}

const fromRoot = (root: string, real: string): string => relative(root, real).replaceAll(sep, '/')

const noSuchFolder = (path: string) => (cause: NodeJS.ErrnoException) => {
  if (cause.code === 'ENOENT' || cause.code === 'ENOTDIR')
    throw finalFailure(`the folder of ${path} does not exist`, { cause })
  throw cause
}

/** For a `catch`: nothing when there is no such file. */
export const unlessMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT') throw error
  return undefined
}
