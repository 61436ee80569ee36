import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AnyEvent } from '../../src/protocol/base-event.ts'
import {
  fromBinaryCloudEvent,
  fromCloudEvent,
  toBinaryCloudEvent,
  toCloudEvent,
} from '../../src/protocol/cloud-events.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { arbitraryOf } from '../support/arbitraries.ts'
import { full, ID, TIME } from './samples.ts'

const event = full('pipeline-stage-event') as AnyEvent
const kinds = [
  'event-core',
  'pipeline-stage-event',
  'graph-update-event',
  'runtime-execution-event',
  'sa-event',
  'map-event',
  'base-event',
] as const

describe('the structured form', () => {
  it('has the attributes that CloudEvents 1.0 asks for', () => {
    expect(toCloudEvent(event, { source: '/graphs/1', subject: 'plan/1', extensions: { partitionkey: 'g' } })).toEqual({
      specversion: '1.0',
      id: ID,
      source: '/graphs/1',
      type: 'mplp.pipeline_stage.a',
      time: TIME,
      datacontenttype: 'application/json',
      subject: 'plan/1',
      partitionkey: 'g',
      data: event,
    })
    expect(toCloudEvent(full('sa-event') as AnyEvent)).toMatchObject({ type: 'mplp.sa.SAInitialized', source: '/mplp' })
    expect(toCloudEvent(full('map-event') as AnyEvent).type).toBe('mplp.map.MAPSessionStarted')
    expect(toCloudEvent(full('base-event') as AnyEvent).type).toBe('mplp.base.plan')
  })

  it.each(kinds)('carries a %s there and back, through JSON text', (kind) => {
    fc.assert(
      fc.property(arbitraryOf(kind), (document) => {
        const family = kind === 'event-core' ? { event_family: 'intent' } : {} // of some families, the core is not enough
        const told = JSON.parse(JSON.stringify({ ...document, ...family }))
        expect(fromCloudEvent(JSON.parse(JSON.stringify(toCloudEvent(told))))).toEqual(told)
      }),
      { numRuns: 50 },
    )
  })

  it('refuses to wrap what is no event, or extensions that CloudEvents forbids', () => {
    expect(() => toCloudEvent({} as never)).toThrow(InvalidInput)
    expect(() => toCloudEvent({ ...event, timestamp: 'soon' })).toThrow(InvalidInput)
    for (const name of ['graph_id', 'Key', '', 'id', 'data']) {
      expect(() => toCloudEvent(event, { extensions: { [name]: 'x' } })).toThrow(
        expect.objectContaining({ problems: [expect.objectContaining({ path: name, rule: 'extension_name' })] }),
      )
    }
  })

  it.each([
    ['specversion', '0.3'],
    ['id', 'other'],
    ['type', 'com.example.other'],
    ['time', '2020-01-01T00:00:00Z'],
    ['source', ''],
    ['source', undefined],
    ['id', undefined],
  ])('refuses to unwrap when %s is %j', (path, value) => {
    const wrapped = { ...toCloudEvent(event), [path]: value }
    expect(() => fromCloudEvent(wrapped)).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining({ path })] }),
    )
  })

  it('refuses anything else', () => {
    for (const odd of [
      null,
      undefined,
      7,
      'x',
      [],
      {},
      { data: null },
      { ...toCloudEvent(event), data: { ...event, stage_id: 7 } },
    ]) {
      expect(() => fromCloudEvent(odd)).toThrow(InvalidInput)
    }
  })
})

describe('the binary form', () => {
  it('has its attributes in ce_ headers and the bare event in its body', () => {
    const { headers, body } = toBinaryCloudEvent(event, { extensions: { partitionkey: 'g' } })
    expect(headers).toEqual({
      'content-type': 'application/json',
      ce_specversion: '1.0',
      ce_id: ID,
      ce_source: '/mplp',
      ce_type: 'mplp.pipeline_stage.a',
      ce_time: TIME,
      ce_partitionkey: 'g',
    })
    expect(JSON.parse(body)).toEqual(event)
  })

  it.each(kinds)('carries a %s there and back, as text and as bytes', (kind) => {
    const told = full(kind) as AnyEvent
    const { headers, body } = toBinaryCloudEvent(told)
    const bytes = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Buffer.from(value)]))
    expect(fromBinaryCloudEvent({ headers, body })).toEqual(told)
    expect(fromBinaryCloudEvent({ headers: bytes, body: Buffer.from(body) })).toEqual(told)
  })

  it.each(['a\r\nx-other: b', 'half \ud83d a character', 'a\u0000'])(
    'carries an event whose type no attribute can hold there and back: %j',
    (event_type) => {
      const told = { ...event, event_type } as AnyEvent
      const { headers, body } = toBinaryCloudEvent(told)
      const bytes = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Buffer.from(value)]))
      expect(fromBinaryCloudEvent({ headers: bytes, body: Buffer.from(body) })).toEqual(told)
      expect(Object.values(headers).join('')).not.toMatch(/[\p{Cc}\p{Cs}]/u)
      for (const given of [{ source: event_type }, { subject: event_type }, { extensions: { x: event_type } }])
        expect(() => toCloudEvent(event, given)).toThrow(InvalidInput)
    },
  )

  it('refuses a body that is no JSON, and headers that are not there', () => {
    const { headers, body } = toBinaryCloudEvent(event)
    expect(() => fromBinaryCloudEvent({ headers, body: '{' })).toThrow(InvalidInput)
    for (const none of [{}, undefined])
      expect(() => fromBinaryCloudEvent({ headers: none, body })).toThrow(InvalidInput)
    expect(() => fromBinaryCloudEvent({ headers: { ...headers, ce_id: undefined }, body })).toThrow(InvalidInput)
  })
})
