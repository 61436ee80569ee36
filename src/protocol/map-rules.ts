import { append } from './append.ts'
import { isObject } from './json.ts'

/** Where in a list of events a rule of the MAP profile is broken, and how. */
export interface EventComplaint {
  readonly index: number
  readonly message: string
}

/**
 * Every MAPTurnDispatched has its own MAPTurnCompleted, later in the list, of the same session, role and turn number.
 * The protocol's text leaves the number out; without it a role with two turns could finish one of them twice.
 */
export function unfinishedTurns(events: readonly unknown[]): EventComplaint[] {
  const open = new Set<number>()
  const waiting = new Map<string, number[]>()
  for (const [index, event] of events.entries()) {
    if (!isObject(event)) continue
    const turn = turnOf(event)
    if (event.event_type === 'MAPTurnDispatched') {
      open.add(index)
      append(waiting, turn, index)
    } else if (event.event_type === 'MAPTurnCompleted') {
      open.delete(waiting.get(turn)?.pop() ?? -1)
    }
  }
  return [...open].map((index) => ({ index, message: 'was dispatched but never completed' }))
}

/** Whoever broadcasts in a session is received by at least one. */
export function unheardBroadcasts(events: readonly unknown[]): EventComplaint[] {
  const heard = new Set(sessionsOf(events, 'MAPBroadcastReceived'))
  return [...events.entries()]
    .filter(([, event]) => isObject(event) && event.event_type === 'MAPBroadcastSent' && !heard.has(event.session_id))
    .map(([index]) => ({ index, message: 'was sent, but nobody in its session received it' }))
}

function turnOf(event: Record<string, unknown>): string {
  const payload = isObject(event.payload) ? event.payload : {}
  return JSON.stringify([event.session_id, payload.role_id, payload.turn_number].map(scalar))
}

const scalar = (value: unknown): unknown => (typeof value === 'string' || typeof value === 'number' ? value : null)

function sessionsOf(events: readonly unknown[], type: string): unknown[] {
  return events.flatMap((event) => (isObject(event) && event.event_type === type ? [event.session_id] : []))
}
