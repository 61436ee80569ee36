import type { Action, Adapter } from '../../../src/ael/adapter.ts'
import type { ActionLayerOptions } from '../../../src/ael/ael.ts'
import type { ActionLayer, EventDraft, Hands } from '../../../src/ael/layer.ts'
import type { JsonObject } from '../../../src/protocol/json.ts'

/** An adapter made ready for one test, with parameters that make it behave in each way. What cannot happen to it is named in `never`. */
export interface AdapterRig {
  readonly adapter: Adapter
  /** Ends well, and says what comes out. */
  readonly works: { readonly params: JsonObject; readonly output: unknown }
  /** Refused before anything starts: the path of the problem, or nothing where the thing it names does not exist. */
  readonly refused: readonly { readonly params: JsonObject; readonly path?: string }[]
  /** Goes on until it is told to end. */
  readonly hangs?: JsonObject
  /** Resolves when the work of `hangs` is truly under way. */
  readonly underWay?: () => Promise<void>
  /** What is left of it: sockets, processes, half-written files; empty when it has truly ended. */
  readonly remains?: () => readonly string[] | Promise<readonly string[]>
  /** Fails in a way that may pass, and in a way that may not. */
  readonly failsForNow?: JsonObject
  readonly failsForGood: JsonObject
  /** Gives more than a KiB. */
  readonly large: JsonObject
  /** Gives what its own output schema does not allow. */
  readonly misshapen?: JsonObject
  /** Fails with a message that holds the secret, which the adapter knows of. */
  readonly leaks?: { readonly params: JsonObject; readonly secret: string }
  /** Changes something; `keys` tells the idempotency keys that the other side was given. */
  readonly changes?: JsonObject
  readonly keys?: () => readonly string[]
  /** What `changes` has changed, as it stands: a row, a file's content. Needed where the adapter names an action that takes it back. */
  readonly changed?: () => unknown
  /**
   * Hands out a checkpoint and fails, once, in a way that may pass; who goes on from there gives the output. `done` tells the pieces of work that were
   * done so far. Needed where the adapter hands out checkpoints.
   */
  readonly resumes?: { readonly params: JsonObject; readonly output: unknown; readonly done: () => readonly string[] }
  /** How children of its actions end. Needed where the adapter has some: no runtime is behind the suite. */
  readonly child?: Hands['child']
  /** Why a part of the suite does not apply: by the name of the part that is missing above. */
  readonly never?: Readonly<Partial<Record<'hangs' | 'failsForNow' | 'misshapen' | 'leaks' | 'keys', string>>>
  close?(): Promise<void>
}

/** What a test of the contract has at hand. */
export interface Given {
  readonly rig: AdapterRig
  /** What was told since the test began. */
  readonly events: readonly EventDraft[]
  /** A layer with this adapter alone, in which somebody agrees to everything; closed after the test. */
  layerWith(options?: ActionLayerOptions): ActionLayer
  action(params: JsonObject, more?: Partial<Action>): Action
}

export async function thrown(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it was expected to throw')
}
