import { actionLayer } from '../ael/ael.ts'
import { fileAdapter } from '../ael/file.ts'
import type { ActionLayer } from '../ael/layer.ts'
import { trackFiles } from '../drift/track.ts'
import type { Tracker } from '../drift/tracker.ts'
import { createRuntime, type Runtime } from '../orchestrator/runtime.ts'
import { withTracking } from '../orchestrator/tracked-files.ts'
import type { Clock } from '../protocol/clock.ts'
import type { Digest } from '../protocol/json.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Backend } from '../vsl/backend.ts'
import { mortal } from './mortal.ts'
import { type Script, scriptedAdapter } from './scripted.ts'

/** A runtime in a process of its own, as far as one process can play several: it can be frozen, let go, and killed. */
export interface OwnProcess {
  readonly runtime: Runtime
  readonly layer: ActionLayer
  /** The store as it really is, also while the process stands still. */
  readonly handle: Backend
  /** Holds a folder against the graph of a context; the first call opens it. */
  track(graph: ProjectGraph, root: string): Promise<Tracker>
  /** Until what people decided about a finding has been done; at once where it is about none. */
  acted(confirm: string): Promise<void>
  /** Stands still until it is let go, for longer than its leases last. */
  hold(): Promise<void>
  letGo(): void
  /** Nothing of it is left: no timer, no lease, no open store. */
  kill(): Promise<void>
}

export interface ProcessOptions {
  readonly clock: Clock
  readonly script: Script
  readonly switched?: ReadonlySet<string>
  readonly onError: (error: unknown) => void
}

const LOOK_AGAIN_MS = 5

export async function startProcess(handle: Backend, options: ProcessOptions): Promise<OwnProcess> {
  const life = mortal(handle, options.clock)
  const { store, clock, dead } = life
  const layer = actionLayer({ clock, adapters: [scriptedAdapter(options.script, life.wentOn)] })
  const runtime = await createRuntime({
    store,
    layer,
    clock,
    quietMs: 5,
    patrolMs: 20,
    onError: (error) => dead.aborted || options.onError(error),
    ...(options.switched && { switched: options.switched }),
  })
  let tracker: Tracker | undefined

  return {
    runtime,
    layer,
    handle,
    async track(graph, root) {
      if (!tracker) {
        tracker = await trackFiles(graph, { root, clock, onError: options.onError })
        const blobs = {
          put: (bytes: Uint8Array) => store.putBlob(bytes),
          get: (digest: Digest) => store.getBlob(digest),
        }
        const { staleCheck, mayWrite } = tracker
        const files = await fileAdapter({ root, blobs, clock, staleCheck, mayWrite })
        layer.register(withTracking(files, tracker))
      }
      return tracker
    },
    async acted(confirm) {
      const isOpen = () =>
        tracker?.findings().some(({ confirm_id, declined }) => confirm_id === confirm && !declined) === true
      while (isOpen()) {
        await clock.sleep(LOOK_AGAIN_MS) // a decision reaches the tracker by the journal, which every store follows at its own pace
        await tracker?.idle()
      }
    },
    hold: life.hold,
    letGo: life.letGo,
    async kill() {
      await life.kill()
      await handle.close()
    },
  }
}
