import { describe, expect, it, onTestFinished } from 'vitest'
import { pace } from '../../src/orchestrator/relay-pace.ts'
import { systemClock } from '../../src/protocol/clock.ts'

/** A batch of so many bytes without a delivery to tell its age. */
const batch = (bytes: number) => ({ deliveries: [], bytes, reached: undefined })
const never = new AbortController().signal

/** Keeps the thread at work until the test is over. */
function keepBusy(): void {
  let over = false
  onTestFinished(() => {
    over = true
  })
  const work = () => {
    for (const until = performance.now() + 1; performance.now() < until; );
    if (!over) setImmediate(work)
  }
  work()
}

describe("a relay's pace", () => {
  it('waits for no time on a thread that is free, however much was told', async () => {
    await pace('outside', systemClock)(batch(2 ** 40), never) // worth years
  })

  it('lets as much time pass on a busy thread as the batch was worth, and less when the bus is within', async () => {
    keepBusy()
    const worth = async (bus: 'outside' | 'within') => {
      const began = performance.now()
      await pace(bus, systemClock)(batch(2 ** 20), never)
      return performance.now() - began
    }
    expect(await worth('outside')).toBeGreaterThanOrEqual(512 - 250)
    expect(await worth('within')).toBeGreaterThanOrEqual(256 - 250)
  })

  it('waits no longer once it is told to stop', async () => {
    keepBusy()
    const stop = new AbortController()
    const waited = pace('outside', systemClock)(batch(2 ** 40), stop.signal)
    stop.abort()
    await waited
  })
})
