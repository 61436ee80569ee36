import { InvalidInput, type Problem } from './errors.ts'
import { kindOfFamily, observabilityProblems } from './events.ts'
import { refuseUnlessFit, text } from './fields.ts'
import { isObject, type JsonObject } from './json.ts'
import { problem } from './problem.ts'
import type { BaseEvent, EventFamily, Kind, MapEvent, ObservabilityEvent, SaEvent } from './types.ts'
import { isValid, problems, profileProblems, validate } from './validate.ts'

/** Any of the protocol's four event shapes. */
export type AnyEvent = ObservabilityEvent | SaEvent | MapEvent | BaseEvent

/** Which schema a value that claims to be an event has to fit, told by the field that only this shape has. */
export function eventKind(value: unknown): Kind {
  if (isObject(value)) {
    if (typeof value.event_family === 'string') return kindOfFamily(value.event_family as EventFamily)
    if ('sa_id' in value) return 'sa-event'
    if ('session_id' in value) return 'map-event'
    if ('source' in value) return 'base-event'
  }
  throw new InvalidInput('event', [
    problem('', 'event_shape', 'has none of event_family, sa_id, session_id, source', value),
  ])
}

/**
 * Why nobody may be told this event: it does not fit the schema of its shape, an event of a profile lacks the payload of its type, or one with a
 * family breaks an observability invariant. Throws InvalidInput for what has no shape.
 */
export function eventProblems(event: unknown): readonly Problem[] {
  const kind = eventKind(event)
  if (kind === 'sa-event' || kind === 'map-event') return profileProblems(kind, event)
  const found = problems(kind, event)
  return found.length > 0 || kind === 'base-event' ? found : observabilityProblems(event)
}

/**
 * The form that fits into Trace.events: a dotted lower-case type, and everything else the event said under `data`,
 * its own `event_type` among it. A base event is returned as it is.
 */
export function toBaseEvent(event: AnyEvent, given: { source?: string; trace_id?: string } = {}): BaseEvent {
  const kind = eventKind(event)
  const told = validate(kind, event)
  refuseUnlessFit('base event', given, { source: text, trace_id: text })
  if (kind === 'base-event') return told as BaseEvent
  const { event_id, timestamp, ...data } = told as JsonObject
  const trace_id = given.trace_id ?? data.trace_id
  const source = given.source ?? data.source_module ?? 'runtime'
  return validate('base-event', {
    event_id,
    event_type: dotted(String(data.event_type)),
    source,
    timestamp,
    ...(isValid('identifier', trace_id) ? { trace_id } : {}),
    data,
  })
}

/** `plan_status_changed` -> `plan.status.changed`, `SAStepStarted` -> `sa.step.started`. */
export function dotted(type: string): string {
  if (typeof type !== 'string') throw new InvalidInput('event type', [problem('', 'type', 'must be text', type)])
  const words = type.match(WORD) ?? []
  return words.map((word) => word.replace(/[^A-Za-z0-9]/g, '').toLowerCase()).join('.') || 'event'
}

// SA and MAP are words of their own. A number cannot begin a word of a dotted type, so it joins the word before it.
const WORD = /(?:(?:SA|MAP)(?=[A-Z])|[A-Z]+(?![a-z])|[A-Za-z][a-z]*)(?:[^A-Za-z0-9]*[0-9]+)?/g
