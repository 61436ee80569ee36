import { type ComposedRuntime, openConfigured, openRuntime } from '../compose.ts'
import { openProject, type Project } from '../psg/project.ts'
import type { Io } from './io.ts'

/** Opens what the config says, lets `work` use it, and closes it whatever happens. Only who stays watches the project's folder. */
export async function withRuntime<T>(
  io: Io,
  work: (runtime: ComposedRuntime) => Promise<T>,
  { stays = false }: { readonly stays?: boolean } = {},
): Promise<T> {
  const config = await io.config()
  const { watch: _, ...drift } = config.drift ?? {}
  const runtime = await openRuntime(stays ? config : { ...config, drift }, {
    onError: (error) => io.warn(`mplp: ${error instanceof Error ? error.message : String(error)}`),
    onWarning: (message) => io.warn(`mplp: ${message}`),
  })
  try {
    return await work(runtime)
  } finally {
    await runtime.close()
  }
}

/** For verbs that only look: no worker is started, nobody's run is taken up. */
export async function withProject<T>(io: Io, work: (project: Project) => Promise<T>): Promise<T> {
  const store = await openConfigured(await io.config(), (message) => io.warn(`mplp: ${message}`))
  try {
    return await work(await openProject(store))
  } finally {
    await store.close()
  }
}
