import type { AnyNode, Kind, Node } from './change.ts'

/** What the graph needs to know of a kind; everything that differs between kinds stands in this one table. */
export class KindFacts {
  /** The field that holds its id; absent for parts that have none. */
  readonly idField: string | undefined
  /** The module whose area it is; `runtime` for our own. */
  readonly module!: string
  /** The validator's name; absent for runtime-local kinds, whose shapes are in shapes.ts. */
  readonly schema: string | undefined
  /** The lifecycle table that governs its `status`. */
  readonly lifecycle: string | undefined
  /** The kind it is a part of. */
  readonly partOf: Kind | undefined
  /** The list of its document whose members are nodes of their own, and what they are. */
  readonly parts: { readonly list: string; readonly kind: Kind } | undefined
  /** Its id is unique in the whole store, and it can be found by it. Kinds without it are found through what they belong to. */
  readonly indexed: true | undefined
  /** Begins a group of its own. */
  readonly root: true | undefined
  readonly writeOnce: true | undefined
  /** Lives in the project's graph, and is retired rather than deleted. */
  readonly project: true | undefined
  /** Belongs to running, not to the definition: never restored, changes only forward. */
  readonly runState: true | undefined
  /** Follows from other things and passes with them: never restored. */
  readonly passing: true | undefined
  /** Fields that tell what was last seen of it, not what it is. */
  readonly seen: readonly string[] | undefined
  /** Fields that name other nodes. */
  readonly refs: readonly RefFacts[] | undefined
  /** Fields that never change, besides the id and those that name other nodes. */
  readonly fixed: readonly string[] | undefined
  /** The field that names a Role, by id or by name. */
  readonly role: string | undefined
  /** The group it is kept in when nothing else tells one. */
  readonly group: string | undefined
  /** Names used in events. */
  readonly added!: string
  readonly updated!: string

  /** Rows of one make, with every member: each commit looks many things up here, and the engine finds them without a search. */
  constructor(given: Pick<KindFacts, 'module' | 'added' | 'updated'> & Partial<KindFacts>) {
    Object.assign(this, given)
  }
}

export interface RefFacts {
  readonly field: string
  readonly edge: string
  readonly to: Kind | ((node: AnyNode) => Kind)
  /** May also name something that no graph knows; then there is no edge. */
  readonly soft?: (node: AnyNode) => boolean
  /** Also taken for the group of the node, so that it is loaded with what it hangs on. */
  readonly groups?: true
}

const inContext: RefFacts = { field: 'context_id', edge: 'HAS_CONTEXT', to: 'context' }

export const KINDS: { readonly [K in Kind]: KindFacts } = {
  context: new KindFacts({
    idField: 'context_id',
    module: 'context',
    schema: 'context',
    lifecycle: 'context',
    role: 'owner_role',
    indexed: true,
    added: 'context_created',
    updated: 'context_updated',
  }),
  plan: new KindFacts({
    idField: 'plan_id',
    module: 'plan',
    schema: 'plan',
    lifecycle: 'plan',
    parts: { list: 'steps', kind: 'step' },
    indexed: true,
    root: true,
    added: 'plan_created',
    updated: 'plan_updated',
    refs: [inContext],
  }),
  step: new KindFacts({
    idField: 'step_id',
    module: 'plan',
    schema: 'step',
    lifecycle: 'step',
    partOf: 'plan',
    role: 'agent_role',
    indexed: true,
    added: 'step_added',
    updated: 'step_updated',
    refs: [{ field: 'dependencies', edge: 'DEPENDS_ON', to: 'step' }],
  }),
  confirm: new KindFacts({
    idField: 'confirm_id',
    module: 'confirm',
    schema: 'confirm',
    lifecycle: 'confirm',
    parts: { list: 'decisions', kind: 'decision' },
    indexed: true,
    runState: true,
    role: 'requested_by_role',
    fixed: ['target_type'],
    added: 'confirm_created',
    updated: 'confirm_updated',
    refs: [
      {
        field: 'target_id',
        edge: 'CONFIRMS',
        to: (node) => targetKind(node as Node<'confirm'>),
        soft: targetsOther,
        groups: true,
      },
    ],
  }),
  decision: new KindFacts({
    idField: 'decision_id',
    module: 'confirm',
    schema: 'decision',
    partOf: 'confirm',
    role: 'decided_by_role',
    indexed: true,
    writeOnce: true,
    runState: true,
    added: 'decision_added',
    updated: 'decision_updated',
  }),
  trace: new KindFacts({
    idField: 'trace_id',
    module: 'trace',
    schema: 'trace',
    lifecycle: 'trace',
    parts: { list: 'segments', kind: 'segment' },
    indexed: true,
    root: true,
    runState: true,
    added: 'trace_created',
    updated: 'trace_updated',
    refs: [
      { field: 'context_id', edge: 'TRACES', to: 'context' },
      { field: 'plan_id', edge: 'RECORDS', to: 'plan', groups: true },
    ],
  }),
  segment: new KindFacts({
    idField: 'segment_id',
    module: 'trace',
    schema: 'segment',
    partOf: 'trace',
    indexed: true,
    writeOnce: true,
    runState: true,
    added: 'segment_started',
    updated: 'segment_updated',
    refs: [{ field: 'parent_segment_id', edge: 'PARENT', to: 'segment' }],
  }),
  segment_end: new KindFacts({
    idField: 'segment_id',
    module: 'trace',
    partOf: 'trace',
    writeOnce: true,
    runState: true,
    added: 'segment_ended',
    updated: 'segment_updated',
    refs: [{ field: 'segment_id', edge: 'ENDS', to: 'segment' }],
  }),
  role: new KindFacts({
    idField: 'role_id',
    module: 'role',
    schema: 'role',
    indexed: true,
    project: true,
    added: 'role_created',
    updated: 'role_updated',
  }),
  extension: new KindFacts({
    idField: 'extension_id',
    module: 'extension',
    schema: 'extension',
    lifecycle: 'extension',
    indexed: true,
    added: 'extension_registered',
    updated: 'extension_updated',
    refs: [inContext],
  }),
  dialog: new KindFacts({
    idField: 'dialog_id',
    module: 'dialog',
    schema: 'dialog',
    lifecycle: 'dialog',
    parts: { list: 'messages', kind: 'message' },
    indexed: true,
    root: true,
    added: 'dialog_created',
    updated: 'dialog_updated',
    refs: [inContext],
  }),
  message: new KindFacts({
    module: 'dialog',
    schema: 'message',
    partOf: 'dialog',
    writeOnce: true,
    added: 'message_added',
    updated: 'message_updated',
  }),
  collab: new KindFacts({
    idField: 'collab_id',
    module: 'collab',
    schema: 'collab',
    lifecycle: 'collab',
    parts: { list: 'participants', kind: 'participant' },
    indexed: true,
    root: true,
    added: 'collab_created',
    updated: 'collab_updated',
    refs: [inContext],
  }),
  participant: new KindFacts({
    module: 'collab',
    schema: 'participant',
    partOf: 'collab',
    role: 'role_id',
    added: 'participant_added',
    updated: 'participant_updated',
  }),
  core: new KindFacts({
    idField: 'core_id',
    module: 'core',
    schema: 'core',
    lifecycle: 'core',
    indexed: true,
    project: true,
    added: 'core_created',
    updated: 'core_updated',
  }),
  network: new KindFacts({
    idField: 'network_id',
    module: 'network',
    schema: 'network',
    lifecycle: 'network',
    parts: { list: 'nodes', kind: 'network_node' },
    indexed: true,
    root: true,
    added: 'network_created',
    updated: 'topology_changed',
    refs: [inContext],
  }),
  network_node: new KindFacts({
    idField: 'node_id',
    module: 'network',
    schema: 'network-node',
    partOf: 'network',
    role: 'role_id',
    indexed: true,
    added: 'node_added',
    updated: 'node_status_changed',
  }),
  binding: new KindFacts({
    idField: 'binding_id',
    module: 'plan',
    added: 'binding_added',
    updated: 'binding_updated',
    refs: [{ field: 'step_id', edge: 'BINDS', to: 'step', groups: true }],
  }),
  action: new KindFacts({
    idField: 'action_id',
    module: 'runtime',
    indexed: true,
    runState: true,
    added: 'action_started',
    updated: 'action_updated',
    refs: [{ field: 'step_id', edge: 'EXECUTES', to: 'step', groups: true }],
  }),
  gate: new KindFacts({
    idField: 'gate_id',
    module: 'confirm',
    indexed: true,
    fixed: ['target', 'digest', 'needed', 'roles', 'expires_at', 'shows'],
    runState: true,
    added: 'gate_created',
    updated: 'gate_updated',
    refs: [{ field: 'confirm_id', edge: 'GATES', to: 'confirm', groups: true }],
  }),
  run: new KindFacts({
    idField: 'run_id',
    module: 'runtime',
    indexed: true,
    fixed: ['parent'],
    runState: true,
    added: 'run_created',
    updated: 'run_updated',
    refs: [
      { field: 'plan_id', edge: 'RUNS', to: 'plan', groups: true },
      { field: 'trace_id', edge: 'TRACED_BY', to: 'trace' },
    ],
  }),
  timer: new KindFacts({
    idField: 'timer_id',
    module: 'runtime',
    fixed: ['due', 'target', 'wait_ms'],
    runState: true,
    added: 'timer_set',
    updated: 'timer_fired',
  }),
  // There may be very many of them, and only drift and rollback ask: they are loaded when somebody does.
  file: new KindFacts({
    module: 'runtime',
    group: 'files',
    seen: ['agreed', 'mtime'],
    added: 'file_tracked',
    updated: 'file_updated',
  }),
  finding: new KindFacts({
    idField: 'finding_id',
    module: 'runtime',
    group: 'drift',
    passing: true,
    added: 'finding_recorded',
    updated: 'finding_updated',
  }),
  snapshot: new KindFacts({
    idField: 'snapshot_id',
    module: 'runtime',
    writeOnce: true,
    runState: true,
    added: 'snapshot_taken',
    updated: 'snapshot_updated',
  }),
  signal: new KindFacts({
    idField: 'signal_id',
    module: 'runtime',
    runState: true,
    added: 'signal_received',
    updated: 'signal_taken',
  }),
  child: new KindFacts({
    idField: 'child_id',
    module: 'runtime',
    writeOnce: true,
    runState: true,
    added: 'child_added',
    updated: 'child_updated',
    refs: [{ field: 'action_id', edge: 'SUBMITTED_BY', to: 'action', groups: true }],
  }),
}

/** The kind a Confirm points at. `other` is how the protocol lets it point at an action of ours, or at a stranger's thing. */
function targetKind(node: Node<'confirm'>): Kind {
  const { target_type } = node.data
  return Object.hasOwn(KINDS, target_type) ? (target_type as Kind) : 'action'
}
function targetsOther(node: AnyNode): boolean {
  return (node as Node<'confirm'>).data.target_type === 'other'
}
