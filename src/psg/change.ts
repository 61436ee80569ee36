import type { AskPeople } from '../protocol/approvers.ts'
import type { Digest, Json, JsonObject } from '../protocol/json.ts'
import type { RetryPolicy } from '../protocol/retry-policy.ts'
import type {
  Collab,
  Confirm,
  Context,
  Core,
  Decision,
  Dialog,
  Extension,
  Message,
  Network,
  NetworkNode,
  Participant,
  Plan,
  Role,
  SaEventType,
  Segment,
  Step,
  Trace,
} from '../protocol/types.ts'
import type { RunEvent } from './run-event.ts'

/** What stands in the graph, by kind. A protocol object's parts are nodes of their own: its lists are empty here and are filled when a document is asked for. */
export interface NodeData {
  context: Context
  plan: Omit<Plan, 'steps'> & { readonly steps: readonly never[] }
  step: Step
  confirm: Confirm
  decision: Decision
  trace: Trace
  segment: Segment
  segment_end: SegmentEnd
  role: Role
  extension: Extension
  dialog: Dialog
  message: Message
  collab: Collab
  participant: Participant
  core: Core
  network: Network
  network_node: NetworkNode
  binding: Binding
  action: ActionRecord
  gate: Gate
  run: Run
  timer: Timer
  file: FileRecord
  finding: FindingRecord
  snapshot: Snapshot
  signal: Signal
  child: Child
}
export type Kind = keyof NodeData

/** A node's place: what it is, what it is part of, and its content. */
export interface Node<K extends Kind = Kind> {
  readonly kind: K
  /** Unique within its kind. Parts without an id of their own have `<owner>/<place>`. */
  readonly id: string
  /** What is loaded and evicted together: a plan and all that hangs on it, a dialog, …; `-` is the context itself. */
  readonly group: string
  /** The id of the object this is a part of, and its place among its siblings. */
  readonly owner?: string
  readonly at?: number
  /** The revision of the commit that bore it. */
  readonly born: number
  /** It came as a document from elsewhere and was taken as it stood. */
  readonly imported?: true
  /** No longer offered for new use; what refers to it stays resolved. */
  readonly retired?: true
  readonly data: NodeData[K]
}
export type NodeOf<K extends Kind> = K extends Kind ? Node<K> : never
export type AnyNode = NodeOf<Kind>

/** What one commit asks for, in the words of the protocol's `update_kind`. */
export type Change = { [K in Kind]: NodeAdd<K> | NodeUpdate<K> }[Kind] | NodeDelete | EdgeChange

export interface NodeAdd<K extends Kind = Kind> {
  readonly kind: 'node_add'
  readonly node: K
  readonly id: string
  readonly owner?: string
  readonly at?: number
  /** Needed only where neither an owner nor a reference tells it. */
  readonly group?: string
  readonly imported?: true
  /** It was deleted and comes back under its old id. */
  readonly revived?: true
  readonly data: Birth<K>
}
/** What a node is born with. A plan's gate may leave its digest to the commit that proposes the plan, where nobody has seen an earlier state of it. */
export type Birth<K extends Kind> = K extends 'gate' ? Omit<Gate, 'digest'> & Partial<Gate> : NodeData[K]
export interface NodeUpdate<K extends Kind = Kind> {
  readonly kind: 'node_update'
  readonly node: K
  readonly id: string
  /** Fields to set; `undefined` takes a field away. */
  readonly set: Patch<NodeData[K]>
  /** `true` retires it, `false` brings it back into use. */
  readonly retired?: boolean
}
/** Leaves a tombstone; refused while something refers to the node. */
export interface NodeDelete {
  readonly kind: 'node_delete'
  readonly node: Kind
  readonly id: string
}
/** A dependency between two steps: `from` waits for `to`. */
export type EdgeChange = {
  [E in 'edge_add' | 'edge_delete']: { readonly kind: E; readonly from: string; readonly to: string }
}['edge_add' | 'edge_delete']
export type Changes = readonly Change[]
export type Patch<T> = { readonly [F in keyof T]?: T[F] | undefined }

export interface CommitOptions {
  /** Who: a role, a person, a part of the runtime. */
  readonly actor: string
  /** Why, for the history. */
  readonly reason: string
  /** The owner's token: run state changes only under it. */
  readonly fence?: number
  /** Writes on behalf of a module, which may write its own areas only. */
  readonly module?: string
  /** The run this belongs to, so that it can be taken back by run. */
  readonly run?: string
  /** Why a plan that did not come to its own end was stopped; told with the status that ends it. */
  readonly termination?: string
  /** Further events, told if and only if the commit lands. */
  readonly events?: readonly (EventDraft | RunEvent)[]
  /** What a function that decides on the changes looks at: in memory, with all that is loaded with it, whenever it is asked. */
  readonly reads?: readonly (readonly [Kind, string])[]
}

/** An event without id and time: the commit gives it both, unless somebody must know its id beforehand. */
export type EventDraft = {
  readonly plan_id?: string
  /** A UUID v4 in lower case; the caller sees to it that it is used once. */
  readonly event_id?: string
  readonly event: JsonObject & { readonly event_type: string }
}

/** An event as it was committed. */
export type BornEvent = {
  readonly plan_id?: string
  readonly event: JsonObject & { readonly event_id: string; readonly event_type: string; readonly timestamp: string }
}

/** What a commit left behind. */
export interface Commit {
  readonly graph: string
  readonly revision: number
  readonly body: EntryBody
}

/** A journal entry of a graph. Before and after make catching up, history, diff and undo plain reads. */
export type EntryBody = {
  readonly commit_id: string
  /** The latest timestamp given out up to and with this commit. */
  readonly at: string
  readonly actor: string
  readonly reason: string
  readonly run?: string
  /** What the run's own events name. */
  readonly run_of?: { readonly plan_id: string; readonly trace_id: string }
  /** Told with every event that has a family. */
  readonly project_id?: string
  /** Its values are written with a later commit; until then it is the only one to tell them. */
  readonly trails?: true
  readonly changes: readonly EntryChange[]
  /** In short; `eventsIn` makes them whole. */
  readonly events: readonly ToldEvent[]
}

/** An event as its entry writes it down: without what the rest of the entry says. */
export type ToldEvent = EventDraft | ToldMove | ToldHop | ToldUpdate | ToldOfRun
/** A step moved from status to status, as the change with this number says; `order` is its place in the plan if it names one. */
export type ToldMove = { readonly move: number; readonly order?: number }
/** Of several moves in one commit, or of one beside other changes, or of a birth, the change with this number does not say from where to where. */
export type ToldHop = {
  readonly hop: number
  /** Absent for what is born in a status. */
  readonly from?: string
  readonly to: string
  readonly order?: number
  /** Why a plan ended, unless it was completed. */
  readonly termination?: string
}
/** An event of the single-agent profile, or of an attempt at a step, of the entry's run: without what that says. */
export type ToldOfRun =
  | { readonly sa: SaEventType; readonly payload: JsonObject }
  | { readonly execution: EventDraft['event']; readonly step_id: string }
/** The graph was changed by the changes from one number up to, but without, another. */
export type ToldUpdate = {
  readonly update: readonly [from: number, to: number]
  /** By how many edges there are more or fewer. */
  readonly edges: number
  /** Whose changes they are, unless the runtime's. */
  readonly module?: string
  /** Of changes that do not tell it, by their number from the first on. */
  readonly statuses?: { readonly [change: string]: string }
}

/** What happened to one key. A status that moves, and the state of a run, are told by the fields that differ; everything else as a whole. */
export type EntryChange = WholeChange | FieldChange
export type WholeChange = { readonly key: string; readonly before?: Stored; readonly after?: Stored }
/** A field that `was` alone has is gone, one that `now` alone has is new. A list that only `grew` is told by its new items. */
export type FieldChange = {
  readonly key: string
  readonly was: JsonObject
  readonly now: JsonObject
  readonly grew?: { readonly [field: string]: Growth }
}
/** What a list has from this item on; the ones before it are as they were. */
export type Growth = { readonly from: number; readonly items: readonly Json[] }

/** A node as it lies in the store: kind, id and group are in the key. */
export type Stored = {
  readonly owner?: string
  readonly at?: number
  readonly born: number
  readonly imported?: true
  readonly retired?: true
  /** A tombstone: the node is gone, its id stays taken. */
  readonly deleted?: true
  readonly data: JsonObject
}

export type SegmentEnd = {
  readonly segment_id: string
  readonly status: 'completed' | 'failed' | 'cancelled' | 'skipped'
  readonly finished_at: string
  readonly attributes?: JsonObject
}

/** How a step is executed. */
export type Binding = {
  readonly binding_id: string
  readonly step_id: string
  /** Which adapter does it; `wait` none does. */
  readonly action_type: BuiltIn | (string & Record<never, never>) // so that editors offer ours, and take those of others
  readonly executor_kind?: 'agent' | 'tool' | 'llm' | 'worker' | 'external'
  /** May hold references `{ "$from": step_id, "path": "a.b" }` to the outputs of steps that the step depends on. */
  readonly params: JsonObject
  readonly timeout_ms?: number
  readonly retry?: RetryPolicy
  readonly on_failure?: 'fail' | 'skip' | 'continue' | 'compensate'
  /** What a restart does with an attempt that was cut off: run it again under the same key, or ask a person. */
  readonly on_interrupt?: 'retry' | 'hold'
  /** Must a person agree before its action is done, and who? `ask`: anybody may. */
  readonly approval?: 'none' | 'ask' | AskPeople
  /** The action that takes it back, or the mark that nothing does. */
  readonly inverse?:
    | (Pick<Binding, 'action_type' | 'executor_kind'> & { readonly params?: JsonObject })
    | 'irreversible'
}

type BuiltIn =
  | 'function'
  | 'tool_call'
  | 'llm_call'
  | 'http_request'
  | 'file_operation'
  | 'mcp_call'
  | 'agent_handoff'
  | 'wait'

/** One dispatch of a step: all its attempts, and what came of it. */
export type ActionRecord = {
  readonly action_id: string
  readonly step_id: string
  readonly idempotency_key: string
  readonly status: 'running' | 'waiting' | 'completed' | 'failed' | 'cancelled'
  /** Every attempt there was, cut-off ones too. */
  readonly attempts: number
  /** Attempts that failed: what the retry policy counts. */
  readonly failures: number
  /** The attempt under way, or the last one. */
  readonly execution_id: string
  readonly action_type?: string
  /** Its attempts as segments of the run's trace: where each began and, at the same place in the other list, how it ended. */
  readonly began?: readonly Began[]
  readonly ended?: readonly Ended[]
  /** What takes it back, told when it had ended; absent when nothing needs to. */
  readonly inverse?: JsonObject | 'irreversible'
  /** Why nobody can say what takes it back, where whoever should have failed to. */
  readonly no_inverse?: string
  /** What it carried out on its way that took effect, by whichever attempt. It is taken back one by one, unless the action ended with an `inverse` that does. */
  readonly acted?: readonly Acted[]
  /** From where the next attempt can go on; large ones lie in a blob. */
  readonly resume?: Json
  readonly resume_blob?: Digest
  /** Small outputs lie here, large ones in a blob. */
  readonly output?: Json
  readonly output_blob?: Digest
  readonly error?: JsonObject
  /** What it has used up: by the attempt that gave a result, before a pause, and by what it carried out on its way. A failed attempt's end tells its own. */
  readonly usage?: JsonObject
  readonly compensates?: string
  /** It was done by an earlier run, which this one goes on from: nobody carried it out here. */
  readonly carried_from?: { readonly run_id: string; readonly action_id: string }
  /** The attempt that only waited for children when its process closed, and was cut off by that alone. */
  readonly left_waiting?: string
  /** Whose turn in a session it is. */
  readonly turn?: TurnRecord
  /** It did no step: it brought several answers to one together, or asks which of several results shall stand. */
  readonly settles?: Settlement
  /** The action whose answer to the same step stands instead of this one's. */
  readonly lost_to?: string
  /** The resources that it lost to other steps, each with the action whose result stands for it. */
  readonly lost?: { readonly [resource: string]: string }
}

/** An action that another one led to. `at`: how many attempts of the run had ended before it. */
export type Acted = Pick<
  ActionRecord,
  'action_id' | 'idempotency_key' | 'execution_id' | 'action_type' | 'inverse' | 'no_inverse'
> & { readonly at: number }

/** The beginning of an attempt. `at` is its place among the segments of the trace. */
export type Began = { readonly segment_id: string; readonly at: number; readonly started_at: string }

/** The end of an attempt. `at` tells in which order the attempts of a run ended. */
export type Ended = {
  readonly status: SegmentEnd['status']
  readonly at: number
  readonly finished_at: string
  readonly attributes: JsonObject
}

/** A participant's turn: to do a step, or to have the word before or after it. */
export type TurnRecord = {
  readonly turn_number: number
  readonly participant_id: string
  readonly role_id: string
  readonly purpose: 'work' | 'brief' | 'review'
  /** What entitles to the turn, in modes where only one may write at a time. */
  readonly token_id?: string
  /** It answers a broadcast. */
  readonly broadcast?: true
}

export type Settlement =
  | { readonly what: 'answers' }
  | {
      readonly what: 'conflict'
      readonly conflict_id: string
      readonly resource: string
      /** Actions whose results contend. */
      readonly contenders: readonly string[]
      /** Those of them that nobody has turned down; the first is asked about. */
      readonly candidates: readonly string[]
    }

/** What a Confirm's decisions are measured by, and what exactly they allow. */
export type Gate = {
  readonly gate_id: string
  readonly confirm_id: string
  readonly target: { readonly kind: 'plan' | 'action' | 'other'; readonly id: string }
  /** Of the canonical JSON of what is to be approved. */
  readonly digest: Digest
  readonly needed: number
  /** Who may decide; anybody when absent. */
  readonly roles?: readonly string[]
  readonly expires_at?: string
  /** The run or action that made use of the approval: it serves once. */
  readonly used_by?: string
  /** What a person should see before deciding. */
  readonly shows?: JsonObject
}

/** One execution of a plan. */
export type Run = {
  readonly run_id: string
  readonly plan_id: string
  readonly trace_id: string
  /** The run that it goes on from, where that one has failed. */
  readonly rerun_of?: string
  readonly phase: 'waiting' | 'running' | 'paused' | 'undoing' | 'ended'
  /** From when its time counts: set anew when its owner's clock was set back past it. The trace says when it was. */
  readonly started_at?: string
  readonly ended_at?: string
  readonly options: JsonObject
  readonly spent: JsonObject
  /** The lines of its budget whose crossing was told. */
  readonly lines?: readonly string[]
  /** What somebody asked for; the owner takes it in at its next tick. */
  readonly requested?: 'cancel' | 'pause' | 'resume'
  /** It was asked to pause, and lets what is under way come to its end. */
  readonly pausing?: true
  /** Why it is on its way to its end, while it is. */
  readonly ending?: JsonObject
  readonly result?: JsonObject
  /** Whose child it is. */
  readonly parent?: Parent
}

/** The action that has submitted a run, and that the run goes with. */
export type Parent = { readonly run_id: string; readonly step_id: string; readonly action_id: string }

/** A stored wait. */
export type Timer = {
  readonly timer_id: string
  /** ISO time; part of the index key, so never changed. */
  readonly due: string
  readonly purpose: 'retry' | 'deadline' | 'expiry' | 'wait' | 'timeout'
  readonly target: string
  /** How long the wait was to be at the most; absent where `due` itself was asked for. */
  readonly wait_ms?: number
  readonly fired?: true
}

export type FileRecord = {
  /** Posix, relative to the root. */
  readonly path: string
  readonly type: 'file' | 'link'
  readonly digest: Digest
  readonly size: number
  readonly mode: number
  readonly mtime: string
  /** False when the content was too large to keep: only its digest is known. */
  readonly kept: boolean
  /** The action that last wrote it. */
  readonly written_by?: string
  /** The file as graph and disk last had it in common, which is what a merge starts from. Absent while it has never been on the disk. */
  readonly agreed?: Agreed
}

/** A file and what the disk said of it, so that an unchanged one need not be read again. */
export type Agreed = {
  readonly type: 'file' | 'link'
  readonly digest: Digest
  readonly size: number
  readonly mode: number
  readonly mtime_ms: number
  readonly ctime_ms: number
  readonly ino: number
  readonly kept: boolean
  /** It was read so shortly after it was written that a further write need not show in its times. */
  readonly racy?: true
}

/** What can be said of a file without its name. A folder or a device may have taken the place of one; neither is looked into. */
export type FileShape = {
  readonly type: 'file' | 'link' | 'folder' | 'other'
  readonly digest?: Digest
  readonly size: number
  readonly mode: number
  readonly kept: boolean
}

/** Where the graph and the world disagree, for as long as they do. */
export type FindingRecord = {
  readonly finding_id: string
  readonly what: 'added' | 'modified' | 'deleted' | 'renamed' | 'type_changed' | 'mode_changed' | 'invariant'
  /** Where it lies on the disk, or should; of an invariant, where in which object. */
  readonly path: string
  /** Where the graph has it, of a file that was renamed. */
  readonly from?: string
  readonly severity: 'low' | 'medium' | 'high' | 'critical'
  readonly found_at: string
  /** Of what is disagreed about: a decision holds for this and for nothing else. */
  readonly digest: Digest
  readonly believed?: FileShape
  readonly observed?: FileShape
  /** The action that last wrote what the graph believes in. */
  readonly written_by?: string
  /** Unified; a long one lies in a blob. */
  readonly diff?: string
  readonly diff_blob?: Digest
  readonly lines_added?: number
  readonly lines_removed?: number
  /** The question that was put to people. */
  readonly confirm_id?: string
  /** They have answered, and want both left as they are. */
  readonly declined?: true
  /** What is being done to the disk: begun, and not known to be finished. */
  readonly deed?: Deed
  /** Which invariant does not hold, and how. */
  readonly breach?: JsonObject
}

/** A change of the disk, and what the graph believes once it is done. */
export type Deed = {
  readonly deed_id: string
  readonly strategy: 'graph' | 'files' | 'merge'
  /** The run that is taken back by it. */
  readonly run?: string
  readonly operations: readonly FileOperation[]
  readonly records: readonly { readonly path: string; readonly record: FileRecord | null }[]
}

export type FileOperation =
  | { readonly op: 'put'; readonly path: string; readonly expect: FileShape | null; readonly become: FileShape }
  | { readonly op: 'remove'; readonly path: string; readonly expect: FileShape }
  | { readonly op: 'move'; readonly path: string; readonly to: string; readonly expect: FileShape }

/** A named revision. */
export type Snapshot = {
  readonly snapshot_id: string
  readonly name: string
  readonly revision: number
  readonly taken_at: string
  readonly plan_id?: string
}

/** A run that an action has submitted, or was about to: it is cancelled unless the action is completed. A node of its own: an action may have thousands. */
export type Child = {
  readonly child_id: string
  readonly action_id: string
  readonly run_id: string
}

/** Something that came from outside and waits to be taken in by the owner. */
export type Signal = {
  readonly signal_id: string
  readonly name: string
  readonly payload: Json
  readonly taken?: true
}
