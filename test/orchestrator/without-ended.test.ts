import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import type { ModuleHandlers } from '../../src/orchestrator/flow.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { trim } from '../../src/orchestrator/trim.ts'
import { type EndedBefore, withoutEnded } from '../../src/orchestrator/without-ended.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { uuidOf } from '../../src/protocol/json.ts'
import { openProject, type Project } from '../../src/psg/project.ts'
import { type Backend, POSITIONS } from '../../src/vsl/backend.ts'
import { copyStore } from '../../src/vsl/copy.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { append, bodies, collect, write } from '../contracts/backend/given.ts'
import { lasting } from '../psg/given.ts'
import { call, contextDocument, planDocument, saying } from '../support/agents.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { door } from '../support/on-a-clock.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { DAY, KEEPING, keepingBlobs, LARGE, LONG_AGO, NEXT_WEEK, ran, SOON } from './ended-contexts.ts'

/** The copy without what has ended, proved whole. */
async function copyOf(
  store: Backend,
  ended: EndedBefore = SOON,
): Promise<{ copy: Backend; project: Project; left: string[] }> {
  const part = await withoutEnded(store, ended)
  const copy = memoryBackend()
  await copyStore(part, copy, { verify: true })
  const project = await openProject(copy)
  expect((await project.verify()).findings).toEqual([])
  return { copy, project, left: [...part.leftOut] }
}

/** All that a store holds, to be searched through. */
const text = async (store: Backend): Promise<string> =>
  JSON.stringify([await collect(store.feed()), await collect(store.scan(''))])

describe('a store without what has ended', () => {
  it('has nothing of a context that ended before then, and all of the others', async () => {
    const store = memoryBackend()
    const old = await ran(store, 'said by the old one')
    const young = await ran(store, 'said by the young one', NEXT_WEEK)
    const { copy, project, left } = await copyOf(store, { before: new Date(NEXT_WEEK.now() - DAY).toISOString() })
    expect(left).toEqual([old])
    const held = await text(copy)
    expect([held.includes(old), held.includes('said by the old one')]).toEqual([false, false])
    expect(held).toContain('said by the young one')
    const original = await (await openProject(store)).context(young)
    expect((await project.context(young)).revision).toBe(original.revision)
    const runtime = await runtimeOf({}, { store: copy })
    onTestFinished(() => runtime.close())
    expect((await collect(runtime.ended())).map(({ context_id }) => context_id)).toEqual([young])
  })

  it('is the whole store when nothing ended before then', async () => {
    const store = memoryBackend()
    await ran(store)
    const { copy, left } = await copyOf(store, LONG_AGO)
    expect(left).toEqual([])
    expect(await collect(copy.scan(''))).toEqual(await collect(store.scan('')))
  })

  it('can be copied into any store, and what was left out can be begun anew there', async () => {
    const store = memoryBackend()
    const flow = chainOf(3)
    const first = await runtimeOf({}, { store: lasting(store) })
    await (await first.submit(flow)).result()
    await first.close()
    const to = await sqliteBackend({ path: join(tempFolder(), 'young.db') })
    await copyStore(await withoutEnded(store, SOON), to, { verify: true })
    const runtime = await runtimeOf({}, { store: to })
    onTestFinished(() => runtime.close())
    expect(await (await runtime.submit(flow)).result()).toMatchObject({ status: 'completed' })
  })

  it('has the blobs that something else names, or nobody', async () => {
    const store = memoryBackend()
    await ran(store, `${LARGE} of the old one`)
    const shared = `${LARGE} of both`
    await ran(store, shared)
    const kept = await openProject(store)
    const nobodys = await store.putBlob(Buffer.from('nobody speaks of it'))
    const own = await store.putBlob(Buffer.from(JSON.stringify(`${LARGE} of the caller`)))
    await ran(store, `${LARGE} of the caller`)
    await store.set('mine', { content: own })
    const waits = await keepingBlobs(store, shared)
    const run = await waits.submit(
      flowOf({ work: {}, wait: { after: ['work'], binding: { action_type: 'wait', params: { signal: 'go' } } } }),
    )
    await run.rest()
    await waits.close()
    expect(await collect(store.blobs())).toHaveLength(4)

    const { copy, left } = await copyOf(store)
    expect(left).toHaveLength(3)
    const ofBoth = (await collect(copy.blobs())).filter((digest) => digest !== nobodys && digest !== own)
    expect(ofBoth).toHaveLength(1)
    expect(Buffer.from((await copy.getBlob(ofBoth[0]!))!).toString()).toContain('of both')
    expect(await collect(copy.blobs())).toHaveLength(3)
    expect(kept.id).toBe((await openProject(copy)).id)
  })

  it('has forgotten the flow of a run that it does not have: the same runId begins anew', async () => {
    const store = memoryBackend()
    const context = contextDocument()
    let calls = 0
    const ael = { execute: async () => ++calls }
    const modules: ModuleHandlers = saying({ context, plan: planDocument(context, { a: {} }) })
    await runSingleAgentFlow(call(store, modules, { ael }))
    const { copy } = await copyOf(store)
    expect(await collect(copy.scan('flow/'))).toEqual([])
    expect(await runSingleAgentFlow(call(copy, modules, { ael }))).toMatchObject({ success: true })
    expect(calls).toBe(2)
    await runSingleAgentFlow(call(store, modules, { ael })) // where it is known, nothing is done again
    expect(calls).toBe(2)
  })

  it.each(KEEPING)('keeps a context with %s', async (_, fill) => {
    const store = memoryBackend()
    await fill(await openProject(store), store)
    const gone = await ran(store)
    const { left } = await copyOf(store)
    expect(left).toEqual([gone])
  })

  it('has the children of a run that goes on, which would be submitted once more, until that has ended, too', async () => {
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
    const first = await createRuntime({ store: lasting(store), layer })
    const run = await first.submit(flowOf({ parent: {} }))
    await paid.opened
    const { copy, left } = await copyOf(store)
    expect(left).toEqual([])
    goOn.open()
    await run.result()
    await first.close()
    expect((await copyOf(store)).left).toHaveLength(2)
    const second = await createRuntime({ store: copy, layer })
    onTestFinished(() => second.close())
    expect((await (await second.get(run.run_id)).result()).status).toBe('completed')
    expect(payments).toBe(1)
  })

  it('keeps streams that are no graphs, and those that are only in part', async () => {
    const store = memoryBackend()
    for (const [i, entry] of ['hello', null, { changes: 1 }].entries()) await store.commit(append('mine', i, entry))
    const gone = await ran(store)
    const odd = await ran(store)
    await store.commit(append(odd, (await store.head(odd)).revision, 'hello'))
    const part = await withoutEnded(store, SOON)
    expect([...part.leftOut]).toEqual([gone])
    const copy = memoryBackend()
    await copyStore(part, copy, { verify: true })
    expect(bodies(await collect(copy.read('mine')))).toEqual(['hello', null, { changes: 1 }])
  })

  it('keeps what a bus has not been told of yet, and says which bus', async () => {
    const store = memoryBackend()
    const told = await ran(store)
    const position = (await collect(store.feed())).at(-1)!.position
    await ran(store)
    await store.commit(write('relay', 0, { puts: [[`${POSITIONS}kafka`, position]] }))
    const part = await withoutEnded(store, SOON)
    expect([[...part.leftOut], [...part.behind]]).toEqual([[told], ['kafka']])
    const copy = memoryBackend()
    await copyStore(part, copy, { verify: true })
    const untold = (await collect(store.feed({ after: position }))).map(({ body }) => body)
    expect(await collect(copy.scan(POSITIONS))).toEqual([[`${POSITIONS}kafka`, '']]) // known, or a trim of the copy would take the rest away
    expect((await collect(copy.feed())).map(({ body }) => body)).toEqual(untold)
    expect((await trim(copy, SOON)).behind).toEqual(['kafka'])
  })

  it('forgets a bus that is no longer used, with all that only stays for it', async () => {
    const store = memoryBackend()
    const first = await ran(store)
    const [{ position } = { position: '' }] = await collect(store.feed())
    const puts = ['old', 'slow'].map((bus) => [`${POSITIONS}${bus}`, position] as const)
    await store.commit(write('relay', 0, { puts }))
    const part = await withoutEnded(store, { ...SOON, forget: ['old'] })
    expect([[...part.leftOut], [...part.behind]]).toEqual([[], ['slow']])
    const { copy, left } = await copyOf(store, { ...SOON, forget: ['old', 'slow'] })
    expect(left).toEqual([first])
    expect(await collect(copy.scan(POSITIONS))).toEqual([])
    await expect(withoutEnded(store, { ...SOON, forget: ['odl'] })).rejects.toThrow(
      'there is no bus odl; there are old, slow',
    )
  })

  it('gives a page of its values as every store does', async () => {
    const store = memoryBackend()
    const gone = await ran(store)
    for (const key of ['a', gone, `${gone}/c`]) await store.set(key, { graph: gone }) // the caller's own, whatever they are called
    const part = await withoutEnded(store, SOON)
    const all = await collect(part.scan(''))
    const own = await collect(part.scan('', { own: true }))
    expect(own).toHaveLength(3)
    expect(await collect(part.scan('', { own: true, limit: 2 }))).toEqual(own.slice(0, 2))
    expect(await part.getMany((await collect(store.scan(''))).map(([key]) => key))).toEqual(new Map(all))
  })

  it.each<[string, unknown]>([
    ['before', { before: 'yesterday' }],
    ['before', {}],
    ['forget', { ...SOON, forget: 'kafka' }],
    ['signal', { ...SOON, signal: 1 }],
    ['after', { ...SOON, after: 1 }],
  ])('refuses a wrong %s', async (path, options) => {
    await expect(withoutEnded(memoryBackend(), options as never)).rejects.toMatchObject({
      problems: [expect.objectContaining({ path })],
    })
    await expect(withoutEnded({} as never, SOON)).rejects.toThrow(InvalidInput)
  })

  it('stops when it is told to', async () => {
    const store = memoryBackend()
    await ran(store)
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(withoutEnded(store, { ...SOON, signal })).rejects.toThrow('enough')
  })
})
