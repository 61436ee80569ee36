import { mapInvariants } from '../../protocol/invariant-rules.ts'
import { type Breach, checkInvariants } from '../../protocol/invariants.ts'
import type { JsonObject } from '../../protocol/json.ts'
import type { MapEventType } from '../../protocol/types.ts'
import type { EventDraft, TurnRecord } from '../../psg/change.ts'
import type { Strategy } from '../conflict.ts'
import type { Session, SessionSeat } from '../session.ts'

/** The session that MAP events are told of, and the plan it works on. */
export interface MapSubject {
  readonly session: Session
  readonly plan: string
}

export function mapBeginning({ session, plan }: MapSubject): readonly EventDraft[] {
  const { mode, purpose, seats } = session
  const assignments = seats.map(({ participant_id, role_id, kind }) => ({ participant_id, role_id, kind }))
  const started = { mode, purpose, participant_count: seats.length }
  return [
    mapDraft({ session, plan }, 'MAPSessionStarted', started, { initiator_role: coordinatorOf(session).role_id }),
    mapDraft({ session, plan }, 'MAPRolesAssigned', { assignments }, { target_roles: rolesOf(seats) }),
  ]
}

export const mapEnd = (subject: MapSubject, status: string, turns_total: number): EventDraft =>
  mapDraft(subject, 'MAPSessionCompleted', { status, participants_count: subject.session.seats.length, turns_total })

export function turnDispatched(subject: MapSubject, turn: TurnRecord, step_id: string): EventDraft {
  const { role_id, turn_number, participant_id, purpose, token_id } = turn
  const token = token_id === undefined ? {} : { token_id }
  const initiator_role = coordinatorOf(subject.session).role_id
  const payload = { role_id, turn_number, participant_id, purpose, step_id, ...token }
  return mapDraft(subject, 'MAPTurnDispatched', payload, { initiator_role, target_roles: [role_id] })
}

/** The end of a turn, and the answer to a broadcast if it was one. */
export function turnCompleted(
  subject: MapSubject,
  turn: TurnRecord,
  step_id: string,
  result: TurnResult,
): readonly EventDraft[] {
  const { role_id, turn_number, participant_id, purpose, token_id, broadcast } = turn
  const token = token_id === undefined ? {} : { token_id }
  const payload = { role_id, turn_number, participant_id, purpose, ...token, result: { step_id, ...result } }
  const response = { receiver_role_id: role_id, participant_id, turn_number, response: { step_id, ...result } }
  return [
    mapDraft(subject, 'MAPTurnCompleted', payload, { initiator_role: role_id }),
    ...(broadcast ? [mapDraft(subject, 'MAPBroadcastReceived', response, { initiator_role: role_id })] : []),
  ]
}
export type TurnResult = {
  readonly status: 'completed' | 'failed' | 'cancelled' | 'expired'
  readonly error?: JsonObject
}

export function broadcastSent(
  subject: MapSubject,
  receivers: readonly SessionSeat[],
  steps: readonly string[],
): EventDraft {
  const { role_id } = coordinatorOf(subject.session)
  const payload = { broadcaster_role_id: role_id, target_count: receivers.length, message: { steps } }
  return mapDraft(subject, 'MAPBroadcastSent', payload, { initiator_role: role_id, target_roles: rolesOf(receivers) })
}

export interface ConflictTold {
  readonly conflict_id: string
  /** Is it what a step gives, or something that the flow has given a name? */
  readonly resource_type: 'step_output' | 'resource'
  readonly resource: string
  readonly roles: readonly string[]
}

export const conflictDetected = (
  subject: MapSubject,
  { conflict_id, resource_type, resource, roles }: ConflictTold,
): EventDraft =>
  mapDraft(subject, 'MAPConflictDetected', {
    conflict_id,
    resource_type,
    resource,
    conflicting_roles: roles,
    conflict_type: 'concurrent_write',
  })

export const conflictResolved = (
  subject: MapSubject,
  conflict_id: string,
  strategy: Strategy,
  winner: string,
): EventDraft =>
  mapDraft(subject, 'MAPConflictResolved', {
    conflict_id,
    resolution_strategy: strategy,
    winning_role: winner,
  })

/** What of the profile's nine invariants does not hold: of a session's Collab when it starts, of its events when it has ended. */
export const mapBreaches = (
  subjects: { collab?: unknown; events?: readonly unknown[] },
  switched?: ReadonlySet<string>,
): readonly Breach[] => checkInvariants(mapInvariants, subjects, { absent: 'breach', switched })

function mapDraft(
  { session, plan }: MapSubject,
  event_type: MapEventType,
  payload: JsonObject,
  roles: { readonly initiator_role?: string; readonly target_roles?: readonly string[] } = {},
): EventDraft {
  return { plan_id: plan, event: { event_type, session_id: session.collab_id, ...roles, payload } }
}

const coordinatorOf = ({ seats, coordinator }: Session): SessionSeat =>
  seats.find((seat) => seat.participant_id === coordinator)!
const rolesOf = (seats: readonly SessionSeat[]): readonly string[] => [...new Set(seats.map((seat) => seat.role_id))]
