import { describe, expect, it, onTestFinished } from 'vitest'
import { own } from '../../src/orchestrator/owner.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { Backend, Lease } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'

describe('a context that is being given back', () => {
  it('begins nothing more: what is submitted meanwhile is done once', async () => {
    const store = memoryBackend()
    let leaving: () => void = () => undefined
    const left = new Promise<void>((resolve) => {
      leaving = resolve
    })
    let asked: () => void = () => undefined
    const isLeaving = new Promise<void>((resolve) => {
      asked = resolve
    })
    const distant: Backend = {
      ...store,
      async release(lease) {
        asked()
        await left
        return store.release(lease)
      },
    }
    const keys: string[] = []
    const runtime = await runtimeOf(
      { once: (_, { idempotency_key }) => void keys.push(idempotency_key) },
      { store: distant, patrolMs: 5 },
    )
    onTestFinished(() => runtime.close())
    const first = await runtime.submit(chainOf(1))
    await first.result()
    await isLeaving
    const flow = flowOf({ once: {} })
    const plan = { ...flow.plan, context_id: first.context_id }
    const submitted = runtime.submit({ ...flow, context: first.context_id, plan })
    await expect.poll(async () => (await runtime.project.locate(plan.plan_id))?.kind).toBe('plan')
    expect(keys).toEqual([])
    leaving()
    expect(await (await submitted).result()).toMatchObject({ status: 'completed' })
    expect(keys).toHaveLength(1)
  })

  it('is given back when its newest state cannot be read', async () => {
    const store = memoryBackend()
    let away = false
    const released: string[] = []
    const flickering: Backend = {
      ...store,
      async acquire(...asked) {
        const lease = await store.acquire(...asked)
        away = lease !== undefined && released.length === 0
        return lease
      },
      read(...asked) {
        if (away) throw new Unavailable('the store', 'come back later')
        return store.read(...asked)
      },
      async release(lease) {
        released.push(lease.stream)
        away = false
        return store.release(lease)
      },
    }
    const desk = await runtimeOf({}, { store, mine: () => false })
    onTestFinished(() => desk.close())
    const run = await desk.submit(chainOf(1))
    const runtime = await runtimeOf({}, { store: flickering, patrolMs: 5 })
    onTestFinished(() => runtime.close())
    expect(await run.result(AbortSignal.timeout(15_000))).toMatchObject({ success: true })
    expect(released[0]).toBe(run.context_id)
  })
})

describe('a run that cannot be taken up', () => {
  it('hurts neither the process nor the others of its context', async () => {
    const store = memoryBackend()
    const desk = await runtimeOf({}, { store, mine: () => false })
    const poisoned = await desk.submit(chainOf(1))
    const flow = chainOf(1)
    const plan = { ...flow.plan, context_id: poisoned.context_id }
    const sound = await desk.submit({ ...flow, context: poisoned.context_id, plan })
    const graph = await desk.project.context(poisoned.context_id)
    const lease = (await store.acquire(graph.id, thisHolder('somebody'), 60_000))!
    await graph.commit(
      [{ kind: 'node_update', node: 'run', id: poisoned.run_id, set: { options: { budget: null } } }],
      {
        actor: 'an older version',
        reason: 'it let this in',
        fence: lease.token,
      },
    )
    await store.release(lease)
    await desk.close()
    const runtime = await runtimeOf({}, { store, patrolMs: 5 })
    onTestFinished(() => runtime.close())
    expect(await (await runtime.get(sound.run_id)).result(AbortSignal.timeout(15_000))).toMatchObject({ success: true })
    expect(runtime.errors.length).toBeGreaterThan(0)
  })
})

describe('an owner', () => {
  const TTL_MS = 9_000
  const holder = thisHolder('owner')
  const silent = () => new Promise<never>(() => undefined)
  it.each<[string, (lease: Lease) => Promise<boolean>]>([
    ['cannot reach', () => Promise.reject(new Unavailable('the store', 'come back later'))],
    ['gets no answer from', silent],
  ])('stops after two thirds of its lease when it %s the store', async (_, renew) => {
    const clock = manualClock()
    const store = { ...memoryBackend({ clock }), renew }
    const ownership = (await own('a context', { store, clock, holder, ttlMs: TTL_MS }))!
    await clock.advance(TTL_MS * (2 / 3) - 1)
    expect(ownership.lost.aborted).toBe(false)
    await clock.advance(2)
    expect(ownership.lost.aborted).toBe(true)
    await ownership.release()
  })

  it('is not lost while the store answers, however late', async () => {
    const clock = manualClock()
    const backend = memoryBackend({ clock })
    const store: Backend = {
      ...backend,
      async renew(lease) {
        await clock.sleep(2_000)
        return backend.renew(lease)
      },
    }
    const ownership = (await own('a context', { store, clock, holder, ttlMs: TTL_MS }))!
    await clock.advance(10 * TTL_MS)
    expect(ownership.lost.aborted).toBe(false)
    const released = ownership.release()
    await clock.advance(TTL_MS)
    await released
  })
})
