import { type ComposedRuntime, openConfigured, openRuntime } from '../compose.ts'
import { mergedConfig } from '../config.ts'
import { openProject, type Project } from '../psg/project.ts'
import type { Io } from './io.ts'

/** Opens what the config says, lets `work` use it, and closes it whatever happens. */
export async function withRuntime<T>(io: Io, work: (runtime: ComposedRuntime) => Promise<T>): Promise<T> {
  const runtime = await openRuntime(await io.config(), {
    onError: (error) => io.warn(`mplp: ${error instanceof Error ? error.message : String(error)}`),
  })
  try {
    return await work(runtime)
  } finally {
    await runtime.close()
  }
}

/** For verbs that only look: no worker is started, nobody's run is taken up. */
export async function withProject<T>(io: Io, work: (project: Project) => Promise<T>): Promise<T> {
  const store = await openConfigured(mergedConfig(await io.config()))
  try {
    return await work(await openProject(store))
  } finally {
    await store.close()
  }
}
