import type { Approvers } from '../protocol/approvers.ts'
import type { Digest, Json, JsonObject } from '../protocol/json.ts'
import type { RetryPolicy } from '../protocol/retry-policy.ts'
import type { RunResult } from '../protocol/run-result.ts'
import type { Context, ExecutorKind, Plan } from '../protocol/types.ts'

export type { Approvers, ExecutorKind, RetryPolicy }

/** One thing to be done to the world, or asked of it. */
export interface Action {
  /** A UUID v4: one per dispatch, whatever the number of attempts. */
  readonly action_id: string
  /** Which adapter does it: function, tool_call, llm_call, http_request, file_operation, agent_handoff, or one of your own. */
  readonly action_type: string
  readonly executor_kind: ExecutorKind
  readonly params: JsonObject
  /** For each attempt; waiting for a person's approval does not count. */
  readonly timeout_ms?: number
  readonly retry?: RetryPolicy
  /** The same for every attempt at the same work, also after a crash, so that the other side can recognise a repeat. */
  readonly idempotency_key: string
}

export interface ActionResult {
  readonly action_id: string
  readonly status: 'completed'
  /** Always whole, and redacted. Whoever stores a result stores `storable(result)`, which leaves out what `output_ref` names. */
  readonly output?: Json
  /** Present when the output is large and a blob store was handed in: its JSON text lies there. */
  readonly output_ref?: OutputRef
  readonly duration_ms: number
  readonly token_usage?: TokenUsage
  /** In the currency of the price callback. */
  readonly cost?: number
  /** No attempt was made: an equal read-only action had this result a moment ago. */
  readonly cached?: true
}

export interface OutputRef {
  readonly digest: Digest
  readonly bytes: number
  /** The beginning of the JSON text. */
  readonly preview: string
}

export interface TokenUsage {
  readonly prompt: number
  readonly completion: number
  readonly total: number
}

/** On whose behalf an action is done. */
export interface Asker {
  readonly role?: string
  readonly run?: RunRef
}

export interface RunRef {
  readonly context_id: string
  readonly plan_id: string
  readonly step_id: string
  readonly trace_id: string
}

/** Whose output a delta is part of: an action may carry out others, and all of them stream into one channel. */
export interface DeltaSource {
  readonly action_id: string
  /** Another one with each attempt: what an earlier one has said does not count. */
  readonly execution_id: string
  readonly run?: RunRef
}

/** What an adapter is given beside the action. */
export interface Call extends Asker {
  /** Aborted on cancel, timeout and shutdown; the work itself must end, not only the wait. */
  readonly signal: AbortSignal
  /** Streamed output: live, lossy, never stored. `from` is the layer's to say. */
  readonly onDelta: (delta: string, from?: DeltaSource) => void
  /** Which attempt this is, from 1. */
  readonly attempt: number
  /** A UUID v4 of this attempt. */
  readonly execution_id: string
  /** The attempt that carries this action out, when another action led to it; `depth` counts how many did. */
  readonly parent_execution_id?: string
  readonly depth: number
  /**
   * What an earlier attempt at this action handed to `checkpoint`, with `[redacted]` where a secret was: go on from there, and repeat nothing that came
   * before. What may hold secrets is better taken from the params again.
   */
  readonly resume?: Json
  /**
   * Hands out the state from which a later attempt could go on: after a failure, a crash, or a pause for approval. `spent` is all that this attempt has
   * used up by then, as it was told last: it counts also when nobody hears of its end, or the failure says nothing of it. What succeeds says in its
   * outcome what it has used.
   */
  readonly checkpoint: (state: Json, spent?: Spend) => void | Promise<void>
  /** Waits without the timeout running on: for a person's answer, or a store that is away. */
  readonly untimed: <T>(wait: Promise<T>) => Promise<T>
  /**
   * Carries out a further action (a tool that a model chose), as `newAction` makes it: it passes the same admission and is observed like any other.
   * `resume` is what an ActionError of an earlier try at it carried. What is under way when this action ends is told to stop, and nothing begins after that.
   */
  readonly act: (action: Action, options?: { readonly resume?: Json }) => Promise<ActionResult>
  /**
   * Submits a flow that has chosen its run's id, unless that run is there, and gives how it ended: one that failed is a result too. The wait is untimed.
   * The run is this action's child: it is cancelled when the action ends in any other way than by being completed, and known again by the next attempt.
   * Throws InvalidInput for a flow that is none or a run that is not its child, Refused where no runtime is behind the layer.
   */
  readonly child: (flow: ChildFlow) => Promise<RunResult>
}

/** A flow as a runtime takes it, which looks at it closer. */
export interface ChildFlow {
  readonly context: Context | string
  readonly plan: Plan
  readonly bindings?: object
  readonly approval?: 'auto' | object
  readonly options?: object
  readonly chosen?: { readonly run?: string; readonly trace?: string; readonly confirm?: string }
}

/** A file as an action would find it. */
export interface Found {
  readonly digest: Digest
  readonly mode: number
}

/** What one attempt gave. `output_ref` and `cached` are the layer's to set. */
export interface Outcome {
  readonly output?: Json
  readonly output_ref?: OutputRef
  readonly cached?: true
  readonly token_usage?: TokenUsage
  readonly cost?: number
}

/**
 * Does actions of one type. Throws an ActionError that says what to do next (retryable, final, denied, rejected, timed out, aborted, approval
 * needed); any other throw is taken as one that may pass. Must end, with its child processes and sockets gone, soon after `signal` is aborted.
 */
export interface Adapter {
  /** `*` does every type that no other adapter does. */
  readonly action_type: string
  readonly executor_kind: ExecutorKind
  /** When the action does not say; 30 s when the adapter does not either. */
  readonly timeoutMs?: number
  /** What must never be seen in an event, a trace, an error or a log; asked for again at each use. */
  secrets?(): readonly string[]
  /** What the action is called in events and questions: a tool's name, a model, a host. The action type when absent. */
  label?(params: JsonObject): string
  /**
   * Refuses parameters that cannot work, before the action starts: throws InvalidInput, or NotFound for an unknown tool. Waited for as long as an
   * attempt. Where nothing is to be filled in, and it answers at once, also asked before a run begins: what it knows then must still hold later.
   */
  check?(params: JsonObject, asker: Asker): void | Promise<void>
  /**
   * What these parameters ask for by name and the adapter does not have: then a run that needs it is left to a process that does. Answered at once, and
   * changes nothing; parameters that do not say a name lack nothing.
   */
  lacks?(params: JsonObject): Lack | undefined
  /** The names that its parameters may have: others, which nobody would read, are refused before a run begins. Any when absent. */
  readonly paramNames?: readonly string[]
  /** Changes nothing in the world: may be cached and repeated. False when absent. */
  readOnly?(params: JsonObject): boolean
  /** Must somebody agree first? `always_allow` when absent. Asked after `check`, and waited for as long. */
  approval?(params: JsonObject, asker: Asker): Approval | Promise<Approval>
  /** The most that one attempt may cost, for the budget. */
  estimate?(params: JsonObject): Spend
  execute(action: Action, call: Call): Promise<Outcome>
  /**
   * For those who only say what they would do: what lies where the action would act, in the order in which its parameters name it, nothing for what is
   * not there. Changes nothing; throws what would keep `execute` from acting there at all.
   */
  found?(params: JsonObject): Promise<readonly (Found | undefined)[]>
  /**
   * The action that takes this one back, as far as it can be known, from its output alone; `irreversible` when there is none. Answered at once. Where it
   * throws, the action is done all the same, and a rollback leaves it and says why. When absent, what is `readOnly` needs none, and the rest has none.
   * What the action carried out by `act` is asked about by itself, and is taken back by itself where this names no action.
   */
  inverse?(action: Action, outcome: Outcome): Inverse
  /** Waited for at most 10 s. */
  close?(): Promise<void>
}

/** Something that is not here: a function, a tool, by its name. */
export interface Lack {
  readonly what: string
  readonly name: string
  /** What there is of that kind: one of them may be meant. */
  readonly known?: readonly string[]
}

export type ApprovalPolicy = 'always_allow' | 'ask' | 'blocked'

export interface Approval {
  readonly policy: ApprovalPolicy
  /** What is agreed to: together with the run, the digest of these two binds the decision. */
  readonly tool: string
  readonly arguments: Json
  /** What a person is asked. */
  readonly description: string
  /** Who that is, of whom how many; anybody when absent. */
  readonly approvers?: Approvers
}

export interface Spend {
  readonly actions?: number
  readonly tokens?: number
  readonly cost?: number
}

export type Inverse = Action | 'none_needed' | 'irreversible'

/** The published shape: any object with `execute` is accepted as a whole layer. */
export interface ActionExecutionLayer {
  // biome-ignore lint/suspicious/noExplicitAny: the protocol publishes this signature, and strangers' layers carry it
  execute(action: any, call?: Partial<Call>): Promise<any>
}
