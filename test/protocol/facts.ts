/**
 * The protocol's shapes once more, written from its description and not from our schemas: what a schema forgets, adds
 * or spells differently does not agree with this table. `!` is required; words are in the table SAMPLES of samples.ts,
 * `a|b` is an enum, `=a` a constant, `[]` a list, `[1+]` one that is not empty, `[set]` one without twins, `<kind>` another shape.
 */
export interface Shape {
  readonly open?: true
  readonly fields: Readonly<Record<string, string>>
}

const modules = 'context|plan|confirm|trace|role|extension|dialog|collab|core|network'
const governed = { 'meta!': '<meta>', governance: '<governance>' }
const traced = { trace: '<trace-base>', events: '<base-event>[]' }

export const shapes: Readonly<Record<string, Shape>> = {
  meta: {
    fields: {
      'protocol_version!': 'version',
      'schema_version!': 'version',
      created_at: 'time',
      created_by: 'text',
      updated_at: 'time',
      updated_by: 'text',
      tags: 'text[set]',
      cross_cutting:
        'coordination|error-handling|event-bus|learning-feedback|observability|orchestration|performance|protocol-versioning|security|state-sync|transaction[set]',
    },
  },
  'trace-base': {
    fields: { 'trace_id!': 'id', 'span_id!': 'id', parent_span_id: 'id', context_id: 'id', attributes: 'object' },
  },
  'base-event': {
    fields: {
      'event_id!': 'id',
      'event_type!': 'dotted',
      'source!': 'text',
      'timestamp!': 'time',
      trace_id: 'id',
      data: 'object-or-null',
    },
  },
  ref: { fields: { 'id!': 'id', 'module!': modules, description: 'text' } },
  governance: { fields: { lifecyclePhase: 'text', truthDomain: 'text', locked: 'flag', lastConfirmRef: '<ref>' } },

  context: {
    fields: {
      ...governed,
      'context_id!': 'id',
      'root!': '<root>',
      'title!': 'some',
      summary: 'text',
      'status!': 'draft|active|suspended|archived|closed',
      tags: 'some[]',
      language: 'text',
      owner_role: 'text',
      constraints: 'object',
      created_at: 'time',
      updated_at: 'time',
      ...traced,
    },
  },
  root: { open: true, fields: { 'domain!': 'text', 'environment!': 'text', entry_point: 'text' } },
  plan: {
    fields: {
      'meta!': '<meta>',
      'plan_id!': 'id',
      'context_id!': 'id',
      'title!': 'some',
      'objective!': 'some',
      'status!': 'draft|proposed|approved|in_progress|completed|cancelled|failed',
      'steps!': '<step>[1+]',
      ...traced,
    },
  },
  step: {
    fields: {
      'step_id!': 'id',
      'description!': 'some',
      'status!': 'pending|in_progress|completed|blocked|skipped|failed',
      dependencies: 'id[]',
      agent_role: 'text',
      order_index: 'count',
    },
  },
  confirm: {
    fields: {
      ...governed,
      'confirm_id!': 'id',
      'target_type!': 'context|plan|trace|extension|other',
      'target_id!': 'id',
      'status!': 'pending|approved|rejected|cancelled',
      'requested_by_role!': 'text',
      'requested_at!': 'time',
      reason: 'text',
      decisions: '<decision>[]',
      ...traced,
    },
  },
  decision: {
    fields: {
      'decision_id!': 'id',
      'status!': 'approved|rejected|cancelled',
      'decided_by_role!': 'text',
      'decided_at!': 'time',
      reason: 'text',
    },
  },
  trace: {
    fields: {
      ...governed,
      'trace_id!': 'id',
      'context_id!': 'id',
      plan_id: 'id',
      'root_span!': '<trace-base>',
      'status!': 'pending|running|completed|failed|cancelled',
      started_at: 'time',
      finished_at: 'time',
      segments: '<segment>[]',
      events: '<base-event>[]',
    },
  },
  segment: {
    fields: {
      'segment_id!': 'id',
      parent_segment_id: 'id',
      'label!': 'text',
      'status!': 'pending|running|completed|failed|cancelled|skipped',
      started_at: 'time',
      finished_at: 'time',
      attributes: 'object',
    },
  },
  role: {
    fields: {
      ...governed,
      'role_id!': 'id',
      'name!': 'text',
      description: 'text',
      capabilities: 'text[]',
      created_at: 'time',
      updated_at: 'time',
      ...traced,
    },
  },
  extension: {
    fields: {
      ...governed,
      'extension_id!': 'id',
      'context_id!': 'id',
      'name!': 'some',
      'extension_type!': 'capability|policy|integration|transformation|validation|other',
      'version!': 'semver',
      'status!': 'registered|active|inactive|deprecated',
      config: 'object',
      ...traced,
    },
  },
  dialog: {
    fields: {
      ...governed,
      'dialog_id!': 'id',
      'context_id!': 'id',
      thread_id: 'id',
      'status!': 'active|paused|completed|cancelled',
      'messages!': '<message>[]',
      started_at: 'time',
      ended_at: 'time',
      ...traced,
    },
  },
  message: {
    fields: { 'role!': 'user|assistant|system|agent', 'content!': 'text', 'timestamp!': 'time', event: '<base-event>' },
  },
  collab: {
    fields: {
      ...governed,
      'collab_id!': 'id',
      'context_id!': 'id',
      'title!': 'some',
      'purpose!': 'some',
      'mode!': 'broadcast|round_robin|orchestrated|swarm|pair',
      'status!': 'draft|active|suspended|completed|cancelled',
      'participants!': '<participant>[1+]',
      'created_at!': 'time',
      updated_at: 'time',
      ...traced,
    },
  },
  participant: {
    fields: {
      'participant_id!': 'some',
      role_id: 'text',
      'kind!': 'agent|human|system|external',
      display_name: 'text',
    },
  },
  core: {
    fields: {
      ...governed,
      'core_id!': 'id',
      'protocol_version!': 'some',
      'status!': 'draft|active|deprecated|archived',
      'modules!': '<module-descriptor>[1+]',
      ...traced,
    },
  },
  'module-descriptor': {
    fields: {
      'module_id!': modules,
      'version!': 'some',
      'status!': 'enabled|disabled|experimental|deprecated',
      required: 'flag',
      description: 'text',
    },
  },
  network: {
    fields: {
      ...governed,
      'network_id!': 'id',
      'context_id!': 'id',
      'name!': 'some',
      description: 'text',
      'topology_type!': 'single_node|hub_spoke|mesh|hierarchical|hybrid|other',
      'status!': 'draft|provisioning|active|degraded|maintenance|retired',
      nodes: '<network-node>[]',
      ...traced,
    },
  },
  'network-node': {
    fields: {
      'node_id!': 'id',
      name: 'text',
      'kind!': 'agent|service|database|queue|external|other',
      role_id: 'text',
      'status!': 'active|inactive|degraded|unreachable|retired',
    },
  },

  'event-core': {
    open: true,
    fields: {
      'event_id!': 'uuid',
      'event_type!': 'text',
      'event_family!':
        'import_process|intent|delta_intent|impact_analysis|compensation_plan|methodology|reasoning_graph|pipeline_stage|graph_update|runtime_execution|cost_budget|external_integration',
      'timestamp!': 'time',
      project_id: 'uuid',
      payload: 'object',
    },
  },
  'pipeline-stage-event': {
    open: true,
    fields: {
      'event_id!': 'uuid',
      'event_type!': 'text',
      'event_family!': '=pipeline_stage',
      'timestamp!': 'time',
      project_id: 'uuid',
      payload: 'object',
      'pipeline_id!': 'uuid',
      'stage_id!': 'text',
      'stage_status!': 'pending|running|completed|failed|skipped',
      stage_name: 'text',
      stage_order: 'count',
    },
  },
  'graph-update-event': {
    open: true,
    fields: {
      'event_id!': 'uuid',
      'event_type!': 'text',
      'event_family!': '=graph_update',
      'timestamp!': 'time',
      project_id: 'uuid',
      payload: 'object',
      'graph_id!': 'uuid',
      'update_kind!': 'node_add|node_update|node_delete|edge_add|edge_update|edge_delete|bulk',
      'node_delta!': 'integer',
      'edge_delta!': 'integer',
      source_module: 'text',
    },
  },
  'runtime-execution-event': {
    open: true,
    fields: {
      'event_id!': 'uuid',
      'event_type!': 'text',
      'event_family!': '=runtime_execution',
      'timestamp!': 'time',
      project_id: 'uuid',
      payload: 'object',
      'execution_id!': 'uuid',
      'executor_kind!': 'agent|tool|llm|worker|external',
      'status!': 'pending|running|completed|failed|cancelled',
      executor_role: 'text',
    },
  },
  'sa-event': {
    fields: {
      'event_id!': 'uuid',
      'event_type!':
        'SAInitialized|SAContextLoaded|SAPlanEvaluated|SAStepStarted|SAStepCompleted|SAStepFailed|SATraceEmitted|SACompleted',
      'timestamp!': 'time',
      'sa_id!': 'uuid',
      context_id: 'uuid',
      plan_id: 'uuid',
      trace_id: 'uuid',
      payload: 'object',
    },
  },
  'map-event': {
    fields: {
      'event_id!': 'uuid',
      'event_type!':
        'MAPSessionStarted|MAPRolesAssigned|MAPTurnDispatched|MAPTurnCompleted|MAPBroadcastSent|MAPBroadcastReceived|MAPConflictDetected|MAPConflictResolved|MAPSessionCompleted',
      'timestamp!': 'time',
      'session_id!': 'uuid',
      initiator_role: 'text',
      target_roles: 'text[]',
      payload: 'object',
    },
  },

  'sa-step-started-payload': { open: true, fields: { 'step_id!': 'uuid', agent_role: 'text', description: 'text' } },
  'sa-step-completed-payload': {
    open: true,
    fields: { 'step_id!': 'uuid', 'status!': 'completed|failed', result: 'object' },
  },
  'sa-step-failed-payload': {
    open: true,
    fields: { 'step_id!': 'uuid', status: '=failed', error_code: 'text', error_message: 'text' },
  },
  'map-turn-dispatched-payload': {
    open: true,
    fields: { 'role_id!': 'uuid', 'turn_number!': 'integer', token_id: 'uuid' },
  },
  'map-turn-completed-payload': {
    open: true,
    fields: { 'role_id!': 'uuid', 'turn_number!': 'integer', result: 'object' },
  },
  'map-broadcast-sent-payload': {
    open: true,
    fields: { 'broadcaster_role_id!': 'text', 'target_count!': 'integer', message: 'object' },
  },
  'map-broadcast-received-payload': { open: true, fields: { 'receiver_role_id!': 'text', response: 'object' } },

  'tool-event': {
    fields: {
      'tool_id!': 'some',
      'tool_kind!': 'formatter|linter|test_runner|generator|other',
      'invocation_id!': 'id',
      'status!': 'pending|running|succeeded|failed|cancelled',
      started_at: 'time',
      completed_at: 'time',
      exit_code: 'integer',
      output_summary: 'text',
      args: 'text[]',
      working_directory: 'text',
    },
  },
  'file-update-event': {
    fields: {
      'file_path!': 'some',
      'change_type!': 'created|modified|deleted|renamed',
      'timestamp!': 'time',
      workspace_root: 'text',
      change_summary: 'text',
      previous_path: 'text',
      encoding: 'text',
      language: 'text',
      lines_added: 'count',
      lines_removed: 'count',
    },
  },
  'git-event': {
    fields: {
      'repo_url!': 'some',
      'commit_id!': 'some',
      'ref_name!': 'some',
      'event_kind!': 'commit|push|merge|tag|branch_create|branch_delete',
      'timestamp!': 'time',
      author_name: 'text',
      author_email: 'email',
      commit_message: 'text',
      files_changed: 'count',
      insertions: 'count',
      deletions: 'count',
      parent_commits: 'text[]',
    },
  },
  'ci-event': {
    fields: {
      'ci_provider!': 'some',
      'pipeline_id!': 'some',
      'run_id!': 'some',
      'status!': 'pending|running|succeeded|failed|cancelled',
      started_at: 'time',
      completed_at: 'time',
      branch_name: 'text',
      commit_id: 'text',
      run_url: 'uri',
      duration_ms: 'count',
      stages: '<ci-stage>[]',
      trigger_kind: 'push|pull_request|schedule|manual|tag|other',
    },
  },
  'ci-stage': {
    fields: {
      'stage_name!': 'text',
      'status!': 'pending|running|succeeded|failed|cancelled|skipped',
      duration_ms: 'count',
    },
  },

  'learning-sample-core': {
    open: true,
    fields: {
      'sample_id!': 'uuid',
      'sample_family!': 'text',
      'created_at!': 'time',
      'input!': 'object',
      state: 'object',
      'output!': 'object',
      meta: '<sample-meta>',
    },
  },
  'sample-meta': {
    open: true,
    fields: {
      source_flow_id: 'text',
      source_event_ids: 'uuid[]',
      project_id: 'uuid',
      human_feedback_label: 'approved|rejected|not_reviewed',
      quality_score: 'share',
    },
  },
  'learning-sample-intent': {
    open: true,
    fields: {
      'sample_id!': 'uuid',
      'sample_family!': '=intent_resolution',
      'created_at!': 'time',
      'input!': '<intent-input>',
      state: '<intent-state>',
      'output!': '<intent-output>',
      meta: '<intent-meta>',
    },
  },
  'intent-input': {
    open: true,
    fields: {
      'intent_id!': 'text',
      'raw_request_summary!': 'text',
      constraints_summary: 'text',
      dialog_turns_count: 'count',
    },
  },
  'intent-state': {
    open: true,
    fields: { project_phase: 'text', psg_node_count: 'count', existing_plan_count: 'count' },
  },
  'intent-output': {
    open: true,
    fields: {
      'final_intent_summary!': 'text',
      plan_id: 'uuid',
      plan_step_count: 'count',
      resolution_quality_label: 'good|acceptable|bad|unknown',
    },
  },
  'intent-meta': {
    open: true,
    fields: {
      clarification_rounds: 'count',
      ambiguity_flags: 'text[]',
      source_flow_id: 'text',
      source_event_ids: 'uuid[]',
      project_id: 'uuid',
      human_feedback_label: 'approved|rejected|not_reviewed',
      quality_score: 'share',
    },
  },
  'learning-sample-delta': {
    open: true,
    fields: {
      'sample_id!': 'uuid',
      'sample_family!': '=delta_impact',
      'created_at!': 'time',
      'input!': '<delta-input>',
      state: '<delta-state>',
      'output!': '<delta-output>',
      meta: '<delta-meta>',
    },
  },
  'delta-input': {
    open: true,
    fields: {
      'delta_id!': 'text',
      'intent_id!': 'text',
      'change_summary!': 'text',
      delta_type: 'refinement|correction|expansion|reduction|pivot',
    },
  },
  'delta-state': {
    open: true,
    fields: {
      affected_artifact_count: 'count',
      risk_level: 'low|medium|high|critical',
      psg_complexity_score: 'amount',
    },
  },
  'delta-output': {
    open: true,
    fields: {
      'actual_impact_summary!': 'text',
      'impact_scope!': 'local|module|system|global',
      comp_plan_required: 'flag',
      comp_plan_applied: 'flag',
      rollback_used: 'flag',
    },
  },
  'delta-meta': {
    open: true,
    fields: {
      impact_analysis_duration_ms: 'count',
      predicted_vs_actual_accuracy: 'accurate|underestimated|overestimated',
      source_flow_id: 'text',
      source_event_ids: 'uuid[]',
      project_id: 'uuid',
      human_feedback_label: 'approved|rejected|not_reviewed',
      quality_score: 'share',
    },
  },
  'learning-sample': {
    fields: {
      'sample_id!': 'id',
      'project_id!': 'text',
      'success_flag!': 'flag',
      'timestamps!': '<timestamps>',
      intent_before: 'object',
      plan: 'object',
      graph_before: 'object',
      graph_after: 'object',
      metadata: 'object',
      vendor_extensions: 'object',
      delta_intents: 'object[]',
      governance_decisions: 'object[]',
      pipeline_path: 'text[]',
      error_info: '<error-info>',
      token_usage: '<token-usage>',
      execution_time_ms: 'amount',
      impact_score: 'share',
      user_feedback: '<user-feedback>',
    },
  },
  timestamps: { fields: { 'started_at!': 'time', completed_at: 'time' } },
  'error-info': { fields: { error_code: 'text', error_message: 'text', stack_trace: 'text' } },
  'token-usage': {
    fields: {
      total_tokens: 'amount',
      prompt_tokens: 'amount',
      completion_tokens: 'amount',
      by_agent: '<agent-tokens>[]',
    },
  },
  'agent-tokens': { fields: { 'agent_id!': 'text', role: 'text', 'tokens!': 'amount' } },
  'user-feedback': { fields: { decision: 'approve|reject|override|unknown', comment: 'text', rating: 'rating' } },
}

/** Shapes that are part of another one and have no kind of their own. */
export const inner: ReadonlySet<string> = new Set([
  ...['root', 'ci-stage', 'sample-meta', 'timestamps', 'error-info', 'token-usage', 'agent-tokens', 'user-feedback'],
  ...['intent-input', 'intent-state', 'intent-output', 'intent-meta'],
  ...['delta-input', 'delta-state', 'delta-output', 'delta-meta'],
])
