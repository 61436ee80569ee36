import type { JsonObject } from '../protocol/json.ts'
import { TIMELINE } from './pack-files.ts'

/** Where a pack shows one of the four decisions, or that it does not. */
export interface Pointer {
  readonly requirement_id: string
  readonly artifact_path: string
  readonly locator: string
  readonly status: 'PRESENT' | 'ABSENT'
}

type Event = JsonObject & { readonly event_id: string }

/** One pointer per decision: budget, lifecycle, authorisation, termination, each at the last event that tells it. */
export function pointersOf(events: readonly Event[]): readonly Pointer[] {
  return Object.entries(DECISIONS).map(([requirement_id, tells]) => {
    const event = events.findLast(tells)
    return {
      requirement_id,
      artifact_path: TIMELINE,
      locator: event ? `event_id:${event.event_id}` : '',
      status: event ? 'PRESENT' : 'ABSENT',
    }
  })
}

/** How an event shows each decision, on its top level. */
export const DECISIONS: { readonly [requirement: string]: (event: JsonObject) => boolean } = {
  'RQ-D1-01': ({ decision_kind, outcome }) =>
    decision_kind === 'budget' && ['allow', 'deny', 'throttle'].includes(String(outcome)),
  'RQ-D2-01': ({ to_state }) => typeof to_state === 'string',
  'RQ-D3-01': (event) =>
    ['subject', 'resource', 'action', 'outcome'].every((field) => typeof event[field] === 'string'),
  'RQ-D4-01': ({ decision_kind, termination_reason }) =>
    decision_kind === 'terminate' && TERMINATIONS.has(String(termination_reason)),
}

const TERMINATIONS: ReadonlySet<string> = new Set([
  'ttl',
  'timeout',
  'loop_detected',
  'manual',
  'user_cancel',
  'error',
  'failure',
  'resource_exhausted',
  'policy_violation',
  'external',
])
