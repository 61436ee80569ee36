import { describe, expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { handoffAdapter } from '../../src/ael/handoff.ts'
import { httpAdapter } from '../../src/ael/http.ts'
import { toolAdapter, toolRegistry } from '../../src/ael/tool.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { chainOf, flowOf, having, type runtimeOf } from '../support/flows.ts'
import { door, inTime, passes, until, world } from '../support/on-a-clock.ts'

/** Counts what a process asks of the store. */
function counting() {
  const counts = { acquired: 0, commits: 0, reads: 0 }
  const seen = (store: Backend): Backend => ({
    ...store,
    acquire(...asked) {
      counts.acquired++
      return store.acquire(...asked)
    },
    commit(write) {
      counts.commits++
      return store.commit(write)
    },
    read(...asked) {
      counts.reads++
      return store.read(...asked)
    },
  })
  return { counts, seen }
}

type Started = Pick<Awaited<ReturnType<typeof runtimeOf>>, 'decide' | 'waiting' | 'signal' | 'cancel'>
const YES = { status: 'approved', decided_by_role: 'lead' } as const
const SIGNAL = { binding: { action_type: 'wait', params: { signal: 'go' } } }
const SLEEP = { binding: { action_type: 'wait', params: { ms: 5_000 } } }

type Submitted = Parameters<typeof flowOf>[0]
const TWO: Submitted = { one: {}, mail: { after: ['one'] } }

/** A run whose owner died while it was in `mail`. */
async function leftBehind(steps = TWO, more: Parameters<typeof flowOf>[1] = {}) {
  const called: string[] = []
  const slow = door()
  const given = world({
    one: () => void called.push('one'),
    mail: async () => {
      called.push('mail')
      await slow.opened
      return 'sent'
    },
    last: () => 'there',
  })
  const first = await given.start()
  const flow = flowOf(steps, more, given.clock)
  const run = await first.submit(flow)
  await until(given.clock, () => called.includes('mail'))
  first.die()
  return { ...given, called, slow, run, ids: flow.ids }
}

describe('a process that lacks what a run needs', () => {
  it('leaves the run as it is, and says so once, naming the run, the step and what is missing', async () => {
    const { start, clock, store, run, ids } = await leftBehind()
    const { revision } = await store.head(run.context_id)
    const { counts, seen } = counting()
    const unable = await start(having(), seen)
    await until(clock, () => unable.errors.length > 0)
    const { acquired } = counts
    await passes(clock, 100_000)
    const { length } = unable.errors
    const message = `there is no function mail; run ${run.run_id} is left to a process that has it, for step ${ids.mail}, and so is every other that needs it`
    expect(unable.errors).toEqual([new NotFound('function', 'mail', message.split('; ')[1])])
    expect({ length, ...counts }).toMatchObject({ length: 1, commits: 0, acquired })
    expect((await store.head(run.context_id)).revision).toBe(revision)
    expect(await store.acquire(run.context_id, thisHolder('somebody'), 1)).toBeDefined()
    await inTime(clock, unable.close())
  })

  it('says it once of many runs that need the same, and again when it is there and is taken away', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const mail = { action_type: 'tool_call', params: { tool_name: 'mail.send', tool_args: {} } }
    const submit = () => desk.submit(flowOf({ send: { binding: mail } }))
    const first = [await submit(), await submit(), await submit()]
    const tools = toolRegistry()
    const worker = await start(having({}, toolAdapter(tools)))
    await passes(clock, 2_000)
    expect(await worker.list()).toEqual(Array(3).fill(expect.objectContaining({ lacking: expect.anything() })))
    expect(worker.errors).toEqual([expect.objectContaining({ what: 'tool', id: 'mail.send' })])
    tools.register({ name: 'mail.send', description: 'Sends', input: { type: 'object' }, execute: () => 'sent' })
    for (const run of first) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    tools.unregister('mail.send')
    await submit()
    await until(clock, () => worker.errors.length > 1)
    expect(worker.errors[1]).toMatchObject({ what: 'tool', id: 'mail.send' })
    await inTime(clock, Promise.all([desk.close(), worker.close()]))
  })

  it('says of the run what it would need, until another process has seen to it', async () => {
    const { start, clock, slow, run, ids } = await leftBehind()
    const unable = await start(having())
    const [seen] = await unable.list()
    expect(seen).toMatchObject({ run_id: run.run_id, phase: 'running' })
    expect(seen!.lacking).toEqual({ step_id: ids.mail, what: 'function', name: 'mail' })
    const able = await start()
    slow.open()
    expect(await inTime(clock, seen!.result())).toMatchObject({ success: true })
    expect(seen!.lacking).toBeUndefined()
    await inTime(clock, Promise.all([able.close(), unable.close()]))
  })

  it('goes on with the others of the context, and gives it back when they have ended', async () => {
    const { start, clock, called, slow, run } = await leftBehind()
    const desk = await start({ mine: new Set() })
    const flow = chainOf(20)
    const plan = { ...flow.plan, context_id: run.context_id }
    const other = await desk.submit({ ...flow, context: run.context_id, plan })
    const unable = await start(having())
    expect(await inTime(clock, other.result())).toMatchObject({ success: true })
    expect(run.phase).toBe('running')
    expect(unable.errors).toHaveLength(1)
    const able = await start()
    slow.open()
    expect(await inTime(clock, (await desk.get(run.run_id)).result())).toMatchObject({ success: true })
    expect(called).toEqual(['one', 'mail', 'mail']) // the second time under the same key, for the first was cut off
    await inTime(clock, Promise.all([desk.close(), able.close(), unable.close()]))
  })

  it.each([
    ['an adapter', { action_type: 'fax', params: {} }, { what: 'adapter for actions of type', name: 'fax' }],
    [
      'a tool',
      { action_type: 'tool_call', params: { tool_name: 'a.b', tool_args: {} } },
      { what: 'tool', name: 'a.b' },
    ],
  ])('leaves a run that needs %s', async (_, binding, lack) => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const flow = flowOf({ noop: {}, other: { after: ['noop'], binding } })
    const run = await desk.submit(flow)
    const unable = await start(having({}, toolAdapter(toolRegistry())))
    await until(clock, () => unable.errors.length > 0)
    await passes(clock, 2_000)
    expect(unable.errors).toEqual([expect.objectContaining({ what: lack.what, id: lack.name })])
    expect((await unable.get(run.run_id)).lacking).toEqual({ step_id: flow.ids.other, ...lack })
    await inTime(clock, Promise.all([desk.close(), unable.close()]))
  })

  it('takes the run up as soon as it has what was missing', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const binding = { action_type: 'tool_call', params: { tool_name: 'mail.send', tool_args: {} } }
    const run = await desk.submit(flowOf({ send: { binding } }))
    const tools = toolRegistry()
    const worker = await start(having({}, toolAdapter(tools)))
    await until(clock, () => worker.errors.length > 0)
    await passes(clock, 60_000)
    tools.register({ name: 'mail.send', description: 'Sends', input: { type: 'object' }, execute: () => 'sent' })
    await passes(clock, 150) // a round or two
    expect((await worker.get(run.run_id)).phase).toBe('ended')
    expect(await run.result()).toMatchObject({ success: true })
    await inTime(clock, Promise.all([desk.close(), worker.close()]))
  })

  it('takes the run up when another has done the step that needed it, and died', async () => {
    const { start, clock, run } = await leftBehind({ mail: {}, last: { after: ['mail'] } })
    const unable = await start(having({ last: () => 'here' }))
    await until(clock, () => unable.errors.length > 0)
    let isMailed = false
    const mail = () => 'sent'
    const last = () => {
      isMailed = true
      return new Promise<never>(() => undefined)
    }
    const mailer = await start(having({ mail, last }))
    await until(clock, () => isMailed)
    mailer.die()
    const { outputs } = await inTime(clock, (await unable.get(run.run_id)).result())
    expect(Object.values(outputs)).toEqual(['sent', 'here'])
    await inTime(clock, unable.close())
  })

  it('takes up what an adapter cannot say that it lacks: the step tells', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const run = await desk.submit(flowOf({ odd: { binding: { action_type: 'odd', params: {} } } }))
    const lacks = () => {
      throw new Error('cannot say')
    }
    const odd: Adapter = { action_type: 'odd', executor_kind: 'worker', lacks, execute: async () => ({ output: 1 }) }
    const worker = await start(having({}, odd))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(worker.errors).toEqual([new Error('cannot say')])
    await inTime(clock, Promise.all([desk.close(), worker.close()]))
  })
})

describe('a flow that asks for what its process does not have', () => {
  const inverse = (name: string) => ({ binding: { inverse: { action_type: 'function', params: { name } } } })
  const fax = { binding: { action_type: 'fax', params: {} } }
  const tool = { binding: { action_type: 'tool_call', params: { tool_name: 'mail.sned', tool_args: {} } } }
  it.each<[string, Submitted, string]>([
    [
      'a function',
      { refund: {}, refnud: { after: ['refund'] } },
      'the function refnud, which this process does not have; did you mean refund?',
    ],
    [
      'a function unlike any',
      { refund: {}, congratulate: {} },
      'the function congratulate, which this process does not have',
    ],
    [
      'a tool',
      { refund: {}, send: tool },
      'the tool mail.sned, which this process does not have; did you mean mail.send?',
    ],
    ['an adapter', { refund: {}, fax }, 'the adapter for actions of type fax, which this process does not have'],
    [
      'an adapter that a config makes',
      { refund: {}, think: { binding: { action_type: 'llm_call', params: {} } } },
      'the adapter for actions of type llm_call, which this process does not have; it comes with models in the config',
    ],
    ['a way back', { refund: inverse('takeBack') }, 'the function takeBack, which this process does not have'],
  ])('is refused for %s before any of it begins, and leaves nothing behind', async (_, steps, asked) => {
    const called: string[] = []
    const tools = toolRegistry([
      { name: 'mail.send', description: 'Sends', input: { type: 'object' }, execute: () => 'sent' },
    ])
    const { start, clock, store } = world({})
    const runtime = await start(having({ refund: () => void called.push('refund') }, toolAdapter(tools)))
    const flow = flowOf(steps)
    const [step] = Object.keys(steps).slice(-1)
    const isInverse = asked.includes('takeBack')
    const problem = {
      path: `bindings.steps.${flow.ids[step!]}${isInverse ? '.inverse' : ''}`,
      rule: 'lacking',
      message: `of the step “${step}” asks for ${asked}`,
    }
    await expect(runtime.submit(flow)).rejects.toMatchObject({ code: 'invalid_input', problems: [problem] })
    await passes(clock, 2_000)
    expect(called).toEqual([])
    expect(await store.head(flow.plan.context_id)).toEqual({ revision: 0, token: 0 })
    await inTime(clock, runtime.close())
  })

  it.each<[string, BindingSpec, string, string]>([
    ['a function', { action_type: 'function', params: { nam: 'refund' } }, '.params.nam', 'did you mean name?'],
    [
      'what takes it back',
      {
        action_type: 'function',
        params: { name: 'refund' },
        inverse: { action_type: 'function', params: { name: 'refund', arg: 1 } },
      },
      '.inverse.params.arg',
      'did you mean args?',
    ],
    [
      'an HTTP request',
      { action_type: 'http_request', params: { uri: 'https://example.org' } },
      '.params.uri',
      'did you mean url?',
    ],
    [
      'a tool, unlike any',
      { action_type: 'tool_call', params: { tool_name: 'mail.send', to: 'x' } },
      '.params.to',
      'known are tool_name, tool_args',
    ],
  ])('is refused for a parameter of %s that nobody reads, before any of it begins', async (_, binding, at, hint) => {
    const called: string[] = []
    const tools = toolRegistry([
      { name: 'mail.send', description: 'Sends', input: { type: 'object' }, execute: () => 'sent' },
    ])
    const { start, clock, store } = world({})
    const runtime = await start(having({ refund: () => void called.push('refund') }, toolAdapter(tools), httpAdapter()))
    const flow = flowOf({ refund: {}, odd: { after: ['refund'], binding } })
    const problem = {
      path: `bindings.steps.${flow.ids.odd}${at}`,
      rule: 'extra_forbidden',
      message: `of the step “odd” is not known; ${hint}`,
    }
    await expect(runtime.submit(flow)).rejects.toMatchObject({
      code: 'invalid_input',
      problems: expect.arrayContaining([problem]),
    })
    await passes(clock, 2_000)
    expect([called, await store.head(flow.plan.context_id)]).toEqual([[], { revision: 0, token: 0 }])
    await inTime(clock, runtime.close())
  })

  const send = (params: JsonObject): BindingSpec => ({ action_type: 'tool_call', params })
  const mail = (to: Json) => send({ tool_name: 'mail.send', tool_args: { to } })
  const inputOf = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] }
  async function mailing(extra: Adapter[] = []) {
    const tools = toolRegistry([
      { name: 'mail.send', description: 'Sends', input: inputOf, execute: ({ to }) => `sent to ${String(to)}` },
    ])
    const called: string[] = []
    const { start, clock, store } = world({})
    const runtime = await start(having({ refund: () => called.push('refund') }, toolAdapter(tools), ...extra))
    return { runtime, clock, store, called }
  }

  it.each<[string, BindingSpec, string]>([
    ['a value', mail(7), '.params.tool_args.to'],
    [
      'a way back',
      {
        ...mail('Ann'),
        inverse: { action_type: 'tool_call', params: { tool_name: 'mail.send', tool_args: { to: 7 } } },
      },
      '.inverse.params.tool_args.to',
    ],
    ['all of it', send({ tool_name: 'mail.send', tool_args: [] }), '.params.tool_args'],
    ['a role', { action_type: 'agent_handoff', params: { to_role: 'clerk' } }, '.params.to_role'],
  ])('is refused for %s that its adapter will not take, before any of it begins', async (_, binding, path) => {
    const { runtime, clock, store, called } = await mailing([handoffAdapter({ hand: async () => null })])
    const flow = flowOf({ refund: {}, odd: { after: ['refund'], binding } })
    const steps = flow.plan.steps.map((step) => ({ ...step, agent_role: 'clerk' }))
    await expect(runtime.submit({ ...flow, plan: { ...flow.plan, steps } })).rejects.toMatchObject({
      code: 'invalid_input',
      problems: [{ path: `bindings.steps.${flow.ids.odd}${path}` }],
    })
    await passes(clock, 2_000)
    expect([called, await store.head(flow.plan.context_id)]).toEqual([[], { revision: 0, token: 0 }])
    await inTime(clock, runtime.close())
  })

  it('is taken where what an adapter will not take is still to be filled in: the step tells', async () => {
    const { runtime, clock, called } = await mailing()
    const { ids, ...flow } = flowOf({ refund: {}, odd: { after: ['refund'] } })
    const steps = { ...flow.bindings!.steps, [ids.odd!]: mail({ $from: ids.refund! }) }
    const result = await inTime(clock, (await runtime.submit({ ...flow, bindings: { steps } })).result())
    expect(called).toEqual(['refund'])
    expect(result.error?.message).toContain('tool_args.to must be string')
    await inTime(clock, runtime.close())
  })

  it.each<[string, NonNullable<Adapter['check']>]>([
    ['has to be waited for', () => Promise.reject(new InvalidInput('odd', []))],
    [
      'fails',
      () => {
        throw new Error('cannot say')
      },
    ],
  ])('is taken where the check of an adapter %s: the step tells', async (_, check) => {
    const odd: Adapter = { action_type: 'odd', executor_kind: 'worker', check, execute: async () => ({ output: 1 }) }
    const { runtime, clock } = await mailing([odd])
    const run = await runtime.submit(flowOf({ odd: { binding: { action_type: 'odd', params: {} } } }))
    expect(await inTime(clock, run.result())).toMatchObject({ success: false })
    await inTime(clock, runtime.close())
  })

  it('has no more of its values looked at beforehand than there is time for', async () => {
    const { start, clock } = world({})
    let taken = 0
    const check: Adapter['check'] = ({ takes, fits }) => {
      taken += Number(takes)
      if (!fits) throw new InvalidInput('slow', [{ path: 'fits', rule: 'fits', message: 'must be true' }])
    }
    const slow: Adapter = { action_type: 'slow', executor_kind: 'worker', check, execute: async () => ({ output: 1 }) }
    const now = () => clock.now() + taken
    const runtime = await start({ ...having({}, slow), clock: { ...clock, now } })
    const step = (takes: number, fits: boolean) => ({ binding: { action_type: 'slow', params: { takes, fits } } })
    const quick = flowOf({ a: step(1_500, true), b: step(400, true), c: step(0, false) })
    await expect(runtime.submit(quick)).rejects.toMatchObject({ code: 'invalid_input' })
    taken = 0
    await runtime.submit(flowOf({ a: step(1_500, true), b: step(600, true), c: step(0, false) }))
    await inTime(clock, runtime.close())
  })

  it('is taken where the parameters are all of what an earlier step gave', async () => {
    const { start, clock } = world({})
    const chosen = { name: 'greet', args: 'Ann' }
    const runtime = await start(having({ choose: () => chosen, greet: (name) => `hello ${name}` }))
    const { ids, plan, ...flow } = flowOf({ choose: {}, next: { after: ['choose'] } })
    const steps = { ...flow.bindings!.steps, [ids.next!]: { action_type: 'function', params: { $from: ids.choose! } } }
    const run = await runtime.submit({ ...flow, plan, bindings: { steps } })
    expect((await inTime(clock, run.result())).outputs).toMatchObject({ [ids.next!]: 'hello Ann' })
    await inTime(clock, runtime.close())
  })

  it('is taken by one that leaves it to others', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    expect((await desk.submit(flowOf({ mail: {} }))).phase).toBe('running')
    await inTime(clock, desk.close())
  })

  it.each([
    ['a promise', async () => undefined],
    ['a text', () => 'a key'],
    ['nothing by its name', () => ({ what: 'key' })],
  ])('is taken where an adapter says that it lacks %s, and that is told', async (_, says) => {
    const lacks: NonNullable<Adapter['lacks']> = says as never
    const odd: Adapter = { action_type: 'odd', executor_kind: 'worker', lacks, execute: async () => ({ output: 1 }) }
    const { start, clock } = world({})
    const runtime = await start(having({}, odd))
    const run = await runtime.submit(flowOf({ odd: { binding: { action_type: 'odd', params: {} } } }))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(runtime.errors).toEqual(Array(2).fill(expect.any(InvalidInput)))
    await inTime(clock, runtime.close())
  })

  it('is taken where an adapter cannot say what it lacks: the step tells', async () => {
    const lacks = () => {
      throw new Error('cannot say')
    }
    const odd: Adapter = { action_type: 'odd', executor_kind: 'worker', lacks, execute: async () => ({ output: 1 }) }
    const { start, clock } = world({})
    const runtime = await start(having({}, odd))
    const run = await runtime.submit(flowOf({ odd: { binding: { action_type: 'odd', params: {} } } }))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(runtime.errors).toEqual([new Error('cannot say'), new Error('cannot say')]) // when it is submitted and when it is taken up
    await inTime(clock, runtime.close())
  })

  it('does not make the run its own that another has submitted', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const flow = flowOf({ mail: {} })
    const run = await desk.submit(flow)
    const unable = await start(having())
    await expect(unable.submit(flow)).rejects.toThrow(InvalidInput)
    await passes(clock, 2_000)
    expect((await unable.get(run.run_id)).lacking).toMatchObject({ name: 'mail' })
    await inTime(clock, Promise.all([desk.close(), unable.close()]))
  })

  it('waits, if its tool was taken away after it was submitted, until it is there again', async () => {
    const { start, clock } = world({})
    const tools = toolRegistry()
    const sending = { name: 'mail.send', description: 'Sends', input: { type: 'object' }, execute: () => 'sent' }
    tools.register(sending)
    const runtime = await start(having({}, toolAdapter(tools)))
    const binding = { action_type: 'tool_call', params: { tool_name: 'mail.send', tool_args: {} } }
    const run = await runtime.submit(flowOf({ go: SIGNAL, send: { after: ['go'], binding } }))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    tools.unregister('mail.send')
    await passes(clock, 2_000)
    await runtime.signal(run.run_id, 'go')
    await until(clock, () => runtime.errors.length > 0)
    expect(run.lacking).toMatchObject({ what: 'tool', name: 'mail.send' })
    tools.register(sending)
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    await inTime(clock, runtime.close())
  })
})

describe('a run that is woken where something is lacking', () => {
  it.each([
    [
      'an approval',
      flowOf({ mail: {} }, { approval: {} }),
      async (it: Started) => it.decide((await it.waiting())[0]!.confirm.confirm_id, YES),
    ],
    [
      'a signal',
      flowOf({ go: SIGNAL, mail: { after: ['go'] } }),
      async (it: Started, run: string) => it.signal(run, 'go'),
    ],
    ['a time', flowOf({ go: SLEEP, mail: { after: ['go'] } }), async () => undefined],
  ])('waits for one that has it once it is woken by %s', async (_, flow, wake) => {
    const sent: string[] = []
    const { start, clock } = world({ mail: () => void sent.push('mail') })
    const first = await start()
    const run = await first.submit(flow)
    await passes(clock, 500)
    await inTime(clock, first.close())
    const { counts, seen } = counting()
    const unable = await start(having(), seen)
    await wake(unable, run.run_id)
    await until(clock, () => unable.errors.length > 0)
    counts.reads = 0
    await passes(clock, 10_000)
    expect(unable.errors).toHaveLength(1)
    expect(counts.reads).toBeLessThan(10) // in two hundred rounds
    expect((await unable.get(run.run_id)).phase).toBe('running')
    const able = await start()
    expect(await inTime(clock, (await unable.get(run.run_id)).result())).toMatchObject({ success: true })
    expect(sent).toEqual(['mail'])
    await inTime(clock, Promise.all([able.close(), unable.close()]))
  })
})

describe('a run that has only to be ended', () => {
  it.each([
    ['it is cancelled', {}, 'cancelled', (it: Started, run: string) => it.cancel(run)],
    [
      'its deadline comes',
      { options: { deadline: new Date(manualClock().now() + 60_000).toISOString() } },
      'failed',
      async () => undefined,
    ],
    ['its time is used up', { options: { budget: { wall_ms: 60_000 } } }, 'failed', async () => undefined],
  ])('is ended also by a process that lacks what it needs, when %s', async (_, more, status, act) => {
    const { start, clock, run } = await leftBehind(TWO, more)
    const unable = await start(having())
    await until(clock, () => unable.errors.length > 0)
    const since = clock.now()
    await act(unable, run.run_id)
    expect(await inTime(clock, (await unable.get(run.run_id)).result())).toMatchObject({ status })
    expect(clock.now() - since).toBeLessThan(62_000)
    await inTime(clock, unable.close())
  })

  it('is cancelled in time also when the wish was stored where nobody works', async () => {
    const { start, clock, run } = await leftBehind()
    const unable = await start(having())
    await until(clock, () => unable.errors.length > 0)
    await passes(clock, 100_000)
    const desk = await start({ mine: new Set() })
    await desk.cancel(run.run_id)
    await passes(clock, 31_000)
    expect((await unable.get(run.run_id)).phase).toBe('ended')
    await inTime(clock, Promise.all([desk.close(), unable.close()]))
  })

  it('is left also by a process that could do its steps, but not take them back should they fail', async () => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const inverse = { action_type: 'function', params: { name: 'unbook' } }
    const steps = { book: { binding: { inverse } }, noop: { after: ['book'] } }
    const kept = await desk.submit(flowOf(steps))
    const run = await desk.submit(flowOf(steps, { options: { on_failure: 'compensate' } }))
    const unable = await start(having({ book: () => 'booked' }))
    expect(await inTime(clock, kept.result())).toMatchObject({ success: true })
    await passes(clock, 1_000)
    expect((await unable.get(run.run_id)).lacking).toMatchObject({ name: 'unbook' })
    await inTime(clock, Promise.all([desk.close(), unable.close()]))
  })

  it('waits on its way back for a process that can take back what it did', async () => {
    const undone: string[] = []
    const inverse = { action_type: 'function', params: { name: 'unbook' } }
    const fails = () => Promise.reject(new Error('no'))
    const unbook = () => void undone.push('unbook')
    const { start, clock } = world({ book: () => 'booked', fails, unbook })
    const steps = { book: { binding: { inverse } }, fails: { after: ['book'] } }
    const first = await start({
      onCommit: ({ body }) => {
        if (JSON.stringify(body).includes('"ending"')) first.die()
      },
    })
    const run = await first.submit(flowOf(steps, { options: { on_failure: 'compensate' } }))
    await passes(clock, 1_000)
    const unable = await start(having({ book: () => 'booked', fails }))
    await until(clock, () => unable.errors.length > 0)
    await passes(clock, 5_000)
    expect((await unable.get(run.run_id)).lacking).toMatchObject({ what: 'function', name: 'unbook' })
    const able = await start()
    const undoneThere = { status: 'failed', undone: [{ status: 'undone' }] }
    expect(await inTime(clock, (await unable.get(run.run_id)).result())).toMatchObject(undoneThere)
    expect(undone).toEqual(['unbook'])
    await inTime(clock, Promise.all([able.close(), unable.close()]))
  })
})
