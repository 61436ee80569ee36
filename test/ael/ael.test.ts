import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import { beforeEach, describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { Action, Adapter, Approval, Call, Outcome, Spend } from '../../src/ael/adapter.ts'
import { type ActionLayerOptions, actionLayer } from '../../src/ael/ael.ts'
import { passingFailure } from '../../src/ael/failure.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { Attempt, AttemptEnd, EventDraft } from '../../src/ael/layer.ts'
import { memoryBudget } from '../../src/ael/memory-budget.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { ActionError, ApprovalNeeded, Closed, FencedOut, InvalidInput, NotFound } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'

let clock: ManualClock
let events: EventDraft[]
beforeEach(() => {
  clock = manualClock()
  events = []
})

const adapter = (execute: (action: Action, call: Call) => Promise<Outcome>, more: Partial<Adapter> = {}): Adapter => ({
  action_type: 'work',
  executor_kind: 'worker',
  execute,
  ...more,
})
const layerOf = (
  execute: (action: Action, call: Call) => Promise<Outcome>,
  options: ActionLayerOptions = {},
  more: Partial<Adapter> = {},
) => actionLayer({ clock, emit: (event) => void events.push(event), ...options, adapters: [adapter(execute, more)] })
const work = (more: Partial<Action> = {}): Action => newAction({ action_type: 'work', params: {}, ...more }, clock)
const run = { context_id: 'c', plan_id: 'p', step_id: 's', trace_id: 't' }

describe('an action', () => {
  it.each([
    ['no action', null, ''],
    ['an id that is none', { action_id: '7' }, 'action_id'],
    ['no type', { action_type: '' }, 'action_type'],
    ['an unknown kind', { executor_kind: 'human' }, 'executor_kind'],
    ['parameters that are a list', { params: [] }, 'params'],
    ['a timeout of nothing', { timeout_ms: 0 }, 'timeout_ms'],
    ['a timeout beyond what a timer can', { timeout_ms: 2 ** 31 }, 'timeout_ms'],
    ['a key with a line break', { idempotency_key: 'a\nb' }, 'idempotency_key'],
    ['a key without end', { idempotency_key: 'k'.repeat(256) }, 'idempotency_key'],
    ['an unknown retry strategy', { retry: { strategy: 'often', max_attempts: 2 } }, 'retry.strategy'],
    ['no attempt at all', { retry: { strategy: 'fixed', max_attempts: 0 } }, 'retry.max_attempts'],
    ['half an attempt', { retry: { strategy: 'fixed', max_attempts: 1.5 } }, 'retry.max_attempts'],
    ['a negative delay', { retry: { strategy: 'fixed', max_attempts: 2, delay_ms: -1 } }, 'retry.delay_ms'],
    ['too much jitter', { retry: { strategy: 'fixed', max_attempts: 2, jitter: 2 } }, 'retry.jitter'],
    ['a retry policy that is text', { retry: 'yes' }, 'retry'],
  ])('with %s is refused, by path', async (_what, wrong, path) => {
    const layer = layerOf(() => expect.unreachable())
    const action = wrong === null ? null : { ...work(), ...wrong }
    for (const door of ['execute', 'attempt', 'check'] as const) {
      const error = await layer[door](action as never).catch((caught) => caught)
      expect(error).toBeInstanceOf(InvalidInput)
      expect(error.problems.map((problem: { path: string }) => problem.path)).toEqual([path])
    }
    expect(events).toEqual([])
  })

  it('with a call that is none is refused', async () => {
    const layer = layerOf(() => expect.unreachable())
    for (const door of ['execute', 'attempt'] as const)
      await expect(layer[door](work(), null as never)).rejects.toMatchObject({ code: 'invalid_input', subject: 'call' })
  })

  it('does not fail because whoever listens to its deltas does', async () => {
    const layer = layerOf(async (_, call) => {
      call.onDelta('half')
      return { output: 'whole' }
    })
    const onDelta = () => {
      throw new Error('the terminal is gone')
    }
    expect((await layer.execute(work(), { onDelta })).output).toBe('whole')
    expect((await layer.execute(work(), { onDelta: async () => onDelta() })).output).toBe('whole')
    await turn() // what nobody caught would be told by now
  })

  it('without params is no question that an adapter could answer', () => {
    const layer = actionLayer({ adapters: [functionAdapter({})] })
    const { params: _, ...lacking } = work({ action_type: 'function' })
    expect(() => layer.readOnly(lacking as never)).toThrow(InvalidInput)
    expect(() => layer.inverse(lacking as never, {})).toThrow(InvalidInput)
  })

  it('of a type that nobody does is refused', async () => {
    await expect(layerOf(async () => ({})).execute(work({ action_type: 'magic' }))).rejects.toThrow(
      new NotFound('adapter for actions of type', 'magic', 'those that there are do work'),
    )
  })

  it('that changes something is not attempted twice without a key', async () => {
    const action = work({ idempotency_key: '', retry: { strategy: 'fixed', max_attempts: 2 } })
    const layer = layerOf(async () => ({}))
    const error = await layer.execute(action).catch((caught) => caught)
    expect(error.problems).toEqual([expect.objectContaining({ path: 'idempotency_key', rule: 'repeatable' })])
    await expect(layer.check(action)).rejects.toBeInstanceOf(InvalidInput)
    await layerOf(async () => ({}), {}, { readOnly: () => true }).execute(action)
  })
})

describe('adapters', () => {
  it('come and go while the layer is in use', async () => {
    const layer = layerOf(async () => ({ output: 'first' }))
    const second = adapter(async () => ({ output: 'second' }))
    expect(() => layer.register(second)).toThrow(/has an adapter already/)
    await layer.unregister('work')
    await expect(layer.execute(work())).rejects.toBeInstanceOf(NotFound)
    layer.register(second)
    expect((await layer.execute(work())).output).toBe('second')
    await expect(layer.unregister('play')).rejects.toBeInstanceOf(NotFound)
  })

  it('finish what they have in hand before they are closed', async () => {
    const told: string[] = []
    let finish: (outcome: Outcome) => void = () => undefined
    const layer = layerOf(
      () =>
        new Promise((resolve) => {
          finish = resolve
        }),
      {},
      { close: async () => void told.push('closed') },
    )
    const result = layer.execute(work()).then(() => told.push('finished'))
    await turn()
    const gone = layer.unregister('work')
    await turn()
    expect(told).toEqual([])
    finish({})
    await Promise.all([result, gone])
    expect(told.sort()).toEqual(['closed', 'finished'])
  })

  it.each([
    [{}, 'action_type'],
    [{ action_type: 'x' }, 'execute'],
    [{ action_type: 5 }, 'action_type'],
    [{ action_type: 'x', timeoutMs: Number.NaN }, 'timeoutMs'],
    [{ action_type: 'x', timeoutMs: 0 }, 'timeoutMs'],
    [{ action_type: 'x', paramNames: 'name' }, 'paramNames'],
    [{ action_type: 'x', executor_kind: 'human' }, 'executor_kind'],
    [null, 'action_type'],
  ])('like %j are refused', (wrong, path) => {
    expect(() => actionLayer().register(wrong as never)).toThrow(
      expect.objectContaining({ problems: expect.arrayContaining([expect.objectContaining({ path })]) }),
    )
  })

  it('may be instances of a class', async () => {
    class Counting implements Adapter {
      readonly action_type = 'work'
      readonly executor_kind = 'worker'
      #count = 0
      readOnly() {
        return this.#count >= 0
      }
      async execute() {
        return { output: ++this.#count }
      }
    }
    const layer = actionLayer({ adapters: [new Counting()] })
    await layer.execute(work())
    expect((await layer.execute(work())).output).toBe(2)
    expect(layer.readOnly(work())).toBe(true)
  })

  it('that throw before they promise anything fail like any other', async () => {
    const layer = layerOf(() => {
      throw new Error('at once')
    })
    await expect(layer.execute(work())).rejects.toMatchObject({ code: 'action_failed', message: 'at once' })
  })
})

describe('an attempt', () => {
  it('is one, whatever the policy says', async () => {
    let made = 0
    const layer = layerOf(async () => {
      made++
      throw passingFailure('not now')
    })
    const action = work({ retry: { strategy: 'fixed', max_attempts: 5 } })
    await expect(layer.attempt(action)).rejects.toMatchObject({ retryable: true })
    expect(made).toBe(1)
  })

  it('says who, what and which in its events', async () => {
    const layer = layerOf(
      async () => ({ token_usage: { prompt: 2, completion: 3, total: 5 }, cost: 7 }),
      {},
      { label: () => 'digging' },
    )
    const action = work({ executor_kind: 'agent' })
    await layer.attempt(action, { role: 'digger', run, attempt: 3, execution_id: 'e-3' })
    const payload = {
      action_id: action.action_id,
      action_type: 'work',
      operation: 'digging',
      attempt: 3,
      trace_id: 't',
      plan_id: 'p',
      step_id: 's',
    }
    expect(events).toEqual([
      expect.objectContaining({
        event_family: 'runtime_execution',
        event_type: 'execution_started',
        execution_id: 'e-3',
        executor_kind: 'agent',
        executor_role: 'digger',
        status: 'running',
        payload: expect.objectContaining(payload),
      }),
      expect.objectContaining({
        event_type: 'execution_completed',
        status: 'completed',
        payload: expect.objectContaining({ ...payload, tokens_in: 2, tokens_out: 3, cost: 7, duration_ms: 0 }),
      }),
    ])
  })

  it('is seen by the observer of the call, and so are the actions it carries out', async () => {
    const seen: [string, Attempt, AttemptEnd?][] = []
    const observer = {
      started: (attempt: Attempt) => void seen.push(['started', attempt]),
      ended: (attempt: Attempt, end: AttemptEnd) => void seen.push(['ended', attempt, end]),
    }
    const layer = layerOf(async (action, call) => {
      if (action.params.inner) return { output: 'inner' }
      const { output } = await call.act(work({ params: { inner: true } }))
      return { output: `outer of ${output}` }
    })
    await layer.attempt(work(), { observer, execution_id: 'outer', run })
    expect(events).toEqual([])
    expect(
      seen.map(([what, { execution_id, parent_execution_id }]) => [
        what,
        execution_id === 'outer',
        parent_execution_id,
      ]),
    ).toEqual([
      ['started', true, undefined],
      ['started', false, 'outer'],
      ['ended', false, 'outer'],
      ['ended', true, undefined],
    ])
    expect(seen[1]?.[1].run).toEqual(run)
    expect(seen[3]?.[2]).toMatchObject({ status: 'completed', result: { output: 'outer of inner' } })
  })

  it('does not begin when its start cannot be recorded', async () => {
    const fenced = new FencedOut('g', 1, 2)
    const observer = { started: () => Promise.reject(fenced), ended: () => expect.unreachable() }
    const layer = layerOf(() => expect.unreachable())
    await expect(layer.attempt(work(), { observer })).rejects.toBe(fenced)
  })

  it('is not repeated when its end cannot be recorded', async () => {
    let done = 0
    const observer = { started: () => undefined, ended: () => Promise.reject(passingFailure('the journal is away')) }
    const layer = layerOf(async () => ({ output: ++done }))
    const action = work({ retry: { strategy: 'fixed', max_attempts: 3, delay_ms: 0 } })
    await expect(layer.execute(action, { observer })).rejects.toMatchObject({ retryable: false })
    expect(done).toBe(1)
  })

  it('carries its last checkpoint when it fails, and the next one goes on from there', async () => {
    const stored: unknown[] = []
    const layer = layerOf(async (_, { resume, checkpoint }) => {
      if (resume !== undefined) return { output: resume }
      await checkpoint({ at: 1 })
      await checkpoint({ at: 2 })
      throw passingFailure('cut off')
    })
    const error = await layer
      .attempt(work(), { checkpoint: (state) => void stored.push(state) })
      .catch((caught) => caught)
    expect(error.resume).toEqual({ at: 2 })
    expect(stored).toEqual([{ at: 1 }, { at: 2 }])
    expect((await layer.attempt(work(), { resume: error.resume })).output).toEqual({ at: 2 })
  })

  it.each([
    ['what JSON would change', { rows: new Map([['a', 1]]) }, 'state.rows', 'json'],
    ['nothing', undefined, 'state', 'required'],
  ])('may not leave %s as a checkpoint', async (_, state, path, rule) => {
    const stored: unknown[] = []
    const layer = layerOf(async (_, { checkpoint }) => {
      await checkpoint(state as never)
      return {}
    })
    const failed = layer.attempt(work(), { checkpoint: (state) => void stored.push(state) })
    await expect(failed).rejects.toMatchObject({ retryable: false, cause: { problems: [{ path, rule }] } })
    expect(stored).toEqual([])
  })

  it('says at a checkpoint what it has used up by then, in amounts', async () => {
    const stored: unknown[] = []
    const leaving = (spent: Spend) =>
      layerOf(async (_, { checkpoint }) => {
        await checkpoint('here', spent)
        return {}
      }).execute(work(), { checkpoint: (...given) => void stored.push(given) })
    await leaving({ tokens: 3, cost: 1 })
    await expect(leaving({ tokens: Number.NaN })).rejects.toMatchObject({ code: 'action_failed', retryable: false })
    expect(stored).toEqual([['here', { tokens: 3, cost: 1 }]])
  })

  it('may cost what its adapter says, in amounts, and nothing where that says nothing', () => {
    const most = (more: Partial<Adapter>) => layerOf(async () => ({}), {}, more).estimate(work())
    expect(most({ estimate: () => ({ tokens: 7 }) })).toEqual({ tokens: 7 })
    expect(most({})).toEqual({})
    expect(() => most({ estimate: () => ({ tokens: -1 }) })).toThrow(expect.objectContaining({ retryable: false }))
  })

  it('is taken back by what JSON tells whole, or by nothing', () => {
    const back = (params: unknown) => ({ ...work(), params }) as Action
    const inverse = (params: unknown) =>
      layerOf(async () => ({}), {}, { inverse: () => back(params) }).inverse(work(), {})
    const problem = { path: 'params.rows[0]', rule: 'json' }
    expect(() => inverse({ rows: [Number.NaN] })).toThrow(
      expect.objectContaining({
        code: 'invalid_input',
        subject: 'what takes work back',
        problems: [expect.objectContaining(problem)],
      }),
    )
    expect(inverse({ at: new Date(0), rows: [1] })).toMatchObject({
      action_type: 'work',
      params: { at: '1970-01-01T00:00:00.000Z', rows: [1] },
    })
  })

  it('is taken back by an action that somebody could carry out', () => {
    const inverse = (said: unknown) =>
      layerOf(async () => ({}), {}, { inverse: () => said as Action }).inverse(work(), {})
    expect(() => inverse({ params: {} })).toThrow(/what takes work back .*action_type is missing/)
    expect(() => inverse({ action_type: 'work', params: [], executor_kind: 'me' })).toThrow(/executor_kind.*params/s)
    expect(() => inverse('undo')).toThrow(InvalidInput)
    expect([inverse(undefined), inverse('none_needed')]).toEqual(['irreversible', 'none_needed'])
  })

  it('takes nothing for irreversible of which its adapter says that it changes nothing', () => {
    const inverse = (adapter: Partial<Adapter>) => layerOf(async () => ({}), {}, adapter).inverse(work(), {})
    expect(inverse({})).toBe('irreversible')
    expect(inverse({ readOnly: () => false })).toBe('irreversible')
    expect(inverse({ readOnly: () => true })).toBe('none_needed')
    expect(inverse({ readOnly: () => true, inverse: () => 'irreversible' })).toBe('irreversible')
  })

  it.each<[string, unknown, RegExp]>([
    ['nothing', undefined, /the approval of work.*must be an object/],
    ['a policy alone', 'ask', /the approval of work.*must be an object/],
    [
      'a policy that there is not',
      { policy: 'maybe', tool: 't', arguments: {}, description: '' },
      /policy must be one of/,
    ],
    ['a policy without a tool', { policy: 'always_allow', arguments: {}, description: '' }, /tool is missing/],
  ])('is not made where its adapter says of who must agree %s', async (_, said, message) => {
    let done = 0
    const layer = layerOf(async () => ({ output: ++done }), {}, { approval: () => said as Approval })
    await expect(layer.execute(work())).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
      message: expect.stringMatching(message),
    })
    expect(done).toBe(0)
  })

  it.each<[string, () => unknown, RegExp]>([
    ['a promise', () => Promise.reject(new Error('later')), /what work takes .* not a promise: it is needed at once/],
    ['text', () => 'lots', /what work takes must be an object with actions, tokens, cost, not "lots"/],
    ['what no budget counts', () => ({ costs: 100 }), /the costs of work is not counted/],
  ])('is not made where its adapter says that it may take %s', async (_, said, message) => {
    let done = 0
    const budget = memoryBudget({ cost: 5 })
    const layer = layerOf(async () => ({ output: ++done }), { budget }, { estimate: () => said() as Spend })
    expect(() => layer.estimate(work())).toThrow(message)
    await expect(layer.execute(work())).rejects.toThrow(message)
    expect(done).toBe(0)
  })

  it('counts as one that changes something unless its adapter says true, and not what comes to that', async () => {
    for (const readOnly of [async () => false, async () => true, async () => expect.fail('it cannot say')]) {
      const layer = layerOf(async () => ({}), {}, { readOnly: readOnly as never })
      const retry = { strategy: 'fixed', max_attempts: 2 } as const
      expect(layer.readOnly(work())).toBe(false)
      await expect(layer.execute(work({ idempotency_key: '', retry }))).rejects.toBeInstanceOf(InvalidInput)
    }
  })

  it.each<[string, () => unknown, string]>([
    ['is no text', () => 5, '5'],
    ['is promised', () => Promise.reject(new Error('later')), 'a promise: it is needed at once'],
  ])('is not made under a name that %s', async (_, label, found) => {
    const layer = layerOf(async () => ({}), {}, { label: label as never })
    await expect(layer.execute(work())).rejects.toThrow(`the label of work must be text, not ${found}`)
  })

  it.each<[string, () => unknown]>([
    ['throws', () => expect.fail('hunter2-hunter2')],
    ['gives a promise', async () => ['hunter2-hunter2']],
    ['gives a promise that it breaks', async () => expect.fail('hunter2-hunter2')],
    ['gives nothing', () => undefined],
  ])('shows nothing of what it threw where an adapter that should say its secrets %s', async (_, secrets) => {
    const fails = async () => expect.fail('the key is hunter2-hunter2')
    const error = await layerOf(fails, {}, { secrets: secrets as never })
      .execute(work())
      .catch((caught) => caught)
    expect(error).toMatchObject({
      code: 'action_failed',
      retryable: false,
      message: expect.stringMatching('^the secrets of the adapter for actions of type work '),
    })
    expect(inspect([error, events], { depth: 20, showHidden: true })).not.toContain('hunter2')
  })

  it('does not show a secret where it cannot be said what takes it back', () => {
    const inverse = () => {
      throw new Error('the key is hunter2-hunter2')
    }
    const layer = layerOf(async () => ({}), { secrets: ['hunter2-hunter2'] }, { inverse })
    expect(() => layer.inverse(work(), {})).toThrow('the key is [redacted]')
  })

  it('does not show what the actions it carried out had checkpointed as its own', async () => {
    const layer = layerOf(async (action, call) => {
      if (!action.params.inner) return { output: (await call.act(work({ params: { inner: true } }))).output ?? null }
      await call.checkpoint('inner state')
      throw passingFailure('cut off')
    })
    const error = await layer.attempt(work()).catch((caught) => caught)
    expect(error).toBeInstanceOf(ActionError)
    expect(error.resume).toBeUndefined()
  })
})

describe('the depth of actions', () => {
  it('is bounded', async () => {
    let deepest = 0
    const layer = layerOf(async (action, call) => {
      deepest = Math.max(deepest, call.depth)
      return { output: (await call.act({ ...action })).output ?? null }
    })
    await expect(layer.execute(work())).rejects.toMatchObject({ code: 'action_denied' })
    expect(deepest).toBe(8)
  })
})

describe('a refusal before any attempt', () => {
  const tells = () => {
    throw new ActionError('action_denied', 'hunter-two may not')
  }
  it.each([
    ['the adapter', {}, { approval: tells }],
    ['whoever admits', { admit: tells }, {}],
  ])('tells no secret, if it is one of %s', async (_who, hands, more) => {
    const layer = layerOf(() => expect.unreachable(), { secrets: ['hunter-two'], ...hands }, more)
    const refusal = await layer.execute(work()).catch((caught) => caught)
    expect(refusal).toBeInstanceOf(ActionError)
    expect(refusal).toMatchObject({ code: 'action_denied', message: '[redacted] may not' })
  })
})

describe('a gate inside a run', () => {
  const asking = (params: JsonObject) => ({
    policy: 'ask' as const,
    tool: 'db.drop',
    arguments: params,
    description: 'drop it?',
  })

  it('is a pause that says what is asked, and nothing is done', async () => {
    const layer = layerOf(() => expect.unreachable(), { secrets: ['hunter-two'] }, { approval: asking })
    const action = work({ params: { table: 'users', as: 'hunter-two' } })
    const pause = await layer.attempt(action, { run }).catch((caught) => caught)
    expect(pause).toBeInstanceOf(ApprovalNeeded)
    expect(pause).toMatchObject({ code: 'approval_needed', retryable: false })
    expect(pause.question).toEqual({
      digest: expect.stringMatching(/^sha256:/),
      action_id: action.action_id,
      tool: 'db.drop',
      arguments: { table: 'users', as: '[redacted]' },
      description: 'drop it?',
    })
    expect(events).toEqual([])
  })

  it('takes an answer for the same arguments in the same step only', async () => {
    let done = 0
    const approved = new Set<string>()
    const layer = layerOf(
      async () => ({ output: ++done }),
      { gate: ({ digest }) => ({ verdict: approved.has(digest) ? 'approved' : 'pending' }) },
      { approval: asking },
    )
    const table = (name: string) => work({ params: { table: name } })
    const pause = await layer.attempt(table('users'), { run }).catch((caught) => caught)
    approved.add(pause.question.digest)
    await expect(layer.attempt(table('orders'), { run })).rejects.toBeInstanceOf(ApprovalNeeded)
    await expect(layer.attempt(table('users'), { run: { ...run, step_id: 'other' } })).rejects.toBeInstanceOf(
      ApprovalNeeded,
    )
    await expect(layer.attempt(table('users'))).rejects.toBeInstanceOf(ApprovalNeeded)
    expect((await layer.attempt(table('users'), { run })).output).toBe(1)
  })
})

describe('closing', () => {
  it('aborts what is under way, waits for it, and takes nothing more', async () => {
    const told: string[] = []
    const layer = layerOf(
      (_, { signal }) =>
        new Promise((_, reject) =>
          signal.addEventListener('abort', () => {
            told.push('aborted')
            reject(signal.reason)
          }),
        ),
      {},
      { close: async () => void told.push('closed') },
    )
    const running = layer.execute(work()).catch((error) => error)
    await turn()
    await Promise.all([layer.close(), layer.close()])
    expect(await running).toMatchObject({ code: 'action_aborted' })
    expect(told).toEqual(['aborted', 'closed'])
    await expect(layer.execute(work())).rejects.toBeInstanceOf(Closed)
    expect(() => layer.register(adapter(async () => ({})))).toThrow(Closed)
  })

  it('ends the wait between two attempts, and the wait for a person', async () => {
    const asks = (params: JsonObject) => ({
      policy: params.ask ? ('ask' as const) : ('always_allow' as const),
      tool: 't',
      arguments: {},
      description: '',
    })
    const layer = layerOf(
      () => Promise.reject(passingFailure('later')),
      { gate: () => new Promise(() => undefined) },
      { approval: asks },
    )
    const ends = [
      layer.execute(work({ retry: { strategy: 'fixed', max_attempts: 2, delay_ms: 60_000 } })),
      layer.execute(work({ params: { ask: true } })),
    ].map((each) => each.catch((error) => error.code))
    await turn()
    await layer.close()
    expect(await Promise.all(ends)).toEqual(['action_aborted', 'action_aborted'])
  })

  it('tells of an adapter that cannot be closed, after all the others were', async () => {
    const told: string[] = []
    const layer = actionLayer({
      adapters: [
        adapter(async () => ({}), { action_type: 'a', close: () => Promise.reject(new Error('stuck')) }),
        adapter(async () => ({}), { action_type: 'b', close: async () => void told.push('b') }),
      ],
    })
    await expect(layer.close()).rejects.toThrow('stuck')
    expect(told).toEqual(['b'])
  })

  it('waits ten seconds for an adapter that never comes to its end, and says which', async () => {
    const clock = manualClock()
    const close = () => new Promise<never>(() => undefined)
    const layer = actionLayer({ clock, adapters: [adapter(async () => ({}), { action_type: 'slow', close })] })
    const closing = layer.close().catch((error) => error)
    await turn()
    await clock.advance(9_999)
    expect(clock.sleeping).toBe(1)
    await clock.advance(1)
    expect(await closing).toMatchObject({
      code: 'action_timed_out',
      message: 'closing the adapter for actions of type slow did not end within 10000 ms',
    })
  })

  it.each<[string, Partial<Adapter>, Partial<ActionLayerOptions>]>([
    ['an adapter is asked to check', { check: () => new Promise(() => undefined) }, {}],
    [
      'an adapter of another realm is asked to check',
      { check: () => runInNewContext('new Promise(() => undefined)') },
      {},
    ],
    ['an adapter is asked who must agree', { approval: () => new Promise(() => undefined) }, {}],
    ['is asked to admit it', {}, { admit: () => new Promise(() => undefined) }],
  ])('ends what %s and never answers; so does whoever calls it off', async (_, more, hands) => {
    const layer = layerOf(async () => ({}), hands, more)
    const off = new AbortController()
    const calledOff = layer.execute(work(), { signal: off.signal }).catch((error) => error.code)
    const closed = layer.execute(work(), { signal: new AbortController().signal }).catch((error) => error.code)
    await turn()
    off.abort()
    expect(await calledOff).toBe('action_aborted')
    await layer.close()
    expect(await closed).toBe('action_aborted')
  })

  it.each<[string, Partial<Adapter>]>([
    ['check', { check: () => new Promise(() => undefined) }],
    ['approval', { approval: () => new Promise(() => undefined) }],
  ])('waits for the %s of an adapter as long as for an attempt, and says whose never came', async (what, more) => {
    const clock = manualClock()
    const layer = layerOf(async () => ({}), { clock, timeoutMs: 700 }, more)
    const told = (error: ActionError) => [error.code, error.retryable, error.message]
    const asked = [
      layer.execute(work()).catch(told),
      layer.execute(work({ timeout_ms: 900 })).catch(told),
      ...(what === 'check' ? [layer.check(work()).catch(told)] : []),
    ]
    const late = (ms: number) => [
      'action_timed_out',
      true,
      `the ${what} of the adapter for actions of type work did not end within ${ms} ms`,
    ]
    await turn()
    await clock.advance(699)
    expect(clock.sleeping).toBe(asked.length)
    await clock.advance(1)
    expect([await asked[0], await asked[2]]).toEqual([late(700), what === 'check' ? late(700) : undefined])
    await clock.advance(200)
    expect(await asked[1]).toEqual(late(900))
    expect(clock.sleeping).toBe(0)
    await layer.close()
  })
})

it('lets a thousand actions share one signal', async () => {
  const controller = new AbortController()
  const warned: string[] = []
  const hear = (warning: Error) => warned.push(warning.name)
  process.on('warning', hear)
  const layer = layerOf(
    (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  )
  const all = Array.from({ length: 1_000 }, () =>
    layer.execute(work(), { signal: controller.signal }).catch((error) => error.code),
  )
  await turn()
  controller.abort()
  expect(new Set(await Promise.all(all))).toEqual(new Set(['action_aborted']))
  await turn()
  process.off('warning', hear)
  expect(warned).toEqual([])
})

/** Lets everything that is ready go on. */
const turn = () => new Promise((resolve) => setImmediate(resolve))
