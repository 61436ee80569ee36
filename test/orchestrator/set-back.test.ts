import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { mortal } from '../support/mortal-runtime.ts'
import { door, until } from '../support/on-a-clock.ts'

const HOUR = 3_600_000

/** Processes whose clock can be set back; the store has a clock of its own. */
function scene() {
  const time = manualClock()
  const state = { setBack: 0, tries: 0 }
  const clock = { ...time, now: () => time.now() - state.setBack }
  const store = memoryBackend({ clock: time })
  const slow = door()
  const functions = {
    flaky: () => {
      if (++state.tries === 1) throw new ActionError('action_failed', 'not yet', { retryable: true })
      return 'done'
    },
    slow: () => slow.opened.then(() => null),
    long: (_: unknown, { signal }: { readonly signal: AbortSignal }) =>
      new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  }
  const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 1_000 } as const
  return {
    time,
    state,
    store,
    slow,
    start: async () => {
      const process = mortal(store)
      const runtime = await runtimeOf(functions, { store: process.store, clock, patrolMs: 100, leaseTtlMs: 1_000 })
      return { ...runtime, die: process.die }
    },
    flow: (beside: object = {}) => flowOf({ flaky: { binding: { retry } }, ...beside }),
    /** Until something holds, but no longer than a few of the waits. */
    soon: async (holds: () => boolean) => {
      const began = time.now()
      await until(time, () => holds() || time.now() - began > 5_000)
      expect(holds()).toBe(true)
    },
  }
}

/** What a run that waits has beside that. */
const BESIDE: readonly [string, { slow?: object }][] = [
  ['only waits', {}],
  ['has something else under way', { slow: {} }],
]

describe('a clock that is set back', () => {
  it('does not prolong the wait of a run that only waits', async () => {
    const { state, time, start, flow, soon } = scene()
    const runtime = await start()
    const run = await runtime.submit(flow())
    await until(time, () => run.phase === 'waiting')
    state.setBack = HOUR
    await soon(() => run.phase === 'ended')
    expect(state.tries).toBe(2)
    await runtime.close()
  })

  it('does not prolong the wait of a run that has something else under way', async () => {
    const { state, time, start, flow, soon, slow } = scene()
    const runtime = await start()
    const run = await runtime.submit(flow({ slow: {} }))
    await until(time, () => state.tries === 1)
    state.setBack = HOUR
    await soon(() => state.tries === 2)
    slow.open()
    await soon(() => run.phase === 'ended')
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await runtime.close()
  })

  it.each(BESIDE)('does not prolong the wait of a run that %s and is taken over afterwards', async (_, beside) => {
    const { state, time, start, flow, soon } = scene()
    const first = await start()
    const run = await first.submit(flow(beside))
    await until(time, () => state.tries === 1)
    await time.advance(200)
    await first.die()
    state.setBack = HOUR
    const second = await start()
    await soon(() => state.tries === 2)
    expect(await (await second.project.context(run.context_id)).verify()).toEqual([])
    await second.die()
  })

  it.each(BESIDE)('does not keep the signal from a run that waits for it so long, and %s', async (_, beside) => {
    const { state, time, start, soon, slow } = scene()
    const runtime = await start()
    const paid = { binding: { action_type: 'wait', params: { signal: 'paid' }, timeout_ms: 4_000 } }
    const flow = flowOf({ paid, ...beside })
    const run = await runtime.submit(flow)
    const graph = await runtime.project.context(run.context_id)
    const timers = () => [...graph.state.nodesOf(run.plan_id)].filter((node) => node.kind === 'timer')
    await until(time, () => timers().length === 1)
    state.setBack = HOUR
    await soon(() => timers().length === 2) // it has begun anew
    const began = time.now()
    await runtime.signal(run.run_id, 'paid', 12)
    slow.open()
    await soon(() => run.phase === 'ended')
    expect(time.now() - began).toBeLessThan(4_000)
    expect(await run.result()).toMatchObject({ status: 'completed', outputs: { [flow.ids.paid!]: 12 } })
    await runtime.close()
  })

  it('does not keep anybody from taking over what was somebody else’s a moment ago', async () => {
    const { state, time, start, flow, soon, slow } = scene()
    const first = await start()
    const run = await first.submit(flow({ slow: {} }))
    const second = await start()
    await time.advance(300)
    state.setBack = HOUR
    await first.die()
    slow.open()
    const seen = await second.get(run.run_id)
    await soon(() => seen.phase === 'ended')
    await second.close()
  })

  describe('does not prolong the time that a run may take', () => {
    const wall = { budget: { wall_ms: 1_000 } }
    const wait = { wait: { binding: { action_type: 'wait', params: { signal: 'go' } } } } as const
    const exceeded = { status: 'failed', error: { code: 'budget_exceeded' } }
    const early = { ...wall, deadline: new Date(manualClock().now() + 900).toISOString() }

    it.each([
      ['has something under way', { long: {} }, wall, 'running'],
      ['only waits', wait, wall, 'waiting'],
      ['only waits, and has a deadline too', wait, early, 'waiting'],
      ['is paused', wait, wall, 'paused'],
    ])('and %s', async (_, steps, options, phase) => {
      const { state, time, start, soon } = scene()
      const runtime = await start()
      const run = await runtime.submit(flowOf(steps, { options }))
      if (phase === 'paused') await runtime.pause(run.run_id)
      await until(time, () => run.phase === phase)
      state.setBack = HOUR
      await soon(() => run.phase === 'ended')
      expect(await run.result()).toMatchObject(exceeded)
      expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
      await runtime.close()
    })

    it('and is taken over afterwards', async () => {
      const { state, time, start, soon } = scene()
      const first = await start()
      const { run_id } = await first.submit(flowOf(wait, { options: wall }))
      await time.advance(300)
      await first.die()
      state.setBack = HOUR
      const second = await start()
      const run = await second.get(run_id)
      await soon(() => run.phase === 'ended')
      expect(await run.result()).toMatchObject(exceeded)
      await second.close()
    })
  })

  it('leaves a wait alone that is not longer than was asked for', async () => {
    const { state, time, start, flow } = scene()
    const runtime = await start()
    const began = time.now()
    const run = await runtime.submit(flow())
    await until(time, () => run.phase === 'waiting')
    await until(time, () => run.phase === 'ended')
    expect({ tries: state.tries, took: time.now() - began >= 1_000 }).toEqual({ tries: 2, took: true })
    await runtime.close()
  })
})
