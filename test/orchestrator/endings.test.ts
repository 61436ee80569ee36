import { describe, expect, it } from 'vitest'
import type { Adapter, Outcome } from '../../src/ael/adapter.ts'
import { actionLayer, passingFailure } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { ActionError } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import { pathsOf } from '../../src/psg/paths.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { chainOf, flowOf, having } from '../support/flows.ts'
import { door, inTheFirstOfTwo, inTime, noted, passes, until, world } from '../support/on-a-clock.ts'

const boom = () => {
  throw new Error('the true cause')
}
const takenBackBy = (name: string) => ({ binding: { inverse: { action_type: 'function', params: { name } } } })
const compensating = { binding: { on_failure: 'compensate' as const } }
const approved = { status: 'approved', decided_by_role: 'somebody' } as const

describe('what was decided about a run outlives its process', () => {
  it('when it is a cancel, taken in while an action was slow to stop', async () => {
    const { start, clock, called, slow, first, run } = await inTheFirstOfTwo()
    await first.cancel(run.run_id)
    const graph = await first.project.context(run.context_id)
    await until(clock, () => graph.get('run', run.run_id)?.data.ending !== undefined)
    first.die()
    const second = await start()
    const again = await second.get(run.run_id)
    expect(await inTime(clock, again.result())).toMatchObject({ status: 'cancelled' })
    expect(called).toEqual(['one'])
    expect(await (await second.project.context(run.context_id)).verify()).toEqual([])
    slow.open()
    await inTime(clock, second.close())
  })

  it('when it is a failure that takes everything back', async () => {
    const called: string[] = []
    const say = (name: string) => () => void called.push(name)
    const slow = door()
    const { start, clock } = world({
      make: say('make'),
      unmake: say('unmake'),
      slow: () => slow.opened.then(() => null),
      later: say('later'),
      boom,
    })
    const first = await start()
    const run = await first.submit(
      flowOf({
        make: takenBackBy('unmake'),
        slow: { after: ['make'] },
        boom: { after: ['make'], ...compensating },
        later: { after: ['slow'] },
      }),
    )
    const graph = await first.project.context(run.context_id)
    await until(clock, () => graph.get('run', run.run_id)?.data.ending !== undefined)
    first.die()
    const second = await start()
    const result = await inTime(clock, (await second.get(run.run_id)).result())
    expect(result).toMatchObject({ status: 'failed', error: { message: 'the true cause' } })
    expect(called).toEqual(['make', 'unmake'])
    slow.open()
    await inTime(clock, second.close())
  })

  it('when it dies on the way back: the run still says why', async () => {
    const slow = door()
    let calls = 0
    const { start, clock } = world({
      make: () => 1,
      unmake: () => {
        calls++
        return calls === 1 ? slow.opened.then(() => 1) : 1
      },
      boom,
    })
    const first = await start()
    const run = await first.submit(flowOf({ make: takenBackBy('unmake'), boom: { after: ['make'], ...compensating } }))
    await until(clock, () => calls === 1)
    first.die()
    const second = await start()
    const result = await inTime(clock, (await second.get(run.run_id)).result())
    expect(result).toMatchObject({ status: 'failed', error: { message: 'the true cause' } })
    expect(calls).toBe(2)
    slow.open()
    await inTime(clock, second.close())
  })

  it('when it is a pause: whoever opens the store starts nothing, and goes on when it is told to', async () => {
    const { start, clock, called, slow, first, run } = await inTheFirstOfTwo()
    await first.pause(run.run_id)
    const graph = await first.project.context(run.context_id)
    await until(clock, () => graph.get('run', run.run_id)?.data.pausing === true)
    first.die()
    const second = await start()
    const taken = await second.project.context(run.context_id)
    await until(clock, () => taken.get('run', run.run_id)?.data.phase === 'paused')
    expect(called).toEqual(['one'])
    slow.open()
    await second.resume(run.run_id)
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['one', 'one', 'two'])
    await inTime(clock, second.close())
  })
})

describe('closing', () => {
  it('lets what is under way end and begins nothing after it, which is left to the next process', async () => {
    const { start, clock, called, slow, first, run } = await inTheFirstOfTwo()
    const closed = first.close()
    slow.open()
    await inTime(clock, closed)
    expect(called).toEqual(['one'])
    const second = await start()
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['one', 'two'])
    await inTime(clock, second.close())
  })

  it('waits for nothing that is under way once its signal is aborted', async () => {
    const { start, clock, called, slow, first, run } = await inTheFirstOfTwo()
    const [began, enough] = [clock.now(), new AbortController()]
    const closed = first.close(enough.signal)
    await passes(clock, 500)
    enough.abort()
    await inTime(clock, closed)
    expect(clock.now() - began).toBeLessThan(1_000)
    slow.open()
    const second = await start()
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['one', 'one', 'two'])
    await inTime(clock, second.close())
  })

  it('leaves what does not end in time to the next process, under the same key, and fails nothing', async () => {
    const keys: string[] = []
    const { start, clock } = world({
      slow: (_: Json, { signal, idempotency_key }: { signal: AbortSignal; idempotency_key: string }) => {
        keys.push(idempotency_key)
        if (keys.length > 1) return 'done'
        return new Promise<Json>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    })
    const first = await start({ drainMs: 100 })
    const run = await first.submit(flowOf({ slow: {} }))
    await until(clock, () => keys.length === 1)
    await inTime(clock, first.close())
    const second = await start()
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
    expect(new Set(keys).size).toBe(1)
    await inTime(clock, second.close())
  })

  it.each([0, 1_000])(
    'begins nothing more, neither a retry after %i ms nor what is approved meanwhile',
    async (delay_ms) => {
      const slow = door()
      const called: string[] = []
      const { start, clock } = world({
        slow: () => slow.opened.then(() => null),
        flaky: async () => {
          called.push('flaky')
          if (called.length > 1) return null
          await clock.sleep(100)
          throw passingFailure('not now')
        },
        asked: () => {
          called.push('asked')
          return null
        },
      })
      const first = await start()
      const retry = { strategy: 'fixed', max_attempts: 3, delay_ms } as const
      const run = await first.submit(
        flowOf({ slow: {}, flaky: { binding: { retry } }, asked: { binding: { approval: 'ask' } } }),
      )
      await until(clock, () => called.length === 1)
      const graph = await first.project.context(run.context_id)
      await until(clock, () => [...graph.state.nodesOf(run.plan_id)].some(({ kind }) => kind === 'gate'))
      const [asked] = await first.waiting()
      const closing = first.close()
      const desk = await start({ mine: new Set() })
      await inTime(clock, desk.decide(asked!.confirm.confirm_id, approved))
      await passes(clock, 5_000)
      expect(called).toEqual(['flaky'])
      slow.open()
      await inTime(clock, closing)
      expect(called).toEqual(['flaky'])
      const second = await start()
      expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
      expect(called.toSorted()).toEqual(['asked', 'flaky', 'flaky'])
      await inTime(clock, Promise.all([second.close(), desk.close()]))
    },
  )
})

describe('a run on its way back', () => {
  it('is handed over at the next boundary when its process closes, and tells of the whole way in the end', async () => {
    let undone = 0
    const { start, clock } = world({
      boom,
      make: () => 1,
      async unmake() {
        await clock.sleep(1_000)
        undone++
        return null
      },
    })
    const first = await start()
    const made = { call: 'make', ...takenBackBy('unmake') }
    const flow = flowOf({
      one: made,
      two: { ...made, after: ['one'] },
      three: { ...made, after: ['two'] },
      boom: { after: ['three'], ...compensating },
    })
    const run = await first.submit(flow)
    await until(clock, () => run.phase === 'undoing')
    await inTime(clock, first.close())
    expect(undone).toBe(1)
    const second = await start()
    await inTime(clock, (await second.get(run.run_id)).result())
    expect(undone).toBe(3)
    const graph = await second.project.context(run.context_id)
    expect(graph.get('run', run.run_id)?.data.result).toMatchObject({
      undone: ['three', 'two', 'one'].map((name) => ({ step_id: flow.ids[name], status: 'undone' })),
    })
    expect(await graph.verify()).toEqual([])
    await inTime(clock, second.close())
  })

  it('is told to its end by a process that closes when nothing is left to take back', async () => {
    const slow = door()
    const { start, clock, store } = world({ boom, make: () => 1, unmake: () => slow.opened.then(() => 1) })
    const runtime = await start()
    const made = { call: 'make', ...takenBackBy('unmake') }
    const run = await runtime.submit(flowOf({ made, boom: { after: ['made'], ...compensating } }))
    await until(clock, () => run.phase === 'undoing')
    const closed = runtime.close()
    slow.open()
    await inTime(clock, closed)
    expect(run.phase).toBe('ended')
    const told: string[] = []
    for await (const entry of store.read(run.context_id))
      told.push(...eventsIn(entry).map(({ event }) => event.event_type))
    expect(told).toContain('rollback_executed')
  })

  it('begins nothing that is approved meanwhile', async () => {
    const called: string[] = []
    const slow = door()
    const { start, clock } = world({
      make: () => 1,
      unmake: () => slow.opened.then(() => 1),
      pay: () => void called.push('pay'),
      boom,
    })
    const runtime = await start()
    const run = await runtime.submit(
      flowOf({
        make: takenBackBy('unmake'),
        pay: { binding: { approval: 'ask' } },
        boom: { after: ['make'], ...compensating },
      }),
    )
    await until(clock, () => run.phase === 'undoing')
    const [question] = await runtime.waiting()
    await runtime.decide(question!.confirm.confirm_id, approved)
    slow.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed' })
    expect(called).toEqual([])
    await inTime(clock, runtime.close())
  })

  it('takes back what was completed together with the failure', async () => {
    const { called, functions } = noted('make', 'unmake')
    const { start, clock } = world({ ...functions, boom })
    const runtime = await start()
    const run = await runtime.submit(flowOf({ make: takenBackBy('unmake'), boom: compensating }))
    await inTime(clock, run.result())
    expect(called).toEqual(['make', 'unmake'])
    await inTime(clock, runtime.close())
  })

  it('takes back what was under way and did not hear that it was to stop', async () => {
    const called: string[] = []
    const say = (name: string) => () => void called.push(name)
    const slow = door()
    const { start, clock } = world({
      reserve: () => slow.opened.then(say('reserve')),
      release: say('release'),
      boom,
    })
    const runtime = await start()
    const run = await runtime.submit(flowOf({ reserve: takenBackBy('release'), boom: compensating }))
    const graph = await runtime.project.context(run.context_id)
    await until(clock, () => graph.get('run', run.run_id)?.data.ending !== undefined)
    slow.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', undone: [{ status: 'undone' }] })
    expect(called).toEqual(['reserve', 'release'])
    expect(await graph.verify()).toEqual([])
    await inTime(clock, runtime.close())
  })

  it('is not kept from it by a budget that is used up', async () => {
    const called: string[] = []
    const say = (name: string) => () => void called.push(name)
    const layer = (hands: Hands) =>
      actionLayer({ ...hands, adapters: [functionAdapter({ a: say('a'), b: say('b'), back: say('back') })] })
    const { start, clock } = world({}, { layer })
    const runtime = await start()
    const options = { budget: { actions: 1 }, on_failure: 'compensate' } as const
    const run = await runtime.submit(flowOf({ a: takenBackBy('back'), b: { after: ['a'] } }, { options }))
    expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'budget_exceeded' } })
    expect(called).toEqual(['a', 'back'])
    await inTime(clock, runtime.close())
  })

  it('gives an inverse the outputs of what its step depends on', async () => {
    const seen: Json[] = []
    const { start, clock } = world({
      make: () => ({ id: 42 }),
      act: () => 1,
      boom,
      undo: (args: Json) => void seen.push(args),
    })
    const runtime = await start()
    const flow = flowOf({ make: {}, act: { after: ['make'] }, boom: { after: ['act'], ...compensating } })
    const inverse = (from: string) => ({
      action_type: 'function',
      params: { name: 'undo', args: { $from: from, path: 'id' } },
    })
    const withInverse = (from: string) => {
      const act = { ...flow.bindings!.steps![flow.ids.act!]!, inverse: inverse(from) }
      return { ...flow, bindings: { steps: { ...flow.bindings!.steps, [flow.ids.act!]: act } } }
    }
    await expect(runtime.submit(withInverse(flow.ids.boom!))).rejects.toMatchObject({
      problems: [{ path: `bindings.steps.${flow.ids.act}.inverse.params.args`, rule: 'dependency' }],
    })
    await inTime(clock, (await runtime.submit(withInverse(flow.ids.make!))).result())
    expect(seen).toEqual([42])
    await inTime(clock, runtime.close())
  })
})

describe('answers that are taken in together', () => {
  const rejected = { status: 'rejected', decided_by_role: 'somebody' } as const

  it.each([0, 1])('use no approval once one of them has ended the run: question %i is rejected', async (no) => {
    const called: string[] = []
    const say = (name: string) => () => void called.push(name)
    const { start, clock } = world({ pay: say('pay'), send: say('send') })
    const ask = { binding: { approval: 'ask' as const } }
    const first = await start()
    const run = await first.submit(flowOf({ pay: ask, send: ask }))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    first.die()
    const desk = await start({ mine: new Set() })
    const questions = await desk.waiting()
    for (const [i, { confirm }] of questions.entries())
      await desk.decide(confirm.confirm_id, i === no ? rejected : approved)
    const second = await start()
    const again = await second.get(run.run_id)
    expect(await inTime(clock, again.result())).toMatchObject({ status: 'failed', error: { code: 'action_rejected' } })
    const nodes = [...(await second.project.context(run.context_id)).state.nodesOf(run.plan_id)]
    const gates = nodes.flatMap(({ kind, data }) => (kind === 'gate' && data.target.kind === 'action' ? [data] : []))
    expect(gates.map(({ used_by }) => used_by)).toEqual([undefined, undefined])
    expect(nodes.flatMap(({ kind, data }) => (kind === 'action' ? [data.status] : [])).sort()).toEqual([
      'cancelled',
      'failed',
    ])
    expect(called).toEqual([])
    await inTime(clock, Promise.all([second.close(), desk.close()]))
  })
})

describe('a question that is asked at the very moment at which its run ends', () => {
  it('is withdrawn with it, so that nobody is asked for nothing', async () => {
    const asks: Adapter = {
      executor_kind: 'worker',
      action_type: 'pay',
      approval: (params) => ({ policy: 'ask', tool: 'pay', arguments: params, description: 'Pay?' }),
      execute: async () => ({ output: null }),
    }
    const { start, clock, store } = world({}, having({ boom }, asks))
    const runtime = await start()
    const run = await runtime.submit(flowOf({ pay: { binding: { action_type: 'pay', params: {} } }, boom: {} }))
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed' })
    const graph = await runtime.project.context(run.context_id)
    const asked = [...graph.state.nodesOf(run.plan_id)].flatMap(({ kind, data }) =>
      kind === 'confirm' && data.target_type === 'other' ? [data.status] : [],
    )
    expect(asked).toEqual(['cancelled'])
    expect(await runtime.waiting()).toEqual([])
    for await (const [key] of store.scan('timer/')) throw new Error(`${key} is left`)
    await inTime(clock, runtime.close())
  })
})

describe('who carries an action out', () => {
  it.each([
    ['its adapter says', {}, 'external'],
    ['its binding says', { executor_kind: 'agent' as const }, 'agent'],
  ])('is told as %s', async (_, said, executor_kind) => {
    const own: Adapter = { action_type: 'own', executor_kind: 'external', execute: async () => ({}) }
    const { start, store, clock } = world({}, { layer: actionLayer({ adapters: [own] }) })
    const runtime = await start()
    const flow = flowOf({ own: { binding: { action_type: 'own', params: {}, ...said } } })
    const run = await runtime.submit(flow)
    await inTime(clock, run.result())
    const told = await executionsIn(store, run.context_id)
    expect(told).toMatchObject([{ executor_kind }, { executor_kind }])
    await inTime(clock, runtime.close())
  })
})

describe('what an action is called', () => {
  const own: Adapter = {
    action_type: 'own',
    executor_kind: 'tool',
    label(params) {
      if (typeof params.what !== 'string') throw new Error('nothing to call it by')
      return `own ${params.what}`
    },
    execute: async () => ({ output: 'mail' }),
  }

  it.each([
    ['as its adapter says', { what: 'post' }, 'own post'],
    ['by its type while its params are to be filled in', { what: { $from: 'first' } }, 'own'],
    ['by its type where its adapter cannot say', { what: 1 }, 'own'],
  ])('is told %s', async (_, params, operation) => {
    const { start, store, clock } = world({}, { layer: actionLayer({ adapters: [own] }) })
    const runtime = await start()
    const flow = flowOf({
      first: { binding: { action_type: 'own', params: { what: 'this' } } },
      own: { after: ['first'] },
    })
    const [first, second] = flow.plan.steps.map(({ step_id }) => step_id)
    const filled = JSON.parse(JSON.stringify(params).replace('"first"', JSON.stringify(first)))
    const bindings = { ...flow.bindings!.steps, [second!]: { action_type: 'own', params: filled } }
    const run = await runtime.submit({ ...flow, bindings: { steps: bindings } })
    await inTime(clock, run.result())
    const told = await executionsIn(store, run.context_id)
    expect(told.map(({ payload }) => (payload as JsonObject).operation)).toEqual([
      'own this',
      'own this',
      operation,
      operation,
    ])
    await inTime(clock, runtime.close())
  })
})

async function executionsIn(store: Backend, context: string): Promise<readonly JsonObject[]> {
  const told: JsonObject[] = []
  for await (const entry of store.read(context))
    for (const { event } of eventsIn(entry))
      if (event.event_family === 'runtime_execution') told.push(event as unknown as JsonObject)
  return told
}

describe('a tick that the graph refuses', () => {
  const own = (execute: () => Outcome): Adapter => ({
    action_type: 'own',
    executor_kind: 'worker',
    execute: async () => execute(),
  })
  it.each<[string, () => Outcome]>([
    ['a cost that is no number', () => ({ output: 1, cost: Number.NaN })],
    ['an output that is too deep', () => ({ output: JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`) })],
  ])('ends its run instead of letting it hang: %s', async (_, execute) => {
    const layer = actionLayer({ adapters: [own(execute), functionAdapter({ noop: () => null })] })
    const { start, clock } = world({}, { layer })
    const runtime = await start()
    const steps = { a: { binding: { action_type: 'own', params: {} } }, b: { call: 'noop', after: ['a'] } }
    const run = await runtime.submit(flowOf(steps))
    expect((await inTime(clock, run.result())).success).toBe(false)
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await inTime(clock, runtime.close())
  })
})

describe('while a run is paused', () => {
  it('no attempt begins, be its time come or its approval there; afterwards both do', async () => {
    let attempts = 0
    const called: string[] = []
    const slow = door()
    const { start, clock } = world({
      flaky: () => {
        attempts++
        throw new ActionError('action_failed', 'not yet', { retryable: true })
      },
      slow: () => slow.opened.then(() => null),
      asked: () => void called.push('asked'),
    })
    const runtime = await start()
    const retry = { strategy: 'fixed' as const, max_attempts: 2, delay_ms: 100 }
    const run = await runtime.submit(
      flowOf({ flaky: { binding: { retry } }, slow: {}, asked: { binding: { approval: 'ask' } } }),
    )
    await until(clock, () => attempts === 1)
    await runtime.pause(run.run_id)
    const graph = await runtime.project.context(run.context_id)
    await until(clock, () => graph.get('run', run.run_id)?.data.pausing === true)
    const [question] = await runtime.waiting()
    await runtime.decide(question!.confirm.confirm_id, approved)
    await clock.advance(1_000)
    expect([attempts, called]).toEqual([1, []])
    await runtime.resume(run.run_id)
    await until(clock, () => attempts === 2)
    slow.open()
    await inTime(clock, run.result())
    expect(called).toEqual(['asked'])
    await inTime(clock, runtime.close())
  })
})

describe('time', () => {
  const wait = { binding: { action_type: 'wait', params: { signal: 'go' } } }
  it.each<[string, Parameters<typeof flowOf>[0], object, string]>([
    ['a signal', { w: wait }, {}, 'failed'],
    ['a person about an action', { noop: { binding: { approval: 'ask' } } }, {}, 'failed'],
    ['a person about the plan', { noop: {} }, { approval: {} }, 'cancelled'],
  ])('ends a run at its deadline that waits for %s', async (_, steps, more, status) => {
    const { start, clock, store } = world({})
    const runtime = await start()
    const deadline = new Date(clock.now() + 60_000).toISOString()
    const run = await runtime.submit(flowOf(steps, { ...more, options: { deadline } }))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await clock.advance(30_000)
    expect(run.phase).toBe('waiting')
    expect(await inTime(clock, run.result())).toMatchObject({ status, error: { code: 'deadline' } })
    await inTime(clock, runtime.close())
    for (const index of ['timer/', 'waiting/', 'running/', 'resting/'])
      for await (const [key] of store.scan(index)) throw new Error(`${key} is left`)
  })

  it('ends a paused run at its deadline, and wakes it for nothing else', async () => {
    let attempts = 0
    const { start, clock, store } = world({
      flaky: () => {
        attempts++
        throw new ActionError('action_failed', 'not yet', { retryable: true })
      },
    })
    const runtime = await start()
    const retry = { strategy: 'fixed' as const, max_attempts: 9, delay_ms: 10_000 }
    const deadline = new Date(clock.now() + 60_000).toISOString()
    const run = await runtime.submit(flowOf({ flaky: { binding: { retry } } }, { options: { deadline } }))
    await until(clock, () => run.phase === 'waiting')
    await runtime.pause(run.run_id)
    await until(clock, () => run.phase === 'paused')
    const { revision } = await store.head(run.context_id)
    await clock.advance(30_000)
    expect([attempts, (await store.head(run.context_id)).revision]).toEqual([1, revision])
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', error: { code: 'deadline' } })
    expect(attempts).toBe(1)
    await inTime(clock, runtime.close())
    for await (const [key] of store.scan('timer/')) throw new Error(`${key} is left`)
  })

  it.each(['retry', 'hold'] as const)(
    'does not try again what was cut off (%s) when the deadline is over by the time somebody comes, and leaves no segment open',
    async (on_interrupt) => {
      let calls = 0
      const { start, clock } = world({
        slow: () => {
          calls++
          return new Promise(() => undefined)
        },
      })
      const first = await start()
      const deadline = new Date(clock.now() + 60_000).toISOString()
      const run = await first.submit(flowOf({ slow: { binding: { on_interrupt } } }, { options: { deadline } }))
      await until(clock, () => calls === 1)
      first.die()
      await clock.advance(60_000)
      const second = await start()
      const result = await inTime(clock, (await second.get(run.run_id)).result())
      expect(result).toMatchObject({ status: 'failed', error: { code: 'deadline' } })
      expect(calls).toBe(1)
      const trace = await (await second.project.context(run.context_id)).document('trace', run.trace_id)
      expect(trace.segments).toMatchObject([{ status: 'failed', attributes: { interrupted: true } }])
      await inTime(clock, second.close())
    },
  )

  it('ends a plan’s question that nobody answers, and its run', async () => {
    const { start, clock, store } = world({})
    const runtime = await start()
    const run = await runtime.submit(chainOf(1, { approval: { expires_ms: 60_000 } }))
    const result = await inTime(clock, run.result())
    expect(result).toMatchObject({ status: 'cancelled', error: { code: 'approval_expired' } })
    expect(await runtime.waiting()).toEqual([])
    await inTime(clock, runtime.close())
    for await (const [key] of store.scan('timer/')) throw new Error(`${key} is left`)
  })

  it.each(['nobody answers', 'it is cancelled', 'whoever was asked withdraws it', 'its plan is withdrawn'])(
    'ends a run before it started with its trace, and leaves no timer, when %s',
    async (when) => {
      const { start, clock, store } = world({})
      const runtime = await start()
      const run = await runtime.submit(chainOf(1, { approval: { expires_ms: 60_000 } }))
      expect(await inTime(clock, run.rest())).toBe('waiting')
      const [question] = await runtime.waiting()
      if (when === 'it is cancelled') await runtime.cancel(run.run_id)
      if (when === 'whoever was asked withdraws it')
        await runtime.decide(question!.confirm.confirm_id, { status: 'cancelled', decided_by_role: 'somebody' })
      if (when === 'its plan is withdrawn')
        await pathsOf(runtime.project).patchPlanStatus(run.plan_id, 'cancelled', { actor: 'x', reason: 'y' })
      const code = when === 'nobody answers' ? 'approval_expired' : 'cancelled'
      expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled', error: { code } })
      const graph = await runtime.project.context(run.context_id)
      const time = expect.stringMatching(/Z$/)
      expect(await graph.document('trace', run.trace_id)).toMatchObject({ status: 'cancelled', finished_at: time })
      expect((await graph.find('run', run.run_id))?.data).toMatchObject({ phase: 'ended', ended_at: time })
      await inTime(clock, runtime.close())
      for (const index of ['timer/', 'waiting/', 'running/'])
        for await (const [key] of store.scan(index)) throw new Error(`${key} is left`)
    },
  )

  it('ends an approval that nobody used, of a plan and of an action', async () => {
    const { start, clock } = world({ noop: () => null })
    const desk = await start({ mine: new Set() })
    const plan = await desk.submit(chainOf(1, { approval: { expires_ms: 60_000 } }))
    const worker = await start()
    const action = await worker.submit(flowOf({ noop: { binding: { approval: 'ask' } } }))
    await inTime(clock, action.rest())
    await inTime(clock, worker.close())
    for (const { confirm } of await desk.waiting()) await desk.decide(confirm.confirm_id, approved)
    await inTime(clock, desk.close())
    await clock.advance(8 * 24 * 60 * 60 * 1000)
    const late = await start()
    const ended = await inTime(clock, (await late.get(plan.run_id)).result())
    expect(ended).toMatchObject({ status: 'cancelled', error: { code: 'approval_expired' } })
    expect(await inTime(clock, (await late.get(action.run_id)).result())).toMatchObject({
      success: false,
      error: { code: 'action_rejected', message: 'function had no approval in time' },
    })
    await inTime(clock, late.close())
  })

  it('does not make the tokens of failed attempts come back', async () => {
    let calls = 0
    const spend = () => {
      calls++
      throw new ActionError('action_failed', 'no', { retryable: true, spent: { tokens: 60 } })
    }
    const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [functionAdapter({ spend })] })
    const { start, clock } = world({}, { layer })
    const runtime = await start()
    const retry = { strategy: 'fixed' as const, max_attempts: 6, delay_ms: 5_000 } // long enough to be laid down
    const options = { budget: { tokens: 100 } }
    const run = await runtime.submit(flowOf({ spend: { binding: { retry } } }, { options }))
    expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'budget_exceeded' } })
    expect(calls).toBe(2)
    await inTime(clock, runtime.close())
  })
})
