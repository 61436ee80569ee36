import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Corrupt } from '../../src/protocol/errors.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { door, inTime, until } from '../support/on-a-clock.ts'
import { replicated } from '../support/replicated.ts'

/** Two steps of a run, the first of which ends, and the second begins, after the replica has stopped listening. */
async function given() {
  const clock = manualClock()
  const { store, lag, failOver } = replicated(clock)
  const second = door()
  const keys: string[] = []
  const functions = {
    first: (_: unknown, { idempotency_key }: { readonly idempotency_key: string }) => {
      lag()
      keys.push(idempotency_key)
      return null
    },
    second: async (_: unknown, { idempotency_key }: { readonly idempotency_key: string }) => {
      keys.push(idempotency_key)
      await second.opened
      return null
    },
  }
  const runtime = await runtimeOf(functions, { store, clock })
  const run = await runtime.submit(flowOf({ first: {}, second: { after: ['first'] } }))
  await until(clock, () => keys.length === 2)
  return { clock, runtime, run, keys, second, failOver }
}

const CI = { ci_provider: 'ours', pipeline_id: 'p', run_id: 'r', status: 'succeeded' }

describe('a run on a store that has lost what it acknowledged', () => {
  it('goes on as it stands there, does what is lost again under the same keys, and says so', async () => {
    const { clock, runtime, run, keys, second, failOver } = await given()
    failOver()
    second.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
    const [a, b] = keys
    expect(keys).toEqual([a, b, a, b])
    expect(runtime.errors).toEqual([expect.any(Corrupt)])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await inTime(clock, runtime.close())
  })

  it('is waited for as it stands there, also by who began to wait before', async () => {
    const clock = manualClock()
    const { store, lag, failOver } = replicated(clock)
    const runtime = await runtimeOf({}, { store, clock })
    const run = await runtime.submit(chainOf(1, { approval: {} }))
    const [question] = await runtime.waiting()
    const result = run.result()
    await clock.advance(10)
    lag()
    for (let i = 0; i < 20; i++) await runtime.ingest(run.context_id, 'ci-event', CI) // more than come after the failover
    failOver()
    await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'me' })
    expect(await inTime(clock, result)).toMatchObject({ status: 'completed' })
    await inTime(clock, runtime.close())
  })

  it('is waited for as it stands there, also by a process that only waits', async () => {
    const clock = manualClock()
    const { store, lag, failOver } = replicated(clock)
    const worker = await runtimeOf({}, { store, clock })
    const waiter = await runtimeOf({}, { store, clock, mine: new Set() })
    const { run_id, context_id } = await worker.submit(chainOf(1, { approval: {} }))
    const [question] = await worker.waiting()
    lag()
    for (let i = 0; i < 20; i++) await worker.ingest(context_id, 'ci-event', CI) // more than come after the failover
    const result = (await waiter.get(run_id)).result()
    await clock.advance(10)
    failOver()
    await worker.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'me' })
    const since = clock.now()
    expect(await inTime(clock, result)).toMatchObject({ status: 'completed' })
    expect(clock.now() - since).toBeLessThan(31_000)
    for (const runtime of [worker, waiter]) await inTime(clock, runtime.close())
    expect(clock.sleeping).toBe(0)
  })
})
