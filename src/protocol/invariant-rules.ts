import { FAMILIES } from './families.ts'
import type { Invariant, PathInvariant, Scope } from './invariants.ts'
import { unfinishedTurns, unheardBroadcasts } from './map-rules.ts'

type Row = (id: string, path: string, rule: string, presence?: 'if present') => PathInvariant

const about =
  (scope: Scope, when?: string): Row =>
  (id, path, rule, presence) => ({
    ...{ id, scope, path, rule },
    ...(when === undefined ? {} : { when }),
    ...(presence === undefined ? {} : { ifPresent: true }),
  })

const context = about('context')
const plan = about('plan')
const confirm = about('confirm')
const trace = about('trace')
const collab = about('collab')
const event = about('event')
const stageEvent = about('event', 'event_family == "pipeline_stage"')
const graphEvent = about('event', 'event_family == "graph_update"')
const executionEvent = about('event', 'event_family == "runtime_execution"')
const toolEvent = about('tool_event')
const fileEvent = about('file_update_event')
const gitEvent = about('git_event')
const ciEvent = about('ci_event')
const sample = about('learning_sample')
const intentSample = about('learning_sample', 'sample_family == "intent_resolution"')
const deltaSample = about('learning_sample', 'sample_family == "delta_impact"')

const UPDATES = 'node_add,node_update,node_delete,edge_add,edge_update,edge_delete,bulk'

/** A run of one agent. */
export const saInvariants: readonly Invariant[] = [
  context('sa_requires_context', 'context_id', 'uuid-v4'),
  context('sa_context_must_be_active', 'status', 'enum(active)'),
  plan('sa_plan_context_binding', 'context_id', 'eq(context.context_id)'),
  plan('sa_plan_has_steps', 'steps', 'min-length(1)'),
  plan('sa_steps_have_valid_ids', 'steps[*].step_id', 'uuid-v4'),
  plan('sa_steps_agent_role_if_present', 'steps[*].agent_role', 'non-empty-string', 'if present'),
  trace('sa_trace_not_empty', 'events', 'min-length(1)'),
  trace('sa_trace_context_binding', 'context_id', 'eq(context.context_id)'),
  trace('sa_trace_plan_binding', 'plan_id', 'eq(plan.plan_id)'),
]

/** A session of several. The last two speak of its events. */
export const mapInvariants: readonly Invariant[] = [
  collab('map_session_requires_participants', 'participants', 'min-length(1)'),
  collab('map_collab_mode_valid', 'mode', 'enum(broadcast,round_robin,orchestrated,swarm,pair)'),
  collab('map_session_id_is_uuid', 'collab_id', 'uuid-v4'),
  collab('map_participants_have_role_ids', 'participants[*].role_id', 'non-empty-string'),
  collab('map_role_ids_non_empty', 'participants[*].role_id', 'optional-string'),
  collab('map_participant_ids_are_non_empty', 'participants[*].participant_id', 'non-empty-string'),
  collab('map_participant_kind_valid', 'participants[*].kind', 'enum(agent,human,system,external)'),
  { id: 'map_turn_completion_matches_dispatch', scope: 'trace', events: unfinishedTurns },
  { id: 'map_broadcast_has_receivers', scope: 'trace', events: unheardBroadcasts },
]

/** Every observability event. SA and MAP events have no family, so they are not checked with these. */
export const observabilityInvariants: readonly Invariant[] = [
  event('obs_event_id_is_uuid', 'event_id', 'uuid-v4'),
  event('obs_event_type_non_empty', 'event_type', 'non-empty-string'),
  event('obs_event_family_valid', 'event_family', `enum(${FAMILIES.join()})`),
  event('obs_timestamp_iso_format', 'timestamp', 'iso-datetime'),
  stageEvent('obs_pipeline_event_has_pipeline_id', 'pipeline_id', 'uuid-v4'),
  stageEvent('obs_pipeline_stage_id_non_empty', 'stage_id', 'non-empty-string'),
  stageEvent('obs_pipeline_stage_status_valid', 'stage_status', 'enum(pending,running,completed,failed,skipped)'),
  graphEvent('obs_graph_event_has_graph_id', 'graph_id', 'uuid-v4'),
  graphEvent('obs_graph_update_kind_valid', 'update_kind', `enum(${UPDATES})`),
  executionEvent('obs_runtime_event_has_execution_id', 'execution_id', 'uuid-v4'),
  executionEvent('obs_runtime_executor_kind_valid', 'executor_kind', 'enum(agent,tool,llm,worker,external)'),
  executionEvent('obs_runtime_status_valid', 'status', 'enum(pending,running,completed,failed,cancelled)'),
]

/** Events from outside. */
export const integrationInvariants: readonly Invariant[] = [
  toolEvent('integration_tool_event_id_non_empty', 'tool_id', 'non-empty-string'),
  toolEvent('integration_tool_kind_valid', 'tool_kind', 'enum(formatter,linter,test_runner,generator,other)'),
  toolEvent('integration_tool_invocation_id_uuid', 'invocation_id', 'uuid-v4'),
  toolEvent('integration_tool_status_valid', 'status', 'enum(pending,running,succeeded,failed,cancelled)'),
  toolEvent('integration_tool_started_at_iso', 'started_at', 'iso-datetime', 'if present'),
  fileEvent('integration_file_path_non_empty', 'file_path', 'non-empty-string'),
  fileEvent('integration_file_change_type_valid', 'change_type', 'enum(created,modified,deleted,renamed)'),
  fileEvent('integration_file_timestamp_iso', 'timestamp', 'iso-datetime'),
  gitEvent('integration_git_repo_url_non_empty', 'repo_url', 'non-empty-string'),
  gitEvent('integration_git_commit_id_non_empty', 'commit_id', 'non-empty-string'),
  gitEvent('integration_git_ref_name_non_empty', 'ref_name', 'non-empty-string'),
  gitEvent('integration_git_event_kind_valid', 'event_kind', 'enum(commit,push,merge,tag,branch_create,branch_delete)'),
  gitEvent('integration_git_timestamp_iso', 'timestamp', 'iso-datetime'),
  ciEvent('integration_ci_provider_non_empty', 'ci_provider', 'non-empty-string'),
  ciEvent('integration_ci_pipeline_id_non_empty', 'pipeline_id', 'non-empty-string'),
  ciEvent('integration_ci_run_id_non_empty', 'run_id', 'non-empty-string'),
  ciEvent('integration_ci_status_valid', 'status', 'enum(pending,running,succeeded,failed,cancelled)'),
  ciEvent('integration_ci_started_at_iso', 'started_at', 'iso-datetime', 'if present'),
  ciEvent('integration_ci_completed_at_iso', 'completed_at', 'iso-datetime', 'if present'),
]

/** Open learning samples, `learning-sample-core` and its two families. */
export const learningInvariants: readonly Invariant[] = [
  sample('learning_sample_id_is_uuid', 'sample_id', 'uuid-v4'),
  sample('learning_sample_family_non_empty', 'sample_family', 'non-empty-string'),
  sample('learning_sample_created_at_iso', 'created_at', 'iso-datetime'),
  sample('learning_sample_has_input_section', 'input', 'exists'),
  sample('learning_sample_has_output_section', 'output', 'exists'),
  sample(
    'learning_sample_feedback_label_valid',
    'meta.human_feedback_label',
    'enum(approved,rejected,not_reviewed)',
    'if present',
  ),
  sample('learning_sample_source_flow_non_empty', 'meta.source_flow_id', 'non-empty-string', 'if present'),
  intentSample('learning_intent_has_intent_id', 'input.intent_id', 'non-empty-string'),
  intentSample(
    'learning_intent_quality_label_valid',
    'output.resolution_quality_label',
    'enum(good,acceptable,bad,unknown)',
    'if present',
  ),
  deltaSample('learning_delta_has_delta_id', 'input.delta_id', 'non-empty-string'),
  deltaSample('learning_delta_scope_valid', 'output.impact_scope', 'enum(local,module,system,global)'),
  deltaSample('learning_delta_risk_valid', 'state.risk_level', 'enum(low,medium,high,critical)', 'if present'),
]

/** All 61 of the protocol. */
export const protocolInvariants: readonly Invariant[] = [
  ...saInvariants,
  ...mapInvariants,
  ...observabilityInvariants,
  ...integrationInvariants,
  ...learningInvariants,
]

/** The 16 that the protocol's golden flows apply to every flow's final state. */
export const goldenInvariants: readonly PathInvariant[] = [
  context('context_id_must_be_uuid', 'context_id', 'uuid-v4'),
  context('protocol_version_must_be_1_0', 'meta.protocol_version', 'eq("1.0.0")'),
  context('schema_version_must_exist', 'meta.schema_version', 'exists'),
  context('root_domain_must_be_non_empty', 'root.domain', 'non-empty-string'),
  plan('plan_id_must_be_uuid', 'plan_id', 'uuid-v4'),
  plan('plan_context_id_match', 'context_id', 'eq(context.context_id)'),
  plan('step_ids_must_be_uuid', 'steps[*].step_id', 'uuid-v4'),
  plan('step_descriptions_must_be_non_empty', 'steps[*].description', 'non-empty-string'),
  confirm('confirm_id_must_be_uuid', 'confirm_id', 'uuid-v4'),
  confirm('confirm_target_match', 'target_id', 'eq(plan.plan_id)'),
  confirm('status_must_be_valid_enum', 'status', 'one-of(["approved","rejected"])'),
  confirm('rejected_must_have_reason', 'reason', 'if(status == "rejected", non-empty-string)'),
  trace('trace_id_must_be_uuid', 'trace_id', 'uuid-v4'),
  trace('root_span_trace_id_match', 'root_span.trace_id', 'eq(trace.trace_id)'),
  trace('root_span_context_id_match', 'root_span.context_id', 'eq(context.context_id)'),
  trace('events_timestamp_iso', 'events[*].timestamp', 'iso-datetime'),
]
