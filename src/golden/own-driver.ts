import { type Clock, manualClock, systemClock } from '../protocol/clock.ts'
import type { Backend } from '../vsl/backend.ts'
import { liftedBackend } from '../vsl/lifted.ts'
import { checkInMemory, checkOwnDriver } from './check-options.ts'
import { CAPABILITIES, type Driver } from './driver.ts'
import { freshFolder } from './own-folder.ts'
import { ownSession } from './own-session.ts'
import { scriptOf } from './scripted.ts'

export interface OwnDriverOptions {
  /** A fresh store of that kind, and how to be rid of it. */
  readonly open: (backend: string) => Promise<FreshStore>
  /** Rules, arrows, invariants and events that are switched over, for the proof that flows notice. */
  readonly switched?: ReadonlySet<string>
}

/** A store that nobody has used. */
export interface FreshStore {
  /** As a process opens it; what one has stored the next one finds. Whoever opened it closes it. */
  readonly open: () => Promise<Backend>
  readonly dispose: () => Promise<void>
}

/** This very runtime as a driver. */
export function ownDriver(options: OwnDriverOptions): Driver {
  checkOwnDriver(options)
  return {
    name: 'mplp-runtime',
    capabilities: CAPABILITIES,
    async open({ backend, bare, seed, answers, files }) {
      const fresh = await options.open(backend)
      return ownSession({
        open: bare ? () => onlyGetAndSet(fresh) : fresh.open,
        dispose: fresh.dispose,
        clock: seededClock(seed),
        script: scriptOf(answers),
        ...(files && { folder: await freshFolder(files) }),
        ...(options.switched && { switched: options.switched }),
      })
    },
  }
}

/** A store in memory, which every process of a flow finds as the last one left it. */
export function inMemory(store: Backend): FreshStore {
  checkInMemory(store)
  return { open: async () => ({ ...store, close: async () => undefined }), dispose: () => store.close() }
}

async function onlyGetAndSet(fresh: FreshStore): Promise<Backend> {
  const store = await fresh.open()
  const lifted = await liftedBackend({ get: (key) => store.get(key), set: (key, value) => store.set(key, value) })
  return {
    ...lifted,
    async close() {
      await lifted.close()
      await store.close()
    },
  }
}

/** Real time, but ids and luck from the seed. */
function seededClock(seed: number): Clock {
  const { uuid, random } = manualClock({ seed })
  return { ...systemClock, uuid, random }
}
