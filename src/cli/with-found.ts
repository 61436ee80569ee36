import { openProjectFolder } from '../folder.ts'
import { NotFound } from '../protocol/errors.ts'
import type { Project } from '../psg/project.ts'
import { type Found, findNamed } from '../server/find.ts'
import type { Io } from './io.ts'
import { pathIn } from './path-in.ts'
import { withProject } from './with-runtime.ts'

/** What is named by its id or, if it is a file of the project's folder, by its path. */
export async function withFound<T>(
  io: Io,
  name: string,
  work: (found: Found, project: Project) => Promise<T>,
): Promise<T> {
  return withProject(io, async (project) => {
    const config = await io.config()
    const folder = await openProjectFolder(config.root ?? '.', config, { project })
    const found = await findNamed(project, name, folder).catch((error: unknown) => {
      const path = pathIn(folder.root, io.cwd, name)
      if (path === name || !(error instanceof NotFound)) throw error
      return findNamed(project, path, folder).catch(() => Promise.reject(error)) // it is called what it was called
    })
    return work(found, project)
  })
}
