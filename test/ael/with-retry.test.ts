import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RetryPolicy } from '../../src/ael/adapter.ts'
import { finalFailure, passingFailure } from '../../src/ael/failure.ts'
import { retryAfterMs } from '../../src/ael/retry-after.ts'
import { nextRetry, withRetry } from '../../src/ael/with-retry.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError, InvalidInput, Unavailable } from '../../src/protocol/errors.ts'
import { adapterOf, callOf, turn, work } from './calls.ts'

const passing = { retryable: true }

describe('nextRetry', () => {
  const waits = (policy: RetryPolicy, random = 0) =>
    Array.from({ length: 8 }, (_, i) => nextRetry(policy, i + 1, passing, random)).filter((wait) => wait !== undefined)

  it('counts all executions, the first included', () => {
    expect(waits({ strategy: 'fixed', max_attempts: 3, delay_ms: 50 })).toEqual([50, 50])
    expect(waits({ strategy: 'fixed', max_attempts: 1 })).toEqual([])
    expect(waits({ strategy: 'none', max_attempts: 5 })).toEqual([])
  })

  it('doubles up to the cap', () => {
    expect(waits({ strategy: 'exponential', max_attempts: 7, delay_ms: 100, max_delay_ms: 1_000 })).toEqual([
      100, 200, 400, 800, 1_000, 1_000,
    ])
    expect(waits({ strategy: 'exponential', max_attempts: 3 })).toEqual([1_000, 2_000])
    expect(waits({ max_attempts: 4 }), 'where nothing is said').toEqual([1_000, 2_000, 4_000])
  })

  it('leaves no more to chance than the jitter says', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (jitter, random) => {
          const wait = nextRetry(
            { strategy: 'fixed', max_attempts: 2, delay_ms: 1_000, jitter },
            1,
            passing,
            random,
          ) as number
          expect(wait).toBeLessThanOrEqual(1_000)
          expect(wait).toBeGreaterThanOrEqual(Math.floor(1_000 * (1 - jitter)))
        },
      ),
    )
  })

  it('never retries what is final, nor without a policy', () => {
    const policy: RetryPolicy = { strategy: 'fixed', max_attempts: 9 }
    expect(nextRetry(policy, 1, { retryable: false }, 0)).toBeUndefined()
    expect(nextRetry(undefined, 1, passing, 0)).toBeUndefined()
  })

  it('waits as long as the other side asks, even beyond the cap, and no less than planned', () => {
    const policy: RetryPolicy = { strategy: 'exponential', max_attempts: 9, delay_ms: 100, max_delay_ms: 200 }
    expect(nextRetry(policy, 1, { ...passing, retryAfterMs: 5_000 }, 0)).toBe(5_000)
    expect(nextRetry(policy, 1, { ...passing, retryAfterMs: 10 }, 0)).toBe(100)
  })

  it('waits no longer than a day for the other side, or than the policy allows for', () => {
    const day = 24 * 60 * 60 * 1000
    const policy: RetryPolicy = { strategy: 'fixed', max_attempts: 9, delay_ms: 100 }
    const heeded = (retryAfterMs: number, more = {}) =>
      nextRetry({ ...policy, ...more }, 1, { ...passing, retryAfterMs }, 0)
    expect([heeded(day), heeded(day + 1), heeded(10 * 365 * day)]).toEqual([day, undefined, undefined])
    expect([heeded(3 * day, { max_delay_ms: 3 * day }), heeded(3 * day + 1, { max_delay_ms: 3 * day })]).toEqual([
      3 * day,
      undefined,
    ])
  })
})

describe('withRetry', () => {
  const retrying = (errors: readonly unknown[], options: Parameters<typeof withRetry>[1] = {}) => {
    const seen: { attempt: number; execution_id: string; key: string }[] = []
    const left = [...errors]
    const inner = adapterOf(async ({ idempotency_key }, { attempt, execution_id }) => {
      seen.push({ attempt, execution_id, key: idempotency_key })
      if (left.length > 0) throw left.shift()
      return { output: 'done' }
    })
    return { adapter: withRetry(inner, { clock: manualClock(), ...options }), seen }
  }
  const fixed: RetryPolicy = { strategy: 'fixed', max_attempts: 4, delay_ms: 0 }

  it('attempts again under the same key and a new execution id', async () => {
    const clock = manualClock()
    const { adapter, seen } = retrying([passingFailure('1'), passingFailure('2')], { clock })
    const result = adapter.execute(
      work({ retry: fixed, idempotency_key: 'k' }),
      callOf({ attempt: 5, execution_id: 'first' }),
    )
    for (let i = 0; i < 4; i++) await clock.advance(1)
    expect(await result).toEqual({ output: 'done' })
    expect(seen.map(({ attempt, key }) => [attempt, key])).toEqual([
      [5, 'k'],
      [6, 'k'],
      [7, 'k'],
    ])
    expect(seen[0]?.execution_id).toBe('first')
    expect(new Set(seen.map(({ execution_id }) => execution_id)).size).toBe(3)
  })

  it.each([
    ['a final failure', finalFailure('no')],
    ['a denial', new ActionError('action_denied', 'no')],
    ['a rejection', new ActionError('action_rejected', 'no')],
    ['an abort', new ActionError('action_aborted', 'no')],
    ['bad input', new InvalidInput('x', [])],
  ])('does not retry %s', async (_what, error) => {
    const { adapter, seen } = retrying([error])
    await expect(adapter.execute(work({ retry: fixed }), callOf())).rejects.toThrow()
    expect(seen).toHaveLength(1)
  })

  it('retries a timeout, what a store calls retryable, and what nobody knows', async () => {
    const clock = manualClock()
    const faults = [
      new ActionError('action_timed_out', 'slow'),
      new Unavailable('it', 'wait'),
      new Error('socket hang up'),
    ]
    const { adapter, seen } = retrying(faults, { clock })
    const result = adapter.execute(work({ retry: { ...fixed, max_attempts: 4 } }), callOf())
    for (let i = 0; i < 6; i++) await clock.advance(1)
    await result
    expect(seen).toHaveLength(4)
  })

  it('throws the last error when no attempt is left, and waits in between', async () => {
    const clock = manualClock()
    const { adapter, seen } = retrying(
      ['1', '2', '3'].map((n) => passingFailure(n)),
      { clock },
    )
    const ended = adapter
      .execute(work({ retry: { ...fixed, max_attempts: 3, delay_ms: 100 } }), callOf())
      .catch((error) => error)
    await turn()
    expect([seen.length, clock.nextWake]).toEqual([1, clock.now() + 100])
    await clock.advance(99)
    expect(seen).toHaveLength(1)
    await clock.advance(1)
    expect(seen).toHaveLength(2)
    await clock.advance(100)
    expect((await ended).message).toBe('3')
  })

  it('uses its own policy for actions that name none', async () => {
    const clock = manualClock()
    const { adapter, seen } = retrying([passingFailure('1')], { clock, policy: { ...fixed, max_attempts: 2 } })
    const result = adapter.execute(work(), callOf())
    await turn()
    await clock.advance(1)
    await result
    expect(seen).toHaveLength(2)
    await expect(adapter.execute(work({ idempotency_key: '' }), callOf())).rejects.toBeInstanceOf(InvalidInput)
  })

  it('keeps nobody waiting longer than it may, and says how long it would have been', async () => {
    const { adapter, seen } = retrying([passingFailure('later', { retryAfterMs: 3_600_000 })])
    await expect(adapter.execute(work({ retry: fixed }), callOf())).rejects.toMatchObject({ retryAfterMs: 3_600_000 })
    expect(seen).toHaveLength(1)
  })

  it('stops waiting when it is aborted', async () => {
    const clock = manualClock()
    const controller = new AbortController()
    const { adapter, seen } = retrying([passingFailure('1')], { clock })
    const ended = adapter
      .execute(work({ retry: { ...fixed, delay_ms: 1_000 } }), callOf({ signal: controller.signal }))
      .catch((error) => error)
    await turn()
    controller.abort()
    expect(await ended).toMatchObject({ code: 'action_aborted' })
    expect([seen.length, clock.sleeping]).toEqual([1, 0])
  })

  it('goes on from the last checkpoint', async () => {
    const clock = manualClock()
    const seen: unknown[] = []
    const adapter = withRetry(
      adapterOf(async (_, { resume, checkpoint }) => {
        seen.push(resume)
        if (seen.length === 3) return { output: 'done' }
        await checkpoint(seen.length)
        throw passingFailure('cut off')
      }),
      { clock },
    )
    const result = adapter.execute(work({ retry: fixed }), callOf())
    for (let i = 0; i < 4; i++) await clock.advance(1)
    await result
    expect(seen).toEqual([undefined, 1, 2])
  })
})

describe('retryAfterMs', () => {
  const now = Date.UTC(2026, 0, 1)
  it.each([
    ['120', 120_000],
    ['0', 0],
    ['1.5', 1_500],
    [new Date(now + 30_000).toUTCString(), 30_000],
    [new Date(now - 30_000).toUTCString(), 0],
    ['-5', undefined],
    ['1e308', undefined],
    ['soon', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('reads %s', (header, ms) => {
    expect(retryAfterMs(header, now)).toBe(ms)
  })
})
