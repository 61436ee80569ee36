import { constants } from 'node:fs'
import { link, open, rename, rmdir, symlink, unlink } from 'node:fs/promises'
import { dirname, resolve, sep } from 'node:path'
import type { Digest } from '../protocol/json.ts'
import type { FileOperation, FileShape } from '../psg/change.ts'
import { isSameShape } from './compare.ts'
import { type Observed, observe } from './observe.ts'
import type { Refusal } from './reconcile.ts'
import { Elsewhere, type Place, type Root, unlessMissing } from './root.ts'

export interface Operating {
  readonly content: (digest: Digest) => Promise<Uint8Array | undefined>
  /** Names what a write is made of before it has its own name: the same again when it is gone on with after a crash. */
  readonly temporary: string
}

/** `overtaken`: something else lies there than was expected, and was left alone. */
export type Operated = 'done' | 'overtaken' | Refusal['reason']

/**
 * Changes one file on the disk, all at once or not at all, and only if it is as expected. Safe to repeat: what a crash cut off is finished, what was
 * finished is seen to be.
 */
export async function operate(root: Root, operation: FileOperation, operating: Operating): Promise<Operated> {
  try {
    switch (operation.op) {
      case 'put':
        return await put(root, operation, operating)
      case 'remove':
        return await remove(root, operation)
      case 'move':
        return await move(root, operation)
      default:
        return operation satisfies never
    }
  } catch (error) {
    if (error instanceof Elsewhere) return 'overtaken'
    if (IN_THE_WAY.includes((error as NodeJS.ErrnoException).code ?? '')) return 'in_the_way'
    throw error
  }
}
const IN_THE_WAY = ['ENOTEMPTY', 'EISDIR', 'ENOTDIR']

type Of<Op extends FileOperation['op']> = Extract<FileOperation, { op: Op }>

async function put(root: Root, { path, expect, become }: Of<'put'>, operating: Operating): Promise<Operated> {
  if (expect === null && (await isBlocked(root, path))) return 'in_the_way'
  return root.held(path, { create: expect === null }, async (place) => {
    const temporary = place.beside(operating.temporary)
    await unlink(temporary).catch(unlessMissing) // of an earlier try that was cut off
    const there = await at(root, path)
    if (there && isSameShape(there, become)) return 'done'
    if (!isAs(there, expect)) return 'overtaken'
    if (there?.type === 'file' && become.type === 'file' && there.digest === become.digest) {
      await setMode(place, become.mode)
      return 'done'
    }
    const content = await operating.content(become.digest!)
    if (content === undefined) return 'content_not_kept'
    if (become.type === 'link' && leavesRoot(root, path, content)) return 'link_leaves_root'
    try {
      if (become.type === 'link') await symlink(Buffer.from(content), temporary)
      else await written(temporary, content, become.mode)
      if (!isAs(await at(root, path, there), expect)) return 'overtaken'
      if (there?.type === 'folder') await removeEmpty(root, path)
      await rename(temporary, place.real)
    } finally {
      await unlink(temporary).catch(unlessMissing)
    }
    await place.sync()
    return 'done'
  })
}

function remove(root: Root, { path, expect }: Of<'remove'>): Promise<Operated> {
  return root.held(path, {}, async (place) => {
    const there = await at(root, path)
    if (there === undefined) return 'done'
    if (!isAs(there, expect)) return 'overtaken'
    await unlink(place.real)
    await place.sync()
    return 'done'
  })
}

function move(root: Root, { path, to, expect }: Of<'move'>): Promise<Operated> {
  return root.held(path, {}, (from) =>
    root.held(to, { create: true }, async (target) => {
      const [here, there] = [await at(root, path), await at(root, to)]
      if (here === undefined) return isAs(there, expect) ? 'done' : 'overtaken'
      if (!isAs(here, expect)) return 'overtaken'
      if (there !== undefined && there.ino !== here.ino) return 'overtaken'
      if (path.toLowerCase() === to.toLowerCase()) await rename(from.real, target.real)
      else {
        // Linking fails where a rename would replace what somebody put there a moment ago.
        if (there === undefined) await link(from.real, target.real)
        await unlink(from.real)
      }
      await target.sync()
      await from.sync()
      return 'done'
    }),
  )
}

const at = (root: Root, path: string, known?: Observed): Promise<Observed | undefined> =>
  observe(root, path, { now: () => 0, keepBytes: 0, keep: async () => false, ...(known && { known }) })

const isAs = (there: Observed | undefined, expect: FileShape | null): boolean =>
  there === undefined || expect === null ? (there ?? null) === expect : isSameShape(there, expect)

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

async function setMode(place: Place, mode: number): Promise<void> {
  const handle = await open(place.real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    await handle.chmod(mode)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function written(temporary: string, content: Uint8Array, mode: number): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const handle = await open(temporary, flags, 0o600)
  try {
    await handle.writeFile(content)
    await handle.chmod(mode)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function leavesRoot(root: Root, path: string, target: Uint8Array): boolean {
  const full = resolve(root.path, dirname(path), Buffer.from(target).toString())
  return full !== root.path && !full.startsWith(root.path + sep)
}
