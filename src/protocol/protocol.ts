// What `mplp-runtime/protocol` offers: the words every room speaks.
export { type AnyEvent, dotted, eventKind, toBaseEvent } from './base-event.ts'
export { type Clock, isoMicros, type ManualClock, manualClock, systemClock } from './clock.ts'
export {
  type BinaryCloudEvent,
  type CloudEvent,
  type CloudOptions,
  fromBinaryCloudEvent,
  fromCloudEvent,
  toBinaryCloudEvent,
  toCloudEvent,
} from './cloud-events.ts'
export { kindOfFamily, moveRule, stageStatus } from './doors.ts'
export * from './errors.ts'
export {
  compensationPlanEvent,
  costBudgetEvent,
  deltaIntentEvent,
  type EventFields,
  externalIntegrationEvent,
  type GraphUpdateFields,
  graphUpdateEvent,
  impactAnalysisEvent,
  importProcessEvent,
  intentEvent,
  type Maker,
  type MapFields,
  mapEvent,
  methodologyEvent,
  type ObservabilityKind,
  type PipelineStageFields,
  pipelineStageEvent,
  type RuntimeExecutionFields,
  reasoningGraphEvent,
  runtimeExecutionEvent,
  type SaFields,
  type Stamp,
  saEvent,
} from './events.ts'
export { schemas } from './generated/schemas.ts'
export {
  goldenInvariants,
  integrationInvariants,
  learningInvariants,
  mapInvariants,
  observabilityInvariants,
  protocolInvariants,
  saInvariants,
} from './invariant-rules.ts'
export {
  type Breach,
  type CheckOptions,
  checkInvariants,
  type EventInvariant,
  type Invariant,
  type PathInvariant,
  parseInvariant,
  type Scope,
  type Subjects,
} from './invariants.ts'
export {
  canonical,
  type Digest,
  digestOf,
  digestOfJson,
  isObject,
  type Json,
  type JsonGiven,
  type JsonObject,
  uuidOf,
} from './json.ts'
export {
  confirmMayMove,
  isTerminal,
  type LifecycleKind,
  lifecycles,
  mayMove,
  type Statuses,
  statusesOf,
} from './lifecycle.ts'
export type { EventComplaint } from './map-rules.ts'
export { type Path, type PathStep, parsePath, type SinglePath } from './paths.ts'
export { type Condition, parseRule, type Rule } from './rules.ts'
export type { Schema, TypeName } from './schema.ts'
export type * from './types.ts'
export { isValid, problems, profileProblems, validate, validateProfileEvent } from './validate.ts'
