import { describe, expect, it, onTestFinished } from 'vitest'
import { actionLayer, newAction } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { type Tool, toolAdapter, toolRegistry } from '../../src/ael/tool.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import type { RunOptions } from '../../src/orchestrator/live.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import type { SessionAsked } from '../../src/orchestrator/session.ts'
import { waitsOf } from '../../src/orchestrator/waits.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { isObject, type Json, type JsonObject, uuidOf } from '../../src/protocol/json.ts'
import type { CollabMode } from '../../src/protocol/types.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collabDocument, contextDocument, planDocument, roleDocument } from '../support/agents.ts'
import { flowOf } from '../support/flows.ts'
import { mortal } from '../support/mortal-runtime.ts'
import { door, heldCommit, inTime, passes, until } from '../support/on-a-clock.ts'

type Seen = { readonly who: string; readonly [step: string]: Json }
const boom = () => {
  throw new Error('boom')
}

const whoAsked: FunctionSpec = (args) => (args as Seen).who
const isAnn = (args: Json): boolean => (args as Seen).who === 'ann'

interface Given {
  readonly mode?: CollabMode
  /** By name: after what, by whom, and how it is carried out. */
  readonly steps: {
    readonly [name: string]: { after?: readonly string[]; role?: string; binding?: Partial<BindingSpec> }
  }
  readonly functions: { readonly [name: string]: FunctionSpec }
  readonly session?: (ids: { readonly [name: string]: string }) => Omit<SessionAsked, 'collab_id'>
  readonly options?: RunOptions
  readonly tools?: readonly Tool[]
  readonly seen?: (store: Backend) => Backend
}

/** A session of ann and bob: each step calls the function of its name with who has the turn and what the steps before it came to. `undone` names what was taken back. */
async function opened({
  mode = 'broadcast',
  steps,
  functions,
  session,
  options,
  tools = [],
  seen = (same) => same,
}: Given) {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  const context = contextDocument(clock)
  const plan = planDocument(context, steps, clock)
  const collab = collabDocument(context, mode, ['ann:dev', 'bob:dev'], clock)
  const undone: Json[] = []
  const undo: FunctionSpec = (args: Json) => void undone.push(args)
  async function start() {
    const process = mortal(seen(store))
    const adapters = [functionAdapter({ undo, ...functions }), toolAdapter(toolRegistry(tools))]
    const layer = (hands: Hands) => actionLayer({ ...hands, clock, adapters, graceMs: 10 })
    const runtime = await createRuntime({ store: process.store, layer, clock, leaseTtlMs: 500, patrolMs: 50 })
    let dead = false
    onTestFinished(async () => void (dead || (await inTime(clock, runtime.close()))))
    const die = () => {
      dead = true
      process.die()
    }
    return { ...runtime, die }
  }
  const runtime = await start()
  await runtime.call('context', { intent: 'create', ...context })
  await runtime.call('role', { intent: 'create', ...roleDocument('dev', clock) })
  await runtime.call('collab', { intent: 'create', ...collab })
  const bound = Object.entries(steps).map(([name, { after = [], binding }]) => {
    const before = after.map((other) => [other, { $from: plan.ids[other]! }] as const)
    const args = { who: { $turn: 'participant_id' }, ...Object.fromEntries(before) }
    const inverse = { action_type: 'function', params: { name: 'undo', args: name } }
    return [plan.ids[name]!, { action_type: 'function', params: { name, args }, inverse, ...binding }] as const
  })
  const run = await runtime.submit({
    context: context.context_id,
    plan,
    bindings: { steps: Object.fromEntries(bound) },
    options: { profile: 'map', session: { collab_id: collab.collab_id, ...session?.(plan.ids) }, ...options },
  })
  return { runtime, start, clock, run, ids: plan.ids, undone, collab_id: collab.collab_id }
}

/** Says no to everything that is asked until the run has ended. */
async function answerAll({ runtime, clock, run }: Awaited<ReturnType<typeof opened>>, status: 'approved' | 'rejected') {
  while ((await inTime(clock, run.rest())) !== 'ended')
    for (const { confirm } of await runtime.waiting())
      await runtime.decide(confirm.confirm_id, { status, decided_by_role: 'me' })
  return run.result()
}

describe('a session whose run is cancelled', () => {
  const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 60_000 } as const
  const pause: Partial<BindingSpec> = { action_type: 'wait', params: { signal: 'go' } }
  it.each<[string, Partial<BindingSpec>]>([
    ['a signal', pause],
    ['a person', { approval: 'ask' }],
    ['another attempt', { retry }],
  ])('completes the turns that wait for %s', async (_, binding) => {
    const { runtime, clock, run, ids } = await opened({
      mode: 'round_robin',
      steps: { work: { binding: { inverse: undefined, ...binding } as Partial<BindingSpec> } },
      functions: { work: boom },
    })
    await passes(clock, 100)
    await runtime.cancel(run.run_id)
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
    const turns: Json[] = []
    for await (const { event } of run.events()) {
      const { turn_number, result = null } = event.payload as JsonObject
      if (String(event.event_type).startsWith('MAPTurn')) turns.push([event.event_type as string, turn_number!, result])
    }
    expect(turns).toEqual([
      ['MAPTurnDispatched', 1, null],
      ['MAPTurnCompleted', 1, { status: 'cancelled', step_id: ids.work }],
    ])
  })
})

it('says for which signal a word about a step waits', async () => {
  const { runtime, clock, run } = await opened({
    mode: 'pair',
    steps: { work: {} },
    functions: { work: () => 'done' },
    session: () => ({ review: { action_type: 'wait', params: { signal: 'fine' } } }),
  })
  expect(await inTime(clock, run.rest())).toBe('waiting')
  const graph = await runtime.project.context(run.context_id)
  expect(waitsOf(graph, run.plan_id)).toEqual([{ what: 'the signal fine', signal: 'fine' }])
  await runtime.signal(run.run_id, 'fine')
  expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
})

describe('a step of a session that is handed out again', () => {
  it.each<[string, Partial<BindingSpec>, readonly string[]]>([
    ['call by call', {}, ['put lamp', 'put lamp', 'put desk', 'take desk', 'take lamp']],
    [
      'as the step says',
      { inverse: { action_type: 'function', params: { name: 'undo' } } },
      ['put lamp', 'put lamp', 'put desk'],
    ],
  ])('takes back what was done in both turns under one key once, %s', async (_, binding, done) => {
    const log: string[] = []
    const tool = (name: string, more: Partial<Tool>) =>
      ({
        name: `shelf.${name}`,
        description: name,
        input: { type: 'object' },
        execute: ({ item }) => void log.push(`${name} ${item}`),
        ...more,
      }) as Tool
    const inverse: Tool['inverse'] = (args) => ({ tool_name: 'shelf.take', tool_args: args })
    let turns = 0
    const fill: FunctionSpec = async (_args, { act, idempotency_key, signal }) => {
      const put = (item: string) =>
        act(
          newAction({
            action_type: 'tool_call',
            params: { tool_name: 'shelf.put', tool_args: { item } },
            idempotency_key: `${idempotency_key}:${item}`,
          }),
        )
      await put('lamp')
      if (++turns === 1) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      await put('desk')
      return null
    }
    const { clock, run, undone } = await opened({
      mode: 'round_robin',
      steps: {
        fill: { binding: { inverse: undefined, ...binding } as Partial<BindingSpec> },
        fail: { after: ['fill'], binding: { on_failure: 'compensate' } },
      },
      functions: { fill, fail: boom },
      tools: [tool('put', { effect: 'reversible', inverse }), tool('take', {})],
      session: () => ({ token_ms: 100 }),
    })
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed' })
    expect(log).toEqual(done)
    expect(undone).toHaveLength(binding.inverse ? 1 : 0)
  })

  it('finds the children of the turn that was taken away: its key is the same', async () => {
    let paid = 0
    let turns = 0
    const work: FunctionSpec = async (_args, { child, idempotency_key, signal }) => {
      const { status } = await child(flowOf({ pay: {} }, { chosen: { run: uuidOf(`${idempotency_key} pays`) } }))
      if (++turns > 1) return status
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
    const { clock, run, ids } = await opened({
      mode: 'round_robin',
      steps: { work: {} },
      functions: { work, pay: () => ++paid },
      session: () => ({ token_ms: 1_000 }),
    })
    expect(await inTime(clock, run.result())).toMatchObject({ outputs: { [ids.work!]: 'completed' } })
    expect([turns, paid]).toEqual([2, 1])
  })
})

describe('a session that takes back what it did', () => {
  it('takes back an answer also to a step that others had not answered', async () => {
    const answered = door()
    const { clock, run, undone } = await opened({
      steps: { poll: {}, other: { role: 'ann' } },
      functions: {
        async poll(args: Json, { signal }) {
          if (isAnn(args)) answered.open()
          else await clock.sleep(60_000, signal)
          return null
        },
        other: () => answered.opened.then(boom),
      },
      options: { on_failure: 'compensate' },
    })
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', undone: [{ status: 'undone' }] })
    expect(undone).toEqual(['poll'])
  })

  it('asks nobody which answer shall stand once it is on its way to its end', async () => {
    const [back, questions] = [door(), new Set<string>()]
    const { runtime, clock, run } = await opened({
      steps: { poll: {} },
      functions: {
        async poll(args: Json, { signal }) {
          if (!isAnn(args)) await clock.sleep(60_000, signal).catch(() => undefined) // as good as done when it was told to stop
          return isAnn(args) ? 'ann' : 'bob'
        },
        undo: () => back.opened,
      },
      session: () => ({ conflicts: { strategies: ['escalation'] } }),
      options: { on_failure: 'compensate', budget: { wall_ms: 5_000 } },
    })
    await until(clock, () => run.phase === 'undoing')
    for (const { confirm } of await runtime.waiting()) questions.add(String(confirm.reason))
    back.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', undone: [{}, {}] })
    expect([...questions]).toEqual([])
  })

  it('takes back answers that nobody wanted', async () => {
    const given = await opened({
      steps: { poll: { binding: { on_failure: 'compensate' } } },
      functions: { poll: whoAsked },
      session: () => ({ conflicts: { strategies: ['escalation'] } }),
    })
    expect(await answerAll(given, 'rejected')).toMatchObject({ status: 'failed', error: { code: 'action_rejected' } })
    expect(given.undone).toEqual(['poll', 'poll'])
  })

  it('tells what takes an answer back whose turn it was', async () => {
    const inverse = { action_type: 'function', params: { name: 'undo', args: { $turn: 'participant_id' } } }
    const { clock, run, undone } = await opened({
      steps: { poll: { binding: { inverse } }, boom: { after: ['poll'], binding: { on_failure: 'compensate' } } },
      functions: { poll: whoAsked, boom },
    })
    expect((await inTime(clock, run.result())).status).toBe('failed')
    expect(undone.toSorted()).toEqual(['ann', 'bob'])
  })

  it('takes back the last first, also what several did together and another process had seen', async () => {
    const [slow, called] = [door(), new Set<string>()]
    const given = await opened({
      steps: {
        prepare: { role: 'ann' },
        announce: { after: ['prepare'], role: 'ann' },
        poll: { after: ['announce'] },
        last: { after: ['poll'], role: 'bob', binding: { on_failure: 'compensate' } },
      },
      functions: {
        prepare: () => 'ready',
        announce: () => 'soon',
        poll: whoAsked,
        last: () => {
          called.add('last')
          return slow.opened.then(boom)
        },
      },
    })
    const { runtime, clock, run, start, undone } = given
    await until(clock, () => called.has('last'))
    runtime.die()
    slow.open()
    const second = await start()
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'failed' })
    expect(undone).toEqual(['poll', 'poll', 'announce', 'prepare'])
  })
})

describe('a conflict that a person settles when another process has the run', () => {
  it('is told to end as what it began as', async () => {
    const { runtime, start, clock, run } = await opened({
      steps: { poll: {} },
      functions: { poll: whoAsked },
      session: () => ({ conflicts: { strategies: ['escalation'] } }),
    })
    expect(await inTime(clock, run.rest())).toBe('waiting')
    runtime.die()
    const second = await start()
    const [question] = await second.waiting()
    await second.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'me' })
    const again = await second.get(run.run_id)
    expect(await inTime(clock, again.result())).toMatchObject({ success: true })
    const told: JsonObject[] = []
    for await (const { event } of again)
      if (isObject(event.payload) && event.payload.action_id === question!.confirm.target_id) told.push(event)
    expect(told.map(({ event_type }) => event_type)).toEqual(['execution_started', 'execution_completed'])
    const payload = { action_type: 'resolve_conflict', operation: 'resolve_conflict' }
    for (const event of told) expect(event).toMatchObject({ executor_kind: 'external', payload })
  })
})

it('counts no question about a conflict as something that was done, whoever counts', async () => {
  const given = await opened({
    steps: { poll: {}, again: { after: ['poll'] } },
    functions: { poll: whoAsked, again: whoAsked },
    session: () => ({ conflicts: { strategies: ['escalation'] } }),
  })
  expect(await answerAll(given, 'approved')).toMatchObject({ success: true })
  const { runtime, run } = given
  const graph = await runtime.project.context(run.context_id)
  expect(graph.get('run', run.run_id)?.data.spent).toMatchObject({ actions: 4 })
})

it('shows who must agree to a turn whose it is, and to a review what was done', async () => {
  const given = await opened({
    mode: 'pair',
    steps: { poll: { binding: { approval: 'ask' } } },
    functions: { poll: whoAsked, check: (args) => args },
    session: () => ({
      review: { action_type: 'function', params: { name: 'check', args: { $from: 'step' } }, approval: 'ask' },
    }),
  })
  const { runtime, clock, run } = given
  const shown: Json[] = []
  while ((await inTime(clock, run.rest())) !== 'ended')
    for (const { confirm, shows } of await runtime.waiting()) {
      shown.push(shows!.arguments!)
      await runtime.decide(confirm.confirm_id, { status: 'approved', decided_by_role: 'me' })
    }
  expect(shown).toEqual([
    { name: 'poll', args: { who: 'ann' } },
    { name: 'check', args: 'ann' },
  ])
})

describe('who loses one of several things that it wrote', () => {
  interface Writing {
    /** By step: who does it and what that writes. */
    readonly steps: { readonly [name: string]: readonly [who: 'ann' | 'bob', ...writes: string[]] }
    /** The step that ends last. */
    readonly slow: string
    readonly dies: boolean
    /** Whether the result that is asked about shall stand for a thing. Without it ann ranks higher. */
    readonly says?: (question: string) => boolean
  }

  /** The names of the steps whose results stand in the end. The process may die when all of them are done and only the last step is left. */
  async function written({ steps, slow, dies, says }: Writing) {
    const [began, hold] = [new Set<string>(), door()]
    const names = Object.keys(steps)
    const works = (name: string): FunctionSpec => {
      return async () => {
        if (name === slow) for (let i = 0; i < 5; i++) await clock.sleep(50)
        return name
      }
    }
    const last: FunctionSpec = () => {
      began.add('last')
      return hold.opened.then(() => 'last')
    }
    const asked = await opened({
      mode: 'swarm',
      steps: { ...Object.fromEntries(names.map((name) => [name, { role: steps[name]![0] }])), last: { after: names } },
      functions: { ...Object.fromEntries(names.map((name) => [name, works(name)])), last },
      session: (ids) => ({
        conflicts: {
          ...(says ? { strategies: ['escalation'] } : { ranks: { ann: 2, bob: 1 } }),
          writes: Object.fromEntries(names.map((name) => [ids[name]!, steps[name]!.slice(1)])),
        },
      }),
    })
    const { clock, runtime, run, start, ids } = asked
    while (says && !began.has('last')) {
      await passes(clock, 50)
      for (const { confirm } of await runtime.waiting())
        await runtime.decide(confirm.confirm_id, {
          status: says(String(confirm.reason)) ? 'approved' : 'rejected',
          decided_by_role: 'me',
        })
    }
    await until(clock, () => began.has('last'))
    if (dies) runtime.die()
    hold.open()
    const { resources } = await inTime(clock, (await (dies ? await start() : runtime).get(run.run_id)).result())
    const nameOf = (step_id: string) => names.find((name) => ids[name] === step_id)
    return Object.fromEntries(Object.entries(resources!).map(([what, { step_id }]) => [what, nameOf(step_id)]))
  }

  it.each([
    ['left', false],
    ['right', false],
    ['left', true],
    ['right', true],
  ] as const)('keeps the others: %s ends last, and the process dies: %s', async (slow, dies) => {
    const steps = { left: ['ann', 'readme'], right: ['bob', 'readme', 'log'] } as const
    expect(await written({ steps, slow, dies })).toEqual({ readme: 'left', log: 'right' })
  })

  it.each([false, true])('has lost what it lost to each of several: the process dies: %s', async (dies) => {
    const steps = { one: ['ann', 'readme'], two: ['ann', 'log'], all: ['bob', 'readme', 'log', 'todo'] } as const
    expect(await written({ steps, slow: 'all', dies })).toEqual({ readme: 'one', log: 'two', todo: 'all' })
  })

  it.each([false, true])('keeps what a person gave it, and so does the other: the process dies: %s', async (dies) => {
    const steps = { left: ['ann', 'readme', 'log'], right: ['bob', 'readme', 'log'] } as const
    const says = (question: string) => question.includes(question.includes('readme') ? 'ann' : 'bob')
    expect(await written({ steps, slow: 'right', dies, says })).toEqual({ readme: 'left', log: 'right' })
  })

  it.each([false, true])(
    'has been overwritten by what it did later, whenever a person answers: the process dies: %s',
    async (dies) => {
      const steps = { other: ['bob', 'readme'], early: ['ann', 'readme', 'log'], late: ['ann', 'log'] } as const
      expect(await written({ steps, slow: 'early', dies, says: () => true })).toEqual({ readme: 'other', log: 'late' })
    },
  )
})

it('has what was written last stand, also where who wrote before still waited for another who was to answer the same', async () => {
  const { clock, run, ids } = await opened({
    steps: { poll: {}, other: { role: 'ann' } },
    functions: {
      poll: (args) => (isAnn(args as Json) ? clock.sleep(200).then(boom) : 'bob'),
      other: () => clock.sleep(100).then(() => 'ann'),
    },
    session: ({ poll, other }) => ({
      conflicts: { strategies: ['timestamp'], writes: { [poll!]: ['log'], [other!]: ['log'] } },
    }),
  })
  const log = { step_id: ids.other, participant_id: 'ann' }
  expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed', resources: { log } })
})

describe('several questions about one thing', () => {
  it.each(['approved', 'rejected'] as const)(
    'are all settled, also that about a result which lost to another meanwhile and is %s then',
    async (last) => {
      const { clock, runtime, run, ids } = await opened({
        mode: 'swarm',
        steps: { one: { role: 'ann' }, two: { role: 'bob' }, three: { role: 'bob' } },
        functions: { one: () => 1, two: () => clock.sleep(50).then(() => 2), three: () => 3 },
        session: ({ one, two, three }) => ({
          conflicts: { strategies: ['escalation'], writes: { [one!]: ['log'], [two!]: ['log'], [three!]: ['log'] } },
        }),
      })
      const decide = async (confirm_id: string, status: 'approved' | 'rejected') => {
        await runtime.decide(confirm_id, { status, decided_by_role: 'me' })
        await passes(clock, 100)
      }
      const asked = async () => (await runtime.waiting()).map(({ confirm }) => confirm.confirm_id)
      await passes(clock, 500)
      const [oneOrTwo, oneOrThree] = await asked()
      await decide(oneOrTwo!, 'rejected')
      await decide((await asked()).find((id) => id !== oneOrThree)!, 'approved') // of two
      await decide(oneOrThree!, last)
      for (const id of await asked()) await decide(id, 'approved') // of three
      const step_id = last === 'approved' ? ids.two : ids.three
      expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed', resources: { log: { step_id } } })
    },
  )
})

describe('steps that nobody has yet', () => {
  it.each([false, true])('are taken in the plan’s order: the process dies: %s', async (dies) => {
    const done: string[] = []
    const slow = door()
    const names = ['a', 'x', 'b', 'y', 'c', 'd', 'z']
    const works = (name: string): FunctionSpec => {
      return async () => {
        done.push(name)
        if (name === 'c') await slow.opened
        return name
      }
    }
    const { clock, runtime, run, start } = await opened({
      mode: 'round_robin',
      steps: {
        ...{ a: { role: 'ann' }, b: { role: 'ann', after: ['a'] } },
        ...{ c: { role: 'ann', after: ['b'] }, d: { role: 'ann', after: ['b'] } },
        ...{ x: { role: 'bob' }, y: { role: 'bob' }, z: { role: 'ann', after: ['y'] } },
      },
      functions: Object.fromEntries(names.map((name) => [name, works(name)])),
    })
    await until(clock, () => done.includes('c'))
    if (dies) runtime.die()
    slow.open()
    const again = await (dies ? await start() : runtime).get(run.run_id)
    expect(await inTime(clock, again.result())).toMatchObject({ status: 'completed' })
    expect([...new Set(done)].join(' ')).toBe('a x b y z c d')
  })
})

/** A session of two steps, of which another process decides something while the commit that says so is held up. */
async function decidedWhile(says: string, intent: string) {
  const called: string[] = []
  const held = heldCommit(says)
  const given = await opened({
    mode: 'round_robin',
    steps: { a: {}, b: { after: ['a'] } },
    functions: { a: () => void called.push('a'), b: () => void called.push('b') },
    seen: held.seen,
  })
  const other = await given.start()
  await held.reached
  await other.call('collab', { intent, collab_id: given.collab_id })
  held.letGo()
  return { ...given, called, other }
}

describe('a session that another process holds up or ends while a turn is given out', () => {
  async function meanwhile(intent: string) {
    const { called, clock, run, other, collab_id } = await decidedWhile('"turn_number":2', intent)
    await passes(clock, 200)
    expect(called).toEqual(['a'])
    const again = await other.get(run.run_id)
    const turns = async () => {
      let dispatched = 0
      for await (const { event } of again) if (event.event_type === 'MAPTurnDispatched') dispatched++
      return dispatched
    }
    return { other, collab_id, called, turns, result: () => inTime(clock, again.result()) }
  }

  it('takes the turn back, and gives it out when it goes on', async () => {
    const { other, collab_id, called, result } = await meanwhile('suspend')
    await other.call('collab', { intent: 'resume', collab_id })
    expect(await result()).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['a', 'b'])
  })

  it.each(['cancel', 'complete'])('takes the turn back: %s', async (intent) => {
    const { turns, result } = await meanwhile(intent)
    expect(await result()).toMatchObject({ status: 'cancelled', error: { code: 'session_ended' } })
    expect(await turns()).toBe(1)
  })
})

describe('a session that another process holds up or ends while its last turn lands', () => {
  it.each(['suspend', 'cancel', 'complete'])('has done all its steps, each once: %s', async (intent) => {
    const { called, clock, run, runtime, collab_id } = await decidedWhile('MAPSessionCompleted', intent)
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['a', 'b'])
    const graph = await runtime.project.context(run.context_id)
    expect(await graph.verify()).toEqual([])
    const { status } = await graph.document('collab', collab_id)
    expect(status).toBe(intent === 'cancel' ? 'cancelled' : 'completed')
  })
})

describe('a session that another process ends while its run', () => {
  const steps = { a: { binding: { approval: 'ask' } } } as const
  const ended = { status: 'cancelled', error: { code: 'session_ended' } }

  it.each(['waits', 'is paused'])('%s, ends it', async (what) => {
    const { clock, run, runtime, start, collab_id } = await opened({ steps, functions: { a: boom } })
    await inTime(clock, run.rest())
    if (what === 'is paused') await runtime.pause(run.run_id)
    await until(clock, () => run.phase === (what === 'waits' ? 'waiting' : 'paused'))
    const other = await start()
    await other.call('collab', { intent: 'cancel', collab_id })
    expect(await inTime(clock, run.result())).toMatchObject(ended)
    expect(await other.waiting()).toEqual([])
  })

  it('is being laid down, ends it', async () => {
    const held = heldCommit('the run is waiting')
    const { clock, run, start, collab_id } = await opened({ steps, functions: { a: boom }, seen: held.seen })
    await inTime(clock, held.reached)
    const other = await start()
    await other.call('collab', { intent: 'cancel', collab_id })
    held.letGo()
    expect(await inTime(clock, run.result())).toMatchObject(ended)
  })
})

describe('what several came to', () => {
  const steps = { poll: {}, tell: { after: ['poll'], role: 'bob' } }

  it('is what one answered where another failed', async () => {
    const { clock, run, ids } = await opened({
      steps,
      functions: { poll: (args: Json) => (isAnn(args) ? boom() : 'yes'), tell: (args) => (args as Seen).poll! },
    })
    const { outputs } = await inTime(clock, run.result())
    expect(outputs).toEqual({ [ids.poll!]: 'yes', [ids.tell!]: 'yes' })
  })

  it('is nothing when nobody wanted it', async () => {
    const given = await opened({
      steps: { ...steps, poll: { binding: { on_failure: 'skip' } } },
      functions: { poll: whoAsked, tell: (args) => ({ given: (args as Seen).poll! }) },
      session: () => ({ conflicts: { strategies: ['escalation'] } }),
    })
    const { success, outputs } = await answerAll(given, 'rejected')
    expect({ success, outputs }).toEqual({ success: true, outputs: { [given.ids.tell!]: { given: null } } })
  })
})
