import { expect, it } from 'vitest'
import { deliveriesOf } from '../../src/orchestrator/relay-feed.ts'
import { NotFound } from '../../src/protocol/errors.ts'
import { entriesFrom, entriesNow, planMeant, wantedEvents } from '../../src/server/wanted.ts'
import type { Backend, Entry } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { append, collect, write } from '../contracts/backend/given.ts'
import { chainOf, runtimeOf } from '../support/flows.ts'

const { signal } = new AbortController()

/** Three runs that have ended, and how many entries were read since. */
async function given() {
  const store = memoryBackend()
  const runtime = await runtimeOf({}, { store })
  const plans: string[] = []
  for (let i = 0; i < 3; i++) {
    const run = await runtime.submit(chainOf(2))
    await run.result()
    plans.push(run.plan_id)
  }
  await runtime.close()
  const { locate } = runtime.project
  const { counting, read } = countingIn(store)
  return { project: { locate, store: counting }, store, plan: plans[1]!, read }
}

function countingIn(store: Backend) {
  let read = 0
  async function* counted(entries: AsyncIterable<Entry>) {
    for await (const entry of entries) {
      read++
      yield entry
    }
  }
  const counting: Backend = {
    ...store,
    feed: (from) => counted(store.feed(from)),
    read: (stream, from) => counted(store.read(stream, from)),
  }
  return { counting, read: () => read }
}

it('reads of a plan what its context holds and nothing else, and that is all the store tells of it', async () => {
  const { project, store, plan, read } = await given()
  const wanted = wantedEvents(undefined, plan)
  const told = async (entries: AsyncIterable<Entry>) => (await collect(entries)).flatMap(deliveriesOf).filter(wanted)
  const found = await told(await entriesNow(project, plan, { signal }))
  expect(read()).toBe((await store.head(found[0]!.graph_id)).revision)
  expect(found).toEqual(await told(store.feed()))
  const after = found[3]!.position
  expect(await told(await entriesNow(project, plan, { after, signal }))).toEqual(await told(store.feed({ after })))
})

it('takes a plan by its own id, its run’s or its trace’s, and one that is not there by its own', async () => {
  const runtime = await runtimeOf({})
  const { run_id, trace_id, plan_id, result } = await runtime.submit(chainOf(1))
  await result()
  for (const id of [plan_id, run_id, trace_id]) expect(await planMeant(runtime.project, id)).toBe(plan_id)
  expect(await planMeant(runtime.project, 'yet to come')).toBe('yet to come')
  expect(await planMeant(runtime.project, undefined)).toBeUndefined()
  await runtime.close()
})

it('goes on in a long context from where somebody was, and hardly reads what came before', async () => {
  const store = memoryBackend()
  for (let i = 0; i < 500; i++) for (const stream of ['g', 'other']) await store.commit(append(stream, i))
  const { counting, read } = countingIn(store)
  const locate = async () => ({ kind: 'plan' as const, graph: 'g', group: 'plan' })
  const entries = await collect(store.feed())
  for (const [behind, most] of [
    [0, 1],
    [1, 20],
    [40, 120],
    [500, 600],
  ] as const) {
    const after = entries.at(-1 - 2 * behind)?.position ?? entries[0]!.position
    const before = read()
    const found = await collect(await entriesNow({ store: counting, locate }, 'plan', { after, signal }))
    expect(found).toEqual(entries.filter(({ stream, position }) => stream === 'g' && position > after))
    expect(read() - before, `${behind} behind`).toBeLessThanOrEqual(most)
  }
})

it('reads everything where no plan is named, and refuses one that is not there', async () => {
  const { project, store } = await given()
  expect(await collect(await entriesNow(project, undefined, { signal }))).toEqual(await collect(store.feed()))
  await expect(entriesNow(project, 'absent', { signal })).rejects.toThrow(NotFound)
})

it('follows a plan from its context’s first entry, and from where somebody was', async () => {
  const { project, store, plan, read } = await given()
  const wanted = wantedEvents(undefined, plan)
  const all = await collect(store.feed())
  const events = all.flatMap(deliveriesOf).filter(wanted)
  const follow = async (after: string | undefined, until: (entry: Entry) => boolean) => {
    const found: Entry[] = []
    const leaving = new AbortController()
    const from = { signal: leaving.signal, ...(after !== undefined && { after }) }
    for await (const entry of await entriesFrom(project, plan, from)) {
      found.push(entry)
      if (until(entry)) leaving.abort()
    }
    return found
  }
  const isLast = ({ position }: Entry) => position === all.at(-1)!.position
  const first = all.findIndex(({ stream }) => stream === events[0]!.graph_id)
  expect(first).toBeGreaterThan(3)
  expect(await follow(undefined, isLast)).toEqual(all.slice(first))
  expect(read()).toBeLessThanOrEqual(all.length - first + 1)
  expect(await follow(all[0]!.position, isLast)).toEqual(all.slice(first))
  const within = all.findIndex(({ position }) => position === events[3]!.position)
  expect(await follow(events[3]!.position, isLast)).toEqual(all.slice(within + 1))
  const to = write('elsewhere', 0, { entry: 'comes later' })
  const coming = follow(all.at(-1)!.position, () => true)
  await store.commit(to)
  expect(await coming).toMatchObject([{ stream: 'elsewhere', body: 'comes later' }])
})

it('follows all where a plan is not there: it may be yet to come', async () => {
  const { project, store } = await given()
  const leaving = new AbortController()
  const all = await collect(store.feed())
  const found: Entry[] = []
  for await (const entry of await entriesFrom(project, 'absent', { signal: leaving.signal }))
    if (found.push(entry) === all.length) leaving.abort()
  expect(found).toEqual(all)
})
