import type { Json, JsonObject } from '../protocol/json.ts'
import type { DocumentKind } from '../psg/document.ts'

/** What a flow may ask of a runtime. A driver says which it can; flows that need more are skipped by name. */
export const CAPABILITIES = [
  'conformance',
  'execution',
  'approval',
  'recovery',
  'takeover',
  'rollback',
  'invariants',
  'multi_agent',
  'drift',
  'bare_store',
] as const
export type Capability = (typeof CAPABILITIES)[number]

/** Lets golden flows run on a runtime, ours or anybody's. A module exports one as `default`. */
export interface Driver {
  readonly name: string
  readonly capabilities: readonly Capability[]
  /** A fresh, empty runtime on a store of its own. */
  open(options: DriverOptions): Promise<Session>
}

/** Whether a module's export can be asked for a runtime. */
export const isDriver = (value: unknown): value is Driver => {
  const { name, capabilities, open } = Object(value) as Partial<Driver>
  return typeof name === 'string' && isListOfKnown(capabilities) && typeof open === 'function'
}
/** What is misspelt would be missing from what the driver offers, and the flows that need it be passed over. */
const isListOfKnown = (capabilities: unknown): boolean =>
  Array.isArray(capabilities) && capabilities.every((name) => CAPABILITIES.includes(name))

/** Behind "must be" or "is no". */
export const A_DRIVER = `driver: name, open, and capabilities of ${CAPABILITIES.join(', ')}`

export interface DriverOptions {
  /** Which store, by the name that the caller chose. */
  readonly backend: string
  /** Of that store nothing but its `get` and `set` may be used. Only flows that need `bare_store` ask for it. */
  readonly bare: boolean
  /** For ids and luck, so that a flow gives the same every time. */
  readonly seed: number
  /** What the functions, tools and models of the flow answer, in order. */
  readonly answers: Answers
  /** What lies in the project's folder at the beginning, by path; absent when the flow has no files. */
  readonly files?: { readonly [path: string]: string }
}

/** By the name that a step's action calls: each call takes the next answer; the last one stays. */
export type Answers = { readonly [name: string]: readonly Answer[] }
export type Answer =
  | { readonly output: Json }
  | { readonly error: string; readonly retryable?: boolean }
  /** Never comes, unless the action is told to stop. */
  | { readonly hang: true }
  /** Comes once the process that asked goes on after it was frozen. */
  | { readonly late: Json }

/**
 * One runtime while a flow runs on it. Whatever it refuses comes back as an Outcome, never as a throw. What stands under a capability need only be
 * there where the driver names that capability.
 */
export interface Session {
  /** Takes documents as they stand: checks and keeps them, executes nothing. */
  load(documents: readonly (readonly [DocumentKind, Json])[]): Promise<Outcome>
  /** A change of one object: a move, an edit, a new object, a removal. */
  change(change: FlowChange): Promise<Outcome>
  /** Every object of a kind, as L1 documents, oldest first. */
  documents(kind: DocumentKind): Promise<readonly Json[]>
  /** Everything that was told so far, in order. */
  events(): Promise<readonly JsonObject[]>
  /** What does not hold together in the store; empty is good. */
  verify(): Promise<readonly string[]>
  close(): Promise<void>

  /** execution: puts a plan up and runs it. */
  submit?(flow: JsonObject): Promise<Outcome>
  /** execution: until the run has ended or waits for somebody. */
  settle?(): Promise<'ended' | 'waiting'>
  /** execution: until the run has ended, waits for somebody, or for an answer that does not come by itself. */
  underway?(): Promise<void>
  /** execution */
  cancel?(): Promise<Outcome>
  /** execution */
  signal?(name: string, payload: Json): Promise<Outcome>
  /** approval: of the oldest question that waits. */
  decide?(decision: FlowDecision): Promise<Outcome>
  /** approval: puts a plan that was sent back up again. */
  propose?(): Promise<Outcome>
  /** recovery: the process dies, and another one starts on the same store. */
  crash?(): Promise<void>
  /** takeover: the process stands still for longer than its leases last, and another one starts beside it; from now on that one is meant. */
  freeze?(): Promise<void>
  /** takeover: the one that stood still goes on, not knowing that it did. */
  thaw?(): Promise<void>
  /** rollback: takes back what the run did that has ended, in the graph, in files and outside. */
  rollback?(): Promise<Outcome>
  /** rollback: gives what is now a name. */
  snapshot?(name: string): Promise<Outcome>
  /** rollback: what was then becomes what is now. */
  restore?(name: string): Promise<Outcome>
  /** invariants: ids of those of the profiles that do not hold for what is there. */
  breaches?(): Promise<readonly string[]>
  /** drift, rollback: somebody else writes, or with `null` deletes, files of the project's folder. */
  disk?(changes: { readonly [path: string]: string | null }): Promise<void>
  /** drift, rollback: what lies in the project's folder. */
  files?(): Promise<{ readonly [path: string]: string }>
  /** drift: the graph comes to want other content than lies there; nobody writes it yet. */
  want?(files: { readonly [path: string]: string }): Promise<Outcome>
  /** drift: looks for what graph and files disagree about. */
  scan?(): Promise<readonly FlowFinding[]>
  /** drift: settles everything that was found. */
  reconcile?(strategy: string): Promise<Outcome>
}

export interface FlowDecision {
  readonly status: string
  readonly decided_by_role: string
  readonly reason?: string
}

export interface FlowFinding {
  readonly what: string
  readonly path: string
}

export type Outcome =
  | { readonly ok: true }
  | { readonly ok: false; readonly rules: readonly string[]; readonly message: string }

export type FlowChange =
  | { readonly move: { readonly kind: string; readonly id: string; readonly to: string } }
  | { readonly edit: { readonly kind: string; readonly id: string; readonly set: JsonObject } }
  | { readonly add: { readonly kind: string; readonly document: Json; readonly owner?: string } }
  | { readonly remove: { readonly kind: string; readonly id: string } }
  /** A step comes to wait for another, or no longer does. */
  | { readonly depend: { readonly from: string; readonly to: string } }
  | { readonly free: { readonly from: string; readonly to: string } }
