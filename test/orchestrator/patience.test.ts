import { describe, expect, it } from 'vitest'
import type { FlowOptions, FlowResult } from '../../src/orchestrator/flow.ts'
import { InMemoryVSL } from '../../src/orchestrator/in-memory.ts'
import { patience } from '../../src/orchestrator/patience.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { call, contextDocument, planDocument, saying } from '../support/agents.ts'
import { inTime } from '../support/on-a-clock.ts'

/** Calls of one flow on a clock, and whether its store is broken. */
function scene() {
  const clock = manualClock()
  const context = contextDocument(clock)
  const plan = planDocument(context, { first: {}, second: { after: ['first'] } }, clock)
  const began: unknown[] = []
  const errors: unknown[] = []
  const store = { broken: false }
  const ael = { execute: async ({ params }: { params: { step_id: string } }) => void began.push(params.step_id) }
  return {
    clock,
    plan,
    began,
    errors,
    store,
    modules: saying({ context, plan }),
    flow: (vsl: FlowOptions['vsl'], more: Partial<FlowOptions> = {}): Promise<FlowResult> => {
      const given = { clock, ael: ael as never, onError: (error: unknown) => void errors.push(error), ...more }
      return inTime(clock, runSingleAgentFlow(call(vsl, saying({ context, plan }), given)))
    },
  }
}

const SINCE = /^the store has not answered since 2026-01-01T00:00:\d\d\.\d{3}Z/
const REMEDY = /call again with runId run-1, and the run goes on from what is stored$/

describe('a store that fails for good', () => {
  it('is put up with for a minute, then the call says since when; the same runId goes on', async () => {
    const { clock, flow, store, plan, began, errors } = scene()
    const inner = memoryBackend({ clock })
    const vsl = {
      ...inner,
      async commit(write: Parameters<typeof inner.commit>[0]) {
        store.broken ||= began.length === 1
        if (store.broken) throw new Unavailable('the store', 'the disk is full') // leases go on, so nobody else takes the run over
        return inner.commit(write)
      },
    }
    const start = clock.now()
    const { success, error, events } = await flow(vsl)
    expect({ success, code: error?.code }).toEqual({ success: false, code: 'RUNTIME_EXCEPTION' })
    expect(error?.message).toMatch(SINCE)
    expect(error?.message).toContain('the disk is full')
    expect(error?.message).toMatch(REMEDY)
    expect(clock.now() - start).toBeGreaterThanOrEqual(60_000)
    expect(clock.now() - start).toBeLessThan(65_000)
    expect(events.length).toBeGreaterThan(0)
    expect(errors).toEqual([])
    expect(clock.sleeping).toBe(0)
    began.length = 0
    const later = clock.now()
    const again = await flow({ ...vsl, commit: inner.commit })
    expect(again).toMatchObject({ success: true, output: { plan: { status: 'completed' } } })
    expect(began).toEqual([plan.ids.first, plan.ids.second]) // the first one's end was never stored
    expect(clock.now() - later).toBeLessThan(1_000) // its leases could not be given back, but nobody waits for their end
  })

  it('is given up sooner when the caller says so', async () => {
    const { clock, flow, began } = scene()
    const values = new Map<string, unknown>()
    const vsl = {
      get: async (key: string) => values.get(key) as never,
      async set(key: string, value: unknown) {
        if (key === 'mplp/redo' && value !== null && began.length > 0) throw new Error('too large for a cell')
        values.set(key, value)
      },
    }
    const start = clock.now()
    const { error } = await flow(vsl, { patienceMs: 2_000 })
    expect(error).toMatchObject({ code: 'RUNTIME_EXCEPTION', message: expect.stringContaining('too large for a cell') })
    expect(clock.now() - start).toBeLessThan(5_000)
  })

  it.each(['fails', 'keeps silent'])(
    'has five seconds when the run is cancelled, and then the call says that it may go on (%s)',
    async (how) => {
      const { clock, flow, plan, began } = scene()
      const inner = memoryBackend({ clock })
      const stop = new AbortController()
      let cancelledAt = Number.NaN
      const vsl = {
        ...inner,
        async commit(write: Parameters<typeof inner.commit>[0]) {
          if (began.length === 0) return inner.commit(write)
          if (Number.isNaN(cancelledAt)) {
            cancelledAt = clock.now()
            stop.abort()
          }
          if (how === 'keeps silent') await new Promise(() => undefined)
          throw new Unavailable('the store', 'later')
        },
      }
      const { success, error } = await flow(vsl, { signal: stop.signal })
      expect({ success, code: error?.code }).toEqual({ success: false, code: 'RUNTIME_EXCEPTION' })
      expect(error?.message).toMatch(SINCE)
      expect(error?.message).toContain('may not know that the run is cancelled')
      expect(error?.message).toMatch(REMEDY)
      expect(clock.now() - cancelledAt).toBeLessThan(6_000)
      expect(clock.sleeping).toBe(0)
      expect(await flow({ ...vsl, commit: inner.commit })).toMatchObject({ success: true })
      expect(began).toEqual([plan.ids.first, plan.ids.first, plan.ids.second])
    },
  )

  it('is waited for while it fails now and then', async () => {
    const { clock, flow, plan, began } = scene()
    const inner = memoryBackend({ clock })
    let commits = 0
    const vsl = {
      ...inner,
      async commit(write: Parameters<typeof inner.commit>[0]) {
        if (began.length > 0 && ++commits % 4 !== 0) throw new Unavailable('the store', 'later')
        return inner.commit(write)
      },
    }
    expect(await flow(vsl, { patienceMs: 3_000 })).toMatchObject({ success: true })
    expect(began).toEqual([plan.ids.first, plan.ids.second])
  })

  it('is waited for wherever it fails for a moment', async () => {
    const { flow, clock } = scene()
    const whole = failingAt(memoryBackend({ clock }), Number.POSITIVE_INFINITY)
    await flow(whole.store)
    expect(whole.calls()).toBeGreaterThan(20)
    for (let call = 1; call <= whole.calls(); call++) {
      const { clock, flow, plan, began } = scene()
      const { success, error } = await flow(failingAt(memoryBackend({ clock }), call).store)
      expect({ call, success, error, began }).toEqual({ call, success: true, began: [plan.ids.first, plan.ids.second] })
    }
  })

  it('is put up with as long when only a part of it fails, and others of its kind are answered', async () => {
    const { clock, plan, flow, began } = scene()
    const inner = memoryBackend({ clock })
    const getMany: Backend['getMany'] = async (keys) => {
      if (keys.some((key) => key.includes(plan.context_id))) throw new Unavailable('the store', 'a part of it is away')
      return inner.getMany(keys)
    }
    const start = clock.now()
    const { error } = await flow({ ...inner, getMany })
    expect(error).toMatchObject({ code: 'RUNTIME_EXCEPTION', message: expect.stringMatching(SINCE) })
    expect(error?.message).toContain('a part of it is away')
    expect(clock.now() - start).toBeGreaterThanOrEqual(60_000)
    expect({ began, asleep: clock.sleeping }).toEqual({ began: [], asleep: 0 })
  })

  it('is put up with as long when it fails from the beginning', async () => {
    const { clock, flow, began } = scene()
    const acquire = () => Promise.reject(new Unavailable('the store', 'later'))
    const start = clock.now()
    const { error } = await flow({ ...memoryBackend({ clock }), acquire })
    expect(error).toMatchObject({ code: 'RUNTIME_EXCEPTION', message: expect.stringMatching(SINCE) })
    expect(clock.now() - start).toBeGreaterThanOrEqual(60_000)
    expect({ began, asleep: clock.sleeping }).toEqual({ began: [], asleep: 0 })
  })
})

/** A store of which one call fails, the nth, and the next is answered. */
function failingAt(inner: Backend, nth: number): { readonly store: Backend; readonly calls: () => number } {
  let calls = 0
  const failing = (name: string) => {
    if (++calls === nth) throw new Unavailable('the store', `${name} fails for a moment`)
  }
  const store = new Proxy(inner, {
    get(_, name: keyof Backend) {
      const method = inner[name] as unknown
      if (typeof method !== 'function') return method
      if (!ONE_BY_ONE.has(name))
        return async (...args: unknown[]) => {
          failing(name)
          return method(...args)
        }
      return async function* (...args: unknown[]) {
        failing(name)
        yield* method(...args)
      }
    },
  })
  return { store, calls: () => calls }
}
const ONE_BY_ONE: ReadonlySet<string> = new Set(['scan', 'read', 'feed', 'blobs'])

describe('a store that keeps silent', () => {
  const silence = new Promise<never>(() => undefined)

  it('is given up wherever it falls silent, and the process is left with nothing to do', async () => {
    const whole = scene()
    const count = { calls: 0 }
    const counting = <T>(answer: T) => {
      count.calls++
      return answer
    }
    const values = new InMemoryVSL()
    await whole.flow({ get: (key) => counting(values.get(key)), set: (key, value) => counting(values.set(key, value)) })
    expect(count.calls).toBeGreaterThan(100)
    for (let last = 1; last <= count.calls; last += 7) {
      const { clock, flow, errors } = scene()
      const values = new InMemoryVSL()
      let calls = 0
      const answer = <T>(ask: () => Promise<T>): Promise<T> => (calls++ < last ? ask() : silence)
      const { success, error } = await flow({
        get: (key) => answer(() => values.get(key)),
        set: (key, value) => answer(() => values.set(key, value)),
      })
      if (!success) expect(error).toMatchObject({ code: 'RUNTIME_EXCEPTION', message: expect.stringMatching(SINCE) })
      expect({ last, errors, asleep: clock.sleeping }).toEqual({ last, errors: [], asleep: 0 })
    }
  })

  it('is given up when it is silent about snapshots', async () => {
    const { flow } = scene()
    class Silent extends InMemoryVSL {
      override saveSnapshot(): Promise<void> {
        return silence
      }
    }
    expect((await flow(new Silent())).error?.code).toBe('RUNTIME_EXCEPTION')
  })

  it('has those hear of it who speak or work meanwhile', async () => {
    const { clock, flow, store, modules } = scene()
    const inner = memoryBackend({ clock })
    const vsl = {
      ...inner,
      renew: (lease: Parameters<typeof inner.renew>[0]) => (store.broken ? silence : inner.renew(lease)),
    }
    let heard: unknown
    const plan = ({ signal }: { signal: AbortSignal }) => {
      store.broken = true
      signal.addEventListener('abort', () => {
        heard = signal.reason
      })
      return silence
    }
    const { error } = await flow(vsl, { modules: { ...modules, plan } })
    expect(error?.message).toMatch(SINCE)
    expect(heard).toMatchObject({ code: 'RUNTIME_EXCEPTION' })
  })
})

describe('the patience of a flow', () => {
  const fails = async () => {
    throw new Unavailable('the store', 'later')
  }

  it('is not used up by a question that failed long ago and was not asked again', async () => {
    const clock = manualClock()
    const { ask, over, end } = patience({ clock, runId: 'run-1' })
    for (let i = 0; i < 3; i++) {
      await expect(ask('commit', fails)).rejects.toThrow('later')
      await clock.advance(600_000)
    }
    expect(over.aborted).toBe(false)
    end()
    expect(clock.sleeping).toBe(0)
  })

  it('is used up by one that goes on failing, whatever others are told, and however short it is', async () => {
    for (const patienceMs of [100, 60_000]) {
      const clock = manualClock()
      const { ask, over, end } = patience({ clock, runId: 'run-1', patienceMs })
      for (let i = 0; i < 2 + patienceMs / 500 && !over.aborted; i++) {
        await ask('renew', async () => true)
        await ask('commit', fails).catch(() => undefined) // as often as it is asked
        await clock.advance(500)
      }
      expect(over.reason).toMatchObject({ code: 'RUNTIME_EXCEPTION' })
      end()
    }
  })

  it('is not used up while a clock is set on', async () => {
    const time = manualClock()
    let ahead = 0
    const { over, ask, end } = patience({ clock: { ...time, now: () => time.now() + ahead }, runId: 'run-1' })
    void ask('commit', () => new Promise(() => undefined)).catch(() => undefined) // told by `over`
    await time.advance(30_000)
    ahead = 3_600_000
    await time.advance(20_000)
    expect(over.aborted).toBe(false)
    await time.advance(15_000)
    expect(over.aborted).toBe(true)
    end()
  })

  it('is not used up by a cancel that the store takes in', async () => {
    const clock = manualClock()
    const stop = new AbortController()
    const { over, ask, end } = patience({ clock, runId: 'run-1', signal: stop.signal })
    await clock.advance(50_000)
    stop.abort()
    for (let i = 0; i < 10; i++) {
      await ask('commit', async () => true)
      await clock.advance(1_000)
    }
    expect(over.aborted).toBe(false)
    end()
    expect(clock.sleeping).toBe(0)
  })

  it.each([{}, 5, null, { now: () => 0 }])('goes by a clock: %j is none', async (clock) => {
    const { error } = await runSingleAgentFlow(call(memoryBackend(), {}, { clock: clock as never }))
    expect(error).toMatchObject({ code: 'INVALID_INPUT', problems: [{ path: 'clock', rule: 'type' }] })
  })

  it.each([0, -1, Number.NaN, '5', 2 ** 31])('is a time: %s is none', async (patienceMs) => {
    const { flow } = scene()
    const { error } = await flow(memoryBackend(), { patienceMs: patienceMs as number })
    expect(error).toMatchObject({ code: 'INVALID_INPUT', problems: [{ path: 'patienceMs', rule: 'range' }] })
  })
})
