import { describe, expect, it } from 'vitest'
import {
  broadcastSent,
  conflictDetected,
  conflictResolved,
  mapBeginning,
  mapBreaches,
  mapEnd,
  turnCompleted,
  turnDispatched,
} from '../../src/orchestrator/profiles/map.ts'
import { saBeginning, saBreaches, saEnd, saEvent } from '../../src/orchestrator/profiles/sa.ts'
import type { Session } from '../../src/orchestrator/session.ts'
import { mapInvariants, saInvariants } from '../../src/protocol/invariant-rules.ts'
import { validateProfileEvent } from '../../src/protocol/validate.ts'
import type { EventDraft } from '../../src/psg/change.ts'
import { eventsIn } from '../../src/psg/told.ts'
import { collabDocument, contextDocument, planDocument } from '../support/agents.ts'

const id = () => crypto.randomUUID()
const stamped = ({ event }: EventDraft) => ({ event_id: id(), timestamp: '2026-01-01T00:00:00Z', ...event })

describe('the single-agent profile', () => {
  const context = contextDocument()
  const plan = planDocument(context, { a: { role: 'agent' } })
  const trace = { trace_id: id(), context_id: context.context_id, plan_id: plan.plan_id, events: [{}] }
  const [step] = plan.steps

  it('finds nothing wrong with a run as it should be, however much of it there is yet', () => {
    expect(saBreaches({ context })).toEqual([])
    expect(saBreaches({ context, plan })).toEqual([])
    expect(saBreaches({ context, plan, trace })).toEqual([])
  })

  const broken: { readonly [id: string]: Parameters<typeof saBreaches>[0] } = {
    sa_requires_context: { context: { ...context, context_id: 'x' } },
    sa_context_must_be_active: { context: { ...context, status: 'suspended' } },
    sa_plan_context_binding: { context, plan: { ...plan, context_id: id() } },
    sa_plan_has_steps: { context, plan: { ...plan, steps: [] } },
    sa_steps_have_valid_ids: { context, plan: { ...plan, steps: [{ ...step, step_id: '1' }] } },
    sa_steps_agent_role_if_present: { context, plan: { ...plan, steps: [{ ...step, agent_role: '' }] } },
    sa_trace_not_empty: { context, plan, trace: { ...trace, events: [] } },
    sa_trace_context_binding: { context, plan, trace: { ...trace, context_id: id() } },
    sa_trace_plan_binding: { context, plan, trace: { ...trace, plan_id: undefined } },
  }
  it.each(saInvariants.map((invariant) => invariant.id))('notices when %s does not hold', (name) => {
    expect(saBreaches(broken[name]!).map((breach) => breach.id)).toContain(name)
  })

  it('makes events that its schema and payloads accept', () => {
    const given = [
      ...saBeginning(context, plan, 1),
      saEvent('SAStepStarted', { step_id: step!.step_id }),
      saEvent('SAStepFailed', {
        step_id: step!.step_id,
        status: 'failed',
        error_code: 'x',
        error_message: 'y',
      }),
      ...saEnd({ status: 'failed', succeeded: 0, failed: 1, segments: 1 }),
    ]
    const told = eventsIn({
      stream: context.context_id,
      revision: 1,
      body: {
        commit_id: id(),
        at: '2026-01-01T00:00:00.000000Z',
        run: id(),
        run_of: { plan_id: plan.plan_id, trace_id: trace.trace_id },
        changes: [],
        events: given.map((one) => one.told),
      },
    })
    for (const { event } of told) validateProfileEvent('sa-event', event)
    expect(told.map(({ event }) => event.event_type)).toEqual([
      ...[
        'SAInitialized',
        'SAContextLoaded',
        'SAPlanEvaluated',
        'SAStepStarted',
        'SAStepFailed',
        'SATraceEmitted',
        'SACompleted',
      ],
    ])
  })
})

describe('the multi-agent profile', () => {
  const collab = collabDocument(contextDocument(), 'pair', ['ann:dev', 'bob:dev'])
  const [ann, bob] = collab.participants
  const role_id = id()
  const seat = (participant_id: string) => ({
    participant_id,
    role_id,
    kind: 'agent',
    role: 'dev',
    names: [role_id, participant_id],
  })
  const session: Session = {
    collab_id: collab.collab_id,
    mode: 'pair',
    purpose: 'P',
    coordinator: 'ann',
    token_ms: 1,
    retakes: 0,
    seats: [seat('ann'), seat('bob')],
  }
  const subject = { session, plan: id() }
  const turn = { turn_number: 1, participant_id: 'ann', role_id, purpose: 'work', broadcast: true } as const
  const told = (type: string, payload: object) => ({ event_type: type, session_id: collab.collab_id, payload })

  it('finds nothing wrong with a session as it should be', () => {
    expect(mapBreaches({ collab })).toEqual([])
    const events = [
      told('MAPTurnDispatched', { role_id, turn_number: 1 }),
      told('MAPTurnCompleted', { role_id, turn_number: 1 }),
    ]
    expect(mapBreaches({ collab, events })).toEqual([])
  })

  const broken: { readonly [id: string]: Parameters<typeof mapBreaches>[0] } = {
    map_session_requires_participants: { collab: { ...collab, participants: [] } },
    map_collab_mode_valid: { collab: { ...collab, mode: 'turns' } },
    map_session_id_is_uuid: { collab: { ...collab, collab_id: 'x' } },
    map_participants_have_role_ids: { collab: { ...collab, participants: [{ ...ann, role_id: undefined }, bob] } },
    map_role_ids_non_empty: { collab: { ...collab, participants: [{ ...ann, role_id: 7 }, bob] } },
    map_participant_ids_are_non_empty: { collab: { ...collab, participants: [{ ...ann, participant_id: ' ' }, bob] } },
    map_participant_kind_valid: { collab: { ...collab, participants: [{ ...ann, kind: 'robot' }, bob] } },
    map_turn_completion_matches_dispatch: {
      events: [
        told('MAPTurnDispatched', { role_id, turn_number: 1 }),
        told('MAPTurnCompleted', { role_id, turn_number: 2 }),
      ],
    },
    map_broadcast_has_receivers: {
      events: [told('MAPBroadcastSent', { broadcaster_role_id: role_id, target_count: 1 })],
    },
  }
  it.each(mapInvariants.map((invariant) => invariant.id))('notices when %s does not hold', (name) => {
    expect(mapBreaches(broken[name]!).map((breach) => breach.id)).toContain(name)
  })

  it('makes events that its schema and payloads accept', () => {
    const drafts = [
      ...mapBeginning(subject),
      broadcastSent(subject, session.seats, ['s']),
      turnDispatched(subject, { ...turn, token_id: id() }, 's'),
      ...turnCompleted(subject, turn, 's', { status: 'expired', error: { code: 'x', message: 'y' } }),
      conflictDetected(subject, {
        conflict_id: id(),
        resource_type: 'step_output',
        resource: 'step:s',
        roles: [role_id],
      }),
      conflictResolved(subject, id(), 'voting', role_id),
      mapEnd(subject, 'completed', 1),
    ]
    for (const draft of drafts) validateProfileEvent('map-event', stamped(draft))
    expect(drafts.map(({ event }) => event.event_type)).toEqual([
      ...['MAPSessionStarted', 'MAPRolesAssigned', 'MAPBroadcastSent', 'MAPTurnDispatched', 'MAPTurnCompleted'],
      ...['MAPBroadcastReceived', 'MAPConflictDetected', 'MAPConflictResolved', 'MAPSessionCompleted'],
    ])
  })
})
