import { resolve } from 'node:path'
import type { Tracker } from '../drift/drift.ts'
import { checkFolder, openProjectFolder } from '../folder.ts'
import type { FolderOptions, ProjectFolder } from '../orchestrator/project-folder.ts'
import type { Project } from '../psg/project.ts'
import type { VerbCall } from './verb.ts'
import { type Stay, warning, withProject } from './with-runtime.ts'

type Given = Partial<Omit<FolderOptions, 'root' | 'context'>> & Pick<Stay, 'makes'>

/** A folder and what the graph knows of it: the project's unless another is named, with the files of the context that `--context` names. */
export async function withFolder<T>(
  { options, io }: Pick<VerbCall, 'options' | 'io'>,
  named: string | undefined,
  { makes = false, ...given }: Given,
  work: (folder: ProjectFolder) => Promise<T>,
): Promise<T> {
  const config = await io.config()
  const own = config.root ?? '.'
  const isOwn = named === undefined || resolve(io.cwd, named) === resolve(io.cwd, own)
  const { watch: _, ...drift } = isOwn ? (config.drift ?? {}) : {} // only who asks for it watches
  const context = typeof options.context === 'string' ? options.context : drift.context
  await checkFolder(named ?? own, { ...config, drift })
  const looking = async (project: Project) => {
    const folder = await openProjectFolder(
      named ?? own,
      { ...config, drift: { ...drift, ...(context !== undefined && { context }) } },
      { project, onError: warning(io).onError, ...given },
    )
    try {
      return await work(folder)
    } finally {
      await folder.close()
    }
  }
  return withProject(io, looking, { makes: makes && context === undefined }) // a new store has none by that name
}

/** The same, held against the files. */
export const withTracker = <T>(
  call: Pick<VerbCall, 'options' | 'io'>,
  named: string | undefined,
  given: Given,
  work: (tracker: Tracker) => Promise<T>,
): Promise<T> => withFolder(call, named, given, async (folder) => work(await folder.tracker()))
