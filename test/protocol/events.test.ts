import { describe, expect, it } from 'vitest'
import { dotted, eventKind, toBaseEvent } from '../../src/protocol/base-event.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import * as makers from '../../src/protocol/events.ts'
import { schemas } from '../../src/protocol/generated/schemas.ts'
import type { AnyEvent } from '../../src/protocol/protocol.ts'
import type { EventFamily, Kind } from '../../src/protocol/types.ts'
import { isValid, validate } from '../../src/protocol/validate.ts'
import { shapes } from './facts.ts'
import { full, ID, TIME } from './samples.ts'

const stamp = { event_id: ID, timestamp: TIME }
const V1 = '123e4567-e89b-12d3-a456-426614174000'

const plain = { event_type: 'something_happened' }
const stage = { ...plain, pipeline_id: ID, stage_id: 'plan', stage_status: 'running' } as const
const update = { ...plain, graph_id: ID, update_kind: 'bulk', node_delta: -3, edge_delta: 0 } as const
const execution = { ...plain, execution_id: ID, executor_kind: 'tool', status: 'running' } as const
const sa = { event_type: 'SAStepStarted', sa_id: ID, payload: { step_id: ID } } as const
const map = { event_type: 'MAPTurnDispatched', session_id: ID, payload: { role_id: ID, turn_number: 1 } } as const

const FAMILIES: Readonly<Record<EventFamily, () => AnyEvent>> = {
  import_process: () => makers.importProcessEvent(plain, stamp),
  intent: () => makers.intentEvent(plain, stamp),
  delta_intent: () => makers.deltaIntentEvent(plain, stamp),
  impact_analysis: () => makers.impactAnalysisEvent(plain, stamp),
  compensation_plan: () => makers.compensationPlanEvent(plain, stamp),
  methodology: () => makers.methodologyEvent(plain, stamp),
  reasoning_graph: () => makers.reasoningGraphEvent(plain, stamp),
  pipeline_stage: () => makers.pipelineStageEvent(stage, stamp),
  graph_update: () => makers.graphUpdateEvent(update, stamp),
  runtime_execution: () => makers.runtimeExecutionEvent(execution, stamp),
  cost_budget: () => makers.costBudgetEvent(plain, stamp),
  external_integration: () => makers.externalIntegrationEvent(plain, stamp),
}

const SPECIAL: Readonly<Record<string, Kind>> = {
  pipeline_stage: 'pipeline-stage-event',
  graph_update: 'graph-update-event',
  runtime_execution: 'runtime-execution-event',
}

describe('a maker', () => {
  it('is there for every family', () => {
    expect(Object.keys(FAMILIES).sort()).toEqual(shapes['event-core']?.fields['event_family!']?.split('|').sort())
  })

  it.each(Object.entries(FAMILIES))('makes a valid event of %s', (event_family, make) => {
    expect(make()).toMatchObject({ ...stamp, event_family, event_type: 'something_happened' })
    expect(isValid(SPECIAL[event_family] ?? 'event-core', make())).toBe(true)
  })

  it('makes events of the profiles', () => {
    expect(makers.saEvent(sa, stamp)).toEqual({ ...sa, ...stamp })
    expect(makers.mapEvent(map, stamp)).toEqual({ ...map, ...stamp })
  })

  it('asks a clock for id and time', () => {
    const clock = manualClock({ seed: 7, now: Date.UTC(2026, 4, 1) })
    const twin = manualClock({ seed: 7 })
    expect(makers.intentEvent(plain, clock)).toMatchObject({
      event_id: twin.uuid(),
      timestamp: '2026-05-01T00:00:00.000000Z',
    })
  })

  it('adds members of our own beside those of the protocol, and never in their place', () => {
    const beside = { decision_kind: 'budget', pipeline_id: 'other', event_family: 'intent', event_id: 'other' }
    expect(makers.pipelineStageEvent(stage, stamp, beside)).toEqual({
      ...stage,
      ...stamp,
      event_family: 'pipeline_stage',
      decision_kind: 'budget',
    })
  })

  it.each([
    [
      'what the schema refuses',
      () => makers.graphUpdateEvent({ ...update, node_delta: 0.5 }, stamp),
      'node_delta',
      'type',
    ],
    ['a missing member', () => makers.runtimeExecutionEvent({ ...plain } as never, stamp), 'execution_id', 'required'],
    ['a blank type', () => makers.intentEvent({ event_type: ' ' }, stamp), 'event_type', 'obs_event_type_non_empty'],
    [
      'a UUID that is not v4',
      () => makers.intentEvent(plain, { ...stamp, event_id: V1 }),
      'event_id',
      'obs_event_id_is_uuid',
    ],
    [
      'a pipeline that is not v4',
      () => makers.pipelineStageEvent({ ...stage, pipeline_id: V1 }, stamp),
      'pipeline_id',
      'obs_pipeline_event_has_pipeline_id',
    ],
    ['a step without its id', () => makers.saEvent({ ...sa, payload: {} }, stamp), 'payload.step_id', 'required'],
    [
      'a turn without payload',
      () => makers.mapEvent({ ...map, payload: undefined as never }, stamp),
      'payload',
      'required',
    ],
  ])('refuses %s', (_, make, path, rule) => {
    expect(make).toThrow(InvalidInput)
    expect(make).toThrow(
      expect.objectContaining({ problems: expect.arrayContaining([expect.objectContaining({ path, rule })]) }),
    )
  })
})

describe('stageStatus', () => {
  it.each([
    ['draft', 'pending'],
    ['proposed', 'pending'],
    ['approved', 'pending'],
    ['pending', 'pending'],
    ['blocked', 'pending'],
    ['in_progress', 'running'],
    ['completed', 'completed'],
    ['failed', 'failed'],
    ['skipped', 'skipped'],
  ] as const)('tells %s as %s, started or not', (status, told) => {
    expect([makers.stageStatus(status), makers.stageStatus(status, true)]).toEqual([told, told])
  })

  it('tells cancelled as failed if it had started, else as skipped', () => {
    expect(makers.stageStatus('cancelled', true)).toBe('failed')
    expect(makers.stageStatus('cancelled')).toBe('skipped')
  })

  it('refuses what is no status', () => {
    for (const odd of ['running', '', '__proto__', null, undefined] as never[]) {
      expect(() => makers.stageStatus(odd)).toThrow(InvalidInput)
    }
  })
})

describe('dotted', () => {
  it.each([
    ['plan_status_changed', 'plan.status.changed'],
    ['dag_edge_added', 'dag.edge.added'],
    ['SAInitialized', 'sa.initialized'],
    ['SAStepStarted', 'sa.step.started'],
    ['MAPTurnDispatched', 'map.turn.dispatched'],
    ['MAPConflictResolved', 'map.conflict.resolved'],
    ['confirm.requested', 'confirm.requested'],
    ['recovery.retry_initiated', 'recovery.retry.initiated'],
    ['llmCallStarted', 'llm.call.started'],
    ['HTTPServerError', 'http.server.error'],
    ['step_2_started', 'step2.started'],
    ['a--b__c', 'a.b.c'],
    ['2fast', 'fast'],
    ['', 'event'],
    ['ÄÖÜ', 'event'],
  ])('makes %j %j', (type, expected) => {
    expect(dotted(type)).toBe(expected)
    expect(isValid('base-event', { ...full('base-event'), event_type: dotted(type) })).toBe(true)
  })
})

describe('toBaseEvent', () => {
  it('keeps everything an event said', () => {
    const event = makers.pipelineStageEvent({ ...stage, payload: { from_status: 'approved' } }, stamp)
    const { event_id, timestamp, ...data } = event
    expect(toBaseEvent(event)).toEqual({ ...stamp, event_type: 'something.happened', source: 'runtime', data })
    expect(data).toMatchObject({ event_type: 'something_happened', event_family: 'pipeline_stage' })
  })

  it('makes every event fit into a trace', () => {
    const events = [
      ...Object.values(FAMILIES).map((make) => make()),
      makers.saEvent(sa, stamp),
      makers.mapEvent(map, stamp),
    ]
    const trace = { ...full('trace'), events: events.map((event) => toBaseEvent(event)) }
    expect(validate('trace', trace).events).toHaveLength(14)
  })

  it('takes source and trace from the event, and rather from the caller', () => {
    const event = makers.graphUpdateEvent({ ...update, source_module: 'plan' }, stamp)
    expect(toBaseEvent(event)).toMatchObject({ source: 'plan' })
    expect(toBaseEvent(event, { source: 'runtime.ael', trace_id: ID })).toMatchObject({
      source: 'runtime.ael',
      trace_id: ID,
    })
    expect(toBaseEvent(makers.saEvent({ ...sa, trace_id: ID }, stamp))).toMatchObject({ trace_id: ID })
    expect(toBaseEvent(makers.saEvent({ ...sa, trace_id: V1 }, stamp))).not.toHaveProperty('trace_id')
  })

  it('returns a base event as it is', () => {
    const base = full('base-event') as never
    expect(toBaseEvent(base)).toBe(base)
  })

  it('refuses what can be no base event', () => {
    const odd = [
      {},
      null,
      [],
      'x',
      { event_family: 7 },
      { ...stamp, event_family: 'intent' },
      { sa_id: ID },
      { ...makers.intentEvent(plain, stamp), event_id: V1 },
    ]
    for (const event of odd as never[]) expect(() => toBaseEvent(event)).toThrow(InvalidInput)
  })
})

describe('eventKind', () => {
  it('tells the shape by the member that only it has', () => {
    for (const kind of Object.keys(SPECIAL).map((family) => SPECIAL[family] as Kind))
      expect(eventKind(full(kind))).toBe(kind)
    for (const kind of ['event-core', 'sa-event', 'map-event', 'base-event'] as const) {
      expect(Object.keys(schemas)).toContain(kind)
      expect(eventKind({ ...full(kind) })).toBe(kind)
    }
  })
})
