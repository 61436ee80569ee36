import { constants, lstatSync, renameSync, type Stats, unlinkSync } from 'node:fs'
import { open, rmdir, symlink, unlink } from 'node:fs/promises'
import { dirname, resolve, sep } from 'node:path'
import type { Digest } from '../protocol/json.ts'
import { moveFile } from '../protocol/move-file.ts'
import type { FileOperation, FileShape } from '../psg/change.ts'
import { isAs, isSameShape, isTracked } from './compare.ts'
import { isAsMet, type Observed, observe } from './observe.ts'
import type { Refusal } from './reconcile.ts'
import { Elsewhere, type Place, type Root, unlessGone } from './root.ts'
import { parentOf } from './select.ts'

export interface Operating {
  readonly now: () => number
  readonly content: (digest: Digest) => Promise<Uint8Array | undefined>
  /** Names what a write is made of before it has its own name: the same again when it is gone on with after a crash. */
  readonly temporary: string
}

/** `overtaken`: something else lies there than was expected, and was left alone. */
export type Operated = 'done' | 'overtaken' | Refusal['reason']

/**
 * Changes one file on the disk, all at once or not at all, and only if it is as expected. Safe to repeat: what a crash cut off is finished, what was
 * finished is seen to be. Its folder is left for the caller to make durable.
 */
export async function operate(root: Root, operation: FileOperation, operating: Operating): Promise<Operated> {
  try {
    switch (operation.op) {
      case 'put':
        return await put(root, operation, operating)
      case 'remove':
        return await remove(root, operation, operating)
      case 'move':
        return await move(root, operation, operating)
      default:
        return operation satisfies never
    }
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (error instanceof Elsewhere || code === 'ENOENT') return 'overtaken' // its folder was removed meanwhile
    if (IN_THE_WAY.includes(code)) return 'in_the_way'
    throw error
  }
}
const IN_THE_WAY = ['ENOTEMPTY', 'EISDIR', 'ENOTDIR']

type Of<Op extends FileOperation['op']> = Extract<FileOperation, { op: Op }>

async function put(root: Root, { path, expect, become }: Of<'put'>, operating: Operating): Promise<Operated> {
  if (expect === null && (await isBlocked(root, path))) return 'in_the_way'
  return root.held(path, { create: expect === null }, async (place) => {
    const there = await at(root, path, operating)
    if (there && isSameShape(there, become)) return 'done'
    if (!isAs(there, expect)) return 'overtaken'
    const isModeOnly = there?.type === 'file' && become.type === 'file' && there.digest === become.digest
    if (isModeOnly && !(await hasOtherNames(root, path))) {
      await setMode(place, become.mode)
      return 'done'
    }
    const content = await operating.content(become.digest!)
    if (content === undefined) return 'content_not_kept'
    if (become.type === 'link' && leavesRoot(root, path, content)) return 'link_leaves_root'
    const temporary = place.beside(operating.temporary)
    let isPlaced = false
    let ours: Stats | undefined
    // Another process may have taken what we do for cut off, and make its own under this name: half of that is nothing to put in place.
    const isTheirs = () => ours !== undefined && !isUntouched(temporary, ours)
    try {
      ours = await made(temporary, become, content)
      const now = await at(root, path, operating, there)
      if (!isAs(now, expect)) return 'overtaken'
      const isFolder = now?.type === 'folder'
      if (isFolder) await removeEmpty(root, path)
      if (!isStill(place, isFolder ? undefined : now) || isTheirs()) return 'overtaken'
      renameSync(temporary, place.real)
      isPlaced = true
      return 'done'
    } finally {
      if (!isPlaced && !isTheirs()) await unlink(temporary).catch(unlessGone)
    }
  })
}

/** Under a name of its own; what an earlier try left there that was cut off gives way. Says by what a file is known again; a link is never half made. */
async function made(temporary: string, { type, mode }: FileShape, content: Uint8Array): Promise<Stats | undefined> {
  const make = () =>
    type === 'link' ? symlink(Buffer.from(content), temporary).then(() => undefined) : written(temporary, content, mode)
  return make().catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
    await unlink(temporary)
    return make()
  })
}

function isUntouched(path: string, { ino, size, mtimeMs, ctimeMs }: Stats): boolean {
  const there = lstatSync(path, { throwIfNoEntry: false })
  return there?.ino === ino && there.size === size && there.mtimeMs === mtimeMs && there.ctimeMs === ctimeMs
}

function remove(root: Root, { path, expect }: Of<'remove'>, operating: Operating): Promise<Operated> {
  return root.held(path, {}, async (place) => {
    const there = await at(root, path, operating)
    if (there === undefined) return 'done'
    if (!isAs(there, expect) || !isStill(place, there)) return 'overtaken'
    unlinkSync(place.real)
    return 'done'
  })
}

async function move(root: Root, operation: Of<'move'>, operating: Operating): Promise<Operated> {
  const { path, to, expect } = operation
  if (to.startsWith(`${path}/`)) return moveBelow(root, operation, operating)
  try {
    return await moveWithin(root, operation, operating)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    // A folder on the way is another file system: there it is another file of the same content.
    const arrived = await put(root, { op: 'put', path: to, expect: null, become: expect }, operating)
    return arrived === 'done' ? remove(root, { op: 'remove', path, expect }, operating) : arrived
  }
}

function moveWithin(root: Root, { path, to, expect }: Of<'move'>, operating: Operating): Promise<Operated> {
  return root.held(path, {}, (from) =>
    root.held(to, { create: true }, async (target) => {
      const [here, there] = [await at(root, path, operating), await at(root, to, operating)]
      if (here === undefined) return isAs(there, expect) ? 'done' : 'overtaken'
      if (!isAs(here, expect)) return 'overtaken'
      if (!isStill(from, here) || (there && !isStill(target, there))) return 'overtaken'
      if (there && !(isAs(there, expect) && isHalfMoved(from, target))) return 'overtaken'
      if (path.toLowerCase() === to.toLowerCase()) renameSync(from.real, target.real)
      else if (there) unlinkSync(from.real)
      else moveFile(from.real, target.real)
      return 'done'
    }),
  )
}

/** Cut off between its halves a file has two names, or is on two file systems. */
function isHalfMoved(from: Place, target: Place): boolean {
  const [here, there] = [lstatSync(from.real), lstatSync(target.real)]
  return here.ino === there.ino || here.dev !== there.dev
}

/** A file that has the name of the folder it belongs in steps aside first. Where it cannot go on, it steps back. */
async function moveBelow(root: Root, { path, to, expect }: Of<'move'>, operating: Operating): Promise<Operated> {
  const folder = parentOf(path)
  const aside = folder === '' ? operating.temporary : `${folder}/${operating.temporary}`
  const here = await at(root, path, operating)
  if (isTracked(here)) {
    const stepped = await move(root, { op: 'move', path, to: aside, expect }, operating)
    if (stepped !== 'done') return stepped
  }
  const stepBack = async () => {
    if ((await root.stat(path))?.isDirectory()) await removeEmpty(root, path)
    await move(root, { op: 'move', path: aside, to: path, expect }, operating)
  }
  try {
    const moved = await move(root, { op: 'move', path: aside, to, expect }, operating)
    if (moved !== 'done') await stepBack()
    return moved
  } catch (error) {
    await stepBack()
    throw error
  }
}

const at = (root: Root, path: string, { now }: Operating, known?: Observed): Promise<Observed | undefined> =>
  observe(root, path, { now, keepBytes: 0, keep: async () => false, ...(known && { known }) })

/**
 * Is a place as it was when it was looked at? Asked in the same breath as it is changed: with hundreds of others under way, a request to the disk waits
 * for seconds, and what somebody saves meanwhile would be lost.
 */
function isStill({ real }: Place, seen: Observed | undefined): boolean {
  const stats = lstatSync(real, { throwIfNoEntry: false })
  return stats && seen ? isAsMet(stats, seen) : !stats && !seen
}

/** Is one of its folders something else by now? */
async function isBlocked(root: Root, path: string): Promise<boolean> {
  for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) {
    const there = await root.stat(folder)
    if (there !== undefined) return !there.isDirectory()
  }
  return false
}

/** A folder with nothing but empty folders in it; anything else in it is in the way. */
async function removeEmpty(root: Root, folder: string): Promise<void> {
  for (const entry of await root.list(folder))
    if (entry.isDirectory()) await removeEmpty(root, `${folder}/${entry.name}`)
  await root.held(folder, {}, (place) => rmdir(place.real))
}

/** Permissions are the file's, whatever it is called: one that has another name, perhaps outside, is replaced instead, as for other content. */
const hasOtherNames = async (root: Root, path: string): Promise<boolean> => ((await root.stat(path))?.nlink ?? 1) > 1

async function setMode(place: Place, mode: number): Promise<void> {
  const handle = await open(place.real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    await handle.chmod(mode)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function written(temporary: string, content: Uint8Array, mode: number): Promise<Stats> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const handle = await open(temporary, flags, 0o600)
  try {
    await handle.writeFile(content)
    await handle.chmod(mode)
    await handle.sync()
    return await handle.stat()
  } finally {
    await handle.close()
  }
}

function leavesRoot(root: Root, path: string, target: Uint8Array): boolean {
  const full = resolve(root.path, dirname(path), Buffer.from(target).toString())
  return full !== root.path && !full.startsWith(root.path + sep)
}
