import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Tracker, type TrackOptions, trackFiles } from '../drift/drift.ts'
import { systemClock } from '../protocol/clock.ts'
import { InvalidInput } from '../protocol/errors.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export interface Folder {
  readonly root: string
  readonly graph: ProjectGraph
}

/** The graph of a folder: of the context that `--context` names, else one of its own, made when it is first asked for. */
export async function withFolder<T>(
  { options, io }: Pick<VerbCall, 'options' | 'io'>,
  folder: string | undefined,
  work: (folder: Folder) => Promise<T>,
): Promise<T> {
  const named = folder ?? '.'
  const root = await realpath(resolve(io.cwd, named)).catch((cause: unknown) => {
    throw new InvalidInput(named, [{ path: '', rule: 'folder', message: 'is no folder that can be read' }], { cause })
  })
  return withProject(io, async (project) =>
    work({
      root,
      graph: await (typeof options.context === 'string' ? project.context(options.context) : ownOf(project, root)),
    }),
  )
}

/** The same, held against the files. */
export async function withTracker<T>(
  call: Pick<VerbCall, 'options' | 'io'>,
  folder: string | undefined,
  options: Omit<TrackOptions, 'root'>,
  work: (tracker: Tracker) => Promise<T>,
): Promise<T> {
  return withFolder(call, folder, async ({ root, graph }) => {
    const tracker = await trackFiles(graph, { onError: (error) => call.io.warn(`mplp: ${error}`), ...options, root })
    try {
      return await work(tracker)
    } finally {
      await tracker.close()
    }
  })
}

async function ownOf(project: Project, root: string): Promise<ProjectGraph> {
  const key = `folder/${root}`
  const known = await project.store.get(key)
  if (typeof known === 'string') return project.context(known)
  const context_id = systemClock.uuid()
  const graph = await project.create(
    {
      meta: { protocol_version: '1.0.0', schema_version: '1.0.0' },
      context_id,
      root: { domain: 'files', environment: 'local' },
      title: `Files of ${root}`,
      status: 'active',
    },
    { actor: 'cli', reason: 'a folder is held against the graph' },
  )
  await project.store.set(key, context_id)
  return graph
}
