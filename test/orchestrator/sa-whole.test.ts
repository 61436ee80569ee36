import { describe, expect, it } from 'vitest'
import { ActionError } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { chainOf, flowOf, type StepSpec } from '../support/flows.ts'
import { inTime, until, world } from '../support/on-a-clock.ts'

type Told = { readonly event_type: string; readonly payload: JsonObject }

/** What the single agent told of, in short, with the numbers at its end. */
async function saOf(store: Backend, context: string): Promise<readonly unknown[]> {
  const told: Told[] = []
  for await (const entry of store.read(context))
    for (const { event } of eventsIn(entry)) if (event.event_type.startsWith('SA')) told.push(event as unknown as Told)
  return told.map(({ event_type, payload }) => {
    if (event_type === 'SAStepFailed') return [event_type, payload.error_code, payload.error_message]
    if (event_type !== 'SACompleted') return event_type
    return [event_type, payload.status, payload.steps_executed, payload.steps_succeeded, payload.steps_failed]
  })
}
const BEGINNING = ['SAInitialized', 'SAContextLoaded', 'SAPlanEvaluated']

describe('what a single agent tells', () => {
  it.each<[string, { readonly [name: string]: StepSpec }]>([
    ['a signal', { wait: { binding: { action_type: 'wait', params: { signal: 'go' } } } }],
    ['its time', { wait: { binding: { action_type: 'wait', params: { ms: 600_000 } } } }],
    ['a person', { noop: { binding: { approval: 'ask' } } }],
    ['its next attempt', { boom: { binding: { retry: { strategy: 'fixed', max_attempts: 2, delay_ms: 600_000 } } } }],
  ])('ends with every step ended, one too that waits for %s when its run is cancelled', async (_, steps) => {
    const { start, clock, store } = world({
      boom: () => Promise.reject(new ActionError('action_failed', 'not yet', { retryable: true })),
    })
    const runtime = await start()
    const run = await runtime.submit(flowOf(steps))
    await until(clock, () => run.phase === 'waiting')
    await runtime.cancel(run.run_id)
    await inTime(clock, run.result())
    expect(await saOf(store, run.context_id)).toEqual([
      ...[...BEGINNING, 'SAStepStarted', ['SAStepFailed', 'action_aborted', 'the run was cancelled'], 'SATraceEmitted'],
      ['SACompleted', 'cancelled', 1, 0, 1],
    ])
    await inTime(clock, runtime.close())
  })

  it.each([
    ['at the end', { noop: {}, boom: { after: ['noop'], binding: { on_failure: 'skip' } } }],
    ['before another', { boom: { binding: { on_failure: 'skip' } }, noop: { after: ['boom'] } }],
  ] as const)('counts a step that was begun and skipped for its failure, %s', async (_, steps) => {
    const { start, clock, store } = world({ boom: () => Promise.reject(new Error('broken')) })
    const runtime = await start()
    const run = await runtime.submit(flowOf(steps))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect((await saOf(store, run.context_id)).at(-1)).toEqual(['SACompleted', 'completed', 2, 1, 1])
    await inTime(clock, runtime.close())
  })

  it('does not count a step that was skipped and never begun', async () => {
    const { start, clock, store } = world({ boom: () => Promise.reject(new Error('broken')) })
    const runtime = await start()
    const run = await runtime.submit(flowOf({ boom: {}, noop: { after: ['boom'] } }))
    await inTime(clock, run.result())
    expect((await saOf(store, run.context_id)).at(-1)).toEqual(['SACompleted', 'failed', 1, 0, 1])
    await inTime(clock, runtime.close())
  })

  it.each(['withdrawn by whoever was asked', 'cancelled before it could start'])(
    'is nothing when its plan was %s',
    async (how) => {
      const { start, clock, store } = world({})
      const runtime = await start()
      const run = await runtime.submit(chainOf(1, { approval: {} }))
      await inTime(clock, run.rest())
      const { context_id } = run
      const confirm = (await runtime.waiting())[0]!.confirm
      const isWithdrawn = how.startsWith('withdrawn')
      if (!isWithdrawn) await runtime.call('context', { intent: 'suspend', context_id })
      const status = isWithdrawn ? 'cancelled' : 'approved'
      await runtime.decide(confirm.confirm_id, { status, decided_by_role: 'somebody' })
      if (!isWithdrawn) await runtime.cancel(run.run_id)
      expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
      expect(await saOf(store, context_id)).toEqual([])
      await inTime(clock, runtime.close())
    },
  )
})
