import { toBinaryCloudEvent, toCloudEvent } from '../../src/protocol/cloud-events.ts'
import { intentEvent } from '../../src/protocol/events.ts'
import { saInvariants } from '../../src/protocol/invariant-rules.ts'
import { full, ID, TIME } from '../protocol/samples.ts'
import { anything, bare, type Doors, door, elsewhere, given, json, making, name, open, options } from './doors.ts'

const STAMP = { event_id: ID, timestamp: TIME }
const EVENT = intentEvent({ event_type: 'intent_extracted' }, STAMP)
const fields = { event_type: 'a_thing_happened' }
const maker = (more: object = {}) => door(given({ ...fields, ...more }), given(STAMP), open())

const CLOCK: Doors = {
  now: bare,
  uuid: bare,
  random: bare,
  sleep: door(given(0, 'number'), given(undefined, 'nothing')),
}

export const SYSTEM_CLOCK = elsewhere(CLOCK)

export const protocol: Doors = {
  canonical: door(json({})),
  checkInvariants: door(given(saInvariants, 'list'), given({}, 'object'), options()),
  compensationPlanEvent: maker(),
  confirmMayMove: door(given({ status: 'pending', target_type: 'plan' }), given('approved')),
  costBudgetEvent: maker(),
  deltaIntentEvent: maker(),
  digestOf: door(name('text')),
  digestOfJson: door(json({})),
  uuidOf: door(name('text')),
  dotted: door(name('plan_created')),
  eventKind: door(given(EVENT)),
  externalIntegrationEvent: maker(),
  fromBinaryCloudEvent: door(given(toBinaryCloudEvent(EVENT))),
  fromCloudEvent: door(given(toCloudEvent(EVENT))),
  graphUpdateEvent: maker({ graph_id: ID, update_kind: 'bulk', node_delta: 0, edge_delta: 0 }),
  impactAnalysisEvent: maker(),
  importProcessEvent: maker(),
  intentEvent: maker(),
  isObject: 'asks of anything whether it is an object',
  isTerminal: door(given('plan'), given('draft')),
  isValid: door(given('plan'), anything(full('plan'))),
  isoMicros: door(given(0, 'number')),
  kindOfFamily: door(given('intent')),
  manualClock: making(
    {
      ...CLOCK,
      sleep: 'waits until it is moved on; it looks at the same as that of systemClock',
      advance: door(given(0, 'number')),
    },
    options(),
  ),
  mapEvent: door(given({ event_type: 'MAPSessionStarted', session_id: ID }), given(STAMP)),
  mayMove: door(given('plan'), given('draft'), given('proposed')),
  methodologyEvent: maker(),
  moveRule: door(given('plan'), given('draft'), given('proposed')),
  parseInvariant: door(given({ id: 'a', scope: 'plan', path: 'title', rule: 'exists' }), given('plan', 'nothing')),
  parsePath: door(name('a.b')),
  parseRule: door(given('exists')),
  pipelineStageEvent: maker({ pipeline_id: ID, stage_id: 'plan', stage_status: 'pending' }),
  problems: door(given('plan'), anything(full('plan'))),
  profileProblems: door(given('sa-event'), anything({})),
  reasoningGraphEvent: maker(),
  runtimeExecutionEvent: maker({ execution_id: ID, executor_kind: 'tool', status: 'running' }),
  saEvent: door(given({ event_type: 'SAInitialized', sa_id: ID }), given(STAMP)),
  stageStatus: door(given('draft'), given(true, 'nothing')),
  statusesOf: door(given('plan')),
  systemClock: { members: CLOCK },
  toBaseEvent: door(given(EVENT), options()),
  toBinaryCloudEvent: door(given(EVENT), options()),
  toCloudEvent: door(given(EVENT), options()),
  validate: door(given('plan'), given(full('plan'))),
  validateProfileEvent: door(given('sa-event'), given({ ...STAMP, event_type: 'SAInitialized', sa_id: ID })),
}
