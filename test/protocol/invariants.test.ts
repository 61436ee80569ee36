import { describe, expect, it } from 'vitest'
import { InvalidInput } from '../../src/protocol/errors.ts'
import {
  goldenInvariants,
  integrationInvariants,
  learningInvariants,
  mapInvariants,
  observabilityInvariants,
  protocolInvariants,
  saInvariants,
} from '../../src/protocol/invariant-rules.ts'
import {
  checkInvariants,
  type PathInvariant,
  parseInvariant,
  type Scope,
  type Subjects,
} from '../../src/protocol/invariants.ts'
import { shapes } from './facts.ts'
import { full, ID } from './samples.ts'

const OTHER = '00000000-0000-4000-8000-000000000000'
const V1 = '123e4567-e89b-12d3-a456-426614174000'

/** Objects with which everything holds. */
const sound: Subjects = {
  context: { ...full('context'), status: 'active', root: { domain: 'shop', environment: 'test' } },
  plan: {
    ...full('plan'),
    steps: [
      { ...full('step'), agent_role: 'agent' },
      { ...full('step'), agent_role: 'agent' },
    ],
  },
  confirm: { ...full('confirm'), status: 'rejected', reason: 'not yet' },
  trace: full('trace'),
  collab: { ...full('collab'), participants: [full('participant'), full('participant')] },
  tool_event: full('tool-event'),
  file_update_event: full('file-update-event'),
  git_event: full('git-event'),
  ci_event: full('ci-event'),
}
const stage = { event: full('pipeline-stage-event') }
const update = { event: full('graph-update-event') }
const execution = { event: full('runtime-execution-event') }
const intent = { learning_sample: full('learning-sample-intent') }
const delta = { learning_sample: full('learning-sample-delta') }

/** Written from the protocol: id, the objects, the place that is spoiled, and what it is spoiled with. */
type Case = readonly [id: string, subjects: Subjects, path: string, wrong: unknown]

const SA: readonly Case[] = [
  ['sa_requires_context', { context: sound.context }, 'context.context_id', V1],
  ['sa_context_must_be_active', sound, 'context.status', 'draft'],
  ['sa_plan_context_binding', sound, 'plan.context_id', OTHER],
  ['sa_plan_has_steps', sound, 'plan.steps', []],
  ['sa_steps_have_valid_ids', sound, 'plan.steps[1].step_id', 'two'],
  ['sa_steps_agent_role_if_present', sound, 'plan.steps[1].agent_role', ' '],
  ['sa_trace_not_empty', sound, 'trace.events', []],
  ['sa_trace_context_binding', sound, 'trace.context_id', OTHER],
  ['sa_trace_plan_binding', sound, 'trace.plan_id', OTHER],
]

const MAP: readonly Case[] = [
  ['map_session_requires_participants', sound, 'collab.participants', []],
  ['map_collab_mode_valid', sound, 'collab.mode', 'turn_taking'],
  ['map_session_id_is_uuid', sound, 'collab.collab_id', V1],
  ['map_participants_have_role_ids', sound, 'collab.participants[1].role_id', ''],
  ['map_role_ids_non_empty', sound, 'collab.participants[1].role_id', 7],
  ['map_participant_ids_are_non_empty', sound, 'collab.participants[0].participant_id', ' '],
  ['map_participant_kind_valid', sound, 'collab.participants[0].kind', 'robot'],
]

const OBSERVABILITY: readonly Case[] = [
  ['obs_event_id_is_uuid', stage, 'event.event_id', V1],
  ['obs_event_type_non_empty', stage, 'event.event_type', ''],
  ['obs_event_family_valid', { event: full('event-core') }, 'event.event_family', 'drift'],
  ['obs_timestamp_iso_format', stage, 'event.timestamp', 'now'],
  ['obs_pipeline_event_has_pipeline_id', stage, 'event.pipeline_id', V1],
  ['obs_pipeline_stage_id_non_empty', stage, 'event.stage_id', ''],
  ['obs_pipeline_stage_status_valid', stage, 'event.stage_status', 'cancelled'],
  ['obs_graph_event_has_graph_id', update, 'event.graph_id', V1],
  ['obs_graph_update_kind_valid', update, 'event.update_kind', 'node_move'],
  ['obs_runtime_event_has_execution_id', execution, 'event.execution_id', V1],
  ['obs_runtime_executor_kind_valid', execution, 'event.executor_kind', 'human'],
  ['obs_runtime_status_valid', execution, 'event.status', 'skipped'],
]

const INTEGRATION: readonly Case[] = [
  ['integration_tool_event_id_non_empty', sound, 'tool_event.tool_id', ' '],
  ['integration_tool_kind_valid', sound, 'tool_event.tool_kind', 'compiler'],
  ['integration_tool_invocation_id_uuid', sound, 'tool_event.invocation_id', V1],
  ['integration_tool_status_valid', sound, 'tool_event.status', 'completed'],
  ['integration_tool_started_at_iso', sound, 'tool_event.started_at', 'soon'],
  ['integration_file_path_non_empty', sound, 'file_update_event.file_path', ''],
  ['integration_file_change_type_valid', sound, 'file_update_event.change_type', 'moved'],
  ['integration_file_timestamp_iso', sound, 'file_update_event.timestamp', 'soon'],
  ['integration_git_repo_url_non_empty', sound, 'git_event.repo_url', ''],
  ['integration_git_commit_id_non_empty', sound, 'git_event.commit_id', ''],
  ['integration_git_ref_name_non_empty', sound, 'git_event.ref_name', ''],
  ['integration_git_event_kind_valid', sound, 'git_event.event_kind', 'rebase'],
  ['integration_git_timestamp_iso', sound, 'git_event.timestamp', 'soon'],
  ['integration_ci_provider_non_empty', sound, 'ci_event.ci_provider', ''],
  ['integration_ci_pipeline_id_non_empty', sound, 'ci_event.pipeline_id', ''],
  ['integration_ci_run_id_non_empty', sound, 'ci_event.run_id', ''],
  ['integration_ci_status_valid', sound, 'ci_event.status', 'skipped'],
  ['integration_ci_started_at_iso', sound, 'ci_event.started_at', 'soon'],
  ['integration_ci_completed_at_iso', sound, 'ci_event.completed_at', 'soon'],
]

const LEARNING: readonly Case[] = [
  ['learning_sample_id_is_uuid', intent, 'learning_sample.sample_id', V1],
  [
    'learning_sample_family_non_empty',
    { learning_sample: full('learning-sample-core') },
    'learning_sample.sample_family',
    '',
  ],
  ['learning_sample_created_at_iso', intent, 'learning_sample.created_at', 'soon'],
  [
    'learning_sample_has_input_section',
    { learning_sample: full('learning-sample-core') },
    'learning_sample.input',
    null,
  ],
  [
    'learning_sample_has_output_section',
    { learning_sample: full('learning-sample-core') },
    'learning_sample.output',
    null,
  ],
  ['learning_sample_feedback_label_valid', intent, 'learning_sample.meta.human_feedback_label', 'fine'],
  ['learning_sample_source_flow_non_empty', intent, 'learning_sample.meta.source_flow_id', ' '],
  ['learning_intent_has_intent_id', intent, 'learning_sample.input.intent_id', ''],
  ['learning_intent_quality_label_valid', intent, 'learning_sample.output.resolution_quality_label', 'great'],
  ['learning_delta_has_delta_id', delta, 'learning_sample.input.delta_id', ''],
  ['learning_delta_scope_valid', delta, 'learning_sample.output.impact_scope', 'galaxy'],
  ['learning_delta_risk_valid', delta, 'learning_sample.state.risk_level', 'mortal'],
]

const GOLDEN: readonly Case[] = [
  ['context_id_must_be_uuid', { context: sound.context }, 'context.context_id', V1],
  ['protocol_version_must_be_1_0', sound, 'context.meta.protocol_version', '1.0.1'],
  ['schema_version_must_exist', sound, 'context.meta.schema_version', null],
  ['root_domain_must_be_non_empty', sound, 'context.root.domain', ' '],
  ['plan_id_must_be_uuid', { plan: sound.plan, context: sound.context }, 'plan.plan_id', V1],
  ['plan_context_id_match', sound, 'plan.context_id', OTHER],
  ['step_ids_must_be_uuid', sound, 'plan.steps[1].step_id', V1],
  ['step_descriptions_must_be_non_empty', sound, 'plan.steps[1].description', ' '],
  ['confirm_id_must_be_uuid', sound, 'confirm.confirm_id', V1],
  ['confirm_target_match', sound, 'confirm.target_id', OTHER],
  ['status_must_be_valid_enum', sound, 'confirm.status', 'pending'],
  ['rejected_must_have_reason', sound, 'confirm.reason', ''],
  ['trace_id_must_be_uuid', { trace: { ...full('trace'), root_span: {} } }, 'trace.trace_id', V1],
  ['root_span_trace_id_match', sound, 'trace.root_span.trace_id', OTHER],
  ['root_span_context_id_match', sound, 'trace.root_span.context_id', OTHER],
  ['events_timestamp_iso', sound, 'trace.events[0].timestamp', 'soon'],
]

const EVENT_RULES = ['map_turn_completion_matches_dispatch', 'map_broadcast_has_receivers']

describe.each([
  ['SA', saInvariants, SA, 9, []],
  ['MAP', mapInvariants, MAP, 9, EVENT_RULES],
  ['observability', observabilityInvariants, OBSERVABILITY, 12, []],
  ['integration', integrationInvariants, INTEGRATION, 19, []],
  ['learning', learningInvariants, LEARNING, 12, []],
  ['golden', goldenInvariants, GOLDEN, 16, []],
] as const)('the %s invariants', (_, invariants, cases, count, eventRules) => {
  it('are those of the facts', () => {
    expect(invariants).toHaveLength(count)
    expect(invariants.map(({ id }) => id)).toEqual([...cases.map(([id]) => id), ...eventRules])
  })

  it('hold for sound objects, also when nothing may be absent', () => {
    for (const subjects of [sound, stage, update, execution, intent, delta]) {
      expect(checkInvariants(invariants, subjects)).toEqual([])
      expect(checkInvariants(invariants, subjects, { absent: 'breach' })).toEqual([])
    }
  })

  it.each(cases)('include %s', (id, subjects, path, wrong) => {
    const found = checkInvariants(invariants, spoiled(subjects, path, wrong))
    expect(found).toContainEqual(expect.objectContaining({ id, path, scope: path.split('.')[0] }))
    expect(found.every((breach) => breach.id === id || breach.path === path)).toBe(true)
  })
})

it('is 61 invariants of the protocol, each with an id of its own', () => {
  expect(protocolInvariants).toHaveLength(61)
  expect(new Set(protocolInvariants.map(({ id }) => id)).size).toBe(61)
})

it('lists in its enums what the protocol lists', () => {
  const kinds: Readonly<Record<string, string>> = {
    map_collab_mode_valid: 'collab mode!',
    map_participant_kind_valid: 'participant kind!',
    obs_event_family_valid: 'event-core event_family!',
    obs_pipeline_stage_status_valid: 'pipeline-stage-event stage_status!',
    obs_graph_update_kind_valid: 'graph-update-event update_kind!',
    obs_runtime_executor_kind_valid: 'runtime-execution-event executor_kind!',
    obs_runtime_status_valid: 'runtime-execution-event status!',
    integration_tool_kind_valid: 'tool-event tool_kind!',
    integration_tool_status_valid: 'tool-event status!',
    integration_file_change_type_valid: 'file-update-event change_type!',
    integration_git_event_kind_valid: 'git-event event_kind!',
    integration_ci_status_valid: 'ci-event status!',
    learning_sample_feedback_label_valid: 'sample-meta human_feedback_label',
    learning_intent_quality_label_valid: 'intent-output resolution_quality_label',
    learning_delta_scope_valid: 'delta-output impact_scope!',
    learning_delta_risk_valid: 'delta-state risk_level',
  }
  const rules = protocolInvariants.flatMap((one) =>
    'rule' in one && one.rule.startsWith('enum') ? [[one.id, one.rule]] : [],
  )
  const facts = Object.entries(kinds).map(([id, field]) => {
    const [shape, name] = field.split(' ') as [string, string]
    return [id, `enum(${shapes[shape]?.fields[name]?.replaceAll('|', ',')})`]
  })
  expect(Object.fromEntries(rules)).toEqual({ ...Object.fromEntries(facts), sa_context_must_be_active: 'enum(active)' })
})

it('finds what is wrong with each of very many events', () => {
  const events = Array.from({ length: 140_000 }, () => ({ event_type: 'MAPBroadcastSent' }))
  expect(checkInvariants(mapInvariants, { events })).toHaveLength(140_000)
})

describe('an absent path', () => {
  const without = (subjects: Subjects, path: string) => spoiled(subjects, path, undefined)
  const ids = (subjects: Subjects, absent: 'skip' | 'breach') =>
    checkInvariants(protocolInvariants, subjects, { absent }).map(({ id }) => id)

  it('is skipped as in the protocol, and a breach when asked for', () => {
    for (const [id, path] of [
      ['sa_trace_plan_binding', 'trace.plan_id'],
      ['sa_trace_not_empty', 'trace.events'],
      ['map_participants_have_role_ids', 'collab.participants[1].role_id'],
    ] as const) {
      expect(ids(without(sound, path), 'skip')).toEqual([])
      expect(ids(without(sound, path), 'breach')).toEqual([id])
    }
    expect(ids(without(stage, 'event.pipeline_id'), 'breach')).toEqual(['obs_pipeline_event_has_pipeline_id'])
    expect(ids(without(intent, 'learning_sample.input'), 'breach')).toEqual([
      'learning_sample_has_input_section',
      'learning_intent_has_intent_id',
    ])
  })

  it('is never a breach where the protocol says "if present"', () => {
    for (const [subjects, path] of [
      [sound, 'plan.steps[0].agent_role'],
      [sound, 'tool_event.started_at'],
      [sound, 'ci_event.started_at'],
      [sound, 'ci_event.completed_at'],
      [intent, 'learning_sample.meta'],
      [intent, 'learning_sample.output.resolution_quality_label'],
      [delta, 'learning_sample.state'],
    ] as const) {
      expect(ids(without(subjects, path), 'breach'), path).toEqual([])
    }
  })

  it('does not excuse a rejection from its reason', () => {
    const breaches = checkInvariants(goldenInvariants, without(sound, 'confirm.reason'))
    expect(breaches).toMatchObject([{ id: 'rejected_must_have_reason', path: 'confirm.reason', found: 'undefined' }])
  })
})

describe('an absent object', () => {
  it('is not checked unless it has to be there', () => {
    expect(checkInvariants(saInvariants, {})).toEqual([])
    expect(checkInvariants(saInvariants, {}, { scopes: ['context', 'trace'] })).toMatchObject([
      { id: 'context_must_exist', path: 'context' },
      { id: 'trace_must_exist', path: 'trace' },
    ])
  })

  it('equals nothing', () => {
    expect(checkInvariants(saInvariants, { plan: sound.plan })).toMatchObject([{ id: 'sa_plan_context_binding' }])
  })
})

describe('a condition', () => {
  it('keeps the rules of one family from the events of another', () => {
    const event = {
      ...full('event-core'),
      event_family: 'intent',
      pipeline_id: 'x',
      graph_id: 'x',
      status: 'x',
      stage_id: '',
    }
    expect(checkInvariants(observabilityInvariants, { event }, { absent: 'breach' })).toEqual([])
  })

  it('keeps the rules of one sample family from another', () => {
    const learning_sample = {
      ...full('learning-sample-core'),
      sample_family: 'graph_evolution',
      input: { intent_id: '' },
    }
    expect(checkInvariants(learningInvariants, { learning_sample }, { absent: 'breach' })).toEqual([])
  })
})

describe('the events of a session', () => {
  const turn = (event_type: string, role_id: string, turn_number: number, session_id = ID) => ({
    event_type,
    session_id,
    payload: { role_id, turn_number },
  })
  const told = (...events: unknown[]) =>
    checkInvariants(mapInvariants, { events }).map(({ id, path }) => `${id} ${path}`)
  const unfinished = 'map_turn_completion_matches_dispatch'

  it('complete every turn they dispatch: same session, role and number, afterwards', () => {
    const dispatched = turn('MAPTurnDispatched', 'a', 1)
    expect(told(dispatched, turn('MAPTurnCompleted', 'a', 1))).toEqual([])
    expect(told(dispatched)).toEqual([`${unfinished} events[0]`])
    expect(told(dispatched, turn('MAPTurnCompleted', 'b', 1))).toEqual([`${unfinished} events[0]`])
    expect(told(dispatched, turn('MAPTurnCompleted', 'a', 2))).toEqual([`${unfinished} events[0]`])
    expect(told(dispatched, turn('MAPTurnCompleted', 'a', 1, OTHER))).toEqual([`${unfinished} events[0]`])
    expect(told(turn('MAPTurnCompleted', 'a', 1), dispatched)).toEqual([`${unfinished} events[1]`])
    expect(told(dispatched, dispatched, turn('MAPTurnCompleted', 'a', 1))).toHaveLength(1)
  })

  it('let no broadcast go unheard', () => {
    const sent = { event_type: 'MAPBroadcastSent', session_id: ID }
    const heard = { event_type: 'MAPBroadcastReceived', session_id: ID }
    expect(told(sent, heard)).toEqual([])
    expect(told(sent, { ...heard, session_id: OTHER })).toEqual(['map_broadcast_has_receivers events[0]'])
    expect(told(heard)).toEqual([])
  })

  it('may be anything at all', () => {
    expect(told(null, 1, 'x', [], {}, { event_type: 'MAPTurnCompleted' }, { payload: 7 })).toEqual([])
    expect(told({ event_type: 'MAPTurnDispatched', session_id: {}, payload: [] })).toHaveLength(1)
  })
})

describe('parseInvariant', () => {
  const entry = { id: 'x', scope: 'plan', path: 'steps[*].status', rule: 'enum(pending)', description: 'text' }

  it('takes an entry as golden flows write it', () => {
    const invariant = parseInvariant(entry)
    const { description, ...plain } = entry
    expect(invariant).toMatchObject(plain)
    expect(checkInvariants([invariant], { plan: { steps: [{ status: 'pending' }, { status: 'failed' }] } })).toEqual([
      {
        id: 'x',
        scope: 'plan',
        path: 'plan.steps[1].status',
        rule: 'enum(pending)',
        message: 'must be one of pending',
        found: '"failed"',
      },
    ])
  })

  it('takes nothing else from it', () => {
    const invariant = parseInvariant({ ...entry, events: 'x', note: 'y', ifPresent: 'z', when: 'status == "draft"' })
    expect(Object.keys(invariant)).toEqual(['id', 'scope', 'path', 'rule', 'when'])
  })

  it('takes the scope from outside where the file has it', () => {
    const { scope, ...rest } = entry
    expect(parseInvariant(rest, 'plan').scope).toBe('plan')
  })

  it('refuses what means nothing', () => {
    const bad: unknown[] = [
      ...[null, 7, 'x', [], {}],
      ...[
        { ...entry, id: 1 },
        { ...entry, rule: undefined },
        { ...entry, scope: 'step' },
        { ...entry, scope: '__proto__' },
      ],
      ...[
        { ...entry, rule: 'matches(x)' },
        { ...entry, path: 'steps[one]' },
        { ...entry, when: 'sometimes' },
      ],
    ]
    for (const one of bad) expect(() => parseInvariant(one)).toThrow(InvalidInput)
  })
})

it('refuses a rule that means nothing when it is checked', () => {
  const odd: PathInvariant = { id: 'x', scope: 'plan', path: 'title', rule: 'beautiful' }
  expect(() => checkInvariants([odd], sound)).toThrow(InvalidInput)
})

function spoiled(subjects: Subjects, path: string, value: unknown): Subjects {
  const copy = structuredClone(subjects) as Record<string, unknown>
  const steps = path.replaceAll('[', '.').replaceAll(']', '').split('.')
  const last = steps.pop() as string
  let object = copy
  for (const step of steps) object = object[step] as Record<string, unknown>
  object[last] = value
  return copy as { readonly [S in Scope]?: unknown }
}
