import { describe, expect, it, onTestFinished } from 'vitest'
import { protocolHandlers } from '../../src/orchestrator/modules/handlers.ts'
import type { Module, Proposed } from '../../src/orchestrator/modules/module.ts'
import { protocolModules } from '../../src/orchestrator/modules/modules.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { InvalidInput, NotFound, RuleViolation } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { ModuleName, Plan } from '../../src/protocol/types.ts'
import { isValid } from '../../src/protocol/validate.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { call } from '../support/agents.ts'
import { chainOf, runtimeOf } from '../support/flows.ts'

type Found = { readonly [field: string]: Json } & { readonly status?: string }

/** Asks the runtime's modules, remembers the context, and closes at the end. */
async function asking<T>(work: (ask: Ask, context_id: string, runtime: Runtime) => Promise<T>): Promise<T> {
  const runtime = await runtimeOf({})
  const ask: Ask = async (module, input) => (await runtime.call(module, input)) as unknown as Found
  try {
    const { context_id } = await ask('context', {
      intent: 'create',
      title: 'A shop',
      root: { domain: 'shop', environment: 'ci' },
    })
    const answer = await work(ask, context_id as string, runtime)
    const graph = await runtime.project.context(context_id as string)
    expect(await graph.verify()).toEqual([])
    return answer
  } finally {
    await runtime.close()
  }
}
type Ask = (module: string, input: { intent: string; [field: string]: unknown }) => Promise<Found>

/** The statuses an object comes to when it is asked for these one after the other. */
const walk = async (ask: Ask, module: string, id: object, intents: readonly string[]) => {
  const statuses: unknown[] = []
  for (const intent of intents) statuses.push((await ask(module, { intent, ...id })).status)
  return statuses
}

describe('the context module', () => {
  it('creates a context, changes it and moves it along its life', () =>
    asking(async (ask, context_id) => {
      expect(await ask('context', { intent: 'update', context_id, summary: 'sells shoes', tags: ['a'] })).toMatchObject(
        {
          title: 'A shop',
          summary: 'sells shoes',
        },
      )
      expect(await walk(ask, 'context', { context_id }, ['suspend', 'activate', 'archive', 'close'])).toEqual([
        ...['suspended', 'active', 'archived', 'closed'],
      ])
      await expect(ask('context', { intent: 'activate', context_id })).rejects.toThrow(RuleViolation)
    }))
})

describe('the plan module', () => {
  const made = (ask: Ask, context_id: string) =>
    ask('plan', {
      intent: 'create',
      context_id,
      title: 'Sell',
      objective: 'sell shoes',
      steps: [{ description: 'find' }, { description: 'sell', dependencies: [0], agent_role: 'seller' }],
    })

  it('creates a draft from descriptions, and places for ids', () =>
    asking(async (ask, context_id) => {
      const plan = (await made(ask, context_id)) as unknown as Plan
      expect(plan).toMatchObject({
        status: 'draft',
        steps: [{ status: 'pending' }, { dependencies: [plan.steps[0]!.step_id] }],
      })
    }))

  it('changes steps and what they wait for while it is a draft, and refuses circles', () =>
    asking(async (ask, context_id) => {
      const { plan_id, steps } = (await made(ask, context_id)) as unknown as Plan
      const [find, sell] = steps.map((step) => step.step_id)
      const longer = await ask('plan', { intent: 'add_step', plan_id, description: 'pack', dependencies: [sell] })
      expect((longer as unknown as Plan).steps.map((step) => step.description)).toEqual(['find', 'sell', 'pack'])
      await expect(ask('plan', { intent: 'add_dependency', plan_id, from: find, to: sell })).rejects.toThrow(
        RuleViolation,
      )
      const loose = await ask('plan', { intent: 'remove_dependency', plan_id, from: sell, to: find })
      expect((loose as unknown as Plan).steps[1]!.dependencies).toEqual([])
      const shorter = await ask('plan', { intent: 'remove_step', plan_id, step_id: find })
      expect((shorter as unknown as Plan).steps).toHaveLength(2)
      expect((await ask('plan', { intent: 'cancel', plan_id })).status).toBe('cancelled')
    }))
})

describe('what is asked of one object', () => {
  it('does not change the steps of another plan', () =>
    asking(async (ask, context_id) => {
      const made = (title: string) =>
        ask('plan', {
          intent: 'create',
          context_id,
          title,
          objective: 'x',
          steps: [{ description: 'a' }, { description: 'b' }],
        })
      const { plan_id } = await made('one')
      const other = (await made('other')) as unknown as Plan
      const [from, to] = other.steps.map((step) => step.step_id)
      for (const asked of [
        { intent: 'remove_step', step_id: from },
        { intent: 'add_dependency', from, to },
        { intent: 'remove_dependency', from, to },
      ])
        await expect(ask('plan', { plan_id, ...asked })).rejects.toMatchObject({
          problems: [{ rule: 'reference.resolves', message: `is no step of ${plan_id}` }],
        })
    }))

  it('does not change the nodes of another network', () =>
    asking(async (ask, context_id) => {
      const made = (name: string) =>
        ask('network', { intent: 'create', context_id, name, topology_type: 'mesh', nodes: [{ kind: 'agent' }] })
      const { network_id } = await made('one')
      const { node_id } = ((await made('other')).nodes as unknown as { node_id: string }[])[0]!
      for (const asked of [{ intent: 'remove_node' }, { intent: 'set_node_status', status: 'retired' }])
        await expect(ask('network', { network_id, node_id, ...asked })).rejects.toMatchObject({
          problems: [{ path: 'node_id', rule: 'reference.resolves' }],
        })
    }))
})

describe('the confirm module', () => {
  const registered = async (ask: Ask, context_id: string) =>
    (
      await ask('extension', {
        intent: 'register',
        context_id,
        name: 'pay',
        extension_type: 'integration',
        version: '1.0.0',
      })
    ).extension_id as string

  it('asks about an extension and takes the answer', () =>
    asking(async (ask, context_id) => {
      const target_id = await registered(ask, context_id)
      const { confirm_id } = await ask('confirm', {
        intent: 'request',
        target_type: 'extension',
        target_id,
        requested_by_role: 'dev',
      })
      const decided = await ask('confirm', {
        intent: 'decide',
        confirm_id,
        status: 'approved',
        decided_by_role: 'lead',
        reason: 'fine',
      })
      expect(decided).toMatchObject({ status: 'approved', decisions: [{ decided_by_role: 'lead', reason: 'fine' }] })
    }))

  it('withdraws a question', () =>
    asking(async (ask, context_id) => {
      const target_id = await registered(ask, context_id)
      const { confirm_id } = await ask('confirm', { intent: 'request', target_type: 'extension', target_id })
      expect((await ask('confirm', { intent: 'withdraw', confirm_id })).status).toBe('cancelled')
    }))

  it('leaves plans to the runtime', () =>
    asking(async (ask) => {
      const about = { target_type: 'plan', target_id: crypto.randomUUID() }
      await expect(ask('confirm', { intent: 'request', ...about })).rejects.toMatchObject({
        problems: [{ path: 'target_type', rule: 'module.area' }],
      })
    }))
})

describe('the trace module', () => {
  it('begins a trace, adds segments, ends both, and then nothing more', () =>
    asking(async (ask, context_id) => {
      const begun = await ask('trace', { intent: 'begin', context_id })
      const { trace_id } = begun
      expect(begun).toMatchObject({ status: 'running', root_span: { trace_id, context_id } })
      const one = await ask('trace', { intent: 'begin_segment', trace_id, label: 'outside work' })
      const [segment] = one.segments as unknown as { segment_id: string }[]
      const ended = await ask('trace', {
        intent: 'end_segment',
        trace_id,
        segment_id: segment!.segment_id,
        attributes: { n: 1 },
      })
      expect(ended.segments).toMatchObject([{ status: 'completed', attributes: { n: 1 } }])
      expect((await ask('trace', { intent: 'complete', trace_id })).status).toBe('completed')
      await expect(ask('trace', { intent: 'begin_segment', trace_id, label: 'late' })).rejects.toThrow(RuleViolation)
    }))
})

describe('a trace that ends with a segment open', () => {
  const begun = async (ask: Ask, context_id: string) => {
    const { trace_id } = await ask('trace', { intent: 'begin', context_id })
    await ask('trace', { intent: 'begin_segment', trace_id, label: 'under way' })
    await ask('trace', { intent: 'begin_segment', trace_id, label: 'to come', status: 'pending' })
    return trace_id
  }

  it('is not completed: nobody knows how that went', () =>
    asking(async (ask, context_id) => {
      const trace_id = await begun(ask, context_id)
      const completing = ask('trace', { intent: 'complete', trace_id })
      await expect(completing).rejects.toMatchObject({ violations: [{ rule: 'trace.ends_segments' }] })
    }))

  it.each([
    ['fail', 'failed'],
    ['cancel', 'cancelled'],
  ])('ends it too when it is to %s', (intent, status) =>
    asking(async (ask, context_id) => {
      const ended = await ask('trace', { intent, trace_id: await begun(ask, context_id) })
      expect(ended).toMatchObject({ status, segments: [{ status }, { status: 'skipped' }] })
    }),
  )
})

it('leaves the trace of a run to the run', () =>
  asking(async (ask, context_id, runtime) => {
    const { context: _, ...flow } = chainOf(1)
    const run = await runtime.submit({
      ...flow,
      context: context_id,
      plan: { ...flow.plan, context_id },
      approval: {},
    })
    const cancelling = ask('trace', { intent: 'cancel', trace_id: run.trace_id })
    await expect(cancelling).rejects.toMatchObject({ violations: [{ rule: 'owner.fence' }] })
    const adding = ask('trace', { intent: 'begin_segment', trace_id: run.trace_id, label: 'mine' })
    await expect(adding).rejects.toMatchObject({ violations: [{ rule: 'owner.fence' }] })
    await runtime.cancel(run.plan_id)
    expect((await run.result()).status).toBe('cancelled')
  }))

describe('the role module', () => {
  it('creates roles in the project, grants, revokes and retires', () =>
    asking(async (ask, _, runtime) => {
      const { role_id } = await ask('role', { intent: 'create', name: 'planner', capabilities: ['plan.create'] })
      const granted = await ask('role', { intent: 'grant', role_id, capability: 'plan.propose' })
      expect(granted.capabilities).toEqual(['plan.create', 'plan.propose'])
      expect((await ask('role', { intent: 'grant', role_id, capability: 'plan.propose' })).capabilities).toHaveLength(2)
      expect((await ask('role', { intent: 'revoke', role_id, capability: 'plan.create' })).capabilities).toEqual([
        'plan.propose',
      ])
      expect((await ask('role', { intent: 'update', role_id, description: 'plans' })).description).toBe('plans')
      expect(runtime.project.role('planner')?.role_id).toBe(role_id)
      await ask('role', { intent: 'retire', role_id })
      expect(runtime.project.role('planner')).toBeUndefined()
      expect(runtime.project.role(role_id as string)?.name).toBe('planner')
    }))
})

describe('the extension module', () => {
  it('registers, configures and switches', () =>
    asking(async (ask, context_id) => {
      const given = { context_id, name: 'pay', extension_type: 'capability', version: '1.2.0-rc.1' }
      const { extension_id } = await ask('extension', { intent: 'register', ...given })
      expect(
        await walk(ask, 'extension', { extension_id }, ['activate', 'deactivate', 'activate', 'deprecate']),
      ).toEqual([...['active', 'inactive', 'active', 'deprecated']])
      expect((await ask('extension', { intent: 'configure', extension_id, config: { a: 1 } })).config).toEqual({ a: 1 })
    }))
})

describe('the dialog module', () => {
  it('opens, takes messages while it is active, and tells what a user says as an intent', () =>
    asking(async (ask, context_id, runtime) => {
      const { dialog_id } = await ask('dialog', { intent: 'open', context_id })
      await ask('dialog', { intent: 'say', dialog_id, role: 'user', content: 'two pairs, please' })
      const answered = await ask('dialog', { intent: 'say', dialog_id, role: 'assistant', content: 'of course' })
      expect((answered.messages as unknown as { content: string }[]).map(({ content }) => content)).toEqual([
        'two pairs, please',
        'of course',
      ])
      const told: unknown[] = []
      for await (const entry of runtime.project.store.read(context_id))
        told.push(...eventsIn(entry).map(({ event }) => event))
      expect(told.filter((event) => Object(event).event_family === 'intent')).toMatchObject([
        { event_type: 'user_message_received', payload: { dialog_id, raw_text: 'two pairs, please' } },
      ])
      await ask('dialog', { intent: 'pause', dialog_id })
      await expect(ask('dialog', { intent: 'say', dialog_id, role: 'user', content: 'hello?' })).rejects.toThrow(
        RuleViolation,
      )
      expect(await walk(ask, 'dialog', { dialog_id }, ['resume', 'complete'])).toEqual(['active', 'completed'])
    }))
})

describe('the collab module', () => {
  it('creates a session, lets others join, starts, suspends and ends it', () =>
    asking(async (ask, context_id) => {
      const participants = [{ participant_id: 'ann', kind: 'agent' }]
      const { collab_id } = await ask('collab', {
        intent: 'create',
        context_id,
        title: 'T',
        purpose: 'P',
        mode: 'pair',
        participants,
      })
      const two = await ask('collab', { intent: 'join', collab_id, participant_id: 'bob', kind: 'human' })
      expect((two.participants as unknown as { participant_id: string }[]).map((one) => one.participant_id)).toEqual([
        'ann',
        'bob',
      ])
      expect(await walk(ask, 'collab', { collab_id }, ['start', 'suspend', 'resume', 'complete'])).toEqual([
        ...['active', 'suspended', 'active', 'completed'],
      ])
      await expect(ask('collab', { intent: 'join', collab_id, participant_id: 'cy', kind: 'agent' })).rejects.toThrow(
        RuleViolation,
      )
    }))
})

/** The stages of what is neither plan nor step nor context, in short. */
async function stagesIn({ project }: Runtime, graph: string) {
  const told: unknown[] = []
  for await (const entry of project.store.read(graph))
    for (const { event } of eventsIn(entry)) {
      const { resource_type, resource_id, from_status, to_status } = (event.payload ?? {}) as {
        [field: string]: string
      }
      if (event.event_family !== 'pipeline_stage' || resource_type === 'context') continue
      told.push([event.event_type, event.stage_status, resource_type, resource_id, from_status, to_status])
    }
  return told
}

describe('what modules tell of sessions and of the core', () => {
  const session = {
    title: 'Selling',
    purpose: 'to sell',
    mode: 'pair',
    participants: [{ participant_id: 'ann', kind: 'agent' }],
  }
  const opened = async (ask: Ask, context_id: string, more: object = {}) =>
    (await ask('collab', { intent: 'create', context_id, ...session, ...more })).collab_id as string

  it('is what then moved, also where another process was faster: one start, and an end from where the session stood', async () => {
    const store = memoryBackend()
    let meanwhile: (() => Promise<unknown>) | undefined
    const commit: Backend['commit'] = async (write) => {
      const before = meanwhile
      meanwhile = undefined
      await before?.()
      return store.commit(write)
    }
    const [runtime, other] = [await runtimeOf({}, { store: { ...store, commit } }), await runtimeOf({}, { store })]
    onTestFinished(async () => void (await Promise.all([runtime.close(), other.close()])))
    const root = { domain: 'shop', environment: 'ci' }
    const context = (await runtime.call('context', { intent: 'create', title: 'A shop', root })) as unknown as Found
    const context_id = context.context_id as string
    const ask = (name: string, input: object) => runtime.call(name, input) as unknown as Promise<Found>
    const [one, two] = [await opened(ask, context_id), await opened(ask, context_id)]
    const against = async (collab_id: string, intent: string, ...others: readonly string[]) => {
      meanwhile = async () => {
        for (const its of others) await other.call('collab', { intent: its, collab_id })
      }
      await runtime.call('collab', { intent, collab_id })
    }
    await against(one, 'start', 'start', 'suspend')
    await against(two, 'cancel', 'start')
    expect(await stagesIn(runtime, context_id)).toEqual([
      ['session_started', 'running', 'collab', one, 'draft', 'active'],
      ['session_started', 'running', 'collab', two, 'draft', 'active'],
      ['session_cancelled', 'failed', 'collab', two, 'active', 'cancelled'],
    ])
  })

  it('is one start and one end of a session, whichever intent led to them, each with what moved', () =>
    asking(async (ask, context_id, runtime) => {
      const [one, other, third] = [
        await opened(ask, context_id),
        await opened(ask, context_id, { status: 'active' }),
        await opened(ask, context_id),
      ]
      await walk(ask, 'collab', { collab_id: one }, ['resume', 'suspend', 'start', 'complete'])
      await walk(ask, 'collab', { collab_id: other }, ['cancel'])
      await walk(ask, 'collab', { collab_id: third }, ['cancel'])
      expect(await stagesIn(runtime, context_id)).toEqual([
        ['session_started', 'running', 'collab', other, undefined, 'active'],
        ['session_started', 'running', 'collab', one, 'draft', 'active'],
        ['session_completed', 'completed', 'collab', one, 'active', 'completed'],
        ['session_cancelled', 'failed', 'collab', other, 'active', 'cancelled'],
        ['session_cancelled', 'skipped', 'collab', third, 'draft', 'cancelled'],
      ])
    }))

  it('is that a core is active, be it from its birth, and what became of a module', () =>
    asking(async (ask, _, runtime) => {
      const { core_id: one } = await ask('core', { intent: 'create', status: 'active' })
      const { core_id: other } = await ask('core', { intent: 'create' })
      await walk(ask, 'core', { core_id: other }, ['activate', 'deprecate'])
      const module = { module_id: 'dialog', version: '1.0.0', status: 'disabled' }
      await ask('core', { intent: 'set_module', core_id: one, module })
      expect(await stagesIn(runtime, runtime.project.id)).toEqual([
        ['protocol_initialized', 'running', 'core', one, undefined, 'active'],
        ['protocol_initialized', 'running', 'core', other, 'draft', 'active'],
        ['module_disabled', 'skipped', 'module', 'dialog', 'enabled', 'disabled'],
      ])
    }))
})

describe('the core module', () => {
  it('lists the modules and switches them', () =>
    asking(async (ask) => {
      const { core_id, modules } = await ask('core', { intent: 'create' })
      expect(modules).toHaveLength(10)
      const module = { module_id: 'network', version: '1.0.0', status: 'disabled' }
      const fewer = await ask('core', { intent: 'set_module', core_id, module })
      expect(fewer.modules).toContainEqual(module)
      expect(fewer.modules).toHaveLength(10)
      expect(await walk(ask, 'core', { core_id }, ['activate', 'deprecate', 'archive'])).toEqual([
        'active',
        'deprecated',
        'archived',
      ])
    }))
})

describe('the network module', () => {
  it('creates a topology, adds, changes and removes nodes, and moves along its life', () =>
    asking(async (ask, context_id) => {
      const nodes = [{ name: 'hub', kind: 'service' }]
      const { network_id } = await ask('network', {
        intent: 'create',
        context_id,
        name: 'N',
        topology_type: 'hub_spoke',
        nodes,
      })
      const more = await ask('network', { intent: 'add_node', network_id, kind: 'queue' })
      const [hub, queue] = (more.nodes as unknown as { node_id: string }[]).map(({ node_id }) => node_id)
      const ill = await ask('network', { intent: 'set_node_status', network_id, node_id: hub, status: 'unreachable' })
      expect(ill.nodes).toMatchObject([{ status: 'unreachable' }, { status: 'active' }])
      expect((await ask('network', { intent: 'remove_node', network_id, node_id: queue })).nodes).toHaveLength(1)
      expect(
        await walk(ask, 'network', { network_id }, [
          'provision',
          'activate',
          'degrade',
          'activate',
          'maintain',
          'activate',
          'retire',
        ]),
      ).toEqual([...['provisioning', 'active', 'degraded', 'active', 'maintenance', 'active', 'retired']])
    }))
})

describe('a module', () => {
  it('is loaded and unloaded while the runtime lives', () =>
    asking(async (_, context_id, runtime) => {
      expect(runtime.modules.names).toEqual(Object.keys(protocolModules))
      expect(runtime.modules.unload('dialog')).toBe(true)
      expect(runtime.modules.unload('dialog')).toBe(false)
      await expect(runtime.call('dialog', { intent: 'open', context_id })).rejects.toThrow(NotFound)
      runtime.modules.load('dialog', protocolModules.dialog)
      await runtime.call('dialog', { intent: 'open', context_id })
      expect(() => runtime.modules.load('dialog', protocolModules.dialog)).toThrow(InvalidInput)
      expect(() => runtime.modules.load('', protocolModules.dialog)).toThrow(InvalidInput)
      expect(() => runtime.modules.load('x', { intents: { y: 7 } } as never)).toThrow(InvalidInput)
      expect(() => runtime.modules.load('x', null as never)).toThrow(InvalidInput)
    }))

  it('writes its own areas only', () =>
    asking(async (_, context_id, runtime) => {
      runtime.modules.load('spy', protocolModules.dialog satisfies Module)
      await expect(runtime.call('spy', { intent: 'open', context_id })).rejects.toMatchObject({
        violations: [expect.objectContaining({ rule: 'module.area' })],
      })
    }))

  it('signs what it does, or lets somebody sign', () =>
    asking(async (_, context_id, runtime) => {
      await runtime.call('dialog', { intent: 'open', context_id }, { actor: 'ann', reason: 'she asked' })
      const graph = await runtime.project.context(context_id)
      let last: unknown
      for await (const { body } of runtime.project.store.read(context_id, { after: graph.revision - 1 })) last = body
      expect(last).toMatchObject({ actor: 'ann', reason: 'she asked' })
    }))

  it.each<[string, (good: Proposed) => unknown, { path: string; rule: string }]>([
    ['nothing', () => undefined, { path: '', rule: 'type' }],
    ['no graph', ({ graph: _, ...rest }) => rest, { path: 'graph', rule: 'required' }],
    ['what is no graph', (good) => ({ ...good, graph: {} }), { path: 'graph', rule: 'type' }],
    ['no changes', ({ changes: _, ...rest }) => rest, { path: 'changes', rule: 'required' }],
    ['events that are no list', (good) => ({ ...good, events: {} }), { path: 'events', rule: 'type' }],
    ['no reason', (good) => ({ ...good, reason: '' }), { path: 'reason', rule: 'type' }],
    ['no object that it is about', ({ about: _, ...rest }) => rest, { path: 'about', rule: 'required' }],
    [
      'a kind that there is not',
      (good) => ({ ...good, about: { kind: 'x', id: 'x' } }),
      { path: 'about', rule: 'type' },
    ],
  ])('is refused when it proposes %s, and nothing has happened', (_, spoil, problem) =>
    asking(async (_, context_id, runtime) => {
      const open = protocolModules.dialog.intents.open!
      runtime.modules.unload('dialog')
      const spoilt = async (...asked: Parameters<typeof open>) => spoil(await open(...asked)) as Proposed
      runtime.modules.load('dialog', { intents: { open: spoilt } })
      const graph = await runtime.project.context(context_id)
      const before = graph.revision
      const error = await runtime.call('dialog', { intent: 'open', context_id }).catch((thrown) => thrown)
      expect(error).toMatchObject({ code: 'invalid_input', problems: [expect.objectContaining(problem)] })
      expect(error.message).toContain('what module dialog proposes for open')
      await graph.refresh()
      expect(graph.revision).toBe(before)
    }),
  )

  const id = crypto.randomUUID()
  it.each<[string, string, unknown, unknown]>([
    ['no object', 'role', 7, { problems: [{ path: '', rule: 'type' }] }],
    ['no intent', 'role', {}, { problems: [{ path: 'intent', rule: 'enum' }] }],
    [
      'an intent that it does not know',
      'role',
      { intent: 'promote' },
      { problems: [{ path: 'intent', rule: 'enum' }] },
    ],
    [
      'an intent that every object has',
      'role',
      { intent: 'toString' },
      { problems: [{ path: 'intent', rule: 'enum' }] },
    ],
    ['a field too few', 'extension', { intent: 'activate' }, { problems: [{ path: 'extension_id', rule: 'type' }] }],
    [
      'a field too many',
      'extension',
      { intent: 'activate', extension_id: id, now: 1 },
      { problems: [{ path: 'now', rule: 'extra_forbidden' }] },
    ],
    ['an id that nobody has', 'extension', { intent: 'activate', extension_id: id }, { what: 'extension', id }],
    ['an object that does not fit', 'role', { intent: 'create', nme: 'x' }, { subject: 'role' }],
    ['a context that is not there', 'dialog', { intent: 'open', context_id: id }, { what: 'context', id }],
    [
      'a status that is none',
      'network',
      { intent: 'set_node_status', network_id: id, node_id: id, status: 1 },
      { what: 'network' },
    ],
    ['a part that does not fit', 'collab', { intent: 'join', collab_id: id, kind: 'agent' }, { what: 'collab' }],
  ])('is asked with %s: a typed error, and nothing changed', (_, module, input, error) =>
    asking(async (ask, context_id, runtime) => {
      const before = [(await runtime.project.context(context_id)).revision, runtime.project.graph.revision]
      await expect(ask(module, input as never)).rejects.toMatchObject(error as object)
      expect([(await runtime.project.context(context_id)).revision, runtime.project.graph.revision]).toEqual(before)
    }),
  )

  it('is not there: a typed error', () =>
    asking(async (_, __, runtime) => {
      await expect(runtime.call('weather', { intent: 'ask' })).rejects.toThrow(NotFound)
    }))
})

describe('the handlers of the ten modules', () => {
  it('make a whole flow from its input', async () => {
    const flow = {
      steps: [
        { module: 'core' },
        { module: 'context', input: { title: 'A shop', root: { domain: 'shop', environment: 'ci' } } },
        { module: 'role', input: { name: 'seller' } },
        { module: 'role', input: { name: 'buyer' } },
        { module: 'extension', input: { name: 'pay', extension_type: 'other', version: '1.0.0' } },
        {
          module: 'dialog',
          input: { messages: [{ role: 'user', content: 'hello', timestamp: '2026-01-01T00:00:00Z' }] },
        },
        {
          module: 'collab',
          input: { title: 'T', purpose: 'P', mode: 'swarm', participants: [{ participant_id: 'ann', kind: 'agent' }] },
        },
        { module: 'network', input: { name: 'N', topology_type: 'mesh' } },
        {
          module: 'plan',
          input: { title: 'Sell', objective: 'sell shoes', steps: [{ description: 'sell', agent_role: 'seller' }] },
        },
        { module: 'confirm', input: { status: 'approved', requested_by_role: 'lead' } },
        { module: 'trace' },
      ],
    }
    const { success, error, output } = await runSingleAgentFlow(call(memoryBackend(), protocolHandlers(), { flow }))
    expect({ success, error }).toEqual({ success: true })
    for (const kind of Object.keys(protocolModules) as ModuleName[])
      expect([kind, isValid(kind, output?.[kind])]).toEqual([kind, true])
    expect(output).toMatchObject({
      role: { name: 'seller' },
      'role#2': { name: 'buyer' },
      plan: { status: 'completed' },
    })
  })

  it('say where the input does not fit', async () => {
    const flow = { steps: [{ module: 'context', input: { title: '' } }] }
    const { error } = await runSingleAgentFlow(call(memoryBackend(), protocolHandlers(), { flow }))
    expect(error).toMatchObject({
      code: 'RUNTIME_EXCEPTION',
      problems: expect.arrayContaining([expect.objectContaining({ path: 'title' })]),
    })
  })
})
