import type { Json, JsonObject } from '../protocol/json.ts'
import type { DocumentKind } from '../psg/document.ts'

/** What a flow may ask of a runtime. A driver says which it can; flows that need more are skipped by name. */
export type Capability =
  | 'conformance'
  | 'execution'
  | 'approval'
  | 'recovery'
  | 'rollback'
  | 'multi_agent'
  | 'drift'
  | 'bare_store'

/** Lets golden flows run on a runtime, ours or anybody's. A module exports one as `driver`. */
export interface Driver {
  readonly name: string
  readonly capabilities: readonly Capability[]
  /** A fresh, empty runtime on a store of its own. */
  open(options: DriverOptions): Promise<Session>
}

export interface DriverOptions {
  /** Which store, by the name that the caller chose: memory, file, sqlite, redis, postgres. */
  readonly backend: string
  /** For ids and luck, so that a flow gives the same every time. */
  readonly seed: number
  /** What the functions, tools and models of the flow answer, in order. */
  readonly answers: Answers
}

/** By the name that a step's action calls: each call takes the next answer; the last one stays. */
export type Answers = { readonly [name: string]: readonly Answer[] }
export type Answer =
  | { readonly output: Json }
  | { readonly error: string; readonly retryable?: boolean }
  | { readonly hang: true }

/** One runtime while a flow runs on it. Whatever it refuses comes back as a Refusal, never as a throw. */
export interface Session {
  /** Takes documents as they stand: checks and keeps them, executes nothing. */
  load(documents: readonly (readonly [DocumentKind, Json])[]): Promise<Outcome>
  /** A change of one object: a move, an edit, a new object, a removal. */
  change(change: FlowChange): Promise<Outcome>
  /** Puts a plan up and runs it. */
  submit(flow: JsonObject): Promise<Outcome>
  /** Until the run has ended or waits for somebody. */
  settle(): Promise<'ended' | 'waiting'>
  decide(decision: {
    readonly status: string
    readonly decided_by_role: string
    readonly reason?: string
  }): Promise<Outcome>
  propose(): Promise<Outcome>
  cancel(): Promise<Outcome>
  signal(name: string, payload: Json): Promise<Outcome>
  /** The process dies here and now, and another one starts on the same store. */
  crash(): Promise<void>
  /** Takes back what the run did. */
  rollback(): Promise<Outcome>
  /** Every object of a kind, as L1 documents, oldest first. */
  documents(kind: DocumentKind): Promise<readonly Json[]>
  /** Everything that was told so far, in order. */
  events(): Promise<readonly JsonObject[]>
  /** What does not hold together in the store; empty is good. */
  verify(): Promise<readonly string[]>
  close(): Promise<void>
}

export type Outcome =
  | { readonly ok: true }
  | { readonly ok: false; readonly rules: readonly string[]; readonly message: string }

export type FlowChange =
  | { readonly move: { readonly kind: string; readonly id: string; readonly to: string } }
  | { readonly edit: { readonly kind: string; readonly id: string; readonly set: JsonObject } }
  | { readonly add: { readonly kind: string; readonly document: Json; readonly owner?: string } }
  | { readonly remove: { readonly kind: string; readonly id: string } }
  | { readonly depend: { readonly from: string; readonly to: string } }
