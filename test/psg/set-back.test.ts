import { describe, expect, it } from 'vitest'
import { isoMicros, manualClock } from '../../src/protocol/clock.ts'
import { Corrupt } from '../../src/protocol/errors.ts'
import { takeApart } from '../../src/psg/document.ts'
import { newGraph, openGraph, type ProjectGraph } from '../../src/psg/graph.ts'
import { trimmedKey } from '../../src/psg/trimmed.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { replicated } from '../support/replicated.ts'
import { add, by, contextOf, file, set, world } from './given.ts'

/** A graph that others share, in a store whose replica knows of its first two commits. */
async function given() {
  const clock = manualClock()
  const { store, lag, failOver } = replicated(clock)
  const told: unknown[] = []
  const { graph, context } = await world({ clock, store, onError: (error) => told.push(error) })
  const summed = (summary: string) => [set('context', context, { summary })]
  await graph.commit(summed('kept'), by)
  lag()
  await graph.snapshot('lost', by)
  await graph.commit(summed('lost'), by)
  return { graph, context, store, clock, failOver, told, summed }
}

describe('psg/graph on a store that has lost what it acknowledged', () => {
  it('commits to what is there, and says what is lost', async () => {
    const { graph, store, context, failOver, told, summed } = await given()
    failOver()
    expect(await graph.commit(summed('anew'), by)).toMatchObject({ revision: 3 })
    expect(told).toEqual([expect.any(Corrupt)])
    expect(String(told[0])).toContain('revision 4')
    expect(contentOf(graph)).toEqual(contentOf(await openGraph(store, context)))
    expect(await graph.verify()).toEqual([])
  })

  it('decides anew', async () => {
    const { graph, failOver, summed } = await given()
    failOver()
    const decided: (string | undefined)[] = []
    const decide = () => {
      decided.push(graph.get('context', graph.id)!.data.summary)
      return summed('anew')
    }
    await graph.commit(decide, by)
    expect(decided).toEqual(['lost', 'kept'])
  })

  it.each([
    ['as far as it had come', 2],
    ['further than it had come', 3],
    ['less far than it had come', 1],
  ])('takes in what others have written since, %s', async (_, commits) => {
    const { graph, context, store, clock, failOver, told, summed } = await given()
    failOver()
    const other = await openGraph(store, context, { clock })
    for (let i = 0; i < commits; i++) await other.commit(summed(`theirs ${i}`), by)
    await graph.refresh()
    expect(graph.revision).toBe(2 + commits)
    expect(contentOf(graph)).toEqual(contentOf(other))
    expect(told).toHaveLength(1)
  })

  it('decides anew also where others have come as far as it had, and it is only noticed once that was decided', async () => {
    const { graph, context, store, clock, failOver, summed } = await given()
    failOver()
    const other = await openGraph(store, context, { clock })
    for (const summary of ['theirs', 'theirs too']) await other.commit(summed(summary), by)
    const decided: (string | undefined)[] = []
    const decide = () => {
      decided.push(graph.get('context', graph.id)!.data.summary)
      return [...summed('anew'), add('file', 'a.txt', file('a.txt'))]
    }
    await graph.commit(decide, by)
    expect(decided).toEqual(['lost', 'theirs too'])
    expect(await graph.verify()).toEqual([])
  })

  it('refuses nothing for what is lost, where others have come as far as it had', async () => {
    const { graph, context, store, clock, failOver, summed } = await given()
    await graph.commit([set('context', context, { status: 'archived' })], by)
    failOver()
    const other = await openGraph(store, context, { clock })
    for (let i = 0; i < 3; i++) await other.commit(summed(`theirs ${i}`), by)
    await graph.commit([set('context', context, { status: 'suspended' })], by)
    expect(graph.get('context', context)!.data).toMatchObject({ status: 'suspended', summary: 'theirs 2' })
  })

  it('takes in what is loaded later with all else that is there', async () => {
    const { graph, context, store, clock, failOver, summed } = await given()
    failOver()
    const other = await openGraph(store, context, { clock })
    await other.commit([...summed('theirs'), add('file', 'a.txt', file('a.txt'))], by)
    await graph.load('files')
    expect(graph.get('file', 'a.txt')).toBeDefined()
    expect(contentOf(graph)).toEqual(contentOf(other))
  })

  it('tells whoever watches', async () => {
    const { graph, failOver } = await given()
    failOver()
    const seen: number[] = []
    graph.watch(() => seen.push(graph.setBacks))
    await graph.refresh()
    expect(seen).toEqual([1])
  })
})

describe('psg/graph of what was taken away and begun anew', () => {
  /** All of the context is gone from the store, and something else has the newest entry. */
  async function takenAway(store: Backend, context: string, at: number): Promise<void> {
    const deletes: string[] = []
    for await (const [key] of store.scan('')) if (key !== trimmedKey(context)) deletes.push(key)
    const [{ revision: expected }, { revision: other }] = await Promise.all([store.head(context), store.head('other')])
    await store.commit({ stream: 'other', expected: other, entry: {}, inserts: [], puts: [], deletes: [] })
    const puts = [[trimmedKey(context), { at: isoMicros(at * 1000) }]] as const
    await store.commit({ stream: context, expected, forget: true, inserts: [], puts, deletes })
  }
  const begunAnew = async (graph: ProjectGraph) =>
    void (await graph.commit(takeApart('context', { ...contextOf(graph.id), title: 'anew' }), by))
  const summed = (graph: ProjectGraph, summary: string) => graph.commit([set('context', graph.id, { summary })], by)

  it('is not taken for what it was, also where the clock is set back meanwhile', async () => {
    const clock = manualClock()
    let setBack = 0
    const { graph, context, store } = await world({ clock: { ...clock, now: () => clock.now() - setBack } })
    await clock.advance(10_000)
    await takenAway(store, context, clock.now())
    await begunAnew(await openGraph(store, context, { clock }))
    setBack = 3_600_000
    await summed(graph, 'later')
    expect([graph.get('context', context)!.data.title, graph.setBacks]).toEqual(['anew', 1])
    expect(await graph.verify()).toEqual([])
  })

  it('is not taken for lost by who began it, without looking whether there was one before', async () => {
    const clock = manualClock()
    const { context, store } = await world({ clock })
    await takenAway(store, context, clock.now())
    await clock.advance(10_000)
    const graph = newGraph(store, context, { clock })
    await begunAnew(graph)
    await clock.advance(10_000)
    await summed(graph, 'later')
    expect(graph.setBacks).toBe(0)
  })

  it('is not taken for what it was once it is taken away again, by whom the time is earlier', async () => {
    const clock = manualClock()
    const { context, store } = await world({ clock })
    await takenAway(store, context, clock.now())
    await clock.advance(10_000)
    const graph = await openGraph(store, context, { clock })
    await begunAnew(graph)
    await clock.advance(10_000)
    await takenAway(store, context, clock.now() - 15_000)
    await begunAnew(await openGraph(store, context, { clock }))
    await summed(graph, 'later')
    expect(graph.setBacks).toBe(1)
    expect(await graph.verify()).toEqual([])
  })
})

const contentOf = (graph: Awaited<ReturnType<typeof openGraph>>) => [...graph.state.nodes()].map(({ data }) => data)
