import type { Json, JsonObject } from '../protocol/json.ts'

export type ExecutorKind = 'agent' | 'tool' | 'llm' | 'worker' | 'external'

/** One thing to be done to the world, or asked of it. */
export interface Action {
  readonly action_id: string
  /** Which adapter does it: function, tool_call, llm_call, http_request, file_operation, agent_handoff, or one of your own. */
  readonly action_type: string
  readonly executor_kind: ExecutorKind
  readonly params: JsonObject
  readonly timeout_ms?: number
  readonly retry?: RetryPolicy
  /** The same for every attempt at the same work, also after a crash, so that the other side can recognise a repeat. */
  readonly idempotency_key: string
}

export interface ActionResult {
  readonly action_id: string
  readonly status: 'completed'
  readonly output?: Json
  readonly duration_ms: number
  readonly token_usage?: TokenUsage
  /** In the currency of the price callback. */
  readonly cost?: number
}

export interface TokenUsage {
  readonly prompt: number
  readonly completion: number
  readonly total: number
}

export interface RetryPolicy {
  readonly strategy: 'none' | 'fixed' | 'exponential'
  /** All executions, the first included. */
  readonly max_attempts: number
  readonly delay_ms?: number
  readonly max_delay_ms?: number
  /** A share of the delay, 0 to 1, that is left to chance. */
  readonly jitter?: number
}

/** What an adapter is given beside the action. */
export interface Call {
  /** Aborted on cancel, timeout and shutdown; the work itself must end, not only the wait. */
  readonly signal: AbortSignal
  /** Streamed output: live, lossy, never stored. */
  readonly onDelta: (delta: string) => void
  /** Which attempt this is, from 1; equals execution_id's place among the action's attempts. */
  readonly attempt: number
  readonly execution_id: string
  /** Who asks: for admission, tool policy and hand-offs. */
  readonly role?: string
  readonly run?: {
    readonly context_id: string
    readonly plan_id: string
    readonly step_id: string
    readonly trace_id: string
  }
  /** Lets the work carry out a further action (a tool that a model chose): it passes the same admission and is observed like any other. */
  readonly act: (action: Action) => Promise<ActionResult>
}

/** What one attempt gave. */
export interface Outcome {
  readonly output?: Json
  readonly token_usage?: TokenUsage
  readonly cost?: number
}

/**
 * Does actions of one type. Throws an ActionError (errors.ts) that says what to do next: retryable, final, denied, rejected, timed_out, aborted;
 * any other throw is taken as final. Must end, with its child processes and sockets gone, soon after `signal` is aborted.
 */
export interface Adapter {
  readonly action_type: string
  readonly executor_kind: ExecutorKind
  /** Refuses parameters that cannot work, before the action starts: throws InvalidInput. */
  check?(params: JsonObject, role?: string): void | Promise<void>
  /** Changes nothing in the world: may be cached and repeated. */
  readOnly?(params: JsonObject): boolean
  execute(action: Action, call: Call): Promise<Outcome>
  /** The action that takes this one back, as far as it can be known; `irreversible` when there is none. */
  inverse?(action: Action, outcome: Outcome): Inverse
  close?(): Promise<void>
}

export type Inverse = Action | 'none_needed' | 'irreversible'

/** The published shape: any object with `execute` is accepted as a whole layer. */
export interface ActionExecutionLayer {
  // biome-ignore lint/suspicious/noExplicitAny: the protocol publishes this signature, and strangers' layers carry it
  execute(action: any, call?: Partial<Call>): Promise<any>
}
