import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { readTree } from './flow-files.ts'

/** A project's folder on the disk, for flows that have files. */
export interface Folder {
  readonly root: string
  /** Writes, or with `null` deletes, behind the runtime's back. */
  put(changes: { readonly [path: string]: string | null }): Promise<void>
  all(): Promise<{ readonly [path: string]: string }>
  remove(): Promise<void>
}

export async function freshFolder(files: { readonly [path: string]: string }): Promise<Folder> {
  const root = await mkdtemp(join(tmpdir(), 'mplp-golden-files-'))
  const folder: Folder = {
    root,
    async put(changes) {
      for (const [path, text] of Object.entries(changes)) {
        if (text === null) await rm(join(root, path))
        else {
          await mkdir(dirname(join(root, path)), { recursive: true })
          await writeFile(join(root, path), text)
        }
      }
    },
    all: async () => (await readTree(root)) ?? {},
    remove: () => rm(root, { recursive: true, force: true }),
  }
  await folder.put(files)
  return folder
}
