import { type AnyEvent, eventKind } from './base-event.ts'
import { InvalidInput, type Problem } from './errors.ts'
import { type Field, type Fields, refuseUnlessFit } from './fields.ts'
import { isObject, type Json } from './json.ts'
import { problem } from './problem.ts'
import { shown } from './shown.ts'
import { validate } from './validate.ts'

/** CloudEvents 1.0, structured: the whole event in one JSON object. */
export type CloudEvent = {
  readonly specversion: '1.0'
  readonly id: string
  readonly source: string
  readonly type: string
  readonly time: string
  readonly datacontenttype: 'application/json'
  readonly subject?: string
  readonly data: AnyEvent
  readonly [extension: string]: Json | undefined
}

/** CloudEvents 1.0, binary, as Kafka carries it: attributes in headers, the bare event as the body. */
export interface BinaryCloudEvent {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface CloudOptions {
  /** A URI reference to who says it; together with the id it is unique. */
  readonly source?: string
  readonly subject?: string
  /** Further attributes: lower-case letters and digits, as CloudEvents demands. */
  readonly extensions?: Readonly<Record<string, string>>
}

/** `type` is `mplp.`, the family or profile, and the event's own type: `mplp.pipeline_stage.plan_status_changed`. */
export function toCloudEvent(event: AnyEvent, options: CloudOptions = {}): CloudEvent {
  refuseUnlessFit('cloud event', options, OPTIONS)
  const { event_id, timestamp } = validate(eventKind(event), event) as AnyEvent
  const cloud: Record<string, Json> = {
    specversion: '1.0',
    id: event_id,
    source: options.source || '/mplp',
    type: typeOf(event),
    time: timestamp,
    datacontenttype: 'application/json',
  }
  // Assigned one by one: an object literal with spreads takes ten times as long, and a bus makes thousands of these a second.
  if (options.subject !== undefined) cloud.subject = options.subject
  for (const [name, value] of Object.entries(checkedExtensions(options.extensions ?? {}))) cloud[name] = value
  cloud.data = event as unknown as Json
  return cloud as CloudEvent
}

/** The event inside, checked; throws InvalidInput when the attributes around it do not speak of it. */
export function fromCloudEvent(value: unknown): AnyEvent {
  const cloud = isObject(value) ? value : {}
  const { specversion, source, data } = cloud
  const event = validate(eventKind(data), data) as AnyEvent
  const problems = [
    ...differing('specversion', specversion, '1.0'),
    ...differing('id', cloud.id, event.event_id),
    ...differing('type', cloud.type, typeOf(event)),
    ...(cloud.time === undefined ? [] : differing('time', cloud.time, event.timestamp)),
    ...(typeof source === 'string' && source !== ''
      ? []
      : [{ path: 'source', rule: 'required', message: 'is required' }]),
  ]
  if (problems.length > 0) throw new InvalidInput('cloud event', problems)
  return event
}

/** Attributes become `ce_…` headers, `datacontenttype` becomes `content-type`. */
export function toBinaryCloudEvent(event: AnyEvent, options: CloudOptions = {}): BinaryCloudEvent {
  const { data, datacontenttype, ...attributes } = toCloudEvent(event, options)
  const headers: Record<string, string> = { 'content-type': datacontenttype }
  for (const [name, value] of Object.entries(attributes)) headers[`ce_${name}`] = String(value)
  return { headers, body: JSON.stringify(data) }
}

/** Takes header values and body as text or as bytes, as clients hand them out. */
export function fromBinaryCloudEvent(message: {
  readonly headers?: Readonly<Record<string, unknown>> | undefined
  readonly body: string | Uint8Array
}): AnyEvent {
  const { headers, body } = Object(message) as typeof message
  const attributes = Object.entries(headers ?? {})
    .filter(([name]) => name.toLowerCase().startsWith('ce_'))
    .map(([name, value]) => [name.toLowerCase().slice('ce_'.length), textOf(value)])
  return fromCloudEvent({ ...Object.fromEntries(attributes), data: parsedBody(body) })
}

/** An event's own type may hold what an attribute may not. */
function typeOf(event: AnyEvent): string {
  const profile = 'sa_id' in event ? 'sa' : 'session_id' in event ? 'map' : 'base'
  const whose = 'event_family' in event ? event.event_family : profile
  return `mplp.${whose}.${event.event_type.replace(EVERY_ODD, '\ufffd')}`
}

/** As CloudEvents has it: a line end in an attribute would begin another header, and half a character would be another in its bytes. */
const attribute: Field = {
  says: 'text without control characters or halves of characters',
  fits: (value) => typeof value === 'string' && !ODD.test(value),
}
const ODD = /[\p{Cc}\p{Cs}]/u
const EVERY_ODD = new RegExp(ODD, 'gu')
const subject: Field = {
  says: `${attribute.says}, and not empty`,
  fits: (value) => value !== '' && attribute.fits(value),
}
const OPTIONS: Fields = { source: attribute, subject, extensions: { '*': attribute } }

const RESERVED = new Set(['specversion', 'id', 'source', 'type', 'time', 'datacontenttype', 'subject', 'data'])

function checkedExtensions(extensions: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const bad = Object.keys(extensions).filter((name) => !/^[a-z0-9]+$/.test(name) || RESERVED.has(name))
  if (bad.length === 0) return extensions
  const message = 'is not a name for an extension: lower-case letters and digits, none of the standard attributes'
  throw new InvalidInput(
    'cloud event',
    bad.map((path) => ({ path, rule: 'extension_name', message })),
  )
}

function differing(path: string, found: unknown, expected: string): Problem[] {
  return found === expected ? [] : [problem(path, 'const', `must be ${shown(expected)}`, found)]
}

const decoder = new TextDecoder()
const textOf = (value: unknown): unknown => (value instanceof Uint8Array ? decoder.decode(value) : value)

function parsedBody(body: string | Uint8Array): unknown {
  try {
    return JSON.parse(textOf(body) as string)
  } catch (cause) {
    throw new InvalidInput('cloud event', [{ path: 'data', rule: 'json', message: 'is not JSON' }], { cause })
  }
}
