import { type Clock, isoNow } from './clock.ts'
import { InvalidInput, MplpError, type Problem } from './errors.ts'
import { object, refuseUnlessFit } from './fields.ts'
import { observabilityInvariants } from './invariant-rules.ts'
import { checkInvariants } from './invariants.ts'
import { isNameIn, type JsonObject } from './json.ts'
import { problem } from './problem.ts'
import { messageOf } from './thrown.ts'
import type {
  EventFamily,
  ExecutionStatus,
  ExecutorKind,
  GraphUpdateEvent,
  MapEvent,
  MapEventType,
  ObservabilityEvent,
  PipelineStageEvent,
  PlanStatus,
  RuntimeExecutionEvent,
  SaEvent,
  SaEventType,
  StageStatus,
  StepStatus,
  UpdateKind,
} from './types.ts'
import { validate, validateProfileEvent } from './validate.ts'

/** As what and when an event happened: given, or asked of a clock. */
export type Stamp = { readonly event_id: string; readonly timestamp: string } | Pick<Clock, 'now' | 'uuid'>

/** What every observability event may say. */
export interface EventFields {
  readonly event_type: string
  readonly project_id?: string
  readonly payload?: JsonObject
}

export interface PipelineStageFields extends EventFields {
  readonly pipeline_id: string
  readonly stage_id: string
  readonly stage_status: StageStatus
  readonly stage_name?: string
  readonly stage_order?: number
}

export interface GraphUpdateFields extends EventFields {
  readonly graph_id: string
  readonly update_kind: UpdateKind
  readonly node_delta: number
  readonly edge_delta: number
  readonly source_module?: string
}

export interface RuntimeExecutionFields extends EventFields {
  readonly execution_id: string
  readonly executor_kind: ExecutorKind
  readonly status: ExecutionStatus
  readonly executor_role?: string
}

export interface SaFields {
  readonly event_type: SaEventType
  readonly sa_id: string
  readonly context_id?: string
  readonly plan_id?: string
  readonly trace_id?: string
  readonly payload?: JsonObject
}

export interface MapFields {
  readonly event_type: MapEventType
  readonly session_id: string
  readonly initiator_role?: string
  readonly target_roles?: readonly string[]
  readonly payload?: JsonObject
}

/**
 * Makes the events of one family: complete, stamped, and checked against its schema and the observability invariants.
 * Observability events are open: `beside` adds members of our own to the protocol's.
 */
export type Maker<Fields extends EventFields, Event extends ObservabilityEvent> = (
  fields: Fields,
  stamp: Stamp,
  beside?: JsonObject,
) => Event

export const pipelineStageEvent: Maker<PipelineStageFields, PipelineStageEvent> = makerOf('pipeline_stage')
export const graphUpdateEvent: Maker<GraphUpdateFields, GraphUpdateEvent> = makerOf('graph_update')
export const runtimeExecutionEvent: Maker<RuntimeExecutionFields, RuntimeExecutionEvent> = makerOf('runtime_execution')
export const importProcessEvent: Maker<EventFields, ObservabilityEvent> = makerOf('import_process')
export const intentEvent: Maker<EventFields, ObservabilityEvent> = makerOf('intent')
export const deltaIntentEvent: Maker<EventFields, ObservabilityEvent> = makerOf('delta_intent')
export const impactAnalysisEvent: Maker<EventFields, ObservabilityEvent> = makerOf('impact_analysis')
export const compensationPlanEvent: Maker<EventFields, ObservabilityEvent> = makerOf('compensation_plan')
export const methodologyEvent: Maker<EventFields, ObservabilityEvent> = makerOf('methodology')
export const reasoningGraphEvent: Maker<EventFields, ObservabilityEvent> = makerOf('reasoning_graph')
export const costBudgetEvent: Maker<EventFields, ObservabilityEvent> = makerOf('cost_budget')
export const externalIntegrationEvent: Maker<EventFields, ObservabilityEvent> = makerOf('external_integration')

/** An event of the single-agent profile, with the payload that its type asks for. */
export const saEvent = (fields: SaFields, stamp: Stamp): SaEvent =>
  validateProfileEvent('sa-event', whole(fields, stamp))

/** An event of the multi-agent profile, with the payload that its type asks for. */
export const mapEvent = (fields: MapFields, stamp: Stamp): MapEvent =>
  validateProfileEvent('map-event', whole(fields, stamp))

export function kindOfFamily(family: EventFamily): ObservabilityKind {
  return isNameIn(SPECIAL, family) ? SPECIAL[family] : 'event-core'
}

/** Which of the observability invariants an event that fits its schema still breaks: those are stricter, of ids above all. */
export const observabilityProblems = (event: unknown): readonly Problem[] =>
  checkInvariants(observabilityInvariants, { event }).map(({ id, path, message, found }) => ({
    path: path.replace(/^event\./, ''),
    rule: id,
    message,
    found,
  }))

export function stageStatus(status: PlanStatus | StepStatus, started = false): StageStatus {
  if (!isNameIn(STAGES, status)) {
    throw new InvalidInput('status', [problem('', 'enum', 'is no status', status)])
  }
  const stage = STAGES[status]
  return stage === 'cancelled' ? (started ? 'failed' : 'skipped') : stage
}

export type ObservabilityKind = 'event-core' | (typeof SPECIAL)[keyof typeof SPECIAL]

const SPECIAL = {
  pipeline_stage: 'pipeline-stage-event',
  graph_update: 'graph-update-event',
  runtime_execution: 'runtime-execution-event',
} as const

const STAGES: Readonly<Record<PlanStatus | StepStatus, StageStatus | 'cancelled'>> = {
  draft: 'pending',
  proposed: 'pending',
  approved: 'pending',
  pending: 'pending',
  blocked: 'pending',
  in_progress: 'running',
  completed: 'completed',
  failed: 'failed',
  skipped: 'skipped',
  cancelled: 'cancelled',
}

function makerOf<Fields extends EventFields, Event extends ObservabilityEvent>(event_family: EventFamily) {
  return (fields: Fields, stamp: Stamp, beside?: JsonObject): Event => {
    refuseUnlessFit('event', { fields, beside }, { fields: object, beside: object })
    const kind = kindOfFamily(event_family)
    const event = validate(
      kind,
      read(() => ({ ...beside, ...fields, event_family, ...stamped(stamp) })),
    )
    const found = observabilityProblems(event)
    if (found.length > 0) throw new InvalidInput(kind, found)
    return event as Event
  }
}

function whole(fields: SaFields | MapFields, stamp: Stamp): object {
  refuseUnlessFit('event', { fields }, { fields: object })
  return read(() => ({ ...fields, ...stamped(stamp) }))
}

/** What throws when it is read is no event. */
function read<T>(parts: () => T): T {
  try {
    return parts()
  } catch (cause) {
    if (cause instanceof MplpError) throw cause
    const message = `threw while it was read: ${messageOf(cause)}`
    throw new InvalidInput('event', [{ path: '', rule: 'readable', message }], { cause })
  }
}

function stamped(stamp: Stamp): { event_id: string; timestamp: string } {
  const given = Object(stamp) as Stamp // without one, the validator says what is missing
  if ('uuid' in given) return { event_id: given.uuid(), timestamp: isoNow(given) }
  return { event_id: given.event_id, timestamp: given.timestamp }
}
