// What `mplp-runtime` offers from its root, listed by hand. Rooms, stores and buses have entries of their own.
export { type ComposedRuntime, type ComposeOptions, openRuntime } from './compose.ts'
export {
  type ActionsConfig,
  type Config,
  type DriftConfig,
  defineConfig,
  type EffectiveConfig,
  type ModelConfig,
  type OpenOwnStore,
  type ServerConfig,
} from './config.ts'
export type { Role as TokenRole } from './config-check.ts'
export type { BindingSpec, Bindings, Resolver } from './orchestrator/bind.ts'
export type {
  FlowContract,
  FlowOptions,
  FlowResult,
  ModuleHandler,
  ModuleHandlers,
  RuntimeContext,
} from './orchestrator/flow.ts'
export { InMemoryAEL, InMemoryVSL } from './orchestrator/in-memory.ts'
export type { Lacking } from './orchestrator/lacking.ts'
export type { RunOptions } from './orchestrator/live.ts'
export { type MultiAgentFlow, runMultiAgentFlow } from './orchestrator/multi-agent.ts'
export { type FlowWithIds, flowOf, type NamedFlow, type NamedStep } from './orchestrator/named-flow.ts'
export type { ProjectFolder } from './orchestrator/project-folder.ts'
export type { ProposeOptions } from './orchestrator/propose-again.ts'
export type { Question } from './orchestrator/questions.ts'
export type { RerunOptions } from './orchestrator/rerun.ts'
export type { RollbackOptions, RollbackReport } from './orchestrator/rollback.ts'
export type { RunHandle } from './orchestrator/run.ts'
export { createRuntime, type Runtime, type RuntimeOptions } from './orchestrator/runtime.ts'
export { runSingleAgentFlow } from './orchestrator/single-agent.ts'
export type { ApprovalAsked, Flow } from './orchestrator/submit.ts'
export type { Placeless } from './orchestrator/without-place.ts'
export * from './protocol/errors.ts'
export type { Digest, Json, JsonGiven, JsonObject } from './protocol/json.ts'
export type { RunError, RunErrorCode } from './protocol/run-error.ts'
export type { RunResult } from './protocol/run-result.ts'
export type {
  Collab,
  Confirm,
  Context,
  Core,
  Dialog,
  Extension,
  Network,
  Plan,
  Role,
  Step,
  Trace,
} from './protocol/types.ts'
export { VERSION } from './protocol/version.ts'
export type { EndedRun } from './psg/ended-runs.ts'
