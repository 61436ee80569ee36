import { describe, expect, it } from 'vitest'
import { passingFailure } from '../../src/ael/failure.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { chainOf, flowOf } from '../support/flows.ts'
import { inTime, passes, world } from '../support/on-a-clock.ts'

const hang = (_: unknown, { signal }: { readonly signal: AbortSignal }) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))
const beside = ({ context_id: context }: { readonly context_id: string }, flow: ReturnType<typeof flowOf>) => ({
  ...flow,
  context,
  plan: { ...flow.plan, context_id: context },
})

describe('a run that waits in a context where another one is busy', () => {
  it.each([
    ['goes on when its time has come', flowOf({ wait: { binding: { action_type: 'wait', params: { ms: 5_000 } } } })],
    ['ends when nobody has answered in time', chainOf(1, { approval: { expires_ms: 5_000 } })],
  ])('%s', async (_, flow) => {
    const { start, clock } = world({ hang })
    const runtime = await start()
    const busy = await runtime.submit(flowOf({ hang: {} }))
    const run = await runtime.submit(beside(busy, flow))
    await inTime(clock, run.result())
    expect(busy.phase).toBe('running')
    expect(runtime.errors).toEqual([])
    await busy.cancel()
    await inTime(clock, runtime.close())
  })
})

describe('a run that waits for less than a round', () => {
  it('goes on when its time has come, and one that waits for longer at the round after that', async () => {
    const at: Record<string, number[]> = { soon: [], later: [] }
    const failing = (name: string) => () => {
      if ((at[name] as number[]).push(clock.now()) === 1) throw passingFailure('not yet')
    }
    const { start, clock } = world({ soon: failing('soon'), later: failing('later') })
    const runtime = await start({ patrolMs: 1_000 })
    const failingOnce = (delay_ms: number) => ({
      binding: { retry: { strategy: 'fixed' as const, max_attempts: 2, delay_ms } },
    })
    const runs = [
      await runtime.submit(flowOf({ soon: failingOnce(200) })),
      await runtime.submit(flowOf({ later: failingOnce(1_200) })),
    ]
    for (const run of runs) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    const [soon, later] = Object.values(at).map(([first, second]) => second! - first!)
    expect(soon).toBeLessThan(500)
    expect(later).toBeGreaterThanOrEqual(1_200)
    await inTime(clock, runtime.close())
  })
})

describe('a run that waits for a signal for less than a round', () => {
  it('goes on when its time is over', async () => {
    const { start, clock } = world({})
    const runtime = await start({ patrolMs: 1_000 })
    const began = clock.now()
    const paid = { binding: { action_type: 'wait', params: { signal: 'paid' }, timeout_ms: 200 } } as const
    const run = await runtime.submit(flowOf({ paid }))
    expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'action_timed_out' } })
    expect(clock.now() - began).toBeLessThan(500)
    await inTime(clock, runtime.close())
  })
})

describe('a runtime that looks after a few runs', () => {
  it('finds them without reading what others run', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const [ours, theirs] = [await desk.submit(chainOf(1)), await desk.submit(chainOf(1))]
    await inTime(clock, desk.close())
    const read: string[] = []
    const watched = (store: Backend): Backend => ({
      ...store,
      getMany(keys) {
        read.push(...keys)
        return store.getMany(keys)
      },
      scan(prefix, from) {
        read.push(prefix)
        return store.scan(prefix, from)
      },
    })
    const mine = new Set<string>()
    const runtime = await start({ mine }, watched)
    mine.add(ours.plan_id)
    const run = await runtime.get(ours.run_id)
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(read.filter((key) => key.startsWith('running/')).every((key) => key.endsWith(ours.plan_id))).toBe(true)
    expect((await runtime.get(theirs.run_id)).phase).toBe('running')
    await inTime(clock, runtime.close())
  })
})

describe('a context that cannot be read', () => {
  it('keeps nobody from the others, be it found by a run or by a timer', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const wait = { binding: { action_type: 'wait', params: { ms: 1_000 } } }
    const bad = [await desk.submit(chainOf(1)), await desk.submit(chainOf(1, { approval: { expires_ms: 1_000 } }))]
    const good = [await desk.submit(chainOf(1)), await desk.submit(flowOf({ wait }))]
    await inTime(clock, desk.close())
    const damaged = (store: Backend): Backend => ({
      ...store,
      scan(prefix, from) {
        if (bad.some(({ context_id }) => prefix.startsWith(context_id))) throw new Error('damaged')
        return store.scan(prefix, from)
      },
    })
    const runtime = await start({}, damaged)
    await clock.advance(1_000)
    for (const { run_id } of good)
      expect(await inTime(clock, (await runtime.get(run_id)).result())).toMatchObject({ success: true })
    expect(runtime.errors).toContainEqual(new Error('damaged'))
    await inTime(clock, runtime.close())
  })
})

describe('a plan that is withdrawn while its run waits', () => {
  it('ends its run, be it that whoever withdrew it died over it', async () => {
    const { start, clock } = world({})
    const first = await start({
      onCommit: ({ body }) => {
        if (body.actor === 'plan') first.die()
      },
    })
    const run = await first.submit(chainOf(1, { approval: {} }))
    const [asked] = await first.waiting()
    await first.decide(asked!.confirm.confirm_id, { status: 'rejected', decided_by_role: 'somebody' })
    void first.call('plan', { intent: 'cancel', plan_id: run.plan_id })
    const second = await start()
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'cancelled' })
    await inTime(clock, second.close())
  })

  it('is not withdrawn once it has started: that is a wish to its run', async () => {
    const { start, clock } = world({})
    const runtime = await start()
    const run = await runtime.submit(flowOf({ wait: { binding: { action_type: 'wait', params: { signal: 'go' } } } }))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const refusal = runtime.call('plan', { intent: 'cancel', plan_id: run.plan_id })
    await expect(refusal).rejects.toThrow(InvalidInput)
    await run.cancel()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
    await inTime(clock, runtime.close())
  })
})

describe('a plan with many timers that are due', () => {
  it('is looked at once in a round', async () => {
    const { start, clock } = world({})
    let reads = 0
    const counted = (store: Backend): Backend => ({
      ...store,
      read(stream, from) {
        reads++
        return store.read(stream, from)
      },
    })
    const runtime = await start({}, counted)
    const wait = { binding: { action_type: 'wait', params: { ms: 1_000 } } }
    const run = await runtime.submit(flowOf(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`s${i}`, wait]))))
    await runtime.pause(run.run_id) // so that they stay due
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await passes(clock, 2_000)
    reads = 0
    await passes(clock, 500)
    expect(reads).toBeLessThanOrEqual(20) // of 10 rounds, not of 200 timers
    await runtime.resume(run.run_id)
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    await inTime(clock, runtime.close())
  })
})
