import { describe, expect, it, onTestFinished } from 'vitest'
import { flowIn, flowOf, type NamedFlow } from '../../src/orchestrator/named-flow.ts'
import { checkedFlow } from '../../src/orchestrator/submit-check.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { type Json, uuidOf } from '../../src/protocol/json.ts'
import { runtimeOf } from '../support/flows.ts'

const call = (name: string, args: Json = {}) => ({ action_type: 'function', params: { name, args } })

describe('a flow in short', () => {
  it('is the flow that is meant, with ids for names', () => {
    const { flow, ids } = flowOf(
      {
        title: 'Tea',
        objective: 'It is hot',
        steps: {
          boil: { description: 'Boil water', agent_role: 'cook', ...call('boil'), timeout_ms: 5 },
          pour: { dependencies: ['boil'], ...call('pour') },
        },
        approval: { roles: ['guest'] },
        options: { concurrency: 1 },
      },
      manualClock(),
    )
    const { plan_id, context_id } = flow.plan
    const meta = { protocol_version: '1.0.0', schema_version: '1.0.0' }
    expect(flow).toEqual({
      context: {
        meta,
        context_id,
        root: { domain: 'default', environment: 'default' },
        title: 'Tea',
        status: 'active',
      },
      plan: {
        ...{ meta, plan_id, context_id, title: 'Tea', objective: 'It is hot', status: 'draft' },
        steps: [
          { step_id: ids.boil, description: 'Boil water', status: 'pending', agent_role: 'cook' },
          { step_id: ids.pour, description: 'pour', status: 'pending', dependencies: [ids.boil] },
        ],
      },
      bindings: { steps: { [ids.boil]: { ...call('boil'), timeout_ms: 5 }, [ids.pour]: call('pour') } },
      approval: { roles: ['guest'] },
      options: { concurrency: 1 },
    })
    expect(new Set([plan_id, context_id, ...Object.values(ids)]).size).toBe(4)
  })

  it('is run, and waits for whatever it takes an output from', async () => {
    const runtime = await runtimeOf({ one: () => ({ n: [1] }), more: (n) => Number(n) + 1 })
    onTestFinished(() => runtime.close())
    const { flow, ids } = flowOf({
      title: 'Count',
      steps: {
        three: call('more', { $from: 'two' }),
        two: call('more', { $from: 'one', path: 'n.0' }),
        one: call('one'),
      },
    })
    const run = await runtime.submit(flow)
    expect(await run.result()).toMatchObject({
      success: true,
      outputs: { [ids.one]: { n: [1] }, [ids.two]: 2, [ids.three]: 3 },
    })
    await expect(runtime.submit(flow)).rejects.toMatchObject({ code: 'rule_violation' })
  })

  it('is another one each time it is made', async () => {
    const runtime = await runtimeOf({ noop: () => null })
    onTestFinished(() => runtime.close())
    const named = { title: 'Again', steps: { noop: call('noop') } }
    const runs = [await runtime.submit(flowOf(named).flow), await runtime.submit(flowOf(named).flow)]
    expect(await Promise.all(runs.map((run) => run.result()))).toMatchObject([{ success: true }, { success: true }])
    expect(runs[0]!.context_id).not.toBe(runs[1]!.context_id)
    const further = flowOf({ ...named, context: runs[0]!.context_id })
    const run = await runtime.submit(further.flow)
    expect(run.context_id).toBe(runs[0]!.context_id)
    expect(await run.result()).toMatchObject({ success: true })
  })

  it('is the same one each time it is made for the same run, so that its outputs are found by whoever makes it again', async () => {
    const runtime = await runtimeOf({ noop: () => 'done' })
    onTestFinished(() => runtime.close())
    const named = (order: string) => ({ title: order, steps: { noop: call('noop') }, chosen: { run: uuidOf(order) } })
    await runtime.submit(flowOf(named('order 7')).flow)
    const { flow, ids } = flowOf(named('order 7'))
    await expect(runtime.submit(flow)).rejects.toMatchObject({
      violations: [{ rule: 'id.unique', node: `run/${uuidOf('order 7')}` }],
    })
    const { outputs } = await (await runtime.get(uuidOf('order 7'))).result()
    expect(outputs[ids.noop]).toBe('done')
    await expect(runtime.submit(flow)).rejects.toMatchObject({ violations: [{ rule: 'id.unique' }] }) // also when it has ended
    const other = flowOf(named('order 8'))
    const further = flowOf({ ...named('order 9'), context: flow.plan.context_id })
    const all = [flow, other.flow, further.flow].map(({ plan }) => plan)
    expect(new Set(all.flatMap(({ plan_id, steps }) => [plan_id, steps[0]!.step_id])).size).toBe(6)
    for (const { flow } of [other, further])
      expect(await (await runtime.submit(flow)).result()).toMatchObject({ success: true })
  })

  it('is told how a name becomes the id of a run', () => {
    const problem = { path: 'chosen.run', message: expect.stringContaining('uuidOf') }
    expect(() => flowOf({ title: 'a', steps: { a: call('a') }, chosen: { run: 'order 7' } })).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining(problem)] }),
    )
  })

  it('says as much of its context as matters', () => {
    const root = { domain: 'shop', environment: 'live' }
    const { flow } = flowOf({ title: 'Sell', context: { root, title: 'The shop' }, steps: { a: call('a') } })
    expect(flow.context).toMatchObject({ root, title: 'The shop', status: 'active', context_id: flow.plan.context_id })
  })

  it('leaves a step without an action to its role', async () => {
    const runtime = await runtimeOf({ write: () => 'written' })
    onTestFinished(() => runtime.close())
    const { flow, ids } = flowOf({
      title: 'Write',
      steps: { write: { agent_role: 'writer' } },
      bindings: { roles: { writer: call('write') } },
    })
    expect(await (await runtime.submit(flow)).result()).toMatchObject({ outputs: { [ids.write]: 'written' } })
  })

  it('lets the binding of a role take outputs by name: whoever has the role waits for them', async () => {
    const runtime = await runtimeOf({ read: () => 'a text', shout: (text) => `${text}!`, hush: () => null })
    onTestFinished(() => runtime.close())
    const inverse = call('hush', { $from: 'shout' })
    const { flow, ids } = flowOf({
      title: 'Shout',
      steps: { shout: { agent_role: 'actor' }, read: call('read'), own: { agent_role: 'actor', ...call('read') } },
      bindings: { roles: { actor: { ...call('shout', { $from: 'read' }), inverse } } },
    })
    expect(flow.plan.steps.map(({ dependencies }) => dependencies)).toEqual([[ids.read], undefined, undefined])
    expect(flow.bindings?.roles?.actor?.inverse).toEqual(call('hush', { $from: ids.shout }))
    expect(await (await runtime.submit(flow)).result()).toMatchObject({ outputs: { [ids.shout]: 'a text!' } })
  })

  it('is refused where it is nested too deeply, at whatever depth the stack ends', () => {
    const outcomes = new Set<unknown>()
    let args: Json = 1
    for (let depth = 1; depth <= 8_000; depth++) {
      args = depth % 2 === 0 ? { args } : [args]
      if (depth % 200 > 0) continue
      try {
        outcomes.add(typeof flowOf({ title: 'Deep', steps: { a: call('a', args) } }))
      } catch (error) {
        outcomes.add((error as InvalidInput).problems?.[0]?.rule ?? error)
      }
    }
    expect([...outcomes]).toEqual(['object', 'json'])
  })

  it('has not every wrong name of a long flow compared with every right one', () => {
    const names = Array.from({ length: 200 }, (_, i) => `step ${i}`)
    const misspelt = names.map((_, i) => ({ $from: `stpe ${i}` }))
    const steps = Object.fromEntries(names.map((name) => [name, call('a', misspelt)]))
    const make = () => flowOf({ title: 'Long', steps })
    const isSuggested = (at: number) =>
      expect.objectContaining({ message: expect.stringMatching(at < 50 ? /mean/ : /known$/) })
    const named = Array.from({ length: 99 }, (_, at) => isSuggested(at))
    expect(make).toThrow(expect.objectContaining({ problems: [...named, expect.objectContaining({ rule: 'more' })] }))
  })

  it('lets what takes a step back use what the step gave, and others', () => {
    const { flow, ids } = flowOf({
      title: 'Order',
      steps: {
        shop: call('shop'),
        order: { ...call('order'), inverse: call('cancel', { order: { $from: 'order' }, at: [{ $from: 'shop' }] }) },
      },
    })
    expect(flow.bindings?.steps?.[ids.order]?.inverse).toMatchObject({
      params: { args: { order: { $from: ids.order }, at: [{ $from: ids.shop }] } },
    })
    expect(flow.plan.steps[1]).toMatchObject({ dependencies: [ids.shop] })
  })

  it('names its steps in its session too, where step is the one whose turn it is', () => {
    const review = {
      ...call('look', { at: { $from: 'step' }, beside: { $from: 'read' } }),
      inverse: 'irreversible' as const,
    }
    const session = {
      collab_id: manualClock().uuid(),
      brief: call('tell', { $from: 'read' }),
      review,
      conflicts: { strategies: ['voting' as const], writes: { write: ['report'] } },
    }
    const steps = { read: call('read'), write: call('write', { $from: 'read' }) }
    const { flow, ids } = flowOf({ title: 'Report', steps, options: { profile: 'map', session } })
    expect(flow.options).toEqual({
      profile: 'map',
      session: {
        ...session,
        brief: call('tell', { $from: ids.read }),
        review: { ...review, ...call('look', { at: { $from: 'step' }, beside: { $from: ids.read } }) },
        conflicts: { strategies: ['voting'], writes: { [ids.write]: ['report'] } },
      },
    })
    const misspelt = {
      ...session,
      brief: call('tell', { $from: 'raed' }),
      conflicts: { writes: { wirte: ['report'] } },
    }
    const problems = [
      { path: 'options.session.brief.params.args.$from', rule: 'reference.resolves' },
      { path: 'options.session.conflicts.writes.wirte', rule: 'reference.resolves' },
    ].map((problem) => expect.objectContaining(problem))
    expect(() => flowOf<string>({ title: 'Report', steps, options: { profile: 'map', session: misspelt } })).toThrow(
      expect.objectContaining({ problems }),
    )
  })

  it('leaves to its opening what of its session is nothing of the kind', () => {
    const session = { collab_id: manualClock().uuid(), brief: 7, review: { params: 7 }, conflicts: { writes: 7 } }
    const { flow } = flowIn({ title: 'Tea', steps: { boil: call('boil') }, options: { profile: 'map', session } })
    expect(flow).toMatchObject({ options: { profile: 'map', session } })
  })

  it('may call its steps whatever it likes', () => {
    const names = ['__proto__', 'constructor', '1', 'a b', 'ä']
    const { flow, ids } = flowOf({ title: 'Names', steps: Object.fromEntries(names.map((name) => [name, call('a')])) })
    expect(Object.keys(ids).sort()).toEqual([...names].sort())
    expect(flow.plan.steps.map(({ description }) => description).sort()).toEqual([...names].sort())
  })

  it('is not submitted as it is, nor with its ids', async () => {
    const runtime = await runtimeOf({ noop: () => null })
    onTestFinished(() => runtime.close())
    const named = { title: 'a', steps: { noop: call('noop') } }
    for (const [given, path] of [
      [named, ''],
      [flowOf(named), 'flow'],
    ] as const)
      await expect(runtime.submit(given as never)).rejects.toMatchObject({ problems: [{ path, rule: 'whole' }] })
  })

  it('takes params, and a function args, by an interface, and looks whether they are JSON', async () => {
    interface Order {
      readonly id: string
      readonly placed?: Date
    }
    const runtime = await runtimeOf({ ship: ({ id }: Order) => `shipped ${id}` })
    onTestFinished(() => runtime.close())
    const shipping = (order: Order) => {
      const ship = { action_type: 'function', params: { name: 'ship', args: order } }
      return flowOf({
        title: 'Ship',
        steps: { ship: { ...ship, inverse: ship } },
        bindings: { roles: { clerk: ship } },
      })
    }
    const { flow, ids } = shipping({ id: '7' })
    expect((await (await runtime.submit(flow)).result()).outputs[ids.ship]).toBe('shipped 7')
    const problem = expect.objectContaining({ path: 'steps.ship.params.args.placed', rule: 'json' })
    const placed = new Date(0)
    expect(() => shipping({ id: '7', placed })).toThrow(expect.objectContaining({ problems: [problem] }))
  })

  it('knows its steps when it is compiled', () => {
    // @ts-expect-error: there is no such step
    expect(() => flowOf({ title: 'a', steps: { a: call('a'), b: { dependencies: ['c'], ...call('b') } } })).toThrow()
    const { ids } = flowOf({ title: 'a', steps: { a: call('a') } })
    // @ts-expect-error: nor has it an id
    expect(ids.b).toBeUndefined()
    const fixed = { title: 'a', steps: { a: call('a'), b: { dependencies: ['a'] } } } as const satisfies NamedFlow
    expect(Object.keys(flowOf(fixed).ids)).toEqual(['a', 'b'])
    const built = { title: 'a', steps: { a: call('a'), b: { dependencies: [...'a'] } } } satisfies NamedFlow
    // @ts-expect-error: whether there are such steps turns out when it runs
    expect(() => flowOf(built)).not.toThrow()
    expect(Object.keys(flowOf<string>(built).ids)).toEqual(['a', 'b'])
  })

  it('is known by its title where its steps are misspelt', () => {
    const problems = [expect.objectContaining({ path: 'steps' }), expect.objectContaining({ path: 'step' })]
    expect(() => flowIn({ title: 'a', step: { a: call('a') } })).toThrow(expect.objectContaining({ problems }))
    expect(flowIn({ title: 'a', plan: {} })).toEqual({ flow: { title: 'a', plan: {} } })
  })

  it('tells which name is not that of a step, and which may be meant', () => {
    const given = { title: 'a', steps: { write: call('a'), read: { dependencies: ['wirte'] } } }
    expect(() => flowOf<string>(given)).toThrow(
      'steps.read.dependencies[0] names "wirte", which is not known; did you mean write?',
    )
  })

  it('is asked for where a flow has neither a plan nor a title and steps', () => {
    const problems = [expect.objectContaining({ path: 'plan', rule: 'required' })]
    for (const given of [{}, { bindings: {} }])
      expect(() => checkedFlow(flowIn(given).flow)).toThrow(expect.objectContaining({ subject: 'flow', problems }))
  })

  const a = call('a')
  it.each<[string, unknown, { path: string; rule: string }[]]>([
    ['nothing', undefined, [{ path: '', rule: 'json' }]],
    ['a list', [], [{ path: '', rule: 'type' }]],
    ['no title', { steps: { a } }, [{ path: 'title', rule: 'required' }]],
    ['no steps', { title: 'a', steps: {} }, [{ path: 'steps', rule: 'type' }]],
    ['a step without a name', { title: 'a', steps: { '': a } }, [{ path: 'steps', rule: 'type' }]],
    ['a context that is none', { title: 'a', context: 'here', steps: { a } }, [{ path: 'context', rule: 'type' }]],
    ['steps in a list', { title: 'a', steps: [a] }, [{ path: 'steps', rule: 'type' }]],
    ['a step that is none', { title: 'a', steps: { a: 1 } }, [{ path: 'steps.a', rule: 'type' }]],
    [
      'what is no JSON',
      { title: 'a', steps: { a: { ...a, params: { n: 1n } } } },
      [{ path: 'steps.a.params.n', rule: 'json' }],
    ],
    [
      'half a binding',
      { title: 'a', steps: { a: { action_type: 'wait' } } },
      [{ path: 'steps.a.params', rule: 'required' }],
    ],
    [
      'a word that is not known',
      { title: 'a', steps: { a: { ...a, after: ['b'] } } },
      [{ path: 'steps.a.after', rule: 'extra_forbidden' }],
    ],
    [
      'nothing to wait for',
      { title: 'a', steps: { a: { action_type: 'wait', params: {} } } },
      [{ path: 'steps.a.params', rule: 'wait' }],
    ],
    [
      'steps that are not there',
      { title: 'a', steps: { a: { ...call('a', [{ $from: 'b' }]), dependencies: ['c'] } } },
      [
        { path: 'steps.a.dependencies[0]', rule: 'reference.resolves' },
        { path: 'steps.a.params.args[0].$from', rule: 'reference.resolves' },
      ],
    ],
    [
      'a role that takes what is not there',
      { title: 'a', steps: { a: { agent_role: 'r' } }, bindings: { roles: { r: call('a', { $from: 'b' }) } } },
      [{ path: 'bindings.roles.r.params.args.$from', rule: 'reference.resolves' }],
    ],
    [
      'a role that takes its own output',
      { title: 'a', steps: { a: { agent_role: 'r' } }, bindings: { roles: { r: call('a', { $from: 'a' }) } } },
      [{ path: 'steps.a', rule: 'plan.acyclic' }],
    ],
    [
      'a role with nothing to wait for',
      {
        title: 'a',
        steps: { a: { agent_role: 'r' } },
        bindings: { roles: { r: { action_type: 'wait', params: {} } } },
      },
      [{ path: 'bindings.roles.r.params', rule: 'wait' }],
    ],
    [
      'a path that leads nowhere',
      { title: 'a', steps: { a, b: call('b', { $from: 'a', path: 'x[1]' }) } },
      [{ path: 'steps.b.params.args.path', rule: 'type' }],
    ],
    [
      'a step that takes its own output',
      { title: 'a', steps: { a: call('a', { $from: 'a' }) } },
      [{ path: 'steps.a', rule: 'plan.acyclic' }],
    ],
    [
      'a circle',
      { title: 'a', steps: { a, b: { ...a, dependencies: ['c'] }, c: call('c', { $from: 'b' }) } },
      [
        { path: 'steps.b', rule: 'plan.acyclic' },
        { path: 'steps.c', rule: 'plan.acyclic' },
      ],
    ],
  ])('refuses %s', (_, given, problems) => {
    const make = () => flowOf(given as NamedFlow)
    expect(make).toThrow(InvalidInput)
    expect(make).toThrow(expect.objectContaining({ problems: problems.map((one) => expect.objectContaining(one)) }))
  })

  it('refuses a circle of any length', () => {
    const ring = Array.from({ length: 140_000 }, (_, i) => [`s${i}`, { dependencies: [`s${(i + 1) % 140_000}`] }])
    expect(() => flowOf<string>({ title: 'a', steps: Object.fromEntries(ring) })).toThrow(
      /^flow is not valid: steps.s0 waits for itself.*; and 139995 more$/,
    )
  })
})
