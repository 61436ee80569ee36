import type { Approvers } from '../protocol/approvers.ts'
import type { ActionError, Problem } from '../protocol/errors.ts'
import type { EventFields, RuntimeExecutionFields } from '../protocol/events.ts'
import type { Digest, Json, JsonObject } from '../protocol/json.ts'
import type { RunResult } from '../protocol/run-result.ts'
import type {
  Action,
  ActionResult,
  Adapter,
  ApprovalPolicy,
  Asker,
  Call,
  ChildFlow,
  DeltaSource,
  ExecutorKind,
  Found,
  Inverse,
  Lack,
  Outcome,
  Spend,
} from './adapter.ts'

type Awaitable<T> = T | Promise<T>

/** The one way to the world: finds the adapter by action_type and does the action through it. */
export interface ActionLayer {
  /**
   * The whole way: admission and gate, cache, retry, one observed and charged attempt after another. Throws InvalidInput or NotFound before
   * anything is done, and an ActionError afterwards.
   */
  execute(action: Action, call?: CallOptions): Promise<ActionResult>
  /**
   * The same without retry, for those who decide about the next attempt themselves. An ActionError carries, as `resume`, the last checkpoint;
   * pass it back with the next attempt. ApprovalNeeded is a pause: ask, and attempt again with the decision in place.
   */
  attempt(action: Action, call?: CallOptions): Promise<ActionResult>
  /** Would `execute` refuse it for its shape or its parameters? Throws what it would throw; asks nobody and does nothing. */
  check(action: Action, asker?: Asker): Promise<void>
  /** Who carries out actions of a type, as its adapter says; `undefined` where there is none. */
  executorOf(action_type: string): ExecutorKind | undefined
  /** What it would take to carry out an action and is not here: its adapter, or what that says. Asks nobody and does nothing. */
  lacks(action: Pick<Action, 'action_type' | 'params'>): Lack | undefined
  /** The parameters of an action that its adapter would not read, as it says; none where there is no adapter, or it does not say. */
  unread(action: Pick<Action, 'action_type' | 'params'>): readonly Problem[]
  /** The same, and what else its adapter has against them, where its `check` answers at once. */
  unfit(action: Pick<Action, 'action_type' | 'params'>, asker?: Asker): readonly Problem[]
  /** What an action is called in events, as its adapter says: a tool, a model, a host. Its type where that says nothing. */
  label(action: Pick<Action, 'action_type' | 'params'>): string
  readOnly(action: Action): boolean
  /** Is anybody asked what may be spent? */
  readonly asksBudget: boolean
  /** The most that one attempt may cost, as its adapter says; nothing where that does not say. */
  estimate(action: Pick<Action, 'action_type' | 'params'>): Spend
  /** What the adapter would find where the action acts; `undefined` when it does not look. Changes nothing, and asks nobody. */
  found(action: Pick<Action, 'action_type' | 'params'>): Promise<readonly (Found | undefined)[] | undefined>
  inverse(action: Action, outcome: Outcome): Inverse
  /** For those who decide what begins next; whoever has no place waits for it within the attempt. Absent where nothing is limited. */
  readonly places?: Places
  /** From now on; a second adapter for a type is refused. */
  register(adapter: Adapter): void
  /** Takes no new actions of that type; those under way go on. Closes the adapter when they have ended. */
  unregister(action_type: string): Promise<void>
  /** Aborts what is under way, waits until it has ended, closes the adapters. Safe to call twice. */
  close(): Promise<void>
}

/** So many attempts are made at once. Each has its place by its execution_id, or by whatever else is its own. */
export interface Places {
  /** For somebody who may have several actions to begin: `ring` is called when there is a place for one that found none. */
  line(ring: () => void): Line
  /** Resolves when the attempt has its place; rejects, without one, when the signal is aborted. */
  enter(action_type: string, attempt: string | object, signal: AbortSignal): Promise<void>
  has(attempt: string): boolean
  /** Gives the place back, if the attempt has one. */
  leave(attempt: string | object): void
}

/** Somebody's way to places: in line once for each type of action, and at its end again once there was a place. */
export interface Line {
  /** Is there a place now? If not, the next one is kept, and rung for, as soon as nobody has waited longer. */
  has(action_type: string): boolean
  /** Takes the place that there is. */
  take(action_type: string, execution_id: string): void
  /** Is one of this type waited for? */
  awaits(action_type: string): boolean
  /** Is nothing waited for? */
  readonly isEmpty: boolean
  /** What is kept and was not taken goes to the next. */
  settle(): void
  /** Waits for nothing, and has no place for anything more; what was taken stays taken. */
  close(): void
}

/** What a caller may say beside the action. */
export interface CallOptions extends Asker {
  readonly signal?: AbortSignal
  /** Live and lossy: what is streamed is not stored. */
  readonly onDelta?: (delta: string, from: DeltaSource) => void
  readonly execution_id?: string
  readonly attempt?: number
  readonly resume?: Json
  readonly checkpoint?: Call['checkpoint']
  /** Instead of the layer's own, for this action and those that it carries out. */
  readonly observer?: Observer
}

/** What the layer needs of graph, store and people; nothing of it is required. */
export interface Hands {
  /** May this asker do this? Absent: yes. */
  readonly admit?: (request: AdmitRequest) => Awaitable<Admission>
  /** Has somebody agreed? Absent: nobody has, and an action that asks is never done. */
  readonly gate?: (request: GateRequest) => Awaitable<Decision>
  readonly budget?: Budget
  /** Where large outputs and replaced file contents go. */
  readonly blobs?: Blobs
  readonly emit?: (event: EventDraft) => Awaitable<void>
  /** Submits a flow as a child of an action, and waits for its end. Absent: an action has none. */
  readonly child?: (flow: ChildFlow, request: ChildRequest) => Promise<RunResult>
}

/** Whose child it is. */
export interface ChildRequest extends Asker {
  readonly action_id: string
  readonly execution_id: string
  /** Ends the wait, not the child. */
  readonly signal: AbortSignal
}

export interface Blobs {
  /** A store that is away may be waited for until the signal is aborted, here as below. */
  put(bytes: Uint8Array, signal?: AbortSignal): Promise<Digest>
  get(digest: Digest, signal?: AbortSignal): Promise<Uint8Array | undefined>
}

export interface AdmitRequest extends Asker {
  readonly action: Action
  readonly read_only: boolean
  /** The tool's name where there is one, otherwise the action type. */
  readonly tool: string
}

/** `policy` can only tighten what the adapter says. */
export type Admission =
  | { readonly allowed: true; readonly policy?: ApprovalPolicy }
  | { readonly allowed: false; readonly reason: string }

/** A question to a person. The digest binds tool, arguments and run, so that an answer cannot be used for anything else. */
export interface GateRequest extends Asker {
  readonly digest: Digest
  readonly tool: string
  /** Redacted; the digest is over what will really be done. */
  readonly arguments: Json
  readonly description: string
  /** Who is to decide; anybody when absent. */
  readonly approvers?: Approvers
  readonly action_id: string
  readonly action_type: string
  readonly signal: AbortSignal
}

export interface Decision {
  /** `pending`: not yet; the layer throws ApprovalNeeded. */
  readonly verdict: 'approved' | 'rejected' | 'pending'
  readonly decided_by?: string
  readonly reason?: string
}

/** Reserved before each attempt, settled after it, released when nothing was spent. */
export interface Budget {
  /**
   * `exceeded`: nothing was reserved, and the attempt is denied. Asked again, under the same `execution_id`, when an attempt says at a checkpoint what it
   * has spent: that takes the place of what was reserved before, and where it is `exceeded` the attempt goes no further and is settled.
   */
  reserve(
    request: Asker & { readonly action_id: string; readonly execution_id: string; readonly spend: Spend },
  ): Awaitable<BudgetState>
  settle(execution_id: string, spent: Spend): Awaitable<BudgetState>
  release(execution_id: string): Awaitable<void>
}

/** `warning` and `exceeded` are said once, when the line is crossed, and become cost_budget events. */
export interface BudgetState {
  readonly state: 'ok' | 'warning' | 'exceeded'
  readonly remaining?: Spend
  readonly message?: string
}

/** One attempt at an action. */
export interface Attempt extends Asker {
  readonly action: Action
  readonly execution_id: string
  readonly attempt: number
  readonly read_only: boolean
  /** What it is called in events: a tool's name, a model, a host. */
  readonly label: string
  /** The attempt that carries this action out, when an action led to it. */
  readonly parent_execution_id?: string
}

export type AttemptEnd =
  | { readonly status: 'completed'; readonly duration_ms: number; readonly result: ActionResult }
  /** `paused`: an approval is needed before it can go on. */
  | { readonly status: 'failed' | 'cancelled' | 'paused'; readonly duration_ms: number; readonly error: ActionError }

/** Sees the start and the end of every attempt, both redacted and both awaited. What `started` throws prevents the attempt. */
export interface Observer {
  started(attempt: Attempt): Awaitable<void>
  ended(attempt: Attempt, end: AttemptEnd): Awaitable<void>
}

/** An event before it has its id, time and project: what the makers of its family ask for. */
export type EventDraft = { readonly payload: JsonObject } & (
  | (RuntimeExecutionFields & { readonly event_family: 'runtime_execution' })
  | (EventFields & {
      readonly event_family: 'cost_budget'
      /** Evidence of the decision, where the event itself is looked at. */
      readonly decision_kind: 'budget'
      readonly outcome: 'allow' | 'deny'
    })
)
