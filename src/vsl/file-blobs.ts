import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Corrupt } from '../protocol/errors.ts'
import { type Digest, digestOf } from '../protocol/json.ts'
import { isMissing } from './file-errors.ts'
import { replaceDurably, syncFolder } from './file-sync.ts'

/** Bytes in files named for their digest, in folders of its first two digits. */
export function blobFiles(folder: string) {
  const pathOf = (digest: Digest) => join(folder, digest.slice(7, 9), digest.slice(9))
  const writing = new Map<Digest, Promise<void>>()

  async function write(digest: Digest, bytes: Uint8Array): Promise<void> {
    const path = pathOf(digest)
    if (await exists(path)) return
    await replaceDurably(path, bytes)
    for (const above of [folder, dirname(folder)]) await syncFolder(above) // they may be new as well
  }

  return {
    async put(bytes: Uint8Array): Promise<Digest> {
      const digest = digestOf(bytes)
      const work = writing.get(digest) ?? write(digest, bytes).finally(() => writing.delete(digest))
      writing.set(digest, work)
      await work
      return digest
    },
    async get(digest: Digest): Promise<Uint8Array | undefined> {
      try {
        const bytes = await readFile(pathOf(digest))
        if (digestOf(bytes) !== digest)
          throw new Corrupt(`blob ${digest}`, 'restore its file from a backup or from git')
        return new Uint8Array(bytes)
      } catch (error) {
        if (isMissing(error)) return undefined
        throw error
      }
    },
    async *list(): AsyncIterable<Digest> {
      for (const start of await namesIn(folder)) {
        for (const rest of await namesIn(join(folder, start)))
          if (/^[0-9a-f]{64}$/.test(start + rest)) yield `sha256:${start}${rest}`
      }
    },
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'ENOTDIR') return []
    throw error
  }
}
