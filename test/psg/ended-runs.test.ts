import { expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { endedRuns } from '../../src/psg/ended-runs.ts'
import { indexRows } from '../../src/psg/index-rows.ts'
import { INDEX } from '../../src/psg/indexes.ts'
import { openProject } from '../../src/psg/project.ts'
import { reindexGraph } from '../../src/psg/reindex.ts'
import { reindexProject } from '../../src/psg/verify-project.ts'
import { writeTrailing } from '../../src/psg/write-trailing.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collect, write } from '../contracts/backend/given.ts'
import { countingScans } from '../support/counting-scans.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'

const titled = (title: string, flow: ReturnType<typeof flowOf>) => ({ ...flow, plan: { ...flow.plan, title } })

/** One after the other, a minute apart; what waits was submitted first and ends last. */
async function given() {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  const runtime = await runtimeOf({}, { store, clock })
  const binding = { action_type: 'wait', params: { signal: 'go' } } as const
  const waits = await runtime.submit(titled('waits', flowOf({ a: { binding } }, {}, clock)))
  for (const title of ['one', 'two', 'three']) {
    await clock.advance(60_000)
    const chosen = title === 'two' ? { chosen: { run: 'c0ffee00-0000-4000-8000-000000000001' } } : {}
    await (await runtime.submit(titled(title, flowOf({ a: { call: 'noop' } }, chosen, clock)))).result()
  }
  await clock.advance(60_000)
  await waits.cancel()
  await waits.result()
  const titles = async (options: Parameters<typeof endedRuns>[1] = {}) =>
    (await collect(endedRuns(runtime.project, options))).map(({ title }) => title)
  return { runtime, store, titles, waits }
}

it('gives the runs that have ended, the last one first, whenever they were submitted', async () => {
  const { titles, runtime, waits } = await given()
  expect(await titles()).toEqual(['waits', 'three', 'two', 'one'])
  expect(await titles({ status: 'completed' })).toEqual(['three', 'two', 'one'])
  expect(await titles({ after: waits.run_id })).toEqual(['three', 'two', 'one'])
  expect(await titles({ after: 'c0ffee00-0000-4000-8000-000000000001' })).toEqual(['one'])
  await expect(titles({ after: waits.plan_id })).rejects.toThrow(InvalidInput)
  expect((await runtime.project.verify()).findings).toEqual([])
})

it('passes over what is not so, and is mended in a store of an older version, which has no such rows', async () => {
  const { store, titles, runtime, waits } = await given()
  const keys = (await collect(store.scan('ended/'))).map(([key]) => key)
  const stale = INDEX.ended('2026-01-01T00:00:00Z', waits.run_id)
  await store.commit(write('elsewhere', 0, { puts: [[stale, {}]], deletes: keys }))
  expect(await titles()).toEqual([])
  const rules = new Set((await runtime.project.verify()).findings.map(({ rule }) => rule))
  expect([...rules]).toEqual(['index.ended'])
  const rows = await indexRows(store)
  for (const graph of rows.keys()) await reindexGraph(store, graph, rows)
  expect(await titles()).toEqual(['waits', 'three', 'two', 'one'])
  expect((await runtime.project.verify()).findings).toEqual([])
})

it('says which step a run has failed by', async () => {
  const runtime = await runtimeOf({ fails: () => Promise.reject(new Error('no truck')) })
  const flow = flowOf({ ship: { call: 'fails' } })
  await (await runtime.submit(flow)).result()
  for await (const { error } of runtime.ended({ status: 'failed' })) expect(error?.step_id).toBe(flow.ids.ship)
  expect.assertions(1)
})

it('looks at no more than somebody asks for', async () => {
  const { runtime, titles } = await given()
  let looks = 0
  for await (const { title } of endedRuns(runtime.project, { onLook: () => void looks++ })) if (title === 'three') break
  expect(looks).toBe(2)
  looks = 0
  expect(await titles({ status: 'failed', onLook: () => void looks++ })).toEqual([])
  expect(looks).toBe(4)
})

it('reads nothing of runs that have ended otherwise but their rows, unless an older version has written these', async () => {
  const { store } = await given()
  const { store: counting, seen } = countingScans(store)
  const project = await openProject(counting)
  const opened = seen()
  expect(await collect(endedRuns(project, { status: 'failed' }))).toEqual([])
  expect(seen() - opened).toBe(4)
  const older = (await collect(store.scan('ended/'))).map(([key]) => [key, {}] as const)
  await store.commit(write('elsewhere', 0, { puts: older }))
  expect(await collect(endedRuns(project, { status: 'cancelled' }))).toMatchObject([{ title: 'waits' }])
  expect((await project.verify()).findings).toEqual([])
})

it('is told how runs ended by rows that an older version has written, once these are made anew', async () => {
  const { store, runtime } = await given()
  const rows = await collect(store.scan('ended/'))
  await store.commit(write('elsewhere', 0, { puts: rows.map(([key]) => [key, {}] as const) }))
  const { mended, findings } = await reindexProject(store, runtime.project.id)
  expect([mended.map(({ node }) => node).toSorted(), findings]).toEqual([rows.map(([key]) => key).toSorted(), []])
  expect(await collect(store.scan('ended/'))).toEqual(rows)
  expect((await reindexProject(store, runtime.project.id)).mended).toEqual([])
})

it('reads of a plan, however large, its run and its title', async () => {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  const runtime = await runtimeOf({}, { store, clock })
  const steps = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`s${i}`, { call: 'noop' }]))
  const run = await runtime.submit(titled('large', flowOf(steps, {}, clock)))
  await run.result()
  await writeTrailing(store)
  const { store: counting, seen } = countingScans(store)
  const project = await openProject(counting)
  const graph = await project.context(run.context_id)
  const opened = seen()
  expect(await collect(endedRuns(project))).toMatchObject([{ title: 'large', run_id: run.run_id, status: 'completed' }])
  expect(seen() - opened).toBe(3) // with its row
  expect(graph.state.hasGroup(run.plan_id)).toBe(false)
})

it('is found to tell of another end than the plan had, and mended', async () => {
  const { store, titles, runtime, waits } = await given()
  const [key] = (await collect(store.scan('ended/')))[0]!
  await store.commit(write('elsewhere', 0, { puts: [[key, { status: 'failed' }]] }))
  expect(await titles({ status: 'cancelled' })).toEqual([])
  expect((await runtime.project.verify()).findings).toMatchObject([{ rule: 'index.ended', node: key }])
  await reindexGraph(store, waits.context_id, await indexRows(store))
  expect(await titles({ status: 'cancelled' })).toEqual(['waits'])
  expect((await runtime.project.verify()).findings).toEqual([])
})

it('sorts by the time of the end, down to a millisecond', () => {
  const times = [
    '1970-01-01T00:00:00.001Z',
    '2026-05-01T00:00:00.000Z',
    '2026-05-01T00:00:00.001Z',
    '2500-01-01T00:00:00Z',
  ]
  const rows = times.map((at) => INDEX.ended(at, 'run'))
  expect(rows.toSorted()).toEqual(rows.toReversed())
})
