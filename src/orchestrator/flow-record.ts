import type { Clock } from '../protocol/clock.ts'
import { isObject, type Json } from '../protocol/json.ts'
import { slept } from '../protocol/waiting.ts'
import type { EventDraft } from '../psg/change.ts'
import type { Backend, Holder } from '../vsl/backend.ts'
import { settleWrite } from '../vsl/settle.ts'
import { type FlowError, FlowFailure } from './flow.ts'
import type { Asked } from './flow-asked.ts'
import { own } from './owner.ts'

/** What a flow must know again when the same runId is called a second time, whatever became of the first call. */
export type FlowMemory = {
  /** Chosen before anything is written under them. */
  readonly ids: { readonly [what in 'run' | 'trace' | 'confirm' | 'decision']: string }
  /** By the module's name, in the order in which they spoke. */
  readonly said: { readonly [name: string]: Said }
  /** Where each graph stood before the flow wrote to it: what came earlier is none of its business. */
  readonly from: { readonly [graph: string]: number }
  /** Unknown of flows from before this was kept. */
  readonly asked?: Asked
}

/** What a module said. Its events have their ids already, so that one that was told can be known again. */
export type Said = {
  readonly output: Json
  readonly events: readonly EventDraft[]
  /** The print of what the flow gave it. */
  readonly input?: string
}

/** The memory of one runId, and the right to go on with it. */
export interface FlowRecord {
  readonly memory: FlowMemory
  /** Stored before it returns. */
  keep(changed: Partial<FlowMemory>): Promise<void>
  release(): Promise<void>
}

export interface RecordOptions {
  readonly clock: Clock
  readonly holder: Holder
  readonly signal: AbortSignal
}

const LOOK_AGAIN_MS = 250

/** Under which a flow is remembered. */
export const recordKey = (runId: string): string => `flow/${runId}`

/** The graphs that a flow has written to, by what is remembered of it. */
export const wroteTo = (memory: Json): readonly string[] =>
  isObject(memory) && isObject(memory.from) ? Object.keys(memory.from) : []

/** Waits for another call with the same runId to end, or for the lease of one that died; not once the signal is aborted: throws FlowFailure. */
export async function flowRecord(store: Backend, runId: string, options: RecordOptions): Promise<FlowRecord> {
  const { clock, holder, signal } = options
  const key = recordKey(runId)
  const asked = () => own(key, { store, clock, holder })
  let ownership = await asked()
  while (!ownership) {
    if (!(await slept(clock, LOOK_AGAIN_MS, signal))) throw stoppedWaiting(signal, runId)
    ownership = await asked()
  }
  const { fence, release } = ownership
  const stored = await store.getMany([key]).catch(async (error) => {
    await release().catch(() => undefined) // kept, it would be renewed for as long as the process lives, and every later call would wait for it
    throw error
  })
  let memory = (stored.get(key) as FlowMemory | undefined) ?? {
    ids: { run: clock.uuid(), trace: clock.uuid(), confirm: clock.uuid(), decision: clock.uuid() },
    said: {},
    from: {},
  }

  return {
    get memory() {
      return memory
    },
    async keep(changed) {
      const next: FlowMemory = { ...memory, ...changed }
      await settleWrite(
        store,
        { stream: key, expected: 0, fence, inserts: [], puts: [[key, next as unknown as Json]], deletes: [] },
        { clock },
      )
      memory = next
    },
    release,
  }
}

/** The other call, and its run, go on. */
function stoppedWaiting({ reason }: AbortSignal, runId: string): FlowFailure {
  const { code, message }: FlowError =
    reason instanceof FlowFailure ? reason : { code: 'CANCELLED', message: 'the call was cancelled' }
  return new FlowFailure(code, `${message}; another call has run ${runId} in hand, and goes on`)
}
