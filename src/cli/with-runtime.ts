import { isWithin } from '../bus/bus-spec.ts'
import { type ComposedRuntime, openRuntime } from '../compose.ts'
import type { Config } from '../config.ts'
import { openConfigured } from '../configured-store.ts'
import { systemClock } from '../protocol/clock.ts'
import { given } from '../protocol/given.ts'
import { type Report, sparing, TOLD_AGAIN_MS } from '../protocol/reporter.ts'
import { messageOf } from '../protocol/thrown.ts'
import { openProject, type Project } from '../psg/project.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Io } from './io.ts'
import { unlessMissing } from './missing-store.ts'

export interface Stay {
  /** The store is made if it is not there; otherwise it must be. */
  readonly makes?: boolean
  /** Who stays watches the project's folder, and has buses of its own. */
  readonly stays?: boolean
  /** The plans whose runs are driven here; what is added later counts. Absent: nothing is carried out, a wish is stored, and a worker takes it in. */
  readonly drives?: ReadonlySet<string> | 'all'
  /** How often to look for them, instead of what the config says. */
  readonly patrolMs?: number
}

/** What goes wrong where nobody waits for an answer, each in a line. */
export const warning = (io: Io) => ({
  onError: (error: unknown) => io.warn(messageOf(error)),
  onWarning: (message: string) => io.warn(message),
})

/**
 * Opens what the config says, lets `work` use it, and closes it whatever happens. Throws NotFound for a store that is not there. What several parts meet
 * with, as a store that is away, is told once: by whatever `work` adds too, if it tells by what it is given.
 */
export async function withRuntime<T>(
  io: Io,
  work: (runtime: ComposedRuntime, onError: Report) => Promise<T>,
  { makes = false, stays = false, drives, patrolMs }: Stay = {},
): Promise<T> {
  const config = await io.config()
  const parts = stays ? config : drives ? partsOfWorker(config) : partsOfAsker(config)
  const onError = sparing(warning(io).onError, TOLD_AGAIN_MS, systemClock)
  const runtime = await openRuntime(
    { ...parts, ...(patrolMs !== undefined && { patrol_ms: patrolMs }) },
    {
      ...warning(io),
      onError,
      create: makes,
      // Another's steps may need functions that only another's config has.
      ...(drives !== 'all' && { mine: drives ?? new Set() }),
    },
  ).catch(unlessMissing(config))
  try {
    return await work(runtime, onError)
  } finally {
    await runtime.close()
  }
}

/** A bus that lives in its process tells what all others commit, too: where it is served by who stays, nobody else could open it. */
function partsOfWorker({ bus = [], drift: { watch: _, ...drift } = {}, keep_ended_days: __, ...rest }: Config): Config {
  return { ...rest, drift, bus: bus.filter((spec) => !isWithin(spec)) }
}

/** None of what only steps need: a server that does not start must not stand between a person and an answer. */
const partsOfAsker = ({ vsl, encryption_key, run, resolve }: Config): Config =>
  given({ vsl, encryption_key, run, resolve })

/** For verbs that only look: no worker is started, nobody's run is taken up. Throws NotFound for a store that is not there. */
export const withProject = <T>(
  io: Io,
  work: (project: Project) => Promise<T>,
  { makes = false }: Pick<Stay, 'makes'> = {},
): Promise<T> => withStore(io, async (store) => work(await openProject(store)), { makes })

/** The same for those that look at what lies there, whether or not it makes a project. */
export async function withStore<T>(
  io: Io,
  work: (store: Backend) => Promise<T>,
  { makes = false }: Pick<Stay, 'makes'> = {},
): Promise<T> {
  const config = await io.config()
  const store = await openConfigured(config, { ...warning(io), create: makes }).catch(unlessMissing(config))
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}
