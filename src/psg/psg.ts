export type {
  Acted,
  ActionRecord,
  Agreed,
  AnyNode,
  Began,
  Binding,
  Birth,
  BornEvent,
  Change,
  Changes,
  Child,
  Commit,
  CommitOptions,
  Deed,
  EdgeChange,
  Ended,
  EntryBody,
  EntryChange,
  EventDraft,
  FieldChange,
  FileOperation,
  FileRecord,
  FileShape,
  FindingRecord,
  Gate,
  Growth,
  Kind,
  Node,
  NodeAdd,
  NodeData,
  NodeDelete,
  NodeOf,
  NodeUpdate,
  Parent,
  Patch,
  Run,
  SegmentEnd,
  Settlement,
  Signal,
  Snapshot,
  Stored,
  Timer,
  ToldEvent,
  ToldHop,
  ToldMove,
  ToldOfRun,
  ToldUpdate,
  TurnRecord,
  WholeChange,
} from './change.ts'
export type { Delta } from './delta.ts'
export { DOCUMENT_KINDS, type Document, type DocumentKind, type DocumentOptions, takeApart } from './document.ts'
export {
  children,
  decide,
  dependants,
  dependencies,
  dot,
  endPlan,
  eventsIn,
  mermaid,
  move,
  path,
  pendingConfirms,
  planDigest,
  proposePlan,
  query,
  readySteps,
  startPlan,
  verdict,
  why,
} from './doors.ts'
export type { Finding } from './finding.ts'
export { type GraphOptions, openGraph, ProjectGraph, type Roles, type Wanted } from './graph.ts'
export { type Difference, graphAt, type Journal, type Past } from './history.ts'
export type { Documents } from './import-documents.ts'
export type { Whereabouts } from './indexes.ts'
export type { Deciding, Proposing } from './moves.ts'
export { type PatchOptions, type Paths, pathsOf } from './paths.ts'
export type { Subject } from './picture.ts'
export type { PlanFacts } from './plan-facts.ts'
export type { StepOrder } from './plan-order.ts'
export { openProject, type Project, type ProjectOptions } from './project.ts'
export type { Footing, Proposal } from './proposal.ts'
export type { Page, Query } from './query.ts'
export type { Conflict, Restoration } from './restore.ts'
export type { Report, Rule } from './rules/rule.ts'
export { FOLDING, RULES } from './rules.ts'
export type { RunEvent } from './run-event.ts'
export type { RestoreOptions } from './snapshot.ts'
export type { EdgeType, GraphState } from './state.ts'
export type { Verified, VerifyOptions } from './verify-project.ts'
export type { Reason } from './why.ts'
export type { Names } from './working-copy.ts'
export { writeTrailing } from './write-trailing.ts'
