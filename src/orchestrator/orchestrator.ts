// What `mplp-runtime/orchestrator` offers: running plans, alone or as flows of one or several agents.

export type { AskPeople } from '../protocol/approvers.ts'
export type { RunError, RunErrorCode } from '../protocol/run-error.ts'
export type { RunResult, Undone } from '../protocol/run-result.ts'
export { VERSION } from '../protocol/version.ts'
export type { EndedRun } from '../psg/ended-runs.ts'
export type { BindingSpec, Bindings, Resolver } from './bind.ts'
export type { ConflictRules, Strategy } from './conflict.ts'
export { modes } from './doors.ts'
export type {
  Coordination,
  FlowContract,
  FlowError,
  FlowErrorCode,
  FlowOptions,
  FlowOutput,
  FlowResult,
  ModuleCall,
  ModuleHandler,
  ModuleHandlers,
  ModuleOutput,
  OlderOptions,
  RuntimeContext,
} from './flow.ts'
export { InMemoryAEL, InMemoryVSL } from './in-memory.ts'
export type { IntegrationKind } from './ingest.ts'
export type { Lacking } from './lacking.ts'
export type { Limits, RunOptions } from './live.ts'
export type { Board, Mode, NextTurn, Purpose, ReadyStep, Seat, Turn } from './modes/mode.ts'
export { protocolHandlers } from './modules/handlers.ts'
export type { Ground, Intent, Maker, Module, Proposed } from './modules/module.ts'
export { protocolModules } from './modules/modules.ts'
export { type MultiAgentFlow, runMultiAgentFlow } from './multi-agent.ts'
export { type FlowWithIds, flowOf, type NamedFlow, type NamedStep } from './named-flow.ts'
export { mapBreaches } from './profiles/map.ts'
export { saBreaches } from './profiles/sa.ts'
export type { FolderOptions, FolderScan, ProjectFolder } from './project-folder.ts'
export type { ProposeOptions } from './propose-again.ts'
export type { Question } from './questions.ts'
export { type Registry, registry } from './registry.ts'
export { type Relay, type RelayOptions, relay } from './relay.ts'
export type { Bounds } from './relay-feed.ts'
export type { RerunOptions } from './rerun.ts'
export type { RollbackOptions, RollbackReport } from './rollback.ts'
export type { EffectOutcome } from './rollback-effect.ts'
export type { RunHandle } from './run.ts'
export { createRuntime, type Runtime, type RuntimeOptions } from './runtime.ts'
export type { SessionAsked } from './session.ts'
export { runSingleAgentFlow } from './single-agent.ts'
export type { ApprovalAsked, Flow } from './submit.ts'
export { type Trimmed, type TrimOptions, trim } from './trim.ts'
export type { Wishes } from './wishes.ts'
export { type EndedBefore, type WithoutEnded, withoutEnded } from './without-ended.ts'
export type { Placeless } from './without-place.ts'
