import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import type { ModuleHandlers } from '../../src/orchestrator/flow.ts'
import { relay } from '../../src/orchestrator/relay.ts'
import { historyOf } from '../../src/orchestrator/relay-history.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { type Trimmed, type TrimOptions, trim } from '../../src/orchestrator/trim.ts'
import { withoutEnded } from '../../src/orchestrator/without-ended.ts'
import { type ManualClock, manualClock, systemClock } from '../../src/protocol/clock.ts'
import { Corrupt } from '../../src/protocol/errors.ts'
import { digestOf, uuidOf } from '../../src/protocol/json.ts'
import type { Context } from '../../src/protocol/types.ts'
import type { CommitOptions } from '../../src/psg/change.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { indexRows } from '../../src/psg/index-rows.ts'
import { openProject } from '../../src/psg/project.ts'
import { reindexGraph } from '../../src/psg/reindex.ts'
import { verifyGraph } from '../../src/psg/verify.ts'
import { type Backend, POSITIONS } from '../../src/vsl/backend.ts'
import { copyStore } from '../../src/vsl/copy.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { append, bodies, collect, write } from '../contracts/backend/given.ts'
import { full } from '../protocol/samples.ts'
import { by, contextOf, lasting, planOf } from '../psg/given.ts'
import { call, contextDocument, planDocument, saying } from '../support/agents.ts'
import { type Fault, faultAt, faultyBackend } from '../support/faulty-backend.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { door } from '../support/on-a-clock.ts'
import { DAY, KEEPING, keepingBlobs, LARGE, LONG_AGO, NEXT_WEEK, ran, SOON } from './ended-contexts.ts'

const HOUR = 3_600_000
const clockOf = (): ManualClock => manualClock({ now: Date.now() })

/** Trims, and proves what is left. */
async function trimmed(store: Backend, options: TrimOptions = SOON) {
  const result = await trim(store, options)
  const project = await openProject(store)
  expect((await project.verify()).findings).toEqual([])
  return { ...result, project }
}

/** All that a store holds of graphs: without what a trim says of itself. */
async function held(store: Pick<Backend, 'feed' | 'scan'>): Promise<unknown> {
  const entries = await collect(store.feed())
  const values = await collect(store.scan(''))
  return {
    entries: entries
      .filter(({ stream }) => stream !== 'trim')
      .map(({ stream, revision, body }) => [stream, revision, body]),
    values: values.filter(([key]) => !/^trim/.test(key) && !key.startsWith(POSITIONS)),
  }
}

describe('a store that is trimmed', () => {
  it('holds what a copy without what has ended would hold', async () => {
    const store = memoryBackend()
    for (const [, fill] of KEEPING) await fill(await openProject(store), store)
    const old = [await ran(store, 'one'), await ran(store, 'another')]
    const young = await ran(store, 'young', NEXT_WEEK)
    const before = new Date(NEXT_WEEK.now() - DAY).toISOString()
    const copy = memoryBackend()
    await copyStore(await withoutEnded(store, { before }), copy)
    const { contexts, behind, project } = await trimmed(store, { before })
    expect([...contexts].sort()).toEqual(old.sort())
    expect(behind).toEqual([])
    expect(await held(store)).toEqual(await held(copy))
    expect((await project.context(young)).get('context', young)).toBeDefined()
    for (const gone of old) await expect(project.context(gone)).rejects.toMatchObject({ code: 'not_found' })
  })

  it('is as it was when nothing ended before then, or when it is only looked at', async () => {
    const store = memoryBackend()
    const old = await ran(store)
    const before = [await collect(store.feed()), await collect(store.scan(''))]
    expect(await trim(store, LONG_AGO)).toEqual({ contexts: [], behind: [], unreadable: [], blobs: 0 })
    expect(await trim(store, { ...SOON, dryRun: true })).toEqual({
      contexts: [old],
      behind: [],
      unreadable: [],
      blobs: 0,
    })
    expect([await collect(store.feed()), await collect(store.scan(''))]).toEqual(before)
  })

  it.each(KEEPING)('keeps a context with %s', async (_, fill) => {
    const store = memoryBackend()
    await fill(await openProject(store), store)
    const gone = await ran(store)
    expect((await trimmed(store)).contexts).toEqual([gone])
  })

  it('keeps a context in which nothing ran', async () => {
    const store = memoryBackend()
    const project = await openProject(store)
    const { id } = await project.create(contextOf(systemClock.uuid()), by)
    await ran(store)
    expect((await trimmed(store)).contexts).not.toContain(id)
  })

  it('lets what was taken away be begun anew', async () => {
    const store = memoryBackend()
    const flow = chainOf(3)
    const runtime = await runtimeOf({}, { store })
    onTestFinished(() => runtime.close())
    await (await runtime.submit(flow)).result()
    const { contexts } = await runtime.trim(SOON)
    expect(contexts).toHaveLength(1)
    await expect(runtime.get(contexts[0]!)).rejects.toMatchObject({ code: 'not_found' })
    await expect(runtime.project.context(contexts[0]!)).rejects.toMatchObject({ code: 'not_found' })
    expect(await (await runtime.submit(flow)).result()).toMatchObject({ status: 'completed' })
    expect((await runtime.project.verify()).findings).toEqual([])
  })

  it('lets runs go on meanwhile', async () => {
    const store = memoryBackend()
    const goOn = door()
    const runtime = await runtimeOf({ wait: () => goOn.opened.then(() => 'done') }, { store })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(
      flowOf({ wait: {}, next: { after: ['wait'], binding: { action_type: 'function', params: { name: 'wait' } } } }),
    )
    const old = await ran(store)
    expect((await runtime.trim(SOON)).contexts).toEqual([old])
    goOn.open()
    expect((await run.result()).status).toBe('completed')
    expect((await runtime.project.verify()).findings).toEqual([])
  })

  it('keeps a context that somebody writes to while it is looked at', async () => {
    const store = memoryBackend()
    const [first, second] = [await ran(store), await ran(store)]
    const project = await openProject(store)
    const busy: Backend = {
      ...store,
      async commit(change) {
        await store.commit(change)
        if (change.stream !== 'trim') return
        const graph = await project.context(first)
        await graph.commit(planOf({ context: graph.id, id: systemClock.uuid }).changes, by)
      },
    }
    expect((await trimmed(busy)).contexts).toEqual([second])
    expect((await project.context(first)).get('context', first)).toBeDefined()
  })

  it('keeps what was begun anew under the same id and has come as far, when it was looked at before another took the first away', async () => {
    const store = memoryBackend()
    const flow = chainOf(3)
    const runtime = await runtimeOf({}, { store: lasting(store) })
    onTestFinished(() => runtime.close())
    const { context_id } = await runtime.submit(flow)
    await (await runtime.get(flow.plan.plan_id)).result()
    const { revision } = await store.head(context_id)
    const [reached, goOn] = [door(), door()]
    const stopped = trim(
      {
        ...store,
        async commit(change) {
          if (change.forget) {
            reached.open()
            await goOn.opened
          }
          await store.commit(change)
        },
      },
      SOON,
    )
    await reached.opened
    await runtime.trim(SOON)
    await (await runtime.submit(flow)).result()
    await ran(store) // so that it is not the newest, which no store forgets
    goOn.open()
    expect((await stopped).contexts).toEqual([])
    expect((await store.head(context_id)).revision).toBe(revision)
  })

  it('goes on where a trim was cut off, wherever that was', async () => {
    for (const fault of ['crash', 'lose-reply', 'lose-call', 'refuse'] as const satisfies readonly Fault[]) {
      for (let nth = 0; ; nth++) {
        const clock = clockOf()
        const store = memoryBackend({ clock })
        const old = [await ran(store, `${LARGE} one`, clock), await ran(store, `${LARGE} two`, clock)]
        await clock.advance(2 * DAY)
        const faulty = faultyBackend(store, faultAt('commit', nth, fault), clock)
        const commits = () => faulty.calls.filter(({ method }) => method === 'commit').length
        let over = false
        trim(faulty, { ...SOON, clock }).then(
          () => (over = true),
          () => (over = true),
        )
        while (!over && !(fault === 'crash' && commits() > nth)) await nextTurn()
        expect((await (await openProject(store)).verify()).findings).toEqual([])
        await trimmed(store, { ...SOON, clock })
        expect(await collect(store.scan('id/context/'))).toEqual([])
        expect(await collect(store.scan('trim-blobs/'))).toEqual([])
        expect(await collect(store.blobs())).toEqual([])
        for (const gone of old) expect(await store.head(gone)).toMatchObject({ revision: 0 })
        if (commits() <= nth) break
      }
    }
  })

  it('passes over what another has taken away since it was listed', async () => {
    const store = memoryBackend()
    const old = [await ran(store), await ran(store)]
    let others: Promise<unknown> | undefined
    const slow: Backend = {
      ...store,
      async head(stream) {
        others ??= trim(store, SOON)
        await others
        return store.head(stream)
      },
    }
    expect(await trim(slow, SOON)).toMatchObject({ contexts: [] })
    for (const gone of old) expect(await store.head(gone)).toMatchObject({ revision: 0 })
  })

  it('can be trimmed by two at once', async () => {
    const store = memoryBackend()
    const old = [await ran(store), await ran(store), await ran(store)]
    const results = await Promise.all([trim(store, SOON), trim(store, SOON)])
    expect(results.flatMap(({ contexts }) => contexts).sort()).toEqual(old.sort())
    await trimmed(store)
  })

  it('has lost the blobs that nothing else names, once nobody can be about to name them', async () => {
    const clock = clockOf()
    const store = memoryBackend({ clock })
    await ran(store, `${LARGE} of the old one`, clock)
    const shared = `${LARGE} of both`
    await ran(store, shared, clock)
    const own = await store.putBlob(Buffer.from(JSON.stringify(`${LARGE} of the caller`)))
    await ran(store, `${LARGE} of the caller`, clock)
    await store.set('mine', { content: own })
    const nobodys = await store.putBlob(Buffer.from('nobody speaks of it'))
    await ran(store, `${LARGE} of a flow`, clock)
    const remembered = digestOf(JSON.stringify(`${LARGE} of a flow`))
    await store.commit(write('flow/x', 0, { puts: [['flow/x', { said: remembered }]] }))
    const waits = await keepingBlobs(store, shared)
    await (
      await waits.submit(
        flowOf({ work: {}, wait: { after: ['work'], binding: { action_type: 'wait', params: { signal: 'go' } } } }),
      )
    ).rest()
    await waits.close()
    expect(await collect(store.blobs())).toHaveLength(5)

    expect(await trimmed(store, { ...SOON, clock })).toMatchObject({ contexts: { length: 4 }, blobs: 0 })
    expect(await collect(store.blobs())).toHaveLength(5) // somebody may just have put one of them again
    await clock.advance(DAY)
    expect(await trimmed(store, { ...SOON, clock })).toMatchObject({ contexts: [], blobs: 1 })
    expect(await collect(store.blobs())).toHaveLength(4)
    for (const kept of [own, nobodys, remembered]) expect(await store.getBlob(kept)).toBeDefined()
    expect(await collect(store.scan('trim-blobs/'))).toEqual([])
  })

  it('keeps a blob that is named again before it is gone', async () => {
    const clock = clockOf()
    const store = memoryBackend({ clock })
    await ran(store, LARGE, clock)
    const [digest] = await collect(store.blobs())
    await trim(store, { ...SOON, clock })
    await clock.advance(2 * DAY)
    await store.putBlob((await store.getBlob(digest!))!)
    expect((await trim(store, { ...SOON, clock })).blobs).toBe(0)
    const young = await ran(store, LARGE, clock)
    await clock.advance(2 * DAY)
    expect((await trim(store, { before: new Date(clock.now() - 3 * DAY).toISOString(), clock })).blobs).toBe(0)
    expect(await store.getBlob(digest!)).toBeDefined()
    expect((await trimmed(store, { ...SOON, clock })).contexts).toEqual([young])
    expect(await store.getBlob(digest!)).toBeUndefined()
  })

  it('has forgotten the flow of a run that it does not have: the same runId begins anew', async () => {
    const store = memoryBackend()
    const context = contextDocument()
    let calls = 0
    const ael = { execute: async () => ++calls }
    const modules: ModuleHandlers = saying({ context, plan: planDocument(context, { a: {} }) })
    await runSingleAgentFlow(call(store, modules, { ael }))
    await trimmed(store)
    expect(await collect(store.scan('flow/'))).toEqual([])
    expect(await runSingleAgentFlow(call(store, modules, { ael }))).toMatchObject({ success: true })
    expect(calls).toBe(2)
  })

  it('has the children of a run that goes on, until that has ended, too', async () => {
    const store = memoryBackend()
    const [paid, goOn] = [door(), door()]
    let payments = 0
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      await child(flowOf({ pay: {} }, { chosen: { run: uuidOf(`${idempotency_key} pays`) } }))
      paid.open()
      await goOn.opened
      return null
    }
    const layer = (hands: Hands) =>
      actionLayer({ ...hands, adapters: [functionAdapter({ parent, pay: () => ++payments })] })
    const runtime = await createRuntime({ store, layer })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flowOf({ parent: {} }))
    await paid.opened
    expect((await runtime.trim(SOON)).contexts).toEqual([])
    goOn.open()
    await run.result()
    expect((await runtime.trim(SOON)).contexts).toHaveLength(2)
    expect(payments).toBe(1)
  })

  it('keeps streams that are no graphs, and those that are only in part', async () => {
    const store = memoryBackend()
    for (const [i, entry] of ['hello', null, { changes: 1 }].entries()) await store.commit(append('mine', i, entry))
    const gone = await ran(store)
    const odd = await ran(store)
    await store.commit(append(odd, (await store.head(odd)).revision, 'hello'))
    expect((await trim(store, SOON)).contexts).toEqual([gone])
    expect(bodies(await collect(store.read('mine')))).toEqual(['hello', null, { changes: 1 }])
  })

  it('keeps what a bus has not been told of yet, and says which; of one that is forgotten nothing stays', async () => {
    const store = memoryBackend()
    const told = await ran(store)
    const position = (await collect(store.feed())).at(-1)!.position
    const untold = await ran(store)
    await store.commit(write('relay', 0, { puts: [[`${POSITIONS}kafka`, position]] }))
    expect(await trimmed(store)).toMatchObject({ contexts: [told], behind: ['kafka'] })
    await expect(trim(store, { ...SOON, forget: ['kakfa'] })).rejects.toThrow('there is no bus kakfa; there are kafka')
    expect(await trim(store, { ...SOON, forget: ['kafka'], dryRun: true })).toMatchObject({ contexts: [untold] })
    expect(await collect(store.scan(POSITIONS))).toHaveLength(1)
    expect(await trimmed(store, { ...SOON, forget: ['kafka'] })).toMatchObject({ contexts: [untold], behind: [] })
    expect(await collect(store.scan(POSITIONS))).toEqual([])
  })

  it('tells in its journal what it no longer has', async () => {
    const store = memoryBackend()
    const old = await ran(store)
    await trim(store, SOON)
    expect(bodies(await collect(store.read('trim')))).toEqual([
      { trimmed: [old], before: SOON.before, at: expect.any(String) },
    ])
  })

  it('tells a reader what comes behind a place in what was taken away', async () => {
    const store = memoryBackend()
    const old = await ran(store)
    const place = (await collect(historyOf(store, 'bus').read('', new AbortController().signal)))[2]!
    const young = await ran(store, null, NEXT_WEEK)
    await trim(store, { before: new Date(NEXT_WEEK.now() - DAY).toISOString() })
    const rest = await collect(historyOf(store, 'bus').read(place, new AbortController().signal))
    expect(place.graph_id).toBe(old)
    expect(new Set(rest.map(({ graph_id }) => graph_id))).toEqual(new Set([young]))
    const elsewhere = { ...place, graph_id: systemClock.uuid() }
    await expect(collect(historyOf(store, 'bus').read(elsewhere, new AbortController().signal))).rejects.toMatchObject({
      code: 'invalid_input',
    })
  })

  it('is no loss to a process that remembers more', async () => {
    const store = memoryBackend()
    const old = await ran(store)
    const errors: unknown[] = []
    const runtime = await runtimeOf({}, { store, onError: (error) => errors.push(error) })
    onTestFinished(() => runtime.close())
    const graph = await runtime.project.context(old)
    await trim(store, SOON)
    await graph.refresh()
    expect([graph.revision, graph.get('context', old), errors]).toEqual([0, undefined, []])
    await expect(runtime.submit({ ...flowOf({ a: {} }), context: old })).rejects.toMatchObject({
      code: expect.any(String),
    })
    expect((await (await openProject(store)).verify()).findings).toEqual([])
    expect(errors).toEqual([])
  })

  it('is noticed by a process that remembers what was begun anew since, however large its last commit was', async () => {
    const store = memoryBackend()
    const flow = flowOf({ work: {} })
    const errors: unknown[] = []
    const onError = (error: unknown) => errors.push(error)
    const beside = await openProject(lasting(store), { onError })
    const runtime = await runtimeOf({ work: () => LARGE }, { store: lasting(store) })
    onTestFinished(() => runtime.close())
    await (await runtime.submit(flow)).result()
    const graph = await beside.context(flow.plan.context_id)
    const [first] = await collect(store.read(graph.id))
    await runtime.trim(SOON)
    await (await runtime.submit(flow)).result()
    await graph.refresh()
    expect(graph.revision).toBe((await store.head(graph.id)).revision)
    await graph.load(flow.plan.plan_id)
    const run = graph.get('run', (await collect(runtime.ended()))[0]!.run_id)
    expect([run?.born, run?.data.phase, errors]).toEqual([first!.revision, 'ended', []])
  })

  it.each([
    ['has come as far', 'small', async (graph: ProjectGraph) => tagged(graph)],
    [
      'has come further, after a large commit',
      'y'.repeat(90_000),
      async (graph: ProjectGraph, plan: string) => graph.load(plan),
    ],
    [
      'has come further, and is read from, after a large commit',
      'y'.repeat(90_000),
      async (graph: ProjectGraph, plan: string) => tagged(graph, [['plan', plan]]),
    ],
  ] as const)('keeps what was begun anew and %s from who remembers what was there before', async (_, summary, act) => {
    const store = memoryBackend()
    const runtime = await runtimeOf({}, { store: lasting(store) })
    onTestFinished(() => runtime.close())
    const flow = flowOf({ noop: {} })
    const entitled = (title: string) => ({ ...flow, context: { ...(flow.context as Context), title } })
    await (await runtime.submit(entitled('old'))).result()
    const clock = clockOf()
    const graph = await (await openProject(lasting(store), { clock })).context(flow.plan.context_id)
    const isLarge = summary.length > 65_536
    if (isLarge) await graph.commit([{ kind: 'node_update', node: 'context', id: graph.id, set: { summary } }], by)
    await runtime.trim(SOON)
    const anew = isLarge ? { ...entitled('anew'), ...longer(flow) } : entitled('anew')
    await (await runtime.submit(anew)).result()
    await clock.advance(2_000)
    await act(graph, flow.plan.plan_id)
    expect(graph.get('context', graph.id)?.data).toMatchObject({ title: 'anew' })
    const fresh = await openProject(lasting(store))
    expect((await fresh.context(graph.id)).get('context', graph.id)?.data.title).toBe('anew')
    expect((await fresh.verify()).findings).toEqual([])
  })

  it('takes no loss of the store for a trim, also of what was taken away once', async () => {
    let inner = memoryBackend()
    const flow = chainOf(3)
    const store = new Proxy({} as Backend, { get: (_, name) => inner[name as keyof Backend] })
    const errors: unknown[] = []
    const runtime = await runtimeOf({}, { store, onError: (error) => errors.push(error) })
    onTestFinished(() => runtime.close())
    await (await runtime.submit(flow)).result()
    await runtime.trim(SOON)
    const older = memoryBackend()
    await copyStore(inner, older)
    await (await runtime.submit(flow)).result()
    const graph = await runtime.project.context(flow.plan.context_id)
    inner = older
    await graph.refresh()
    expect(errors).toMatchObject([{ code: 'corrupt' }])
  })

  it('takes in nothing for what is gone from who remembers it', async () => {
    const store = memoryBackend()
    const old = await ran(store)
    const runtime = await runtimeOf({}, { store: lasting(store) })
    onTestFinished(() => runtime.close())
    await runtime.project.context(old)
    await trim(store, SOON)
    await expect(runtime.ingest(old, 'git-event', full('git-event'))).rejects.toMatchObject({ code: 'not_found' })
    expect(await store.head(old)).toMatchObject({ revision: 0 })
  })

  it('is neither damaged nor put right where somebody looks at it meanwhile', async () => {
    for (const work of [verifyGraph, reindexGraph]) {
      const store = memoryBackend()
      const old = await ran(store)
      await ran(store, null, NEXT_WEEK)
      const rows = await indexRows(store)
      const found: Trimmed[] = []
      const busy: Backend = {
        ...store,
        async *scan(prefix, from) {
          yield* store.scan(prefix, from)
          if (prefix === `${old}/`)
            found.push(await trim(store, { before: new Date(NEXT_WEEK.now() - DAY).toISOString() }))
        },
      }
      expect(await work(busy, old, rows)).toEqual(work === verifyGraph ? [] : { mended: [], findings: [] })
      expect(found[0]?.contexts).toEqual([old])
      await trimmed(store, LONG_AGO)
    }
  })

  it('loses no blob of a context that is begun anew and taken away again', async () => {
    const clock = clockOf()
    const store = memoryBackend({ clock })
    const flow = flowOf({ work: {} })
    for (const output of [`${LARGE} first`, `${LARGE} second`]) {
      const runtime = await keepingBlobs(store, output, clock)
      await (await runtime.submit(flow)).result()
      await runtime.close()
      await trim(store, { ...SOON, clock })
    }
    expect(await collect(store.blobs())).toHaveLength(2)
    await clock.advance(DAY + HOUR)
    expect((await trim(store, { ...SOON, clock })).blobs).toBe(2)
  })

  it('reads the whole journal only when a blob may go, and all of a context only when it may', async () => {
    const clock = clockOf()
    const store = memoryBackend({ clock })
    await ran(store, LARGE, clock)
    const young = await ran(store, 'young', NEXT_WEEK)
    let [feeds, entries] = [0, 0]
    const counting: Backend = {
      ...store,
      feed(from) {
        feeds++
        return store.feed(from)
      },
      async *read(stream, from) {
        for await (const entry of store.read(stream, from)) {
          if (stream === young) entries++
          yield entry
        }
      },
    }
    const before = new Date(NEXT_WEEK.now() - HOUR).toISOString()
    await trim(counting, { before, clock })
    expect(feeds).toBe(1)
    await trim(counting, { before, clock })
    expect([feeds, entries]).toEqual([1, 0]) // the run that ended later is in no list
    await clock.advance(DAY + HOUR)
    expect((await trim(counting, { before, clock })).blobs).toBe(1)
    const wait = { binding: { action_type: 'wait', params: { signal: 'go' } } }
    const runtime = await runtimeOf({}, { store: lasting(store) })
    const { plan, ...flow } = flowOf({ wait })
    await (await runtime.submit({ ...flow, context: young, plan: { ...plan, context_id: young } })).rest()
    await runtime.close()
    await trim(counting, SOON)
    expect(entries).toBe(0)
  })

  it('keeps what it cannot read, says which, and takes the others away', async () => {
    const store = memoryBackend()
    const [damaged, sound] = [await ran(store), await ran(store)]
    const broken: Backend = {
      ...store,
      read: (stream, from) => {
        if (stream === damaged) throw new Corrupt('an entry', 'bring it back')
        return store.read(stream, from)
      },
    }
    expect(await trim(broken, SOON)).toMatchObject({ contexts: [sound], unreadable: [damaged] })
    expect(await store.head(damaged)).not.toMatchObject({ revision: 0 })
  })

  it('takes no further context away once it is told to stop', async () => {
    const store = memoryBackend()
    for (let i = 0; i < 3; i++) await ran(store)
    const stop = new AbortController()
    const stopping: Backend = {
      ...store,
      async commit(change) {
        await store.commit(change)
        if (change.forget) stop.abort(new Error('enough'))
      },
    }
    await expect(trim(stopping, { ...SOON, signal: stop.signal })).rejects.toThrow('enough')
    expect((await trimmed(store)).contexts).toHaveLength(2)
  })

  it('remembers a flow as long as one of its contexts is there', async () => {
    const store = memoryBackend()
    const [first, second] = [await ran(store), await ran(store, null, NEXT_WEEK)]
    const memory = { from: { [first]: 0, [second]: 0 } }
    await store.commit(write('flow/x', 0, { puts: [['flow/x', memory]] }))
    const before = new Date(NEXT_WEEK.now() - DAY).toISOString()
    const copy = memoryBackend()
    await copyStore(await withoutEnded(store, { before }), copy)
    expect(await collect(copy.scan('flow/'))).toEqual([['flow/x', memory]])
    expect((await trim(store, { before })).contexts).toEqual([first])
    expect(await collect(store.scan('flow/'))).toEqual([['flow/x', memory]])
    expect((await trim(store, SOON)).contexts).toEqual([second])
    expect(await collect(store.scan('flow/'))).toEqual([])
  })

  it('keeps what a bus is yet to be told that could not be reached so far', async () => {
    const store = memoryBackend()
    await ran(store)
    const tried = door()
    const publish = async () => {
      tried.open()
      throw new Error('away')
    }
    const telling = relay({
      store,
      name: 'new',
      transport: { publish } as never,
      holder: thisHolder('one'),
      onError: () => {},
    })
    await tried.opened
    expect(await trim(store, SOON)).toMatchObject({ contexts: [], behind: ['new'] })
    await telling.close()
    expect(await trim(store, SOON)).toMatchObject({ contexts: [], behind: ['new'] })
  })

  it('ends those who still follow the events of a run that is gone, and wait for what will not come', async () => {
    const clock = clockOf()
    const store = memoryBackend({ clock })
    const runtime = await runtimeOf({}, { store, clock, patrolMs: 100 * DAY })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(chainOf(3))
    await run.result()
    const events = run.events()[Symbol.asyncIterator]()
    await events.next()
    await trim(store, SOON)
    const rest = (async () => {
      for (;;) if ((await events.next()).done) return 'done'
    })().catch(({ code }) => code)
    await expect.poll(() => clock.advance(30_000).then(() => Promise.race([rest, 'under way']))).toBe('not_found')
  })

  it('says how far it has come, and stops when it is told to', async () => {
    const store = memoryBackend()
    for (let i = 0; i < 101; i++) await ran(store)
    const told: number[] = []
    const stop = new AbortController()
    const stopped = trim(store, {
      ...SOON,
      signal: stop.signal,
      onProgress({ contexts }, looked) {
        told.push(contexts.length, looked)
        stop.abort(new Error('enough'))
      },
    })
    await expect(stopped).rejects.toThrow('enough')
    expect(told).toEqual([100, 100])
    expect((await trimmed(store)).contexts).toHaveLength(1)
  })

  it.each<[string, unknown]>([
    ['before', { before: 'yesterday' }],
    ['before', {}],
    ['forget', { ...SOON, forget: 'kafka' }],
    ['signal', { ...SOON, signal: 1 }],
    ['dryRun', { ...SOON, dryRun: 'yes' }],
    ['onProgress', { ...SOON, onProgress: 1 }],
    ['after', { ...SOON, after: 1 }],
  ])('refuses a wrong %s, and nothing is taken away', async (path, options) => {
    const store = memoryBackend()
    await ran(store)
    const before = await held(store)
    const wrong = { problems: [expect.objectContaining({ path })] }
    await expect(trim(store, options as never)).rejects.toMatchObject(wrong)
    const runtime = await runtimeOf({}, { store: lasting(store) })
    await expect(runtime.trim(options as never)).rejects.toMatchObject(wrong)
    await runtime.close()
    await expect(runtime.trim(SOON)).rejects.toMatchObject({ code: 'closed' })
    await expect(trim({} as never, SOON)).rejects.toMatchObject({ code: 'invalid_input' })
    expect(await held(store)).toEqual(before)
  })
})

describe('a runtime that keeps what has ended for some time', () => {
  it('takes away what is older, now and every hour, until it is closed', async () => {
    const clock = clockOf()
    const store = memoryBackend({ clock })
    const old = await ran(store, 'old', clock)
    await clock.advance(8 * DAY)
    const young = await ran(store, 'young', clock)
    const errors: unknown[] = []
    const runtime = await runtimeOf(
      {},
      {
        store: lasting(store),
        clock,
        keepEndedMs: 7 * DAY,
        patrolMs: 100 * DAY,
        onError: (error) => errors.push(error),
      },
    )
    const isThere = async (context: string) => (await store.head(context)).revision > 0
    await expect.poll(() => isThere(old)).toBe(false)
    expect(await isThere(young)).toBe(true)
    await clock.advance(7 * DAY)
    expect(await isThere(young)).toBe(true)
    await expect.poll(() => clock.advance(HOUR).then(() => isThere(young))).toBe(false)
    const late = await ran(store, 'late', clock)
    await runtime.close()
    await clock.advance(8 * DAY)
    for (let turn = 0; turn < 100; turn++) await nextTurn()
    expect([await isThere(late), errors]).toEqual([true, []])
  })

  it('may keep it for longer than there are dates', async () => {
    const store = memoryBackend()
    const old = await ran(store)
    const errors: unknown[] = []
    const onError = (error: unknown) => errors.push(error)
    const runtime = await runtimeOf({}, { store: lasting(store), keepEndedMs: Number.MAX_SAFE_INTEGER, onError })
    await runtime.close()
    expect(errors).toEqual([])
    expect(await store.head(old)).not.toMatchObject({ revision: 0 })
  })

  it('tells what goes wrong, and tries again', async () => {
    const clock = clockOf()
    const store = memoryBackend({ clock })
    const old = await ran(store, 'old', clock)
    await clock.advance(DAY)
    const errors: unknown[] = []
    const faulty = faultyBackend(
      lasting(store),
      ({ method, nth }) => (method === 'commit' && nth < 1 ? 'refuse' : undefined),
      clock,
    )
    const runtime = await runtimeOf(
      {},
      { store: faulty, clock, keepEndedMs: 0, onError: (error) => errors.push(error) },
    )
    onTestFinished(() => runtime.close())
    await expect.poll(() => errors.length).toBe(1)
    expect(await store.head(old)).not.toMatchObject({ revision: 0 })
    await expect.poll(() => clock.advance(HOUR).then(() => store.head(old))).toMatchObject({ revision: 0 })
  })
})

const tagged = (graph: ProjectGraph, reads: CommitOptions['reads'] = []) =>
  graph.commit([{ kind: 'node_update', node: 'context', id: graph.id, set: { tags: ['t'] } }], { ...by, reads })

/** The plan of a flow with more steps, so that its run takes more commits. */
function longer({ plan }: ReturnType<typeof flowOf>) {
  const { plan: more, bindings } = chainOf(6)
  return { plan: { ...more, plan_id: plan.plan_id, context_id: plan.context_id }, bindings: bindings! }
}
