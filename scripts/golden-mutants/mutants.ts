import { mapInvariants, saInvariants } from '../../src/protocol/invariant-rules.ts'
import { type LifecycleKind, lifecycles, moveRule, statusesOf } from '../../src/protocol/lifecycle.ts'
import { FOLDING, RULES } from '../../src/psg/rules.ts'

/** Everything that can be switched over, by its id. */
export const mutants = (): readonly string[] => [
  ...[...RULES, ...FOLDING].map(({ id }) => id),
  ...arrows(),
  ...[...saInvariants, ...mapInvariants].map(({ id }) => id),
  ...EVENTS.map((type) => `event.${type}`),
]

/** Why no golden flow can notice a mutant; each is held by the tests named. */
export const EXCUSED: { readonly [id: string]: string } = {
  ...excuse('the schema refuses it first, as a flow shows; test/orchestrator/profiles.test.ts breaks it alone', [
    'sa_requires_context',
    'sa_plan_has_steps',
    'sa_steps_have_valid_ids',
    'map_session_requires_participants',
    'map_collab_mode_valid',
    'map_session_id_is_uuid',
    'map_participant_kind_valid',
    'map_role_ids_non_empty',
  ]),
  ...excuse('a reference is refused first, as a flow shows; test/orchestrator/profiles.test.ts breaks it alone', [
    'sa_plan_context_binding',
    'sa_trace_context_binding',
    'sa_trace_plan_binding',
  ]),
  ...excuse('is about gates, actions and runs, which no script can name; test/psg/rule-cases.ts breaks it', [
    'approval.proposed',
    'approval.used',
    'approval.action',
    'run.single',
    'attempts',
  ]),
  ...excuse('only what a rollback brings back meets it; test/psg/rule-cases.ts breaks it', ['node.deleted']),
  ...excuse('only in strict mode; test/psg/project.test.ts breaks it', ['reference.role']),
  ...excuse('only what a module writes meets it; test/orchestrator/modules.test.ts breaks it', ['module.area']),
  ...excuse('needs a decision and a move in one commit, which no run makes; test/psg/lifecycle.test.ts breaks it', [
    'lifecycle.confirm.rejected->approved',
  ]),
}
function excuse(reason: string, ids: readonly string[]): { readonly [id: string]: string } {
  return Object.fromEntries(ids.map((id) => [id, reason]))
}

/** Families that every change tells, and the events of runs and profiles, each by its own type. */
const EVENTS = [
  'pipeline_stage',
  'graph_update',
  ...['SAInitialized', 'SAContextLoaded', 'SAPlanEvaluated', 'SAStepStarted', 'SAStepCompleted', 'SAStepFailed'],
  ...['SATraceEmitted', 'SACompleted', 'MAPSessionStarted', 'MAPRolesAssigned', 'MAPTurnDispatched'],
  ...['MAPTurnCompleted', 'MAPBroadcastSent', 'MAPBroadcastReceived', 'MAPConflictDetected', 'MAPConflictResolved'],
  ...['MAPSessionCompleted', 'execution_started', 'execution_completed', 'execution_failed'],
  ...['rollback_planned', 'rollback_executed'],
]

function arrows(): readonly string[] {
  const kinds = (Object.keys(lifecycles) as LifecycleKind[]).filter((kind) => kind !== 'segment') // segments end by a node of their own
  return kinds.flatMap((kind) =>
    statusesOf(kind).flatMap((from) =>
      statusesOf(kind).flatMap((to) => (from === to ? [] : [moveRule(kind, from as never, to as never)])),
    ),
  )
}
