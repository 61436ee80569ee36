import { existsSync, lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import type { Strategy } from '../../src/drift/policy.ts'
import type { TrackOptions } from '../../src/drift/tracker.ts'
import { BY, type Given, given } from './given.ts'

export type Files = { readonly [path: string]: string | Buffer }

/** A folder that was tracked, then changed on the disk and in the graph, and scanned. */
export async function drifted(
  files: Files,
  change: (at: (path: string) => string, root: string) => void,
  { graph = {}, ...options }: Partial<TrackOptions> & { graph?: { readonly [path: string]: string | null } } = {},
) {
  const it = await given(files, options)
  change((path) => join(it.root, path), it.root)
  for (const [path, content] of Object.entries(graph)) await believe(it, path, content)
  await it.tracker.scan()
  const read = (path: string) => {
    const full = join(it.root, path)
    if (!existsSync(full) && !lstatSync(full, { throwIfNoEntry: false })) return undefined
    return lstatSync(full).isSymbolicLink() ? `-> ${readlinkSync(full)}` : readFileSync(full, 'utf8')
  }
  return {
    ...it,
    read,
    believe: (path: string, content: string) => believe(it, path, content),
    /** What graph and disk have at a path, once it is settled. */
    async settle(path: string, strategy: Strategy) {
      const [result] = await it.tracker.reconcile([path], strategy)
      return [result!.outcome, ...(result!.reason ? [result!.reason] : [])].join(' ')
    },
    async both(path: string) {
      return [await it.text(path), read(path)]
    },
    async ends() {
      const { findings } = await it.tracker.scan()
      await it.tracker.close()
      expect(it.errors).toEqual([])
      expect(await it.graph.verify()).toEqual([])
      return findings.map(({ what, path }) => `${what} ${path}`)
    },
  }
}

/** The graph comes to believe something without the disk. */
async function believe({ graph }: Given, path: string, content: string | null): Promise<void> {
  const id = fileId(path)
  if (content === null) return void (await graph.commit([{ kind: 'node_delete', node: 'file', id }], BY))
  const digest = await graph.store.putBlob(Buffer.from(content))
  const data = { digest, size: content.length, kept: true }
  if (graph.get('file', id)) await graph.commit([{ kind: 'node_update', node: 'file', id, set: data }], BY)
  else {
    const node = { ...data, path, type: 'file' as const, mode: 0o644, mtime: '2026-01-01T00:00:00.000000Z' }
    await graph.commit([{ kind: 'node_add', node: 'file', id, data: node }], BY)
  }
}
