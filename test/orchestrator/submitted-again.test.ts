import { describe, expect, it, onTestFinished } from 'vitest'
import { openRuntime } from '../../src/compose.ts'
import { flowOf } from '../../src/orchestrator/named-flow.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { uuidOf } from '../../src/protocol/json.ts'
import type { Context } from '../../src/protocol/types.ts'
import { INDEX } from '../../src/psg/indexes.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { openStore, type StoreOptions } from '../../src/vsl/vsl.ts'
import { collect } from '../contracts/backend/given.ts'
import { freshPrefix, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

/** Made anew by everybody who submits it. */
const orderOf = (id: string, steps = 2) => {
  const pack = { action_type: 'function', params: { name: 'pack' } }
  const names = Array.from({ length: steps }, (_, i) => `item ${i}`)
  return flowOf<string>({
    title: id,
    steps: Object.fromEntries(names.map((name) => [name, pack])),
    chosen: { run: uuidOf(id) },
  })
}

async function opened(store: Backend) {
  const runtime = await openRuntime({ functions: { pack: () => 'packed' } }, { store })
  onTestFinished(() => runtime.close())
  return runtime
}

describe('a flow whose run is chosen, submitted by several processes at once', () => {
  const isRunOnce = async (url: string, options: StoreOptions = {}) => {
    const runtimes = []
    for (let i = 0; i < 3; i++) {
      const store = await openStore(url, options)
      onTestFinished(() => store.close())
      runtimes.push(await opened(store))
    }
    const id = `order ${systemClock.uuid()}`
    const submitted = await Promise.allSettled(runtimes.map((runtime) => runtime.submit(orderOf(id).flow)))
    expect(submitted.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const one of submitted)
      if (one.status === 'rejected')
        expect(one.reason).toMatchObject({ violations: [{ rule: 'id.unique', node: `run/${uuidOf(id)}` }] })
    for (const runtime of runtimes) {
      const { outputs } = await (await runtime.submitOnce(orderOf(id).flow)).result()
      expect(outputs[orderOf(id).ids['item 1']!]).toBe('packed')
    }
    const next = `order ${systemClock.uuid()}`
    const once = await Promise.all(runtimes.map((runtime) => runtime.submitOnce(orderOf(next).flow)))
    for (const run of once) {
      expect(run.run_id).toBe(uuidOf(next))
      expect((await run.result()).status).toBe('completed')
    }
  }
  it('is run once on SQLite', () => isRunOnce(`sqlite:${tempFolder()}/state.db`))
  itNeeds('redis')('is run once on Redis', (url) => isRunOnce(url, { prefix: freshPrefix() }))
  itNeeds('postgres')('is run once on Postgres', (url) => isRunOnce(url))
})

describe('submitOnce', () => {
  it('gives a run that has ended as it is, whatever the flow says now', async () => {
    const runtime = await opened(memoryBackend())
    await (await runtime.submitOnce(orderOf('7').flow)).result()
    const again = await runtime.submitOnce(orderOf('7', 3).flow)
    expect(again.phase).toBe('ended')
    expect(Object.keys((await again.result()).outputs)).toHaveLength(2)
  })

  it('gives the run of that id, where a context, or a plan of another run, has the same', async () => {
    const runtime = await opened(memoryBackend())
    const id = uuidOf('order 7')
    const { flow, ids } = orderOf('order 7')
    const { meta, root, title, status } = flow.context as Context
    const own = {
      ...flow,
      context: { meta, root, title, status, context_id: id },
      plan: { ...flow.plan, context_id: id },
    }
    await runtime.submitOnce(own)
    expect((await runtime.submitOnce(own)).run_id).toBe(id)
    expect((await (await runtime.get(id)).result()).outputs[ids['item 0']!]).toBe('packed')

    const other = { ...orderOf('order 8').flow, chosen: { run: flow.plan.plan_id } }
    for (let i = 0; i < 2; i++)
      expect(await runtime.submitOnce(other)).toMatchObject({ run_id: flow.plan.plan_id, plan_id: other.plan.plan_id })
  })

  it('gives the run of who was faster, also where this process could not have submitted it', async () => {
    const store = memoryBackend()
    const faster = await opened(store)
    const { flow } = orderOf('7')
    const { bindings: _, ...unbound } = flow
    const slow = await opened({
      ...store,
      async getMany(keys) {
        const found = await store.getMany(keys)
        if (keys.includes(INDEX.id('run', uuidOf('7')))) await faster.submitOnce(flow) // after it has looked
        return found
      },
    })
    expect((await slow.submitOnce(unbound)).run_id).toBe(uuidOf('7'))
  })

  it('gives a plan of several commits to all who submit it at once', async () => {
    const inner = memoryBackend()
    const store = (): Backend => ({
      ...inner,
      async commit(write) {
        await new Promise((resolve) => setImmediate(resolve)) // the others come in between
        return inner.commit(write)
      },
    })
    const desks = await Promise.all([1, 2].map(() => openRuntime({}, { store: store(), mine: new Set() })))
    onTestFinished(async () => void (await Promise.all(desks.map((desk) => desk.close()))))
    const { flow, ids } = orderOf('7', 2_100)
    const runs = await Promise.all(desks.map((desk) => desk.submitOnce(flow)))
    expect(runs.map(({ run_id }) => run_id)).toEqual(Array(2).fill(uuidOf('7')))
    const graph = await desks[0]!.project.context(flow.plan.context_id)
    const { steps } = await graph.document('plan', flow.plan.plan_id)
    expect(steps.map(({ step_id }) => step_id)).toEqual(Object.values(ids))
  })

  it('refuses a flow that leaves the id of its run to us, and one that the graph refuses, and leaves nothing behind', async () => {
    const store = memoryBackend()
    const runtime = await opened(store)
    const { chosen, ...unchosen } = orderOf('7').flow
    const before = await collect(store.scan(''))
    const nobody = { problems: [{ path: 'chosen.run', rule: 'required' }] }
    await expect(runtime.submitOnce(unchosen)).rejects.toMatchObject(nobody)
    const [one, two] = unchosen.plan.steps
    const steps = [
      { ...one!, dependencies: [two!.step_id] },
      { ...two!, dependencies: [one!.step_id] },
    ]
    const circle = { ...unchosen, plan: { ...unchosen.plan, steps }, chosen: chosen! }
    await expect(runtime.submitOnce(circle)).rejects.toMatchObject({ code: 'rule_violation' })
    expect(await collect(store.scan(''))).toEqual(before)
  })
})

it('takes up what a crash has left of a large one, though its flow is made anew', async () => {
  const store = memoryBackend()
  let landed = 0
  const dying = new Proxy(store, {
    get: (target, name) =>
      name === 'commit'
        ? async (write: Parameters<Backend['commit']>[0]) => {
            if (write.entry !== undefined && landed++ > 0) throw new Unavailable('the store', 'wait')
            return target.commit(write)
          }
        : Reflect.get(target, name),
  })
  const first = await opened(dying)
  const cut = first.submit(orderOf('large', 2_050).flow)
  await first.close(AbortSignal.abort())
  await expect(cut).rejects.toThrow()
  expect(landed).toBeGreaterThan(1)

  const second = await opened(store)
  const { outputs } = await (await second.submit(orderOf('large', 2_050).flow)).result()
  expect(Object.keys(outputs)).toHaveLength(2_050)
  expect(await collect(store.scan('id/context/'))).toHaveLength(1) // none that nobody would ever run
  expect((await second.project.verify()).findings).toEqual([])
})
