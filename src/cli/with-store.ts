import { existsSync } from 'node:fs'
import { effectiveConfig } from '../config.ts'
import { NotFound } from '../protocol/errors.ts'
import type { Project } from '../psg/project.ts'
import { storePath } from '../vsl/vsl.ts'
import type { Io } from './io.ts'
import { withProject } from './with-runtime.ts'

/** For verbs about the store itself: one that is not there is not made, or a misspelt backup would be found sound. Throws NotFound. */
export async function withStore<T>(io: Io, work: (project: Project) => Promise<T>): Promise<T> {
  const { vsl } = effectiveConfig(await io.config())
  const path = storePath(vsl)
  if (path !== undefined && !existsSync(path)) throw new NotFound('store', vsl)
  return withProject(io, work)
}
