import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Observed } from '../../src/drift/observe.ts'
import { trackFiles } from '../../src/drift/track.ts'
import type { Tracker, TrackOptions } from '../../src/drift/tracker.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { tempFolder } from '../support/temp-folder.ts'

export const META = { protocol_version: '1.0.0', schema_version: '1.0.0' } as const
export const BY = { actor: 'test', reason: 'because' } as const

export function contextOf(context_id: string) {
  return { meta: META, context_id, root: { domain: 'test', environment: 'ci' }, title: 'A test', status: 'active' }
}

export async function graphOf(store: Backend = memoryBackend()): Promise<ProjectGraph> {
  const project = await openProject(store)
  return project.create(contextOf(systemClock.uuid()), BY)
}

/** A file as the disk would show it. */
export const seen = (content: string, more: Partial<Observed> = {}): Observed => ({
  type: 'file',
  digest: digestOf(content),
  size: content.length,
  mode: 0o644,
  kept: true,
  mtime_ms: 1,
  ctime_ms: 1,
  ino: 1,
  ...more,
})

export function put(root: string, files: { readonly [path: string]: string | Buffer }): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
}

export interface Given {
  readonly graph: ProjectGraph
  readonly root: string
  readonly tracker: Tracker
  readonly errors: unknown[]
  /** The same folder and graph, as another process would find them. */
  again(options?: Partial<TrackOptions>): Promise<Given>
  /** The same, as another process has them at the same time. */
  beside(store?: Backend): Promise<Given>
  text(path: string): Promise<string | undefined>
}

/** A folder with these files, taken into a new graph. */
export async function given(
  files: { readonly [path: string]: string | Buffer },
  options: Partial<TrackOptions> = {},
  store: Backend = memoryBackend(),
): Promise<Given> {
  const root = tempFolder()
  put(root, files)
  const graph = await graphOf(store)
  return tracked(graph, root, options)
}

/** A folder as it lies there. */
export async function tracked(graph: ProjectGraph, root: string, options: Partial<TrackOptions> = {}): Promise<Given> {
  const errors: unknown[] = []
  const tracker = await trackFiles(graph, { root, onError: (error) => errors.push(error), ...options })
  return {
    graph,
    root,
    tracker,
    errors,
    async again(more = {}) {
      await tracker.close()
      const project = await openProject(graph.store)
      return tracked(await project.context(graph.id), root, { ...options, ...more })
    },
    async beside(store = graph.store) {
      const project = await openProject(store)
      return tracked(await project.context(graph.id), root, options)
    },
    async text(path) {
      const node = [...graph.state.nodesOf('files')].find((file) => file.kind === 'file' && file.data.path === path)
      const bytes = node?.kind === 'file' ? await graph.store.getBlob(node.data.digest) : undefined
      return bytes && new TextDecoder().decode(bytes)
    },
  }
}
