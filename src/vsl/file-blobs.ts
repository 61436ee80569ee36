import { readdir, readFile, rm, stat, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Clock } from '../protocol/clock.ts'
import { Corrupt } from '../protocol/errors.ts'
import { type Digest, digestOf } from '../protocol/json.ts'
import { isMissing, unlessMissing } from '../protocol/missing-file.ts'
import { replaceDurably, syncPath } from './file-sync.ts'
import { type Serially, serially } from './serially.ts'

/** Bytes in files named for their digest, in folders of its first two digits. When a file was last modified tells when its bytes were last put. */
export function blobFiles(folder: string, clock: Clock) {
  const pathOf = (digest: Digest) => join(folder, digest.slice(7, 9), digest.slice(9))
  const busy = new Map<Digest, { readonly one: Serially; users: number }>()

  /** One piece of work at a time on each blob, or what was just put might be taken away. */
  async function alone<T>(digest: Digest, work: () => Promise<T>): Promise<T> {
    const turns = busy.get(digest) ?? { one: serially(), users: 0 }
    busy.set(digest, turns)
    turns.users++
    try {
      return await turns.one(work)
    } finally {
      if (--turns.users === 0) busy.delete(digest)
    }
  }
  const touch = (path: string) => utimes(path, clock.now() / 1000, clock.now() / 1000)

  async function write(digest: Digest, bytes: Uint8Array): Promise<void> {
    const path = pathOf(digest)
    const isThere = await touch(path).then(
      () => true,
      () => false, // or somebody else's: then it becomes ours
    )
    if (isThere) return
    await replaceDurably(path, bytes)
    for (const above of [folder, dirname(folder)]) await syncPath(above) // they may be new as well
    await touch(path)
  }

  return {
    async put(bytes: Uint8Array): Promise<Digest> {
      const digest = digestOf(bytes)
      await alone(digest, () => write(digest, bytes))
      return digest
    },
    async get(digest: Digest): Promise<Uint8Array | undefined> {
      const bytes = await readFile(pathOf(digest)).catch(unlessMissing)
      if (bytes && digestOf(bytes) !== digest)
        throw new Corrupt(`blob ${digest}`, 'restore its file from a backup or from git')
      return bytes && new Uint8Array(bytes)
    },
    /** True if it was there, and nobody has put it for so long. */
    forget(digest: Digest, unputMs: number): Promise<boolean> {
      return alone(digest, async () => {
        const path = pathOf(digest)
        const found = await stat(path).catch(unlessMissing)
        if (!found || Math.round(found.mtimeMs) + unputMs > clock.now()) return false
        await rm(path)
        return true
      })
    },
    async *list(): AsyncIterable<Digest> {
      for (const start of await namesIn(folder)) {
        for (const rest of await namesIn(join(folder, start)))
          if (/^[0-9a-f]{64}$/.test(start + rest)) yield `sha256:${start}${rest}`
      }
    },
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
