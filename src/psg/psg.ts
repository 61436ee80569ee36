export { planDigest, verdict } from './approval.ts'
export type {
  ActionRecord,
  Agreed,
  AnyNode,
  Binding,
  BornEvent,
  Change,
  Changes,
  Commit,
  CommitOptions,
  Deed,
  EntryBody,
  EntryChange,
  EventDraft,
  FieldChange,
  FileOperation,
  FileRecord,
  FileShape,
  FindingRecord,
  Gate,
  Kind,
  Node,
  NodeData,
  NodeOf,
  Run,
  SegmentEnd,
  Signal,
  Snapshot,
  Timer,
  ToldEvent,
} from './change.ts'
export type { Delta } from './delta.ts'
export { DOCUMENT_KINDS, type Document, type DocumentKind, takeApart } from './document.ts'
export type { Finding } from './finding.ts'
export { type GraphOptions, openGraph, ProjectGraph, type Roles, type Wanted } from './graph.ts'
export { type Difference, graphAt, type Past } from './history.ts'
export { type Deciding, decide, endPlan, move, type Proposing, proposePlan, startPlan } from './moves.ts'
export { type PatchOptions, type Paths, pathsOf } from './paths.ts'
export { dot, mermaid, type Subject } from './picture.ts'
export { openProject, type Project, type ProjectOptions } from './project.ts'
export { type Page, type Query, query } from './query.ts'
export type { Conflict, Restoration } from './restore.ts'
export { FOLDING, RULES } from './rules.ts'
export type { RestoreOptions } from './snapshot.ts'
export type { GraphState } from './state.ts'
export { eventsIn } from './told.ts'
export {
  children,
  dependants,
  dependencies,
  path,
  pendingConfirms,
  readySteps,
} from './view.ts'
export { type Reason, why } from './why.ts'
