import { openFolder } from '../compose.ts'
import type { Project } from '../psg/project.ts'
import { type Found, findNamed } from '../server/find.ts'
import type { Io } from './io.ts'
import { withProject } from './with-runtime.ts'

/** What is named by its id or, if it is a file of the project's folder, by its path. */
export async function withFound<T>(
  io: Io,
  name: string,
  work: (found: Found, project: Project) => Promise<T>,
): Promise<T> {
  return withProject(io, async (project) => {
    const config = await io.config()
    const folder = await openFolder(config.root ?? '.', config, { project })
    return work(await findNamed(project, name, folder), project)
  })
}
