import { InvalidInput, type Problem } from './errors.ts'
import { explain } from './explain.ts'
import { validators } from './generated/validators.ts'
import { isNameIn } from './json.ts'
import { problem } from './problem.ts'
import type { Kind, MapEvent, ProtocolTypes, SaEvent } from './types.ts'
import { under } from './under.ts'

/** The value itself, now typed; throws InvalidInput with every problem there is, up to a hundred. */
export function validate<K extends Kind>(kind: K, value: unknown): ProtocolTypes[K] {
  if (isValid(kind, value)) return value
  throw new InvalidInput(kind, refusals(kind, value))
}

/** Exactly what the protocol's own schema for this kind accepts. */
export function isValid<K extends Kind>(kind: K, value: unknown): value is ProtocolTypes[K] {
  const accepts = validatorOf(kind)
  try {
    return accepts(value)
  } catch {
    return false // a getter or a proxy that throws is no JSON value
  }
}

/** Why `validate` would throw; empty if it would not. */
export function problems(kind: Kind, value: unknown): readonly Problem[] {
  return isValid(kind, value) ? [] : refusals(kind, value)
}

/**
 * An event of a profile with a payload that suits its type. The protocol describes these payloads but its schemas
 * never look at them: `validate('map-event', …)` accepts a turn without a role, this does not.
 */
export function validateProfileEvent<K extends 'sa-event' | 'map-event'>(kind: K, value: unknown): ProtocolTypes[K] {
  const found = profileProblems(kind, value)
  if (found.length > 0) throw new InvalidInput(kind, found)
  return value as ProtocolTypes[K]
}

/** Why `validateProfileEvent` would throw; empty if it would not. */
export function profileProblems(kind: 'sa-event' | 'map-event', value: unknown): readonly Problem[] {
  const found = problems(kind, value)
  if (found.length > 0) return found
  const { event_type, payload } = value as SaEvent | MapEvent
  const needed = PAYLOADS[event_type]
  if (needed === undefined) return []
  if (payload === undefined) return [{ path: 'payload', rule: 'required', message: `is required in ${event_type}` }]
  return under('payload', problems(needed, payload))
}

const PAYLOADS: Readonly<Partial<Record<SaEvent['event_type'] | MapEvent['event_type'], Kind>>> = {
  SAStepStarted: 'sa-step-started-payload',
  SAStepCompleted: 'sa-step-completed-payload',
  SAStepFailed: 'sa-step-failed-payload',
  MAPTurnDispatched: 'map-turn-dispatched-payload',
  MAPTurnCompleted: 'map-turn-completed-payload',
  MAPBroadcastSent: 'map-broadcast-sent-payload',
  MAPBroadcastReceived: 'map-broadcast-received-payload',
}

const MOST_PROBLEMS = 100

function validatorOf(kind: Kind): (value: unknown) => boolean {
  if (isNameIn(validators, kind)) return validators[kind]
  throw new InvalidInput('kind', [problem('', 'enum', 'is not a kind that can be validated', kind)])
}

function refusals(kind: Kind, value: unknown): readonly Problem[] {
  const found = explained(kind, value)
  return found.length > 0 ? found : [{ path: '', rule: 'readable', message: 'cannot be read like a JSON value' }]
}

function explained(kind: Kind, value: unknown): readonly Problem[] {
  try {
    return explain(kind, value, MOST_PROBLEMS)
  } catch {
    return [] // it threw when it was read, and that is all there is to say
  }
}
