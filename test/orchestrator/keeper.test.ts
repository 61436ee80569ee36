import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { newAction } from '../../src/ael/ael.ts'
import { dueRuns } from '../../src/orchestrator/keeper.ts'
import { own } from '../../src/orchestrator/owner.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Refused, Unavailable } from '../../src/protocol/errors.ts'
import { firstActionOf } from '../../src/psg/first-action.ts'
import { CONTEXTS_AT_ONCE } from '../../src/psg/open-graphs.ts'
import type { Backend, Lease } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { chainOf, flowOf, having, runtimeOf } from '../support/flows.ts'
import { door, heldCommit, inTime, passes, until, world } from '../support/on-a-clock.ts'

describe('a context that is being given back', () => {
  it('begins nothing more: what is submitted meanwhile is done once', async () => {
    const store = memoryBackend()
    let leaving: () => void = () => undefined
    const left = new Promise<void>((resolve) => {
      leaving = resolve
    })
    let asked: () => void = () => undefined
    const isLeaving = new Promise<void>((resolve) => {
      asked = resolve
    })
    const distant: Backend = {
      ...store,
      async release(lease) {
        asked()
        await left
        return store.release(lease)
      },
    }
    const keys: string[] = []
    const runtime = await runtimeOf(
      { once: (_, { idempotency_key }) => void keys.push(idempotency_key) },
      { store: distant, patrolMs: 5 },
    )
    onTestFinished(() => runtime.close())
    const first = await runtime.submit(chainOf(1))
    await first.result()
    await isLeaving
    const flow = flowOf({ once: {} })
    const plan = { ...flow.plan, context_id: first.context_id }
    const submitted = runtime.submit({ ...flow, context: first.context_id, plan })
    await expect.poll(async () => (await runtime.project.locate(plan.plan_id))?.kind).toBe('plan')
    expect(keys).toEqual([])
    leaving()
    expect(await (await submitted).result()).toMatchObject({ status: 'completed' })
    expect(keys).toHaveLength(1)
  })

  it('and cannot be, because the store is away, is one of many: that is told once', async () => {
    const away = new Unavailable('the store', 'wait')
    const { start, clock } = world({ one: () => 1 })
    let tries = 0
    const release = async () => {
      tries++
      throw away
    }
    const runtime = await start({}, (store) => ({ ...store, release }))
    for (let i = 0; i < 3; i++) await inTime(clock, (await runtime.submit(flowOf({ one: {} }))).result())
    await until(clock, () => tries === 3)
    await inTime(clock, runtime.close())
    expect(runtime.errors).toEqual([away])
  })

  it('is given back when its newest state cannot be read', async () => {
    const store = memoryBackend()
    let away = false
    const released: string[] = []
    const flickering: Backend = {
      ...store,
      async acquire(...asked) {
        const lease = await store.acquire(...asked)
        away = lease !== undefined && released.length === 0
        return lease
      },
      read(...asked) {
        if (away) throw new Unavailable('the store', 'come back later')
        return store.read(...asked)
      },
      async release(lease) {
        released.push(lease.stream)
        away = false
        return store.release(lease)
      },
    }
    const desk = await runtimeOf({}, { store, mine: new Set() })
    onTestFinished(() => desk.close())
    const run = await desk.submit(chainOf(1))
    const runtime = await runtimeOf({}, { store: flickering, patrolMs: 5 })
    onTestFinished(() => runtime.close())
    expect(await run.result(AbortSignal.timeout(15_000))).toMatchObject({ success: true })
    expect(released[0]).toBe(run.context_id)
  })
})

describe('runs that nobody has', () => {
  it('are taken up oldest first, whatever their plans are called', async () => {
    const store = memoryBackend()
    const desk = await runtimeOf({}, { store, mine: new Set() })
    onTestFinished(() => desk.close())
    const { context, plan, bindings } = chainOf(1)
    const plans = ['cccccccc', 'bbbbbbbb', 'aaaaaaaa'].map((name) => `${name}${plan.plan_id.slice(8)}`)
    for (const [i, plan_id] of plans.entries()) {
      const flow = i === 0 ? { context, plan, bindings: bindings! } : { ...chainOf(1), context: plan.context_id }
      await desk.submit({ ...flow, plan: { ...flow.plan, plan_id, context_id: plan.context_id } })
    }
    const other = await runtimeOf({}, { store, mine: new Set() })
    onTestFinished(() => other.close())
    const due = dueRuns(await other.project.context(plan.context_id))
    expect(due.map(({ data }) => data.plan_id)).toEqual(plans)
  })
})

describe('contexts that nobody has', () => {
  it('are taken up together: none waits until another one is at work', async () => {
    const store = memoryBackend()
    const desk = await runtimeOf({}, { store, mine: new Set() })
    onTestFinished(() => desk.close())
    const runs = await Promise.all(Array.from({ length: CONTEXTS_AT_ONCE }, () => desk.submit(chainOf(1))))
    let asked = 0
    let all: () => void = () => undefined
    const allAsked = new Promise<void>((resolve) => {
      all = resolve
    })
    const distant: Backend = {
      ...store,
      async acquire(...args) {
        if (++asked === runs.length) all()
        await allAsked
        return store.acquire(...args)
      },
    }
    const owner = await runtimeOf({}, { store: distant })
    onTestFinished(() => owner.close())
    await expect.poll(() => asked).toBe(runs.length)
    for (const run of runs) expect((await run.result()).status).toBe('completed')
  })
})

describe('a run that cannot be taken up', () => {
  /** One, and beside it one that can. */
  async function poisonedIn(
    store: Backend,
    desk: Pick<Awaited<ReturnType<typeof runtimeOf>>, 'submit' | 'project' | 'close'>,
  ) {
    const poisoned = await desk.submit(chainOf(1))
    const flow = chainOf(1)
    const plan = { ...flow.plan, context_id: poisoned.context_id }
    const sound = await desk.submit({ ...flow, context: poisoned.context_id, plan })
    const graph = await desk.project.context(poisoned.context_id)
    const lease = (await store.acquire(graph.id, thisHolder('somebody'), 60_000))!
    await graph.commit(
      [{ kind: 'node_update', node: 'run', id: poisoned.run_id, set: { options: { budget: null } } }],
      {
        actor: 'an older version',
        reason: 'it let this in',
        fence: lease.token,
      },
    )
    await store.release(lease)
    return { poisoned, sound }
  }

  it('hurts neither the process nor the others of its context', async () => {
    const store = memoryBackend()
    const desk = await runtimeOf({}, { store, mine: new Set() })
    const { sound } = await poisonedIn(store, desk)
    await desk.close()
    const runtime = await runtimeOf({}, { store, patrolMs: 5 })
    onTestFinished(() => runtime.close())
    expect(await (await runtime.get(sound.run_id)).result(AbortSignal.timeout(15_000))).toMatchObject({ success: true })
    expect(runtime.errors.length).toBeGreaterThan(0)
  })

  it('is named, and tried again less and less often', async () => {
    const { start, clock, store } = world({})
    const desk = await start({ mine: new Set() })
    const { poisoned } = await poisonedIn(store, desk)
    const tried: number[] = []
    const worker = await start({}, (seen) => ({
      ...seen,
      acquire(...asked) {
        tried.push(Math.round((clock.now() - began) / 1_000))
        return seen.acquire(...asked)
      },
    }))
    const began = clock.now()
    await passes(clock, 100_000)
    expect(tried).toEqual([0, 5, 15, 35, 65, 95])
    const stuck = worker.errors.filter((error) => error instanceof Refused)
    expect(stuck).toHaveLength(2) // once a minute
    expect(String(stuck[0])).toContain(poisoned.run_id)
    await inTime(clock, Promise.all([worker.close(), desk.close()]))
  })
})

describe('an owner', () => {
  const TTL_MS = 9_000
  const holder = thisHolder('owner')
  const silent = () => new Promise<never>(() => undefined)
  it.each<[string, (lease: Lease) => Promise<boolean>]>([
    ['cannot reach', () => Promise.reject(new Unavailable('the store', 'come back later'))],
    ['gets no answer from', silent],
  ])('stops after two thirds of its lease when it %s the store', async (_, renew) => {
    const clock = manualClock()
    const store = { ...memoryBackend({ clock }), renew }
    const ownership = (await own('a context', { store, clock, holder, ttlMs: TTL_MS }))!
    await clock.advance(TTL_MS * (2 / 3) - 1)
    expect(ownership.lost.aborted).toBe(false)
    await clock.advance(2)
    expect(ownership.lost.aborted).toBe(true)
    await ownership.release()
  })

  it('that was stopped over a commit begins nothing of it once others may have, though no timer has told it', async () => {
    const { clock, start } = world({})
    const called: string[] = []
    const as = (name: string) => having({ work: () => void called.push(name) })
    const timers = manualClock()
    const flow = flowOf({ work: {} })
    const { seen, reached, letGo } = heldCommit(firstActionOf(flow.ids.work!), 'reply')
    const stopped = await start({ ...as('stopped'), clock: { ...timers, now: clock.now } }, seen)
    const run = await stopped.submit(flow)
    await reached
    const other = await start(as('other'))
    expect(await inTime(clock, (await other.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
    letGo()
    await inTime(timers, run.result())
    expect(called).toEqual(['other'])
    await inTime(timers, stopped.close())
    await inTime(clock, other.close())
  })

  it.each(['approval', 'execute'] as const)(
    'that was stopped over the %s of an action carries nothing out for it once others may have',
    async (held) => {
      const { clock, start } = world({})
      const [asked, answered] = [door(), door()]
      const called: string[] = []
      const as = (name: string, wait: () => Promise<unknown>) => {
        const asks: Adapter = {
          action_type: 'ask',
          executor_kind: 'agent',
          inverse: () => 'none_needed',
          async approval() {
            if (held === 'approval') await wait()
            return { policy: 'always_allow', tool: 'ask', arguments: {}, description: 'Ask?' }
          },
          async execute(_, { act }) {
            if (held === 'execute') await wait()
            await act(newAction({ action_type: 'function', executor_kind: 'agent', params: { name: 'work' } }))
            return {}
          },
        }
        return having({ work: () => void called.push(name) }, asks)
      }
      const timers = manualClock()
      const stopping = () => {
        asked.open()
        return answered.opened
      }
      const stopped = await start({ ...as('stopped', stopping), clock: { ...timers, now: clock.now } })
      const run = await stopped.submit(flowOf({ one: { binding: { action_type: 'ask', params: {} } } }))
      await asked.opened
      const other = await start(as('other', async () => undefined))
      expect(await inTime(clock, (await other.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
      answered.open()
      await inTime(timers, run.result())
      expect(called).toEqual(['other'])
      await inTime(timers, stopped.close())
      await inTime(clock, other.close())
    },
  )

  it('is not lost while the store answers, however late', async () => {
    const clock = manualClock()
    const backend = memoryBackend({ clock })
    const store: Backend = {
      ...backend,
      async renew(lease) {
        await clock.sleep(2_000)
        return backend.renew(lease)
      },
    }
    const ownership = (await own('a context', { store, clock, holder, ttlMs: TTL_MS }))!
    await clock.advance(10 * TTL_MS)
    expect(ownership.lost.aborted).toBe(false)
    const released = ownership.release()
    await clock.advance(TTL_MS)
    await released
  })
})

describe('a tick that others have overtaken', () => {
  it('is decided anew: a plan that is to start in a context that is suspended at that moment', async () => {
    const { start, clock } = world({})
    const held = heldCommit('the plan was approved and starts')
    const owner = await start({}, held.seen)
    const other = await start({ mine: new Set() })
    const run = await owner.submit(chainOf(1, { approval: {} }))
    const [asked] = await owner.waiting()
    const decided = owner.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
    await inTime(clock, held.reached)
    const { context_id } = run
    await other.call('context', { intent: 'suspend', context_id })
    held.letGo()
    await decided
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await other.call('context', { intent: 'activate', context_id })
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(owner.errors).toEqual([])
    await inTime(clock, Promise.all([owner.close(), other.close()]))
  })

  it('lands all the same: a question whose time is over when its answer arrives, and only its step is skipped', async () => {
    const WEEK_MS = 7 * 24 * 60 * 60 * 1000
    const { start, clock } = world({}, { leaseTtlMs: 10 * WEEK_MS, patrolMs: 10 * WEEK_MS, quietMs: 10 * WEEK_MS })
    const held = heldCommit('"cancelled"')
    const owner = await start({}, held.seen)
    const late = { ...clock, now: () => clock.now() - 1_000 } // its clock goes a little slow
    const other = await start({ mine: new Set(), clock: late })
    const binding = { approval: 'ask', on_failure: 'skip' } as const
    const run = await owner.submit(flowOf({ asks: { call: 'noop', binding }, next: { call: 'noop', after: ['asks'] } }))
    const graph = await owner.project.context(run.context_id)
    await until(clock, () => [...graph.state.nodesOf(run.plan_id)].some(({ kind }) => kind === 'gate'))
    const asked = (await other.waiting())[0]!
    await clock.advance(WEEK_MS)
    await inTime(clock, held.reached)
    await other.decide(asked.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
    held.letGo()
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect((await graph.document('plan', run.plan_id)).steps.map(({ status }) => status)).toEqual([
      'skipped',
      'completed',
    ])
    expect(owner.errors).toEqual([])
  })

  it('lands with what arrived, which is not done again: a question is answered when the run fails', async () => {
    let calls = 0
    const { start, clock } = world({
      fails() {
        calls++
        throw new Error('boom')
      },
    })
    const held = heldCommit('"phase":"ended"')
    const owner = await start({}, held.seen)
    const other = await start({ mine: new Set() })
    const run = await owner.submit(flowOf({ asks: { call: 'noop', binding: { approval: 'ask' } }, fails: {} }))
    await inTime(clock, held.reached)
    const [asked] = await other.waiting()
    await other.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
    held.letGo()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', error: { message: 'boom' } })
    expect(calls).toBe(1)
    await inTime(clock, Promise.all([owner.close(), other.close()]))
  })

  it('is given up when it is refused whatever others write', async () => {
    let calls = 0
    const { start, clock } = world({
      async busy() {
        calls++
        await other.call('context', { intent: 'update', context_id: run.context_id, title: `call ${calls}` })
        return null
      },
    })
    const other = await start({ mine: new Set() })
    const owner = await start({ switched: new Set(['lifecycle.step.in_progress->completed']) })
    const run = await owner.submit(flowOf({ busy: {} }))
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', error: { code: 'rule_violation' } })
    expect(calls).toBe(3)
    await inTime(clock, Promise.all([owner.close(), other.close()]))
  })
})

describe('a tick that is refused though nobody has written since', () => {
  it('ends its run at once, and tells what is under way to stop', async () => {
    let calls = 0
    let stopped: AbortSignal | undefined
    const { start, clock } = world({
      quick: () => void calls++,
      slow: (_, { signal }) => {
        stopped = signal
        return new Promise(() => undefined)
      },
    })
    const owner = await start({ switched: new Set(['lifecycle.step.in_progress->completed']) })
    const run = await owner.submit(flowOf({ slow: {}, quick: {} }))
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', error: { code: 'rule_violation' } })
    expect(calls).toBe(1)
    expect(stopped?.aborted).toBe(true)
    await inTime(clock, owner.close())
  })
})

describe('a context with many runs', () => {
  it('is kept without a warning of the process', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    onTestFinished(() => warned.mockRestore())
    let letGo: (output: null) => void = () => undefined
    const free = new Promise<null>((resolve) => {
      letGo = resolve
    })
    const runtime = await runtimeOf({ work: () => free })
    const { context, plan, bindings } = flowOf({ work: {} })
    const runs = [await runtime.submit({ context, plan, bindings: bindings! })]
    while (runs.length < 12) {
      const next = flowOf({ work: {} })
      const { context_id } = plan
      runs.push(await runtime.submit({ ...next, context: context_id, plan: { ...next.plan, context_id } }))
    }
    letGo(null)
    for (const run of runs) expect(await run.result()).toMatchObject({ success: true })
    await runtime.close()
    expect(warned).not.toHaveBeenCalled()
  })
})

describe('a step that is cut off again and again', () => {
  it('is held for a person after twenty times, and goes on when somebody agrees', async () => {
    let isDeadly = true
    const keys = new Set<string>()
    const { start, clock } = world({
      heavy: (_, { idempotency_key }) => {
        keys.add(idempotency_key)
        return isDeadly ? new Promise(() => undefined) : null
      },
    })
    const runtimes = [await start()]
    const run = await runtimes[0]!.submit(flowOf({ heavy: { binding: { timeout_ms: 3_600_000 } } }))
    const attemptsOf = async () => {
      const graph = await runtimes.at(-1)!.project.context(run.context_id)
      await graph.refresh()
      const actions = [...graph.state.nodesOf(run.plan_id)].filter((node) => node.kind === 'action')
      return actions.map((node) => node.data as { attempts: number; status: string })[0]
    }
    for (let cut = 1; cut <= 20; cut++) {
      runtimes.at(-1)!.die()
      runtimes.push(await start())
      for (let action = await attemptsOf(); action?.attempts !== cut + 1; action = await attemptsOf())
        await clock.advance(50)
    }
    expect(await attemptsOf()).toMatchObject({ status: 'waiting', attempts: 21 })
    const [asked] = await runtimes.at(-1)!.waiting()
    expect(asked?.confirm.reason).toBe('heavy (function): was cut off 20 times')
    isDeadly = false
    await runtimes.at(-1)!.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
    const again = await runtimes.at(-1)!.get(run.run_id)
    expect(await inTime(clock, again.result())).toMatchObject({ status: 'completed' })
    expect(keys.size).toBe(1)
    await inTime(clock, runtimes.at(-1)!.close())
  })

  it('is given up after twenty times on the way back, and what is left to take back is taken back', async () => {
    const backs: string[] = []
    const { start, clock } = world({
      first: () => null,
      second: () => null,
      third: () => {
        throw new Error('declined')
      },
      back: (which) => {
        backs.push(String(which))
        return which === 'second' ? new Promise(() => undefined) : null
      },
    })
    const undoneBy = (args: string) => ({ inverse: { action_type: 'function', params: { name: 'back', args } } })
    const flow = flowOf({
      first: { binding: undoneBy('first') },
      second: { after: ['first'], binding: undoneBy('second') },
      third: { after: ['second'], binding: { on_failure: 'compensate' } },
    })
    let runtime = await start()
    const { run_id } = await runtime.submit(flow)
    for (let cut = 1; cut <= 20; cut++) {
      await until(clock, () => backs.length === cut)
      runtime.die()
      runtime = await start()
    }
    const { error, undone } = await inTime(clock, (await runtime.get(run_id)).result())
    expect(backs).toEqual([...Array(20).fill('second'), 'first'])
    expect(error).toMatchObject({ message: 'declined' })
    expect(undone).toMatchObject([
      { status: 'failed', error: { code: 'interrupted', message: expect.stringContaining('cut off 20 times') } },
      { status: 'undone' },
    ])
    await inTime(clock, runtime.close())
  })
})
