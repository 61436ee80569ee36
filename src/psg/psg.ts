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
} from './change.ts'
export { DOCUMENT_KINDS, type Document, type DocumentKind, takeApart } from './document.ts'
export { type GraphOptions, openGraph, ProjectGraph } from './graph.ts'
export { type Difference, graphAt, type Past } from './history.ts'
export { type Deciding, decide, endPlan, move, type Proposing, proposePlan, startPlan } from './moves.ts'
export { dot, mermaid } from './picture.ts'
export { openProject, type Project } from './project.ts'
export type { Conflict, Restoration } from './restore.ts'
export { FOLDING, RULES } from './rules.ts'
export type { RestoreOptions } from './snapshot.ts'
export type { GraphState } from './state.ts'
export type { Finding } from './verify.ts'
export {
  children,
  dependants,
  dependencies,
  type Page,
  path,
  pendingConfirms,
  type Query,
  query,
  type Reason,
  readySteps,
  why,
} from './view.ts'
