import { describe, expect, it } from 'vitest'
import { patientWith } from '../../src/orchestrator/patiently.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { OutcomeUnknown, Unavailable } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { chainOf, runtimeOf } from '../support/flows.ts'

/** A store that is read and leased as ever, while commits fail as often as is said. */
async function scene(options: { readonly onAway?: (error: unknown) => void } = {}) {
  const clock = manualClock()
  const memory = memoryBackend({ clock })
  const store = { ...memory, failures: 0, commit: memory.commit }
  store.commit = async (write) => {
    if (store.failures > 0 && store.failures--) throw new Unavailable('the store', 'its disk is full')
    return memory.commit(write)
  }
  const runtime = await runtimeOf({ noop: () => clock.sleep(1_000).then(() => null) }, { store, clock, ...options })
  const runs = await Promise.all([1, 2].map(() => runtime.submit(chainOf(3))))
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) await clock.advance(100)
  }
  return { store, runtime, runs, pass }
}

describe('a store that cannot be written to', () => {
  it('is told of once for all runs that wait for it, and once more when it fails anew', async () => {
    const { store, runtime, runs, pass } = await scene()
    store.failures = Number.POSITIVE_INFINITY
    await pass(5_000)
    expect(runtime.errors).toEqual([expect.objectContaining({ message: expect.stringContaining('its disk is full') })])
    store.failures = 0
    await pass(1_000)
    store.failures = Number.POSITIVE_INFINITY
    await pass(5_000)
    expect(runtime.errors).toHaveLength(2)
    store.failures = 0
    await pass(5_000)
    for (const run of runs) expect(await run.result()).toMatchObject({ status: 'completed' })
    expect(runtime.errors).toHaveLength(2)
    await runtime.close()
  })

  it('is not told of when it fails once and then not', async () => {
    const { store, runtime, runs, pass } = await scene()
    store.failures = 1
    await pass(5_000)
    for (const run of runs) expect(await run.result()).toMatchObject({ status: 'completed' })
    expect(runtime.errors).toEqual([])
    await runtime.close()
  })

  it('is told to onAway instead, where there is one', async () => {
    const away: unknown[] = []
    const { store, runtime, pass } = await scene({ onAway: (error) => away.push(error) })
    store.failures = Number.POSITIVE_INFINITY
    await pass(3_000)
    expect(away).toHaveLength(1)
    expect(runtime.errors).toEqual([])
    store.failures = 0
    await pass(5_000)
    await runtime.close()
  })

  it('is told of once a minute by rounds that cannot take anything up', async () => {
    const { store, runtime, pass } = await scene()
    store.failures = Number.POSITIVE_INFINITY
    store.acquire = store.renew = async () => {
      throw new Unavailable('the store', 'its disk is full')
    }
    await pass(30_000)
    expect(runtime.errors).toHaveLength(2) // by those who waited until their leases ended, and by the rounds since
    await pass(45_000)
    expect(runtime.errors).toHaveLength(3)
    store.failures = 0
    await runtime.close()
  })

  it.each([
    ['at the second failure', [new Unavailable('the store', 'later'), new Unavailable('the store', 'later')], 1],
    ['not at the first', [new Unavailable('the store', 'later')], 0],
    ['at the first of which nobody knows what became: that was asked after for long', [new OutcomeUnknown('g')], 1],
  ])('is told of %s', async (_, failures, times) => {
    const clock = manualClock()
    const away: unknown[] = []
    const asked = patientWith(clock, (error) => away.push(error))(async () => {
      const failure = failures.shift()
      if (failure) throw failure
      return 'answered'
    }, new AbortController().signal)
    for (let i = 0; i < 4; i++) await clock.advance(500)
    expect(await asked).toBe('answered')
    expect(away).toHaveLength(times)
  })
})
