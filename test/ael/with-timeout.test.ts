import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Call, Outcome } from '../../src/ael/adapter.ts'
import { finalFailure } from '../../src/ael/failure.ts'
import { withTimeout } from '../../src/ael/with-timeout.ts'
import { type ManualClock, manualClock, systemClock } from '../../src/protocol/clock.ts'
import { adapterOf, callOf, turn, work } from './calls.ts'

let clock: ManualClock
beforeEach(() => {
  clock = manualClock()
})
const timed = (execute: (call: Call) => Promise<Outcome>, options = {}, more = {}) =>
  withTimeout(
    adapterOf((_, call) => execute(call), more),
    { clock, ...options },
  )
const untilAborted = ({ signal }: Call) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

describe('withTimeout', () => {
  it.each([
    ['30 seconds', {}, {}, {}, 30_000],
    ['its own time', { timeoutMs: 500 }, {}, {}, 500],
    ['the time of the adapter', { timeoutMs: 500 }, { timeoutMs: 700 }, {}, 700],
    ['the time of the action', { timeoutMs: 500 }, { timeoutMs: 700 }, { timeout_ms: 900 }, 900],
  ])('gives work %s', async (_what, options, more, action, ms) => {
    const adapter = timed(untilAborted, options, more)
    const ended = adapter.execute(work(action), callOf()).catch((error) => error)
    await clock.advance(ms - 1)
    expect(clock.sleeping).toBe(1)
    await clock.advance(1)
    expect(await ended).toMatchObject({
      code: 'action_timed_out',
      retryable: true,
      message: `work did not end within ${ms} ms`,
    })
    expect(clock.sleeping).toBe(0)
  })

  it.each([2 ** 31, Number.POSITIVE_INFINITY])(
    'gives work %d ms, which is more than a timer can wait',
    async (timeoutMs) => {
      vi.useFakeTimers()
      onTestFinished(() => void vi.useRealTimers())
      let finish: (outcome: Outcome) => void
      const done = new Promise<Outcome>((resolve) => {
        finish = resolve
      })
      const adapter = timed(() => done, { timeoutMs, clock: systemClock })
      const ended = adapter.execute(work(), callOf())
      await vi.advanceTimersByTimeAsync(60_000)
      finish!({ output: 'done' })
      expect(await ended).toEqual({ output: 'done' })
      expect(vi.getTimerCount()).toBe(0)
    },
  )

  it('leaves no timer behind when the work is done, and listens no more', async () => {
    const controller = new AbortController()
    await timed(async () => ({})).execute(work(), callOf({ signal: controller.signal }))
    controller.abort()
    await turn()
    expect(clock.sleeping).toBe(0)
  })

  it('waits a moment for work to end, and discards what work gives that does not listen', async () => {
    let finish: (outcome: Outcome) => void = () => undefined
    const deltas: string[] = []
    let stream: (delta: string) => void = () => undefined
    const adapter = timed(
      ({ onDelta, checkpoint }) =>
        new Promise((resolve) => {
          finish = resolve
          stream = (delta) => {
            onDelta(delta)
            void checkpoint(`after ${delta}`)
          }
        }),
      { timeoutMs: 100, graceMs: 50 },
    )
    const told = (what: unknown) => void deltas.push(String(what))
    let error: unknown
    const ended = adapter.execute(work(), callOf({ onDelta: told, checkpoint: told })).catch((caught) => {
      error = caught
    })
    stream('in time')
    await clock.advance(149)
    expect(error).toBeUndefined()
    await clock.advance(1)
    await ended
    expect(error).toMatchObject({ code: 'action_timed_out' })
    stream('too late')
    finish({ output: 'too late' })
    await turn()
    expect(deltas).toEqual(['in time', 'after in time'])
  })

  it.each([
    ['is done', async () => ({})],
    ['has failed', () => Promise.reject(finalFailure('one of several'))],
  ])('discards what somebody still says for work that %s', async (_, end: () => Promise<Outcome>) => {
    const said: unknown[] = []
    let left: Call | undefined
    const adapter = timed((call) => {
      left = call
      call.onDelta('in time')
      void call.checkpoint('in time')
      return end()
    })
    const told = (what: unknown) => void said.push(what)
    await adapter.execute(work(), callOf({ onDelta: told, checkpoint: told })).catch(() => undefined) // it may fail
    left!.onDelta('too late')
    await left!.checkpoint('too late')
    expect(said).toEqual(['in time', 'in time'])
  })

  it('ends work whose checkpoint is refused, also where it does not wait for it', async () => {
    const refusal = finalFailure('nothing left to spend')
    const adapter = timed((call) => {
      void call.checkpoint('here', { tokens: 9 })
      return untilAborted(call)
    })
    const ended = adapter.execute(work(), callOf({ checkpoint: () => Promise.reject(refusal) }))
    await expect(ended).rejects.toBe(refusal)
    expect(clock.sleeping).toBe(0)
  })

  it('has not ended before a checkpoint has that nobody waited for, and is what it came to if that is refused then', async () => {
    let refuse: (why: Error) => void = () => undefined
    const adapter = timed(async (call) => {
      void call.checkpoint('here', { tokens: 9 })
      return { output: 'done' }
    })
    let outcome: Outcome | undefined
    const checkpoint = () =>
      new Promise<void>((_, reject) => {
        refuse = reject
      })
    const ended = adapter.execute(work(), callOf({ checkpoint })).then((came) => {
      outcome = came
    })
    await turn()
    expect(outcome).toBeUndefined()
    refuse(finalFailure('nothing left to spend'))
    await ended
    expect(outcome).toEqual({ output: 'done' })
    expect(clock.sleeping).toBe(0)
  })

  it('calls a success too late a timeout, even within the moment, and says what it cost', async () => {
    const outcome = { output: 1, token_usage: { prompt: 1, completion: 2, total: 3 }, cost: 4 }
    const late = timed(
      ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(outcome))),
      { timeoutMs: 10 },
    )
    const ended = late.execute(work(), callOf()).catch((error) => error)
    await clock.advance(10)
    expect(await ended).toMatchObject({ code: 'action_timed_out', spent: { tokens: 3, cost: 4 } })
  })

  it.each([
    ['has what was done although it was to stop', 'run', { output: 'done' }],
    ['has what the layer stopped done again by the next process', 'shutdown', { code: 'action_aborted' }],
  ])('a run %s', async (_, who, expected) => {
    const controller = new AbortController()
    const deaf = timed(
      ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve({ output: 'done' }))),
    )
    const run = { context_id: 'c', plan_id: 'p', step_id: 's', trace_id: 't' }
    const call = callOf({ run, [who === 'run' ? 'signal' : who]: controller.signal })
    const ended = deaf.execute(work(), call).catch((error) => error)
    controller.abort()
    expect(await ended).toMatchObject(expected)
  })

  it('says what was spent before the end', async () => {
    const adapter = timed(
      ({ signal }) =>
        new Promise((_, reject) =>
          signal.addEventListener('abort', () => reject(finalFailure('stopped', { spent: { tokens: 5 } }))),
        ),
      { timeoutMs: 10 },
    )
    const ended = adapter.execute(work(), callOf()).catch((error) => error)
    await clock.advance(10)
    expect(await ended).toMatchObject({ code: 'action_timed_out', retryable: true, spent: { tokens: 5 } })
  })

  it('tells the work why it must end', async () => {
    const controller = new AbortController()
    let reason: unknown
    const adapter = timed(async (call) =>
      untilAborted(call).catch((why) => {
        reason = why
        throw why
      }),
    )
    const ended = adapter.execute(work(), callOf({ signal: controller.signal })).catch((error) => error)
    await turn()
    controller.abort(new Error('the caller’s own words'))
    expect(await ended).toMatchObject({ code: 'action_aborted' })
    expect(reason).toMatchObject({ code: 'action_aborted' })
  })

  it('stands still during a wait that is not timed, also when several overlap', async () => {
    let answer: () => void = () => undefined
    const adapter = timed(
      async (call) => {
        const wait = new Promise<void>((resolve) => {
          answer = resolve
        })
        await Promise.all([call.untimed(wait), call.untimed(wait)])
        return untilAborted(call)
      },
      { timeoutMs: 100 },
    )
    let error: unknown
    const ended = adapter.execute(work(), callOf()).catch((caught) => {
      error = caught
    })
    await clock.advance(10_000)
    answer()
    await turn()
    await clock.advance(99)
    expect(error).toBeUndefined()
    await clock.advance(1)
    await ended
    expect(error).toMatchObject({ code: 'action_timed_out' })
  })

  it('lasts no longer when the clock is set back before such a wait', async () => {
    let setBack = 0
    const shifted = { ...clock, now: () => clock.now() - setBack }
    const adapter = timed(
      async (call) => {
        setBack = 3_600_000
        await call.untimed(Promise.resolve())
        return untilAborted(call)
      },
      { timeoutMs: 100, clock: shifted },
    )
    const ended = adapter.execute(work(), callOf()).catch((error) => error)
    await turn()
    await clock.advance(100)
    expect(await ended).toMatchObject({ code: 'action_timed_out' })
  })
})
