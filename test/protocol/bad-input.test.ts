import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dotted, toBaseEvent } from '../../src/protocol/base-event.ts'
import { isoMicros, manualClock } from '../../src/protocol/clock.ts'
import { fromBinaryCloudEvent, toCloudEvent } from '../../src/protocol/cloud-events.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { intentEvent, pipelineStageEvent, saEvent, stageStatus } from '../../src/protocol/events.ts'
import { schemas } from '../../src/protocol/generated/schemas.ts'
import { checkInvariants, parseInvariant } from '../../src/protocol/invariants.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { confirmMayMove, mayMove } from '../../src/protocol/lifecycle.ts'
import type { Kind } from '../../src/protocol/types.ts'
import { isValid, problems, profileProblems, validate, validateProfileEvent } from '../../src/protocol/validate.ts'
import { anyJson } from '../support/arbitraries.ts'
import { full, ID, minimal, TIME } from './samples.ts'

const kinds = Object.keys(schemas) as Kind[]
const MILLION = 1_000_000
const EVENT = intentEvent({ event_type: 'intent_extracted' }, { event_id: ID, timestamp: TIME })

/** Either the value comes back, or a bounded InvalidInput comes out. */
function survives(kind: Kind, value: unknown): readonly { path: string; rule: string }[] {
  try {
    expect(validate(kind, value)).toBe(value)
    expect(problems(kind, value)).toEqual([])
    return []
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    expect(isValid(kind, value)).toBe(false)
    expect(error).toMatchObject({ code: 'invalid_input', retryable: false, subject: kind })
    expect(error.problems.length).toBeGreaterThan(0)
    expect(error.problems.length).toBeLessThanOrEqual(100)
    expect(error.message.length).toBeLessThan(3000)
    for (const { path, found, message } of error.problems) {
      expect(path.length + (found?.length ?? 0) + message.length).toBeLessThan(1000)
    }
    return error.problems
  }
}

it('checks and spells only what can be', () => {
  const unreadable = Object.defineProperty({}, 'event_id', {
    enumerable: true,
    get: () => expect.fail('read'),
  }) as never
  const wrong: readonly (() => unknown)[] = [
    () => checkInvariants(undefined as never, {}),
    () => checkInvariants([null as never], {}),
    () => checkInvariants([], null as never),
    () => checkInvariants([], {}, null as never),
    () => checkInvariants([], {}, { scopes: 'plan' as never }),
    () => checkInvariants([], {}, { scopes: ['step' as never] }),
    () => checkInvariants([], {}, { absent: 'refuse' as never }),
    () => checkInvariants([], {}, { switched: 'sa_plan_has_steps' as never }),
    () => checkInvariants([{ id: 'a', scope: 'plna' as never, path: 'title', rule: 'exists' }], { plan: {} }),
    () => parseInvariant({ id: 'a', scope: 'plan', path: 'title', rule: 'exists', when: 5 }),
    () => intentEvent('text'.repeat(1_000_000) as never, { event_id: ID, timestamp: TIME }),
    () => intentEvent(unreadable, { event_id: ID, timestamp: TIME }),
    () => intentEvent({ event_type: 'intent_extracted' }, unreadable),
    () => intentEvent({ event_type: 'intent_extracted' }, { event_id: ID, timestamp: TIME }, unreadable),
    () => saEvent(unreadable, { event_id: ID, timestamp: TIME }),
    () => dotted(5 as never),
    () => toBaseEvent(EVENT, null as never),
    () => toBaseEvent(EVENT, { source: 5 as never }),
    () => toCloudEvent(EVENT, null as never),
    () => toCloudEvent(EVENT, { source: 5 as never }),
    () => toCloudEvent(EVENT, { subject: '' }),
    () => toCloudEvent(EVENT, { subject: 'a\r\nb: c' }),
    () => toCloudEvent(EVENT, { extensions: { tenant: 'a\u0000' } }),
    () => toCloudEvent(EVENT, { extensions: { tenant: {} as never } }),
    () => isoMicros(Number.NaN),
    () => isoMicros(5n as never),
    () => isoMicros(Date.UTC(10_000, 0) * 1000),
    () => digestOf(undefined as never),
    () => manualClock(null as never),
    () => manualClock({ seed: 'lucky' as never }),
    () => manualClock({ now: Number.NaN }),
    () => validate(['plan'] as never, full('plan')),
    () => mayMove(['plan'] as never, 'draft' as never, 'proposed' as never),
    () => mayMove('plan', 'draft', Object.create(null)),
    () => stageStatus(['draft'] as never),
  ]
  for (const asked of wrong) expect(asked).toThrow(InvalidInput)
})

describe.each(kinds)('validating as %s', (kind) => {
  it('survives any JSON value', () => {
    fc.assert(
      fc.property(anyJson, (value) => void survives(kind, value)),
      { numRuns: 50 },
    )
  })

  it('survives values that are no JSON', () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
        (value) => {
          survives(kind, value)
        },
      ),
      { numRuns: 50 },
    )
  })

  it('survives an object that cannot be read', () => {
    const trap = () => {
      throw new Error('hands off')
    }
    const hostile = new Proxy({}, { get: trap, has: trap, ownKeys: trap, getOwnPropertyDescriptor: trap })
    const revoked = Proxy.revocable({}, {})
    revoked.revoke()
    survives(kind, hostile)
    survives(kind, revoked.proxy)
    survives(kind, Object.defineProperty({}, 'meta', { get: trap, enumerable: true }))
    survives(kind, { toString: trap, toJSON: trap, valueOf: trap, [Symbol.toPrimitive]: trap })
  })

  it('survives depth and cycles wherever they are', () => {
    let deep: unknown = 'bottom'
    for (let depth = 0; depth < 100_000; depth++) deep = depth % 2 === 0 ? [deep] : { deep }
    const cyclic: Record<string, unknown> = {}
    cyclic.self = cyclic
    for (const odd of [deep, cyclic]) {
      survives(kind, odd)
      if (kind === 'identifier') continue
      for (const name of Object.keys(full(kind))) survives(kind, { ...full(kind), [name]: odd })
    }
  })
})

describe('a large document', () => {
  const event = { event_id: ID, event_type: 'a', source: 'x', timestamp: TIME }
  const meta = { protocol_version: '1.0.0', schema_version: '1.0.0' }

  it('is accepted when it is right', () => {
    const step = minimal('step')
    const plan = { ...minimal('plan'), title: 'x'.repeat(MILLION), steps: Array.from({ length: 20_000 }, () => step) }
    expect(survives('plan', plan)).toEqual([])
    expect(survives('context', { ...minimal('context'), constraints: { text: 'x'.repeat(5 * MILLION) } })).toEqual([])
    expect(survives('meta', { ...meta, tags: Array.from({ length: 300_000 }, (_, n) => `tag ${n}`) })).toEqual([])
    expect(survives('base-event', { ...event, event_type: 'a.'.repeat(2 * MILLION).concat('a') })).toEqual([])
  })

  it('is refused with a bounded list when everything in it is wrong', () => {
    expect(survives('plan', { steps: Array.from({ length: 2 * MILLION }, () => 0) })).toHaveLength(100)
    expect(survives('meta', { ...meta, tags: Array.from({ length: MILLION }, () => 0) })).toHaveLength(100)
    expect(
      survives('meta', Object.fromEntries(Array.from({ length: 300_000 }, (_, n) => [`key ${n}`, n]))),
    ).toHaveLength(100)
  })

  it('is refused for the last of its tags when that one is there twice', () => {
    const tags = [...Array.from({ length: 300_000 }, (_, n) => `tag ${n}`), 'tag 0']
    expect(survives('meta', { ...meta, tags })).toMatchObject([{ path: 'tags[300000]', rule: 'unique_items' }])
  })

  it.each([
    ['base-event', 'event_type', ['a'.repeat(5 * MILLION).concat('!'), 'a.'.repeat(2 * MILLION)]],
    ['extension', 'version', ['1', '1.', 'a-', '0a', 'a.'].map((part) => `1.0.0-${part.repeat(2 * MILLION)}!`)],
    ['meta', 'protocol_version', ['1'.repeat(5 * MILLION), '1.'.repeat(2 * MILLION)]],
    ['git-event', 'author_email', ['a', 'a.', 'a@', 'a-'].map((part) => `a@${part.repeat(2 * MILLION)}!`)],
    ['ci-event', 'run_url', ['a', 'a@', 'a:', '1.', '/', '%41'].map((part) => `a://${part.repeat(MILLION)}^`)],
    ['ci-event', 'started_at', [' ', 't', '0'].map((part) => part.repeat(5 * MILLION))],
    ['sa-event', 'sa_id', ['a'.repeat(5 * MILLION), `urn:uuid:${'0-'.repeat(2 * MILLION)}`]],
  ] as const)('%s does not make a pattern backtrack for ever: %s', (kind, name, texts) => {
    for (const text of texts) {
      expect(survives(kind, { ...full(kind), [name]: text })).toMatchObject([{ path: name }])
    }
  })

  it('is shown by its beginning and never whole', () => {
    const secret = `${'x'.repeat(70)}secret`
    const document = { ...minimal('plan'), status: secret, [secret]: secret, steps: { secret } }
    expect(JSON.stringify(problems('plan', document))).not.toContain('secret')
  })
})

describe('validate', () => {
  it('refuses a kind that does not exist', () => {
    for (const kind of ['nonsense', '', '__proto__', 'toString', 7, undefined, null, {}] as never[]) {
      for (const call of [validate, isValid, problems]) {
        expect(() => call(kind, {})).toThrow(expect.objectContaining({ code: 'invalid_input', subject: 'kind' }))
      }
    }
  })
})

describe('validateProfileEvent', () => {
  const sa = { event_id: ID, timestamp: TIME, sa_id: ID }
  const map = { event_id: ID, timestamp: TIME, session_id: ID }

  it.each([
    ['sa-event', { ...sa, event_type: 'SAStepStarted' }, 'step_id', 'sa-step-started-payload'],
    ['sa-event', { ...sa, event_type: 'SAStepCompleted' }, 'status', 'sa-step-completed-payload'],
    ['sa-event', { ...sa, event_type: 'SAStepFailed' }, 'step_id', 'sa-step-failed-payload'],
    ['map-event', { ...map, event_type: 'MAPTurnDispatched' }, 'turn_number', 'map-turn-dispatched-payload'],
    ['map-event', { ...map, event_type: 'MAPTurnCompleted' }, 'role_id', 'map-turn-completed-payload'],
    ['map-event', { ...map, event_type: 'MAPBroadcastSent' }, 'target_count', 'map-broadcast-sent-payload'],
    ['map-event', { ...map, event_type: 'MAPBroadcastReceived' }, 'receiver_role_id', 'map-broadcast-received-payload'],
  ] as const)('%s: looks into the payload where the schema does not: %o', (kind, event, needed, payloadKind) => {
    const payload = full(payloadKind)
    const { [needed]: _, ...lacking } = payload
    expect(validateProfileEvent(kind, { ...event, payload })).toEqual({ ...event, payload })
    expect(isValid(kind, { ...event, payload: lacking })).toBe(true)
    expect(profileProblems(kind, { ...event, payload: lacking })).toMatchObject([
      { path: `payload.${needed}`, rule: 'required' },
    ])
    expect(profileProblems(kind, event)).toMatchObject([{ path: 'payload', rule: 'required' }])
    expect(() => validateProfileEvent(kind, event)).toThrow(InvalidInput)
  })

  it.each([
    ['sa-event', sa, ['SAInitialized', 'SAContextLoaded', 'SAPlanEvaluated', 'SATraceEmitted', 'SACompleted']],
    [
      'map-event',
      map,
      ['MAPSessionStarted', 'MAPRolesAssigned', 'MAPConflictDetected', 'MAPConflictResolved', 'MAPSessionCompleted'],
    ],
  ] as const)('%s: asks for no payload where the protocol describes none', (kind, event, types) => {
    for (const event_type of types) {
      expect(profileProblems(kind, { ...event, event_type })).toEqual([])
      expect(profileProblems(kind, { ...event, event_type, payload: { any: 'thing' } })).toEqual([])
    }
  })

  it('refuses what the schema refuses', () => {
    expect(profileProblems('sa-event', { ...sa, event_type: 'SAStepStarted', extra: 1 })).toMatchObject([
      { path: 'extra' },
    ])
    expect(profileProblems('map-event', null)).toMatchObject([{ path: '', rule: 'type' }])
  })
})

describe('what should be an object and is none', () => {
  it.each([undefined, null, 5, 'text'])('is refused as a stamp, a message and a Confirm: %o', (odd) => {
    const fields = { event_type: 'a', pipeline_id: ID, stage_id: 'a', stage_status: 'pending' } as const
    expect(() => pipelineStageEvent(fields, odd as never)).toThrow(InvalidInput)
    expect(() => saEvent({ event_type: 'SAInitialized', sa_id: ID }, odd as never)).toThrow(InvalidInput)
    expect(() => fromBinaryCloudEvent(odd as never)).toThrow(InvalidInput)
    expect(() => confirmMayMove(odd as never, 'approved')).toThrow(InvalidInput)
  })
})
