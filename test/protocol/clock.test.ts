import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { isoMicros, manualClock, systemClock } from '../../src/protocol/clock.ts'
import { isValid } from '../../src/protocol/validate.ts'

describe('the manual clock', () => {
  it('gives the same ids and the same luck for the same seed, and others for another', () => {
    const told = (seed: number) => {
      const clock = manualClock({ seed })
      return [clock.uuid(), clock.random(), clock.uuid(), clock.now()]
    }
    expect(told(3)).toEqual(told(3))
    expect(told(3)).not.toEqual(told(4))
  })

  it('makes identifiers that the protocol accepts', () => {
    const clock = manualClock()
    const ids = new Set(Array.from({ length: 1000 }, () => clock.uuid()))
    expect(ids.size).toBe(1000)
    for (const id of ids) expect(isValid('identifier', id)).toBe(true)
  })

  it('wakes the sleepers that are due, in the order of their time, and no others', async () => {
    const clock = manualClock({ now: 1000 })
    const woken: string[] = []
    const sleep = (ms: number) => clock.sleep(ms).then(() => woken.push(`${ms} at ${clock.now()}`))
    const all = [sleep(30), sleep(10), sleep(50)]
    expect([clock.sleeping, clock.nextWake]).toEqual([3, 1010])
    await clock.advance(30)
    expect(woken).toEqual(['10 at 1010', '30 at 1030'])
    expect([clock.sleeping, clock.nextWake, clock.now()]).toEqual([1, 1050, 1030])
    await clock.advance(20)
    await Promise.all(all)
    expect([clock.sleeping, clock.nextWake]).toEqual([0, undefined])
  })

  it('wakes a sleeper that went to sleep again within the time that passes', async () => {
    const clock = manualClock({ now: 0 })
    const woken: number[] = []
    const loop = async () => {
      for (let n = 0; n < 3; n++) {
        await clock.sleep(10)
        woken.push(clock.now())
      }
    }
    const done = loop()
    await clock.advance(100)
    await done
    expect(woken).toEqual([10, 20, 30])
  })

  it('lets an abort end a sleep, and forgets the sleeper', async () => {
    const clock = manualClock()
    const abort = new AbortController()
    const asleep = clock.sleep(10, abort.signal)
    abort.abort(new Error('enough'))
    await expect(asleep).rejects.toThrow('enough')
    expect(clock.sleeping).toBe(0)
    await expect(clock.sleep(10, abort.signal)).rejects.toThrow('enough')
  })
})

describe('the system clock', () => {
  it('sleeps, and an abort ends it', async () => {
    await systemClock.sleep(1)
    const abort = new AbortController()
    const asleep = systemClock.sleep(60_000, abort.signal)
    abort.abort(new Error('enough'))
    await expect(asleep).rejects.toThrow('enough')
    await expect(systemClock.sleep(1, abort.signal)).rejects.toThrow('enough')
  })

  it('sleeps longer than a timer of Node can', async () => {
    vi.useFakeTimers()
    try {
      let awake = false
      const asleep = systemClock.sleep(30 * 86_400_000).then(() => {
        awake = true
      })
      await vi.advanceTimersByTimeAsync(30 * 86_400_000 - 1)
      expect(awake).toBe(false)
      await vi.advanceTimersByTimeAsync(1)
      await asleep
      expect(awake).toBe(true)
    } finally {
      vi.useRealTimers()
    }
  })

  it('makes ids that sort by when they were made, and never one twice', () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    try {
      const made = [0, 1, 1_000, 86_400_000, 100 * 365 * 86_400_000].map((later) => {
        vi.setSystemTime(Date.UTC(2026, 0, 1) + later)
        return Array.from({ length: 200 }, systemClock.uuid)
      })
      for (const id of made.flat()) expect(isValid('identifier', id)).toBe(true)
      expect(new Set(made.flat()).size).toBe(1_000)
      expect(made.map(([first]) => first).sort()).toEqual(made.map(([first]) => first))
    } finally {
      vi.useRealTimers()
    }
  })

  it('makes numbers as promised', () => {
    expect(systemClock.random()).toBeGreaterThanOrEqual(0)
    expect(systemClock.random()).toBeLessThan(1)
  })
})

describe('isoMicros', () => {
  it('has six decimals, is a date-time of the protocol, and sorts as text the way time does', () => {
    expect(isoMicros(1_767_225_600_000_001)).toBe('2026-01-01T00:00:00.000001Z')
    const times = fc.integer({ min: 0, max: 4_000_000_000_000_000 })
    fc.assert(
      fc.property(times, times, (a, b) => {
        expect(isValid('tool-event', { ...minimalTool, started_at: isoMicros(a) })).toBe(true)
        expect(Math.sign(a - b)).toBe(isoMicros(a) < isoMicros(b) ? -1 : isoMicros(a) > isoMicros(b) ? 1 : 0)
      }),
    )
  })

  it('tells what comes close together as a date does, also before the epoch', () => {
    const close = fc.tuple(fc.integer({ min: -4_000_000_000_000, max: 4_000_000_000_000 }), fc.array(fc.nat(2_500)))
    fc.assert(
      fc.property(close, ([first, later]) => {
        for (const more of [0, ...later])
          expect(isoMicros((first + more) * 1000)).toBe(new Date(first + more).toISOString().replace('Z', '000Z'))
      }),
    )
  })

  it('leaves out what is below a microsecond', () => {
    expect(isoMicros(1_767_225_600_000_001.5)).toBe('2026-01-01T00:00:00.000001Z')
  })
})

const minimalTool = {
  tool_id: 'x',
  tool_kind: 'other',
  invocation_id: '550e8400-e29b-41d4-a716-446655440000',
  status: 'running',
}
