import type { ComposedRuntime } from '../compose.ts'
import { systemClock } from '../protocol/clock.ts'
import { Refused, Unavailable } from '../protocol/errors.ts'
import { VERSION } from '../protocol/version.ts'
import { atMost } from '../protocol/waiting.ts'
import { INDEX } from '../psg/indexes.ts'
import type { Counters } from './counters.ts'
import type { Route } from './route.ts'

const READY_WITHIN_MS = 5_000

/** For those who watch over the process. */
export function healthRoutes({ store, checkWriting, behindMs }: ComposedRuntime, counters: Counters): readonly Route[] {
  const count = async (prefix: string): Promise<number> => {
    let found = 0
    const passOver = () => void found++ // a key that others have been given already is not needed to count
    for await (const _ of store.scan(prefix, { passOver })) found++
    return found
  }
  const asked = async () => {
    await store.facts?.().catch(unfit)
    await store.head('project')
  }
  const answers = () => inTime(asked())
  const isReady = async () => {
    await asked()
    await checkWriting().catch(unfit)
  }
  const measured = async () => {
    await answers()
    return {
      mplp_runs_running: ['Runs that go on.', ['', await count(INDEX.running(''))]],
      mplp_confirms_waiting: ['Questions that wait for a person.', ['', await count(INDEX.waiting(''))]],
      mplp_bus_behind_seconds: [
        'How long the oldest commit that a bus does not have yet has been waiting.',
        ...[...(await behindMs())].map(([bus, ms]) => [`bus="${bus}"`, ms / 1000] as const),
      ],
    } as const
  }
  return [
    {
      method: 'GET',
      path: '/health',
      says: 'The process lives.',
      handle: async () => ({ status: 'ok', runtime_version: VERSION }),
    },
    {
      method: 'GET',
      path: '/ready',
      says: 'The store answers, in a layout that this version knows, and takes what is written; 503 while it does not.',
      async handle() {
        await inTime(isReady())
        return { status: 'ready' }
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      says: 'Counters as Prometheus reads them; of a store that is away only that it is.',
      role: 'read',
      type: 'text/plain',
      async handle(_, reply) {
        reply.type('text/plain; version=0.0.4')
        const found = await measured().catch(unlessAway)
        return counters.text({ mplp_store_up: ['The store answers.', ['', found ? 1 : 0]], ...found })
      },
    },
  ]
}

async function inTime(answer: Promise<unknown>): Promise<void> {
  if (!(await atMost(READY_WITHIN_MS, answer, systemClock)))
    throw new Unavailable('the store', `it gave no answer in ${READY_WITHIN_MS} ms`)
}

/** A store that must not be used as it is, as after an update by a newer version, takes nothing more from this process: it is as good as away. */
export function unfit(error: unknown): never {
  throw error instanceof Refused ? new Unavailable('the store', error.message, { cause: error }) : error
}

/** What the process has counted is told all the same: it is wanted most while something is wrong. */
function unlessAway(error: unknown): undefined {
  if (!(error instanceof Unavailable)) throw error
}
