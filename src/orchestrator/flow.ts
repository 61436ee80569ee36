import type { ActionExecutionLayer, RetryPolicy } from '../ael/adapter.ts'
import type { ActionLayer, Hands } from '../ael/layer.ts'
import type { Transport } from '../bus/transport.ts'
import type { Clock } from '../protocol/clock.ts'
import type { Problem } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import type { RunErrorCode } from '../protocol/run-error.ts'
import type { RunResult } from '../protocol/run-result.ts'
import type { Backend, ValueStateLayer } from '../vsl/backend.ts'
import type { Bindings } from './bind.ts'
import type { RunOptions } from './live.ts'
import type { Registry } from './registry.ts'
import type { ApprovalAsked } from './submit.ts'

/** What a flow is run with. */
export interface FlowOptions<Flow extends FlowContract = FlowContract> {
  /** Which modules speak, in which order, and how steps are executed. The profile's modules, as far as they are there, when it names none. */
  readonly flow?: Flow
  readonly runtimeContext: RuntimeContext
  readonly modules: ModuleHandlers | Registry<ModuleHandler>
  /** A bare `{ get, set }` or any of our stores. What happened is in it afterwards; the same runId goes on where it was. */
  readonly vsl: ValueStateLayer | Backend
  /** Carries out the steps; when absent, an InMemoryAEL, which only says that it did. */
  readonly ael?: ActionExecutionLayer | ActionLayer | ((hands: Hands) => ActionLayer)
  /**
   * Told every event that is committed while the flow runs, once by several calls at once: one of them feeds a bus outside of the process, as its
   * traits say it is, and of those that are given the same other object whoever comes first. Calls at once on one store give the same bus outside, in
   * the same place of the list: it is known by that place alone, and another one there would be told nothing while the first is.
   */
  readonly bus?: Transport | readonly Transport[]
  /** Cancels the run; while another call with the same runId has it in hand, only the waiting for that. */
  readonly signal?: AbortSignal
  /** How long a store that fails or keeps silent is put up with: 60 s when absent, and 5 s once it is cancelled. Then the call fails, and one with the same runId can go on later. */
  readonly patienceMs?: number
  readonly clock?: Clock
  /** What went wrong beside the flow: a bus that was away, what a module said where nobody reads it. A warning of the process when absent. */
  readonly onError?: (error: unknown) => void
}

/** The published shape of a flow, and beside it how its steps are executed. */
export interface FlowContract {
  readonly flowId?: string
  readonly description?: string
  readonly steps?: readonly { readonly module: string; readonly input?: unknown }[]
  readonly bindings?: Bindings
  /** Who must agree when no confirm module speaks: nobody when absent. */
  readonly approval?: ApprovalAsked
  readonly options?: Omit<RunOptions, 'profile' | 'session'>
}

/** The published shape that handlers and callers share; filled and flushed with every commit. */
export interface RuntimeContext {
  readonly ids: { readonly runId: string; readonly projectId?: string; readonly correlationId?: string }
  readonly coordination: Coordination
  events: unknown[]
  readonly options?: OlderOptions
}

/** What the modules have said so far, by module. */
export interface Coordination {
  readonly ids?: { readonly runId: string }
  metadata?: { [key: string]: unknown }
  [module: string]: unknown
}

/** Options of the published context's older generation. */
export interface OlderOptions {
  /** How often a module or a step is tried again after a failure, a second later, then two, four …: never when absent. */
  readonly maxRetries?: number
  /** Every step is stored in any case; `false` is refused. */
  readonly snapshotEveryStep?: boolean
}

/** What they mean for a step, and for a module. */
export function olderRetry(options: OlderOptions | undefined): RetryPolicy | undefined {
  const retries = options?.maxRetries ?? 0
  return retries === 0 ? undefined : { strategy: 'exponential', max_attempts: retries + 1, delay_ms: 1_000 }
}

/** Looks and proposes; the loop commits. */
export type ModuleHandler = (call: ModuleCall) => Promise<ModuleOutput> | ModuleOutput
export type ModuleHandlers = { readonly [name: string]: ModuleHandler | undefined }

export interface ModuleCall {
  /** The runtime context, and beside its members what each module has said so far: `ctx.plan` is `ctx.coordination.plan`. */
  readonly ctx: RuntimeContext & Coordination
  /** What the flow says for this module. */
  readonly input?: unknown
  /** One more event, as if it were among those returned. After that it is lost, and `onError` is told. */
  readonly emitEvent: (event: unknown) => void
  /** Aborted when the flow is, or when its deadline or budget of time is over: nobody listens any more. */
  readonly signal: AbortSignal
}

export interface ModuleOutput {
  /** A protocol object, alone or under its module's name, becomes part of the graph; anything else is kept as it is. */
  readonly output: unknown
  readonly events?: readonly unknown[]
}

export interface FlowResult {
  readonly success: boolean
  /** What each module said, its document as it now stands in the graph; and what each step gave, by step id, under `steps`. */
  readonly output?: FlowOutput
  readonly error?: FlowError
  readonly events: readonly unknown[]
  readonly context: RuntimeContext
}

export interface FlowOutput {
  readonly steps?: RunResult['outputs']
  /** In a session, whose result stands for each thing that steps were declared to write, and what it is. */
  readonly resources?: {
    readonly [resource: string]: { readonly step_id: string; readonly participant_id: string; readonly output: Json }
  }
  readonly [module: string]: unknown
}

/** Codes of runs and of what is thrown, in capitals, and those that only a flow has. */
export type FlowErrorCode =
  | Uppercase<RunErrorCode>
  | 'MODULE_NOT_REGISTERED'
  | 'ACTION_NOT_REGISTERED'
  | 'INVALID_OUTPUT'
  | 'INVALID_EVENT'
  | 'INVARIANT_BROKEN'
  | 'FLOW_DIFFERS'
  | 'APPROVAL_PENDING'
  | 'APPROVAL_REJECTED'
  | 'SIGNAL_PENDING'
  | 'PAUSED'
  | 'SUSPENDED'

export const inCapitals = (code: RunErrorCode) => code.toUpperCase() as Uppercase<RunErrorCode>

export interface FlowError {
  readonly code: FlowErrorCode
  readonly message: string
  /** Where and by which rule, if the input or a module's output did not fit. */
  readonly problems?: readonly Problem[]
  /** What a person must decide before the same call can go on. */
  readonly confirms?: readonly string[]
}

/** A flow's failure on its way to the result; it is never thrown at a caller. */
export class FlowFailure extends Error {
  readonly code: FlowErrorCode
  readonly more: Pick<FlowError, 'problems' | 'confirms'>
  constructor(
    code: FlowErrorCode,
    message: string,
    more: Pick<FlowError, 'problems' | 'confirms'> = {},
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.code = code
    this.more = more
  }
}
