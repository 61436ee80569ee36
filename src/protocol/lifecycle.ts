import { InvalidInput } from './errors.ts'
import { isNameIn } from './json.ts'
import { problem } from './problem.ts'
import type {
  CollabStatus,
  Confirm,
  ConfirmStatus,
  ContextStatus,
  CoreStatus,
  DialogStatus,
  ExtensionStatus,
  NetworkStatus,
  PlanStatus,
  SegmentStatus,
  StepStatus,
  TraceStatus,
} from './types.ts'

/** What has a lifecycle, and the statuses it may have. A Role has none; nodes, module descriptors and decisions never move. */
export type Statuses = {
  readonly context: ContextStatus
  readonly plan: PlanStatus
  readonly step: StepStatus
  readonly confirm: ConfirmStatus
  readonly trace: TraceStatus
  readonly segment: SegmentStatus
  readonly dialog: DialogStatus
  readonly collab: CollabStatus
  readonly extension: ExtensionStatus
  readonly core: CoreStatus
  readonly network: NetworkStatus
}
export type LifecycleKind = keyof Statuses

/** Staying where one is, is no move. */
export function mayMove<K extends LifecycleKind>(kind: K, from: Statuses[K], to: Statuses[K]): boolean {
  return movesFrom(kind, from).includes(known(kind, to))
}

/** As `mayMove`, but a rejected Confirm of a single call (target `other`) stays rejected: a changed call is a new one. */
export function confirmMayMove(confirm: Pick<Confirm, 'status' | 'target_type'>, to: ConfirmStatus): boolean {
  const { status, target_type } = Object(confirm) as typeof confirm
  if (status === 'rejected' && target_type === 'other') return false
  return mayMove('confirm', status, to)
}

/** Nothing moves on from here. */
export function isTerminal<K extends LifecycleKind>(kind: K, status: Statuses[K]): boolean {
  return movesFrom(kind, status).length === 0
}

/** How a plan can end. */
export const PLAN_ENDINGS = ['completed', 'failed', 'cancelled'] as const satisfies readonly PlanStatus[]

/** In the order of the protocol's enum. */
export function statusesOf<K extends LifecycleKind>(kind: K): readonly Statuses[K][] {
  return Object.keys(tableOf(kind)) as Statuses[K][]
}

export function moveRule<K extends LifecycleKind>(kind: K, from: Statuses[K], to: Statuses[K]): string {
  return `lifecycle.${kind}.${from}->${to}`
}

type Moves<S extends string> = Readonly<Record<S, readonly S[]>>

/**
 * Who may move where: the one place. An empty list is the end of a life. Where an arrow is not the protocol's,
 * its line says why we need it.
 */
export const lifecycles: { readonly [K in LifecycleKind]: Moves<Statuses[K]> } = {
  context: {
    draft: ['active', 'closed'],
    active: ['suspended', 'archived'],
    suspended: ['active', 'closed'],
    archived: ['closed'],
    closed: [],
  },

  // Nothing reaches in_progress but through approval; not even a policy that approves everything skips a station.
  plan: {
    draft: ['proposed', 'cancelled'],
    proposed: ['approved', 'draft', 'cancelled'], // ours: cancelled, or a plan nobody decides on could never be dropped
    approved: ['in_progress', 'cancelled'], // ours: cancelled, because minds change between approval and start
    in_progress: ['completed', 'failed', 'cancelled'],
    completed: [],
    cancelled: [],
    failed: [],
  },

  step: {
    pending: ['in_progress', 'blocked', 'skipped'],
    in_progress: ['completed', 'failed', 'skipped'], // ours: skipped, the end of a step whose failure policy is `skip`
    completed: [],
    blocked: ['pending', 'skipped'], // ours: skipped, because the end of a plan ends its blocked steps too
    skipped: [],
    failed: [],
  },

  confirm: {
    pending: ['approved', 'rejected', 'cancelled'],
    approved: [],
    // Ours, both: the module page calls rejected final, the protocol's own golden flow rejects and then approves one
    // Confirm. It reopens when its plan is proposed again, or follows a later decision.
    rejected: ['pending', 'approved'],
    cancelled: [],
  },

  trace: {
    pending: ['running', 'cancelled'],
    running: ['completed', 'failed', 'cancelled'],
    completed: [],
    failed: [],
    cancelled: [],
  },

  segment: {
    pending: ['running', 'skipped'],
    running: ['completed', 'failed', 'cancelled'],
    completed: [],
    failed: [],
    cancelled: [],
    skipped: [],
  },

  dialog: {
    active: ['paused', 'completed', 'cancelled'],
    paused: ['active', 'cancelled'],
    completed: [],
    cancelled: [],
  },

  collab: {
    draft: ['active', 'cancelled'],
    active: ['suspended', 'completed', 'cancelled'],
    suspended: ['active'],
    completed: [],
    cancelled: [],
  },

  extension: {
    registered: ['active'],
    active: ['inactive', 'deprecated'],
    inactive: ['active'],
    deprecated: ['inactive'],
  },

  core: {
    draft: ['active'],
    active: ['deprecated'],
    deprecated: ['archived'],
    archived: [],
  },

  network: {
    draft: ['provisioning'],
    provisioning: ['active'],
    active: ['degraded', 'maintenance', 'retired'],
    degraded: ['active'],
    maintenance: ['active'],
    retired: [],
  },
}

function tableOf<K extends LifecycleKind>(kind: K): Moves<Statuses[K]> {
  if (isNameIn(lifecycles, kind)) return lifecycles[kind]
  throw refused('kind', 'has no lifecycle', kind)
}

function movesFrom<K extends LifecycleKind>(kind: K, from: Statuses[K]): readonly Statuses[K][] {
  const moves: unknown = lifecycles[kind]?.[from] // nothing that every object has is a list
  return Array.isArray(moves) ? moves : tableOf(kind)[known(kind, from)]
}

function known<K extends LifecycleKind>(kind: K, status: Statuses[K]): Statuses[K] {
  if (isNameIn(tableOf(kind), status)) return status
  throw refused(`${kind} status`, `is not a status of a ${kind}`, status)
}

const refused = (subject: string, message: string, found: unknown): InvalidInput =>
  new InvalidInput(subject, [problem('', 'enum', message, found)])
