import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { makeFolder } from '../protocol/make-folder.ts'
import { isMissing, unlessMissing } from '../protocol/missing-file.ts'

/** Writes a file so that at any time either the old or the new one is there, whole; durable once it returns. */
export async function replaceDurably(path: string, bytes: string | Uint8Array, by = ''): Promise<void> {
  await replace(path, bytes, true, by)
  await syncPath(dirname(path))
}

/**
 * The same, but a loss of power may undo or tear it until file and folder are synced. `by` tells apart those who may write the same file at
 * once.
 */
export async function replace(path: string, bytes: string | Uint8Array, sync = false, by = ''): Promise<void> {
  const temporary = `${path}${by}${TEMPORARY}`
  try {
    try {
      await write(temporary, bytes, sync)
    } catch (error) {
      if (!isMissing(error)) throw error
      makeFolder(dirname(path))
      await write(temporary, bytes, sync)
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** What such a name ends with is never read, and may be left by a crash. */
export const TEMPORARY = '.tmp'

async function write(path: string, bytes: string | Uint8Array, sync: boolean): Promise<void> {
  const file = await open(path, 'w')
  try {
    await file.writeFile(bytes)
    if (sync) await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes a folder and those on the way to it, durable once it returns. */
export async function makeFolderDurably(path: string): Promise<void> {
  const first = makeFolder(path)
  if (first === undefined) return
  for (let at = path; at.length >= first.length; at = dirname(at)) await syncPath(dirname(at))
}

/** A file or a folder; what is gone meanwhile needs no sync. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r').catch(unlessMissing)
  await file?.sync().finally(() => file.close())
}
