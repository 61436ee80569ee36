import { describe, expect, it } from 'vitest'
import { TooLarge } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { CommitOptions } from '../../src/psg/change.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { INDEX } from '../../src/psg/indexes.ts'
import type { Backend, Write } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { add, by, file, planOf, set, traceOf, type World, world } from './given.ts'

const MIB = 1024 * 1024
const text = (mib: number) => 'x'.repeat(mib * MIB)

/** A store that tells how much each write puts among the values. */
function weighed(): { readonly store: Backend; readonly bytes: number[] } {
  const store = memoryBackend()
  const bytes: number[] = []
  const commit = (write: Write) => {
    bytes.push(JSON.stringify([write.inserts, write.puts]).length)
    return store.commit(write)
  }
  return { store: { ...store, commit }, bytes }
}

const trails = async ({ store, context }: World) =>
  (await store.getMany([INDEX.written(context)])).has(INDEX.written(context))

const told = (notes: string): CommitOptions => ({
  ...by,
  events: [{ event: { event_type: 'noted', event_family: 'external_integration', payload: { notes } } }],
})

describe('psg: values that trail behind the journal', () => {
  it('are weighed whole by whoever opens the graph, also of what has ended or is not loaded', async () => {
    const { store, bytes } = weighed()
    const given = await world({ store })
    for (let i = 0; i < 8; i++) {
      const graph = await openGraph(store, given.context, { clock: given.clock })
      const plan = planOf(given, { a: [] }, { objective: text(1) })
      await graph.commit([...plan.changes, add('file', `${i}.ts`, file(`${i}.ts`))], by)
      await graph.commit(
        [set('plan', plan.id, { status: 'cancelled' }), set('step', plan.step('a'), { status: 'skipped' })],
        by,
      )
    }
    expect(Math.max(...bytes)).toBeGreaterThan(MIB)
    expect(Math.max(...bytes)).toBeLessThan(5 * MIB)
    expect(await (await openGraph(store, given.context)).verify()).toEqual([])
  })

  it('are written before they are more than a store takes at once, however little of each has changed', async () => {
    const { store, bytes } = weighed()
    const given = await world({ store })
    const { graph } = given
    const plans = Array.from({ length: 12 }, () => planOf(given, { a: [] }, { objective: text(1) }))
    for (const plan of plans) await graph.commit(plan.changes, by)
    for (const plan of plans)
      await graph.commit(
        [set('plan', plan.id, { status: 'cancelled' }), set('step', plan.step('a'), { status: 'skipped' })],
        by,
      )
    const hasty = await openGraph(store, graph.id, { mostTrailing: 0 })
    await hasty.commit([set('context', graph.id, { title: 'writes all that trails' })], by)
    expect(Math.max(...bytes)).toBeLessThan(5 * MIB)
    const statuses = await Promise.all(plans.map(async ({ id }) => (await graph.require('plan', id)).data.status))
    expect(new Set(statuses)).toEqual(new Set(['cancelled']))
    expect(await graph.verify()).toEqual([])
  })

  it('are none that no store takes: the commit that would make one is refused, and the next lands', async () => {
    const given = await world()
    const { graph, context, id } = given
    const trace = id()
    const data = traceOf(trace, context, id())
    await graph.commit([add('trace', trace, data)], by)
    await graph.commit([set('trace', trace, { governance: { lifecyclePhase: text(12) } })], by)
    await graph.commit([set('trace', trace, { meta: { ...data.meta, tags: [text(12)] } })], by)
    const third = set('trace', trace, { root_span: { ...data.root_span, attributes: { notes: text(12) } } as Json })
    await expect(graph.commit([third], by)).rejects.toThrow(TooLarge)
    await graph.commit([set('context', context, { title: 'goes on' })], by)
    const reopened = await openGraph(given.store, context)
    expect(reopened.get('trace', trace)!.data.root_span).toEqual(data.root_span)
    expect(await graph.verify()).toEqual([])
  })

  it('are none whose name no store takes: the commit that would make one is refused, and the next lands', async () => {
    const { graph, context } = await world()
    const long = 'x'.repeat(1_024)
    await expect(graph.commit([add('file', long, file('a.ts'))], by)).rejects.toMatchObject({ code: 'invalid_input' })
    await graph.commit([set('context', context, { title: 'goes on' })], by)
    const hasty = await openGraph(graph.store, context, { mostTrailing: 0 })
    await hasty.commit([set('context', context, { title: 'writes all that trails' })], by)
    expect(await graph.verify()).toEqual([])
  })

  it('do not wait behind a large one that was not in memory when it was changed', async () => {
    const given = await world({ mostTrailing: 0 })
    const { graph, context, store } = given
    await graph.commit([add('file', 'a.ts', { ...file('a.ts'), digest: `sha256:${text(4)}` })], by)
    const other = await openGraph(store, context)
    expect(other.state.hasGroup('files')).toBe(false)
    await other.commit([set('file', 'a.ts', { size: 2 })], by)
    expect(await trails(given)).toBe(false)
  })

  it.each([
    ['events', (notes: string) => told(notes)],
    ['reasons', (reason: string) => ({ ...by, reason })],
  ])('are written when the entries that tell them are large in themselves, for their %s', async (_, saying) => {
    const given = await world()
    const { graph, context } = given
    await graph.commit([set('context', context, { title: 'small' })], saying('few'))
    expect(await trails(given)).toBe(true)
    await graph.commit([set('context', context, { title: 'large' })], saying(text(4)))
    await graph.commit([set('context', context, { title: 'next' })], by)
    expect(await trails(given)).toBe(false)
  })

  it('are written before there are more than are soon read', async () => {
    const given = await world()
    const adding = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => add('file', `${from + i}`, file(`${from + i}`)))
    await given.graph.commit(adding(0, 7_999), by) // beside the context
    expect(await trails(given)).toBe(true)
    await given.graph.commit(adding(7_999, 8_000), by)
    expect(await trails(given)).toBe(false)
  })

  it.each([
    ['their number', { mostTrailing: 1 }, 'short'],
    ['their size', {}, text(2)],
  ])('trail anew once %s had them written', async (_, options, summary) => {
    const given = await world({ ...options, context: { summary } })
    const seen = [await trails(given)]
    for (const title of ['first', 'second', 'third']) {
      await given.graph.commit([set('context', given.context, { title })], by)
      seen.push(await trails(given))
    }
    expect(seen).toEqual([true, false, true, false])
  })

  it('are all read by who opens the graph while another writes them and lets others trail', async () => {
    const given = await world({ mostTrailing: 0 })
    const { graph, context, store } = given
    const slow = await openGraph(store, context)
    await slow.commit([set('context', context, { title: 'trails' })], by)
    const meanwhile = [
      () => graph.commit([add('file', 'a.ts', file('a.ts'))], by),
      () => slow.commit([add('file', 'b.ts', file('b.ts'))], by),
    ]
    const torn: Backend = {
      ...store,
      async *scan(prefix, from) {
        for await (const [key, value] of store.scan(prefix, { ...from, limit: 1 })) {
          yield [key, value]
          for (const write of meanwhile.splice(0)) await write()
          yield* store.scan(prefix, { ...from, after: key })
        }
      },
    }
    const opened = await openGraph(torn, context)
    expect(opened.get('context', context)!.data.title).toBe('trails')
    expect((await opened.require('file', 'b.ts')).data).toEqual(file('b.ts'))
  })
})
