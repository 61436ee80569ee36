import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { ProtocolTypes } from '../../src/protocol/types.ts'
import { isValid } from '../../src/protocol/validate.ts'
import { DOCUMENT_KINDS, type DocumentKind, takeApart } from '../../src/psg/document.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { KINDS } from '../../src/psg/kinds.ts'
import { decide, endPlan, move } from '../../src/psg/moves.ts'
import { openProject } from '../../src/psg/project.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { documentOf } from '../support/arbitraries.ts'
import {
  add,
  by,
  confirmData,
  contextOf,
  META,
  planOf,
  runOf,
  set,
  TIME,
  toldBy,
  traceOf,
  withPlan,
  world,
} from './given.ts'

const CONTEXT = '11111111-1111-4111-8111-111111111111'
const PLAN = '22222222-2222-4222-8222-222222222222'

/** A valid document of a kind that belongs into the context, or to the project. */
function importable<K extends DocumentKind>(kind: K): fc.Arbitrary<ProtocolTypes[K]> {
  const anything = documentOf(kind) as fc.Arbitrary<JsonObject>
  return anything.map((document) => ({
    ...document,
    ...('context_id' in document && { context_id: CONTEXT }),
    ...(kind === 'trace' && 'plan_id' in document && { plan_id: PLAN }),
    ...(kind === 'confirm' && document.target_type !== 'other' && { target_type: 'plan', target_id: PLAN }),
  })) as unknown as fc.Arbitrary<ProtocolTypes[K]>
}

/** Parts that have an id of their own have one each. */
function hasDistinctParts(kind: DocumentKind, document: JsonObject): boolean {
  const { parts } = KINDS[kind]
  const idField = parts && KINDS[parts.kind].idField
  const list = parts && (document[parts.list] as readonly JsonObject[] | undefined)
  return !idField || !list || new Set(list.map((part) => part[idField] as Json)).size === list.length
}

describe('psg/document', () => {
  for (const kind of DOCUMENT_KINDS) {
    it(`gives a ${kind} back as it was imported, also after a restart`, async () => {
      await fc.assert(
        fc.asyncProperty(importable(kind), async (document) => {
          fc.pre(hasDistinctParts(kind, document as JsonObject))
          const store = memoryBackend()
          const clock = manualClock()
          const project = await openProject(store, { clock })
          const plan = planOf({ context: CONTEXT, id: clock.uuid }, undefined, { plan_id: PLAN }).document
          if (kind !== 'context')
            await project.import(
              [
                ['context', contextOf(CONTEXT)],
                ['plan', plan],
              ],
              by,
            )
          const id = (document as JsonObject)[KINDS[kind].idField!] as string
          const { graph } = await project.import([[kind, document]], {
            ...by,
            ...(kind === 'confirm' && { context: CONTEXT }),
          })
          expect(JSON.stringify(await graph.document(kind, id))).toBe(JSON.stringify(document)) // also the order of keys
          const reopened = await openGraph(store, graph.id, { clock })
          expect(JSON.stringify(await reopened.document(kind, id))).toBe(JSON.stringify(document))
          expect(await reopened.verify()).toEqual([])
        }),
        { numRuns: 60 },
      )
    })
  }

  it('tells an empty list from none', async () => {
    const given = await world()
    const { graph, context, id } = given
    for (const segments of [undefined, []]) {
      const trace_id = id()
      const trace = { ...traceOf(trace_id, context, id()), ...(segments && { segments }) }
      await graph.commit(takeApart('trace', trace, { imported: true }), by)
      expect(await graph.document('trace', trace_id)).toStrictEqual(trace)
    }
  })

  it('folds a segment’s end into it, with the attributes of both', async () => {
    const { graph, context, id } = await world()
    const [trace, first, second] = [id(), id(), id()]
    const segment = (segment_id: string, more: object) => ({
      segment_id,
      label: 'l',
      status: 'running' as const,
      ...more,
    })
    await graph.commit(
      [
        add('trace', trace, traceOf(trace, context, id())),
        add('segment', first, segment(first, { attributes: { step_id: 's', attempt: 1 } }), { owner: trace, at: 0 }),
        add('segment', second, segment(second, { parent_segment_id: first }), { owner: trace, at: 1 }),
      ],
      by,
    )
    const end = {
      segment_id: first,
      status: 'failed' as const,
      finished_at: TIME,
      attributes: { attempt: 2, tokens: 7 },
    }
    await graph.commit([add('segment_end', first, end, { owner: trace })], by)
    const document = await graph.document('trace', trace)
    expect(document.segments).toStrictEqual([
      {
        ...segment(first, {}),
        status: 'failed',
        finished_at: TIME,
        attributes: { step_id: 's', attempt: 2, tokens: 7 },
      },
      segment(second, { parent_segment_id: first }),
    ])
    expect(isValid('trace', document)).toBe(true)
  })

  it('tells in a trace what its own plan did from its birth to its end, and nothing before, after or beside', async () => {
    const given = await world()
    const { graph, context, id } = given
    const plan = await withPlan(given, { a: [] }, 'in_progress')
    const other = await withPlan(given, { a: [] }, 'in_progress')
    const [trace, run] = [id(), id()]
    await graph.commit(
      [
        add('trace', trace, traceOf(trace, context, id(), { plan_id: plan.id })),
        add('run', run, runOf(run, plan.id, trace)),
      ],
      by,
    )
    const owner = { ...by, fence: 0 }
    await graph.commit([move('step', plan.step('a'), 'in_progress')], owner)
    await graph.commit([move('step', other.step('a'), 'in_progress')], by)
    await graph.commit([move('step', plan.step('a'), 'completed')], owner)
    const ending = [...endPlan(graph, plan.id, 'completed'), move('trace', trace, 'completed')]
    await graph.commit([...ending, set('run', run, { phase: 'ended' })], owner)
    await graph.commit([move('step', other.step('a'), 'completed')], by)
    const document = await graph.document('trace', trace)
    const told = document.events!.map(({ event_type, data }) => [
      event_type,
      (data as { payload: JsonObject }).payload.to_status,
    ])
    expect(told).toEqual([
      ['step.started', 'in_progress'],
      ['step.completed', 'completed'],
      ['plan.status.changed', 'completed'],
    ])
    expect(document.events!.every((event) => event.trace_id === trace)).toBe(true)
    expect(isValid('trace', document)).toBe(true)

    const whole = await graph.document('trace', trace, { events: 'all' })
    const isUpdate = ({ data }: { data?: unknown }) => (data as JsonObject).event_family === 'graph_update'
    expect(whole.events!.filter((event) => !isUpdate(event))).toEqual(document.events)
    expect(whole.events!.filter(isUpdate).map(({ event_type }) => event_type)).toEqual([
      'trace.created',
      'step.updated',
      'step.updated',
      'graph.changed',
    ])
    expect(isValid('trace', whole)).toBe(true)
    await expect(graph.document('trace', trace, { events: 'some' } as never)).rejects.toMatchObject({
      problems: [expect.objectContaining({ path: 'events' })],
    })
  })

  it('keeps the events that a trace was given, before those that its plan told', async () => {
    const { graph, context, id } = await world()
    const trace = id()
    const event = { event_id: id(), event_type: 'audit.begun', source: 'elsewhere', timestamp: TIME }
    await graph.commit([add('trace', trace, traceOf(trace, context, id(), { events: [event] }))], by)
    await graph.commit([move('context', context, 'suspended')], by)
    const { events } = await graph.document('trace', trace)
    expect(events?.map(({ event_type }) => event_type)).toEqual(['audit.begun', 'context.deactivated'])
    expect(events?.[0]).toEqual(event)
  })

  it('reads of the journal only what lies between a trace’s birth and its end', async () => {
    const given = await world()
    const { graph, context, id, store } = given
    for (let i = 0; i < 5; i++) await graph.commit([set('context', context, { title: `t${i}` })], by)
    const trace = id()
    await graph.commit([add('trace', trace, traceOf(trace, context, id()))], by)
    await graph.commit([move('trace', trace, 'completed')], by)
    for (let i = 0; i < 5; i++) await graph.commit([set('context', context, { title: `u${i}` })], by)
    const read: number[] = []
    const counting = {
      ...store,
      async *read(stream: string, from?: { after?: number }) {
        for await (const entry of store.read(stream, from)) {
          read.push(entry.revision)
          yield entry
        }
      },
    }
    const watched = await openGraph(counting, context, { clock: given.clock })
    read.length = 0
    await watched.reading([['trace', trace]], () => undefined)
    read.length = 0
    await watched.document('trace', trace)
    expect(read).toEqual([7, 8])
  })

  it('reads on where a trace was changed and not moved', async () => {
    const { graph, context, id } = await world()
    const trace = id()
    await graph.commit([add('trace', trace, traceOf(trace, context, id()))], by)
    await graph.commit([set('trace', trace, { finished_at: TIME })], by)
    await graph.commit([move('trace', trace, 'completed')], by)
    expect(await graph.document('trace', trace)).toMatchObject({ trace_id: trace, status: 'completed' })
  })

  it('keeps decisions in the order in which they were made', async () => {
    const { graph, context, id } = await world()
    const confirm = id()
    await graph.commit([add('confirm', confirm, confirmData(confirm, 'context', context))], by)
    await graph.commit(decide(graph, confirm, { status: 'rejected', decided_by_role: 'a' }), by)
    await graph.commit(decide(graph, confirm, { status: 'approved', decided_by_role: 'b', reason: 'better' }), by)
    const document = await graph.document('confirm', confirm)
    expect(document.decisions!.map(({ status, decided_by_role }) => [status, decided_by_role])).toEqual([
      ['rejected', 'a'],
      ['approved', 'b'],
    ])
    expect(isValid('confirm', document)).toBe(true)
  })

  it('hands out what nobody can change', async () => {
    const given = await world()
    const mine = { domain: 'shop', environment: 'test', deep: { list: [1] } }
    await given.graph.commit([set('context', given.context, { root: mine })], by)
    mine.deep.list.push(2)
    const document = await given.graph.document('context', given.context)
    expect(document.root).toEqual({ domain: 'shop', environment: 'test', deep: { list: [1] } })
    const { list } = (document.root as unknown as { deep: { list: number[] } }).deep
    expect(() => list.push(3)).toThrow(TypeError)
  })

  it('refuses to take apart what is no document', () => {
    expect(() => takeApart('step' as never, {})).toThrow(InvalidInput)
    expect(() => takeApart('plan', { plan_id: PLAN })).toThrow(InvalidInput)
    expect(() => takeApart('plan', null)).toThrow(InvalidInput)
  })

  it('says that there is none', async () => {
    const { graph, id } = await world()
    await expect(graph.document('plan', id())).rejects.toBeInstanceOf(NotFound)
    await expect(graph.document('step' as never, id())).rejects.toBeInstanceOf(InvalidInput)
    await expect(graph.document('plan', '')).rejects.toBeInstanceOf(InvalidInput)
  })

  it('marks what was imported, and takes it as it stands', async () => {
    const project = await openProject(memoryBackend(), { clock: manualClock() })
    const plan = planOf({ context: CONTEXT, id: manualClock({ seed: 2 }).uuid }, undefined, { status: 'completed' })
    const { graph, commits } = await project.import(
      [
        ['context', { ...contextOf(CONTEXT), status: 'closed' }],
        ['plan', plan.document],
        ['role', { meta: META, role_id: PLAN, name: 'builder' }],
      ],
      by,
    )
    expect(commits).toHaveLength(2)
    expect(graph.get('context', CONTEXT)).toMatchObject({ imported: true, data: { status: 'closed' } })
    expect(await graph.require('plan', plan.id)).toMatchObject({ imported: true, data: { status: 'completed' } })
    expect(project.role('builder')?.role_id).toBe(PLAN)
    const added = toldBy(commits[1]!).map(({ event }) => event.event_family)
    expect(new Set(added)).toEqual(new Set(['graph_update'])) // nothing happened here, so no stage is told
  })
})
