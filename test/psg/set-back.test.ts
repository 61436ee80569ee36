import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Corrupt } from '../../src/protocol/errors.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { replicated } from '../support/replicated.ts'
import { add, by, file, set, world } from './given.ts'

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

const contentOf = (graph: Awaited<ReturnType<typeof openGraph>>) => [...graph.state.nodes()].map(({ data }) => data)
