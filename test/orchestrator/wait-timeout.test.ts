import { describe, expect, it, onTestFinished } from 'vitest'
import type { Question } from '../../src/orchestrator/questions.ts'
import { waitsOf } from '../../src/orchestrator/waits.ts'
import type { ManualClock } from '../../src/protocol/clock.ts'
import type { Binding } from '../../src/psg/change.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { collect } from '../contracts/backend/given.ts'
import { flowOf } from '../support/flows.ts'
import { door, heldCommit, inTime, noted, passes, until, world } from '../support/on-a-clock.ts'

const MINUTE = 60_000

/** A step that waits for the signal `paid`, at most a minute, and one behind it. */
const patient = (binding: Partial<Binding> = {}) =>
  flowOf({
    paid: { binding: { action_type: 'wait', params: { signal: 'paid' }, timeout_ms: MINUTE, ...binding } },
    ship: { after: ['paid'] },
  })

async function begun(binding: Partial<Binding> = {}) {
  const { called, functions } = noted('ship')
  const given = world(functions)
  const runtime = await given.start()
  let lives = true
  onTestFinished(() => (lives ? runtime.close() : undefined))
  const die = () => {
    lives = false
    runtime.die()
  }
  const flow = patient(binding)
  const run = await runtime.submit(flow)
  await until(given.clock, () => run.phase === 'waiting')
  return { ...given, called, runtime, die, run, flow }
}

const timersIn = (store: Backend) => collect(store.scan('timer/'))

/** Of a run that has ended, nothing is left to wait for, and the graph holds together. */
async function isWhole({ store, runtime, run }: Awaited<ReturnType<typeof begun>>): Promise<void> {
  expect(await timersIn(store)).toEqual([])
  expect((await runtime.project.verify({ contexts: [run.context_id] })).findings).toEqual([])
}

describe('a wait for a signal with a timeout', () => {
  it('fails its step when the time is over', async () => {
    const given = await begun()
    const { clock, run, called, flow } = given
    expect(await run.rest()).toBe('waiting') // for somebody, who may still come
    const result = await inTime(clock, run.result())
    expect(result).toMatchObject({
      status: 'failed',
      error: {
        code: 'action_timed_out',
        message: `the signal paid did not come within ${MINUTE} ms`,
        step_id: flow.ids.paid,
      },
    })
    expect(called).toEqual([])
    await isWhole(given)
  })

  it('gives the payload when the signal comes in time, and no time is left to run', async () => {
    const given = await begun()
    const { clock, runtime, run, called, flow } = given
    await passes(clock, MINUTE - 1_000)
    await runtime.signal(run.run_id, 'paid', { amount: 12 })
    const result = await inTime(clock, run.result())
    expect(result).toMatchObject({ status: 'completed', outputs: { [flow.ids.paid!]: { amount: 12 } } })
    expect(called).toEqual(['ship'])
    await isWhole(given)
  })

  it.each([
    ['skip', 'completed', ['ship']],
    ['continue', 'failed', []],
  ] as const)('does what on_failure: %s says', async (on_failure, status, expected) => {
    const given = await begun({ on_failure })
    expect(await inTime(given.clock, given.run.result())).toMatchObject({ status })
    expect(given.called).toEqual(expected)
    await isWhole(given)
  })

  it('goes on after a crash with the time that is left', async () => {
    const { clock, start, store, run, die } = await begun()
    const began = clock.now()
    await passes(clock, MINUTE / 2)
    die()
    const second = await start()
    onTestFinished(() => second.close())
    const result = await inTime(clock, (await second.get(run.run_id)).result())
    expect(result).toMatchObject({ status: 'failed', error: { code: 'action_timed_out' } })
    expect(clock.now() - began).toBeLessThan(MINUTE + 5_000)
    expect(await timersIn(store)).toEqual([])
  })

  it.each([
    ['while nobody drove the run', async (given: Awaited<ReturnType<typeof begun>>) => given.die()],
    [
      'while the run was paused',
      async ({ runtime, run, clock }: Awaited<ReturnType<typeof begun>>) => {
        await runtime.pause(run.run_id)
        await until(clock, () => run.phase === 'paused')
      },
    ],
    ['in the last moment', async ({ clock }: Awaited<ReturnType<typeof begun>>) => clock.advance(MINUTE - 200)],
  ])('takes a signal that came in time, %s', async (_, before) => {
    const given = await begun()
    const { clock, start, run, called } = given
    await before(given)
    const other = await start({ mine: new Set() }) // only says what somebody wants
    onTestFinished(() => other.close())
    await other.signal(run.run_id, 'paid', 1)
    await clock.advance(2 * MINUTE)
    const second = await start()
    onTestFinished(() => second.close())
    await second.resume(run.run_id)
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['ship'])
  })

  it('takes a signal that came in time, while a commit of the run was under way', async () => {
    const slow = door()
    const { clock, start } = world({ slow: () => slow.opened.then(() => 'slowly') }, { leaseTtlMs: 100 * MINUTE })
    const held = heldCommit('slowly')
    const owner = await start({}, held.seen)
    const other = await start({ mine: new Set() })
    onTestFinished(() => Promise.all([owner.close(), other.close()]).then(() => undefined))
    const run = await owner.submit(
      flowOf({
        paid: { binding: { action_type: 'wait', params: { signal: 'paid' }, timeout_ms: MINUTE } },
        slow: { binding: { timeout_ms: 10 * MINUTE } },
      }),
    )
    slow.open()
    await inTime(clock, held.reached)
    await other.signal(run.run_id, 'paid', 1)
    await passes(clock, 2 * MINUTE)
    held.letGo()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
  })

  it('is over with its run', async () => {
    const given = await begun()
    await given.runtime.cancel(given.run.run_id)
    expect(await inTime(given.clock, given.run.result())).toMatchObject({ status: 'cancelled' })
    await isWhole(given)
  })

  it('is tried once, whatever the run says of retries', async () => {
    const { functions } = noted('ship')
    const { clock, start } = world(functions)
    const runtime = await start()
    onTestFinished(() => runtime.close())
    const retry = { strategy: 'fixed', max_attempts: 5, delay_ms: 1 } as const
    const run = await runtime.submit({ ...patient(), options: { retry } })
    expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'action_timed_out' } })
  })

  it('says what it waits for, and until when', async () => {
    const { runtime, run, store } = await begun()
    const graph = await runtime.project.context(run.context_id)
    const [[key]] = (await timersIn(store)) as [[string, unknown]]
    const due = key.split('/')[1]
    expect(waitsOf(graph, run.plan_id)).toEqual([{ what: `the signal paid until ${due}`, signal: 'paid' }])
  })

  it.each([
    [
      'a wait for a signal',
      { paid: { binding: { action_type: 'wait', params: { signal: 'paid' }, timeout_ms: MINUTE } } },
      /^a worker to take in that the signal paid did not come by 2/,
    ],
    [
      'a wait for a time',
      { paid: { binding: { action_type: 'wait', params: { ms: MINUTE } } } },
      /^the time 2.*Z, which has come$/,
    ],
    ['the next attempt', { boom: {} }, /^the next attempt, due since 2/],
  ])('does not say of %s that it is still to come when it is not, and nobody works', async (_, steps, says) => {
    const { clock, store, start } = world({ boom: () => Promise.reject(new Error('not yet')) })
    const runtime = await start()
    const retry = { strategy: 'fixed', max_attempts: 5, delay_ms: MINUTE } as const
    const run = await runtime.submit({ ...flowOf(steps), options: { retry } })
    await until(clock, () => run.phase === 'waiting')
    runtime.die()
    await clock.advance(MINUTE)
    const project = await openProject(store, { clock })
    const [wait] = waitsOf(await project.context(run.context_id), run.plan_id)
    expect(wait!.what).toMatch(says)
    expect(wait!.signal).toBeUndefined()
  })

  it('says so too where a person was asked first', async () => {
    const { runtime, run, store, clock } = await begun({ approval: 'ask' })
    const [{ confirm }] = (await runtime.waiting()) as [Question]
    await runtime.decide(confirm.confirm_id, { status: 'approved', decided_by_role: 'lead' })
    await until(clock, () => run.phase === 'waiting')
    const graph = await runtime.project.context(run.context_id)
    const [[key]] = (await timersIn(store)) as [[string, unknown]]
    const due = key.split('/')[1]
    expect(waitsOf(graph, run.plan_id)).toEqual([{ what: `the signal paid until ${due}`, signal: 'paid' }])
  })
})

describe('the timeout of a wait when the clock jumps', () => {
  async function jumping() {
    const { called, functions } = noted('ship')
    const given = world(functions)
    const time: ManualClock = given.clock
    const jump = { ms: 0 }
    const runtime = await given.start({ clock: { ...time, now: () => time.now() + jump.ms } })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(patient())
    await until(time, () => run.phase === 'waiting')
    return { time, jump, runtime, run, called }
  }

  it('begins anew where it would be prolonged', async () => {
    const { time, jump, run } = await jumping()
    jump.ms = -100 * MINUTE
    const began = time.now()
    expect(await inTime(time, run.result())).toMatchObject({ error: { code: 'action_timed_out' } })
    expect(time.now() - began).toBeLessThan(2 * MINUTE)
  })

  it('lets a signal count that is there before anybody has seen that the time is over', async () => {
    const { time, jump, runtime, run, called } = await jumping()
    jump.ms = 2 * MINUTE
    await runtime.signal(run.run_id, 'paid', 1)
    expect(await inTime(time, run.result())).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['ship'])
  })
})

describe('a wait', () => {
  it.each<[string, Partial<Binding>]>([
    ['timeout_ms', { params: { ms: 10 } }],
    ['retry', { retry: { strategy: 'fixed', max_attempts: 2 } }],
    ['on_interrupt', { on_interrupt: 'hold' }],
  ])('is refused a %s that would do nothing', async (name, binding) => {
    const { start } = world({})
    const runtime = await start()
    onTestFinished(() => runtime.close())
    const flow = patient(binding)
    await expect(runtime.submit(flow)).rejects.toMatchObject({
      problems: [expect.objectContaining({ path: `bindings.steps.${flow.ids.paid}.${name}`, rule: 'wait' })],
    })
  })
})
