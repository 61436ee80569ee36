import { describe, expect, it, onTestFinished } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { AtOnce } from '../../src/ael/places.ts'
import { type MultiAgentFlow, runMultiAgentFlow } from '../../src/orchestrator/multi-agent.ts'
import { mapBreaches } from '../../src/orchestrator/profiles/map.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { Collab, CollabMode, Plan, Trace } from '../../src/protocol/types.ts'
import { isValid, validateProfileEvent } from '../../src/protocol/validate.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import {
  call,
  collabDocument,
  confirmDocument,
  contextDocument,
  newContext,
  passing,
  planDocument,
  roleDocument,
  saying,
} from '../support/agents.ts'

const MODES: readonly CollabMode[] = ['broadcast', 'round_robin', 'orchestrated', 'swarm', 'pair']

interface Given {
  readonly mode: CollabMode
  readonly participants: readonly string[]
  readonly steps: { readonly [name: string]: { readonly role?: string; readonly after?: readonly string[] } }
  readonly functions?: { readonly [name: string]: FunctionSpec }
  readonly session?: MultiAgentFlow['session']
  readonly flow?: MultiAgentFlow
  readonly more?: { readonly [module: string]: unknown }
  readonly atOnce?: AtOnce
}

/** A flow of several agents: each step calls the function of its name, or `work`. */
function given({ mode, participants, steps, functions = {}, session, flow = {}, more = {}, atOnce }: Given) {
  const context = contextDocument()
  const plan = planDocument(context, steps)
  const names = [...new Set(participants.map((text) => text.split(':')[1]!))]
  const roles = names.map((name) => roleDocument(name))
  const collab = collabDocument(context, mode, participants)
  const store = memoryBackend()
  const layer = actionLayer({
    adapters: [functionAdapter({ work: (_, { role }) => role ?? null, ...functions })],
    blobs: { put: store.putBlob, get: store.getBlob },
    graceMs: 10,
    ...(atOnce && { atOnce }),
  })
  const bindings = {
    steps: Object.fromEntries(
      Object.entries(plan.ids).map(([name, id]) => [
        id,
        {
          action_type: 'function',
          params: { name: name in functions ? name : 'work', args: { $turn: 'participant_id' } },
        },
      ]),
    ),
  }
  const modules = { ...saying({ context, plan, collab, ...more }), role: () => ({ output: { roles } }) }
  const options = (again: object = {}) =>
    call<MultiAgentFlow>(store, modules, {
      ael: layer,
      flow: { bindings, ...(session && { session }), ...flow },
      ...again,
    })
  const stepName = Object.fromEntries(Object.entries(plan.ids).map(([name, id]) => [id, name]))
  return { context, plan, roles, collab, store, options, stepName, layer, modules }
}

type Told = {
  readonly event_type: string
  readonly payload: JsonObject & { readonly result?: JsonObject }
  readonly [field: string]: unknown
}
const mapEvents = (events: readonly unknown[]) =>
  (events as Told[]).filter(({ event_type }) => event_type.startsWith('MAP'))
const types = (events: readonly unknown[]) => mapEvents(events).map(({ event_type }) => event_type.slice(3))

/** What must hold of every session, however it went. */
async function proven(events: readonly unknown[], store: Backend, context: string): Promise<void> {
  expect(mapBreaches({ events })).toEqual([])
  const told = mapEvents(events)
  for (const event of told) validateProfileEvent('map-event', event)
  const turns = (type: string) =>
    told.filter((event) => event.event_type === type).map(({ payload }) => payload.turn_number)
  expect(turns('MAPTurnCompleted').toSorted()).toEqual(turns('MAPTurnDispatched').toSorted())
  expect(new Set(turns('MAPTurnDispatched')).size).toBe(turns('MAPTurnDispatched').length)
  const sent = told
    .filter(({ event_type }) => event_type === 'MAPBroadcastSent')
    .reduce((sum, { payload }) => sum + Number(payload.target_count), 0)
  expect(told.filter(({ event_type }) => event_type === 'MAPBroadcastReceived').length).toBeGreaterThanOrEqual(sent)
  expect(await (await (await openProject(store)).context(context)).verify()).toEqual([])
}

describe('turn-taking', () => {
  const turnTaking = () =>
    given({
      mode: 'round_robin',
      participants: ['ann:planner', 'bob:reviewer'],
      steps: {
        draft: { role: 'planner' },
        check: { role: 'reviewer', after: ['draft'] },
        finish: { role: 'planner', after: ['check'] },
      },
    })

  it('tells a session, its roles, one turn after the other, and its end', async () => {
    const { options, collab, roles, plan, stepName, store, context } = turnTaking()
    const { success, error, events, output } = await runMultiAgentFlow(options())
    expect({ success, error }).toEqual({ success: true })
    const turn = ['TurnDispatched', 'TurnCompleted']
    expect(types(events)).toEqual(['SessionStarted', 'RolesAssigned', ...turn, ...turn, ...turn, 'SessionCompleted'])
    const [started, assigned, first] = mapEvents(events)
    expect(started).toMatchObject({
      session_id: collab.collab_id,
      payload: { mode: 'round_robin', participant_count: 2, purpose: 'to work together' },
    })
    expect(assigned!.payload.assignments).toEqual([
      { participant_id: 'ann', role_id: roles[0]!.role_id, kind: 'agent' },
      { participant_id: 'bob', role_id: roles[1]!.role_id, kind: 'agent' },
    ])
    expect(isValid('identifier', first!.payload.token_id)).toBe(true)
    const dispatched = mapEvents(events).filter(({ event_type }) => event_type === 'MAPTurnDispatched')
    expect(
      dispatched.map(({ payload }) => [
        payload.turn_number,
        payload.participant_id,
        stepName[payload.step_id as string],
      ]),
    ).toEqual([
      [1, 'ann', 'draft'],
      [2, 'bob', 'check'],
      [3, 'ann', 'finish'],
    ])
    expect(new Set(dispatched.map(({ payload }) => payload.token_id)).size).toBe(3)
    expect(mapEvents(events).at(-1)!.payload).toEqual({ status: 'completed', participants_count: 2, turns_total: 3 })
    expect(output).toMatchObject({ plan: { status: 'completed' }, collab: { status: 'completed' } })
    expect(output!.steps).toEqual({
      [plan.ids.draft!]: 'planner',
      [plan.ids.check!]: 'reviewer',
      [plan.ids.finish!]: 'planner',
    })
    await proven(events, store, context.context_id)
  })

  it('records on every segment whose turn it was, and in the trace every event of the session', async () => {
    const { options } = turnTaking()
    const { output } = await runMultiAgentFlow(options())
    const trace = output!.trace as Trace
    expect(
      trace.segments?.map(({ attributes }) => [
        attributes?.turn_number,
        attributes?.participant_id,
        attributes?.purpose,
      ]),
    ).toEqual([
      [1, 'ann', 'work'],
      [2, 'bob', 'work'],
      [3, 'ann', 'work'],
    ])
    expect(trace.events?.filter(({ event_type }) => event_type === 'map.turn.completed')).toHaveLength(3)
  })

  it('walks the Collab from draft to active to completed, in the commits that begin and end the run', async () => {
    const { options, store, context, collab } = turnTaking()
    await runMultiAgentFlow(options())
    const graph = await (await openProject(store)).context(context.context_id)
    const revisions = (await graph.history('collab', collab.collab_id)).map(({ revision }) => revision)
    const statuses: unknown[] = []
    for (const revision of revisions)
      statuses.push((await graph.at(revision)).get('collab', collab.collab_id)?.data.status)
    expect(statuses).toEqual(['draft', 'active', 'completed'])
    expect(revisions.at(-1)).toBe(graph.revision)
  })
})

describe('a broadcast', () => {
  const fanOut = (more: Partial<Given> = {}) =>
    given({
      mode: 'broadcast',
      participants: ['lead:orchestrator', 'ann:searcher', 'bob:searcher', 'cy:searcher'],
      steps: {
        ask: { role: 'orchestrator' },
        web: { role: 'searcher', after: ['ask'] },
        news: { role: 'searcher', after: ['ask'] },
        books: { role: 'searcher', after: ['ask'] },
        merge: { role: 'orchestrator', after: ['web', 'news', 'books'] },
      },
      ...more,
    })

  it('goes out to a whole level at once, and is received by each before anything follows', async () => {
    const { options, stepName, store, context, roles } = fanOut()
    const { success, error, events } = await runMultiAgentFlow(options())
    expect({ success, error }).toEqual({ success: true })
    expect(types(events).filter((type) => !type.startsWith('Turn'))).toEqual([
      ...['SessionStarted', 'RolesAssigned', 'BroadcastSent'],
      ...['BroadcastReceived', 'BroadcastReceived', 'BroadcastReceived', 'SessionCompleted'],
    ])
    const sent = mapEvents(events).find(({ event_type }) => event_type === 'MAPBroadcastSent')!
    expect(sent).toMatchObject({
      initiator_role: roles[0]!.role_id,
      payload: { target_count: 3, broadcaster_role_id: roles[0]!.role_id },
    })
    const work = mapEvents(events).filter(({ event_type }) => event_type === 'MAPTurnDispatched')
    expect(work.map(({ payload }) => `${payload.participant_id} ${stepName[payload.step_id as string]}`)).toEqual([
      'lead ask',
      'ann web',
      'bob news',
      'cy books',
      'lead merge',
    ])
    await proven(events, store, context.context_id)
  })

  it('really runs a level side by side', async () => {
    let [now, most] = [0, 0]
    const search = async () => {
      most = Math.max(most, ++now)
      await new Promise((resolve) => setImmediate(resolve))
      now--
      return null
    }
    await runMultiAgentFlow(fanOut({ functions: { web: search, news: search, books: search } }).options())
    expect(most).toBe(3)
  })

  it('is received also by those who fail and those who are cancelled', async () => {
    const boom = () => {
      throw new Error('offline')
    }
    const { options, store, context } = fanOut({ functions: { web: boom, news: boom, books: boom } })
    const { success, events } = await runMultiAgentFlow(options())
    expect(success).toBe(false)
    expect(types(events).filter((type) => type === 'BroadcastReceived')).toHaveLength(3)
    await proven(events, store, context.context_id)
  })

  it('of one step to several gathers all their answers, where nobody says how to choose', async () => {
    const { options, plan, roles, store, context } = given({
      mode: 'broadcast',
      participants: ['ann:judge', 'bob:judge'],
      steps: { judge: { role: 'judge' }, tell: { after: ['judge'] } },
      functions: { judge: (who) => `${who} says so` },
    })
    const { output, events } = await runMultiAgentFlow(options())
    const { role_id } = roles[0]!
    expect((output!.steps as JsonObject)[plan.ids.judge!]).toEqual([
      { participant_id: 'ann', role_id, output: 'ann says so' },
      { participant_id: 'bob', role_id, output: 'bob says so' },
    ])
    await proven(events, store, context.context_id)
  })

  it('gathers answers that are large whole, for the result and for the steps that come after', async () => {
    const { options, plan, roles } = given({
      mode: 'broadcast',
      participants: ['ann:judge', 'bob:judge'],
      steps: { judge: { role: 'judge' }, tell: { role: 'ann', after: ['judge'] } },
      functions: { judge: (who) => (who === 'ann' ? 'long '.repeat(20_000) : 'short'), tell: (said) => said },
    })
    const { judge, tell } = plan.ids as { judge: string; tell: string }
    const bound = (name: string, args: Json) => ({ action_type: 'function', params: { name, args } })
    const bindings = {
      steps: { [judge]: bound('judge', { $turn: 'participant_id' }), [tell]: bound('tell', { $from: judge }) },
    }
    const { output } = await runMultiAgentFlow(options({ flow: { bindings } }))
    const { role_id } = roles[0]!
    const said = new Map([
      ['ann', { participant_id: 'ann', role_id, output: 'long '.repeat(20_000) }],
      ['bob', { participant_id: 'bob', role_id, output: 'short' }],
    ])
    const { [judge]: gathered, [tell]: told } = output!.steps as { [step: string]: readonly JsonObject[] }
    expect(gathered).toHaveLength(2)
    expect(new Map(gathered!.map((one) => [one.participant_id, one]))).toEqual(said)
    expect(told).toEqual(gathered)
  })

  it('of one step to several is answered when one of them is able to', async () => {
    const judge: FunctionSpec = (who) => {
      if (who === 'ann') throw new Error('no idea')
      return 'guilty'
    }
    const { options, plan } = given({
      mode: 'broadcast',
      participants: ['ann:judge', 'bob:judge'],
      steps: { judge: {} },
      functions: { judge },
    })
    const { success, output } = await runMultiAgentFlow(options())
    expect(success).toBe(true)
    expect((output!.steps as JsonObject)[plan.ids.judge!]).toBe('guilty')
  })

  it('takes no more at once than there is room for', async () => {
    let [now, most] = [0, 0]
    const work = async () => {
      most = Math.max(most, ++now)
      await new Promise((resolve) => setImmediate(resolve))
      now--
      return null
    }
    const steps = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`s${i}`, {}]))
    const { options } = given({
      mode: 'broadcast',
      participants: ['ann:a', 'bob:a'],
      steps,
      functions: { work },
      flow: { options: { concurrency: 3 } },
    })
    expect((await runMultiAgentFlow(options())).success).toBe(true)
    expect(most).toBe(3)
  })
})

describe.each(MODES)('a session in mode %s', (mode) => {
  const diamond = { a: {}, b: { after: ['a'] }, c: { after: ['a'] }, d: { after: ['b', 'c'] } }
  const participants = ['ann:dev', 'bob:dev']

  it('completes the plan, and every turn', async () => {
    const { options, store, context } = given({ mode, participants, steps: diamond })
    const { success, error, events, output } = await runMultiAgentFlow(options())
    expect({ success, error }).toEqual({ success: true })
    expect((output!.plan as Plan).steps.map(({ status }) => status)).toEqual(Array(4).fill('completed'))
    await proven(events, store, context.context_id)
  })

  it('completes every turn of a run that fails, and its Collab is cancelled', async () => {
    const c = () => {
      throw new Error('no')
    }
    const { options, store, context } = given({ mode, participants, steps: diamond, functions: { c } })
    const { success, events, output } = await runMultiAgentFlow(options())
    expect(success).toBe(false)
    expect(types(events).at(-1)).toBe('SessionCompleted')
    expect(mapEvents(events).at(-1)!.payload.status).toBe('failed')
    expect((output!.collab as Collab).status).toBe('cancelled')
    await proven(events, store, context.context_id)
  })

  it('completes every turn of a run that is cancelled while somebody works', async () => {
    const stop = new AbortController()
    const b: FunctionSpec = (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
        stop.abort()
      })
    const { options, store, context } = given({ mode, participants, steps: diamond, functions: { b } })
    const { error, events, output } = await runMultiAgentFlow(options({ signal: stop.signal }))
    expect(error?.code).toBe('CANCELLED')
    expect((output!.collab as Collab).status).toBe('cancelled')
    const ends = mapEvents(events).filter(({ event_type }) => event_type === 'MAPTurnCompleted')
    expect(ends.some(({ payload }) => payload.result?.status === 'cancelled')).toBe(true)
    await proven(events, store, context.context_id)
  })

  it('waits with its first turn until the plan is approved', async () => {
    const base = given({ mode, participants, steps: diamond })
    const pending = await runMultiAgentFlow({
      ...base.options(),
      modules: { ...base.modules, ...saying({ confirm: confirmDocument(base.plan, []) }) },
    })
    expect(pending.error?.code).toBe('APPROVAL_PENDING')
    expect(types(pending.events)).toEqual([])
    expect((pending.output!.collab as Collab).status).toBe('draft')
    const confirm = { ...confirmDocument(base.plan, [{}]), confirm_id: pending.error!.confirms![0]! }
    const done = await runMultiAgentFlow({ ...base.options(), modules: { ...base.modules, ...saying({ confirm }) } })
    expect(done.success).toBe(true)
    await proven(done.events, base.store, base.context.context_id)
  })

  it('that never began is cancelled with its run', async () => {
    const base = given({ mode, participants, steps: diamond, flow: { approval: {} } })
    const bindings = base.options().flow!.bindings!
    await runMultiAgentFlow({ ...base.options(), flow: { bindings, approval: {} } })
    const runtime = await createRuntime({ store: base.store, layer: base.layer, mine: new Set() })
    await runtime.cancel(base.plan.plan_id)
    await runtime.close()
    const { error, output, events } = await runMultiAgentFlow({ ...base.options(), flow: { bindings, approval: {} } })
    expect(error?.code).toBe('CANCELLED')
    expect((output!.collab as Collab).status).toBe('cancelled')
    expect(types(events)).toEqual([])
  })
})

describe('a swarm', () => {
  it('lets nobody do two things at once, and nobody wait who could work', async () => {
    const steps = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`s${i}`, {}]))
    const { options } = given({ mode: 'swarm', participants: ['ann:a', 'bob:a', 'cy:a'], steps })
    const { events } = await runMultiAgentFlow(options())
    const busy = new Set<unknown>()
    let most = 0
    for (const { event_type, payload } of mapEvents(events)) {
      if (event_type === 'MAPTurnDispatched') {
        expect(busy.has(payload.participant_id)).toBe(false)
        busy.add(payload.participant_id)
      } else if (event_type === 'MAPTurnCompleted') busy.delete(payload.participant_id)
      most = Math.max(most, busy.size)
    }
    expect(most).toBe(3)
  })
})

describe('a word before or after a step', () => {
  const review = {
    action_type: 'function',
    params: { name: 'review', args: { of: { $from: 'step' }, by: { $turn: 'participant_id' } } },
  }

  it('is carried out as the session says, with what the step gave', async () => {
    const said: Json[] = []
    const { options, store, context } = given({
      mode: 'pair',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {}, b: { after: ['a'] } },
      functions: { a: () => 'A', b: () => 'B', review: (args: Json) => void said.push(args) },
      session: { review },
    })
    const { success, events, output } = await runMultiAgentFlow(options())
    expect(success).toBe(true)
    expect(said).toEqual([
      { of: 'A', by: 'bob' },
      { of: 'B', by: 'ann' },
    ])
    expect(Object.values(output!.steps as JsonObject)).toEqual(['A', 'B'])
    await proven(events, store, context.context_id)
  })

  it('that fails ends the run, unless its binding lets it go on', async () => {
    const failing = (on_failure?: 'continue') =>
      given({
        mode: 'orchestrated',
        participants: ['lead:lead', 'ann:dev'],
        steps: { a: {} },
        functions: {
          review: () => {
            throw new Error('not good enough')
          },
        },
        session: { review: { ...review, ...(on_failure && { on_failure }) } },
      })
    const strict = failing()
    const { error, events, output } = await runMultiAgentFlow(strict.options())
    expect(error).toMatchObject({ code: 'ACTION_FAILED', message: 'not good enough' })
    expect((output!.plan as Plan).steps[0]!.status).toBe('completed')
    await proven(events, strict.store, strict.context.context_id)
    expect((await runMultiAgentFlow(failing('continue').options())).success).toBe(true)
  })

  it('may need a person', async () => {
    const { options, layer, store } = given({
      mode: 'pair',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {} },
      functions: { review: () => 'fine' },
      session: { review: { ...review, approval: 'ask' } },
    })
    const { error } = await runMultiAgentFlow(options())
    expect(error?.code).toBe('APPROVAL_PENDING')
    const runtime = await createRuntime({ store, layer, mine: new Set() })
    await runtime.decide(error!.confirms![0]!, { status: 'approved', decided_by_role: 'me' })
    await runtime.close()
    expect((await runMultiAgentFlow(options())).success).toBe(true)
  })
})

describe('a word about a step that a later call cannot say', () => {
  it('is waited for, by name, and said by one that can', async () => {
    const { options, layer, store } = given({
      mode: 'pair',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {} },
      functions: { review: () => 'fine' },
      session: { review: { action_type: 'function', params: { name: 'review' }, approval: 'ask' } },
    })
    const { error } = await runMultiAgentFlow(options())
    const runtime = await createRuntime({ store, layer, mine: new Set() })
    await runtime.decide(error!.confirms![0]!, { status: 'approved', decided_by_role: 'me' })
    await runtime.close()
    const mute = actionLayer({ adapters: [functionAdapter({ work: () => null })] })
    const unable = await runMultiAgentFlow(options({ ael: mute, onError: () => undefined }))
    expect(unable.error).toMatchObject({
      code: 'ACTION_NOT_REGISTERED',
      message: expect.stringContaining('function review'),
    })
    expect((await runMultiAgentFlow(options())).success).toBe(true)
  })
})

describe('a word about a step that waits', () => {
  it('is woken by its signal', async () => {
    const { options, layer, store } = given({
      mode: 'pair',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {} },
      session: { review: { action_type: 'wait', params: { signal: 'seen' } } },
    })
    const { error, context } = await runMultiAgentFlow(options())
    expect(error?.code).toBe('SIGNAL_PENDING')
    const runtime = await createRuntime({ store, layer, mine: new Set() })
    await runtime.signal(context.coordination.metadata?.run_id as string, 'seen')
    await runtime.close()
    expect((await runMultiAgentFlow(options())).success).toBe(true)
  })
})

describe('a turn’s token', () => {
  /** Works for longer than its token lasts, the first times it is asked. */
  const slow =
    (times: number, keys: string[]): FunctionSpec =>
    (who, { signal, idempotency_key }) => {
      keys.push(`${who} ${idempotency_key}`)
      if (keys.length > times) return 'done'
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
  const session = { token_ms: 1_000 }

  it('expires, and the turn is taken again, by the next one, under the same key', async () => {
    const clock = manualClock()
    const keys: string[] = []
    const base = given({
      mode: 'round_robin',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {}, b: { after: ['a'] } },
      functions: { a: slow(1, keys) },
      session,
    })
    const ael = actionLayer({ adapters: [functionAdapter({ a: slow(1, keys), work: () => null })], clock, graceMs: 10 })
    const store = memoryBackend({ clock })
    const { success, events } = await passing(clock, runMultiAgentFlow({ ...base.options(), vsl: store, ael, clock }))
    expect(success).toBe(true)
    const key = `${base.plan.plan_id}:${base.plan.ids.a}`
    expect(keys).toEqual([`ann ${key}`, `bob ${key}`])
    const ends = mapEvents(events).filter(({ event_type }) => event_type === 'MAPTurnCompleted')
    expect(ends.map(({ payload }) => [payload.participant_id, payload.result!.status])).toEqual([
      ['ann', 'expired'],
      ['bob', 'completed'],
      ['ann', 'completed'],
    ])
    expect(new Set(ends.map(({ payload }) => payload.token_id)).size).toBe(3)
    await proven(events, store, base.context.context_id)
  })

  it('that expires is no reason to take a word about the next turn for the one before', async () => {
    const clock = manualClock()
    const words: string[] = []
    const asked = { action_type: 'function', params: { name: 'word' } }
    const base = given({
      mode: 'orchestrated',
      participants: ['lead:lead', 'ann:dev'],
      steps: { a: { role: 'dev' } },
      functions: { a: slow(1, []) },
      session: { ...session, brief: asked, review: asked },
    })
    const word: FunctionSpec = (_, { idempotency_key }) => void words.push(idempotency_key)
    const ael = actionLayer({ adapters: [functionAdapter({ a: slow(1, []), word })], clock, graceMs: 10 })
    const flow = runMultiAgentFlow({ ...base.options(), vsl: memoryBackend({ clock }), ael, clock })
    expect((await passing(clock, flow)).success).toBe(true)
    expect(words.map((key) => key.split(':')[2])).toEqual(['brief', 'brief', 'review'])
    expect(new Set(words).size).toBe(3)
  })

  it('that expires too often fails the step', async () => {
    const clock = manualClock()
    const keys: string[] = []
    const base = given({
      mode: 'orchestrated',
      participants: ['lead:lead', 'ann:dev'],
      steps: { a: { role: 'dev' } },
      functions: { a: slow(9, keys) },
      session: { ...session, retakes: 1 },
    })
    const ael = actionLayer({ adapters: [functionAdapter({ a: slow(9, keys) })], clock, graceMs: 10 })
    const { error } = await passing(
      clock,
      runMultiAgentFlow({ ...base.options(), vsl: memoryBackend({ clock }), ael, clock }),
    )
    expect(error?.code).toBe('ACTION_TIMED_OUT')
    expect(keys).toHaveLength(2)
  })

  it('has not expired when only the step may not take so long: it is attempted again in the same turn', async () => {
    const clock = manualClock()
    const keys: string[] = []
    const base = given({
      mode: 'round_robin',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {} },
      functions: { a: slow(1, keys) },
      session: { token_ms: 600_000, retakes: 0 },
    })
    const options = base.options()
    const [id] = Object.keys(options.flow!.bindings!.steps!) as [string]
    const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 1_000 } as const
    const step = { ...options.flow!.bindings!.steps![id]!, timeout_ms: 1_000, retry }
    const flow = { ...options.flow, bindings: { steps: { [id]: step } } } as MultiAgentFlow
    const ael = actionLayer({ adapters: [functionAdapter({ a: slow(1, keys) })], clock, graceMs: 10 })
    const store = memoryBackend({ clock })
    const { success, events } = await passing(clock, runMultiAgentFlow({ ...options, flow, vsl: store, ael, clock }))
    expect(success).toBe(true)
    expect(keys.map((key) => key.split(' ')[0])).toEqual(['ann', 'ann'])
    expect(types(events).filter((type) => type === 'TurnDispatched')).toHaveLength(1)
    await proven(events, store, base.context.context_id)
  })

  it('has not expired when what its step asks takes too long: it is attempted again in the same turn', async () => {
    const keys: string[] = []
    const asks: FunctionSpec = (who) => {
      keys.push(String(who))
      if (keys.length === 1) throw new ActionError('action_timed_out', 'the server did not answer within 100 ms')
      return 'done'
    }
    const base = given({
      mode: 'round_robin',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {} },
      functions: { a: asks },
    })
    const options = { retry: { strategy: 'fixed', max_attempts: 2, delay_ms: 0 } } as const
    const { success, events } = await runMultiAgentFlow(base.options({ flow: { ...base.options().flow, options } }))
    expect(success).toBe(true)
    expect(keys).toEqual(['ann', 'ann'])
    expect(types(events).filter((type) => type === 'TurnDispatched')).toHaveLength(1)
    await proven(events, base.store, base.context.context_id)
  })

  it('has not expired when a signal does not come, however much longer it was waited for: the step fails', async () => {
    const clock = manualClock()
    const base = given({ mode: 'round_robin', participants: ['ann:dev', 'bob:dev'], steps: { a: {} }, session })
    const wait = { action_type: 'wait', params: { signal: 'go' }, timeout_ms: 5_000 }
    const store = memoryBackend({ clock })
    const runtime = await createRuntime({ store, layer: base.layer, clock })
    const { context_id } = base.context
    await runtime.call('context', { intent: 'create', ...base.context })
    for (const role of base.roles) await runtime.call('role', { intent: 'create', ...role })
    await runtime.call('collab', { intent: 'create', ...base.collab })
    const run = await runtime.submit({
      context: context_id,
      plan: base.plan,
      bindings: { steps: { [base.plan.ids.a!]: wait } },
      options: { profile: 'map', session: { collab_id: base.collab.collab_id, ...session } },
    })
    const result = await passing(clock, run.result())
    expect(result.error).toMatchObject({
      code: 'action_timed_out',
      message: 'the signal go did not come within 5000 ms',
    })
    const events: unknown[] = []
    for await (const { event } of run.events()) events.push(event)
    expect(types(events).filter((type) => type === 'TurnDispatched')).toHaveLength(1)
    await proven(events, store, context_id)
    await passing(clock, runtime.close())
  })

  it('is not needed where several may write at a time', async () => {
    const { options } = given({ mode: 'swarm', participants: ['ann:dev'], steps: { a: {} } })
    const { events } = await runMultiAgentFlow(options())
    expect(
      mapEvents(events).find(({ event_type }) => event_type === 'MAPTurnDispatched')!.payload.token_id,
    ).toBeUndefined()
  })
})

describe('results that contend', () => {
  const judging = (
    answers: { readonly [who: string]: Json },
    conflicts: NonNullable<MultiAgentFlow['session']>['conflicts'],
  ) =>
    given({
      mode: 'broadcast',
      participants: Object.keys(answers).map((who) => `${who}:${who === 'ann' ? 'chief' : 'judge'}`),
      steps: { judge: {}, tell: { after: ['judge'] } },
      functions: { judge: (who) => answers[who as string]!, tell: () => 'told' },
      session: { conflicts: conflicts! },
    })

  it.each([
    ['hierarchy', { ann: 'no', bob: 'yes', cy: 'yes' }, { ranks: { chief: 9, judge: 1 } }, 'no'],
    ['voting', { ann: 'no', bob: 'yes', cy: 'yes' }, { strategies: ['voting'] }, 'yes'],
    ['timestamp', { ann: 'no', bob: 'yes' }, { strategies: ['timestamp'] }, 'yes'],
  ] as const)('are settled by %s, and told', async (strategy, answers, conflicts, stands) => {
    const { options, plan, store, context } = judging(answers, conflicts)
    const { success, events, output } = await runMultiAgentFlow(options())
    expect(success).toBe(true)
    expect((output!.steps as JsonObject)[plan.ids.judge!]).toBe(stands)
    const told = mapEvents(events).filter(({ event_type }) => event_type.startsWith('MAPConflict'))
    expect(told.map(({ event_type }) => event_type)).toEqual(['MAPConflictDetected', 'MAPConflictResolved'])
    expect(told[1]!.payload).toMatchObject({
      conflict_id: told[0]!.payload.conflict_id,
      resolution_strategy: strategy,
      winning_role: expect.any(String),
    })
    await proven(events, store, context.context_id)
  })

  it('are no conflict when they agree', async () => {
    const { options, plan } = judging({ ann: 'yes', bob: 'yes' }, {})
    const { events, output } = await runMultiAgentFlow(options())
    expect(types(events).filter((type) => type.startsWith('Conflict'))).toEqual([])
    expect((output!.steps as JsonObject)[plan.ids.judge!]).toBe('yes')
  })

  it('are no conflict when they agree, however large they are and in whatever order each names the same', async () => {
    const text = 'x'.repeat(70_000)
    const { options, plan } = judging({ ann: { ok: true, text }, bob: { text, ok: true } }, { strategies: ['voting'] })
    const { success, events, output } = await runMultiAgentFlow(options())
    expect(success).toBe(true)
    expect(types(events).filter((type) => type.startsWith('Conflict'))).toEqual([])
    expect((output!.steps as JsonObject)[plan.ids.judge!]).toEqual({ ok: true, text })
  })

  it('wait for a person when nothing decides, and go on with what the person lets stand', async () => {
    const answers = { ann: 'no', bob: 'no', cy: 'yes', dan: 'x'.repeat(60_000) }
    const { options, plan, layer, store, context } = judging(answers, { strategies: ['escalation'] })
    const { error } = await runMultiAgentFlow(options())
    expect(error?.code).toBe('APPROVAL_PENDING')
    const runtime = await createRuntime({ store, layer, mine: new Set() })
    const [question] = await runtime.waiting()
    expect(question!.confirm.reason).toBe('shall the result of ann stand for judge?')
    const results = [
      { participant_id: 'ann', output: 'no' },
      { participant_id: 'bob', output: 'no' },
      { participant_id: 'cy', output: 'yes' },
      { participant_id: 'dan', begins: expect.stringMatching(/^{"output":"x{16000}/) },
    ]
    expect(question!.shows).toMatchObject({
      tool: 'resolve_conflict',
      arguments: { resource_type: 'step_output', resource: `step:${plan.ids.judge}`, results },
    })
    await runtime.decide(question!.confirm.confirm_id, { status: 'rejected', decided_by_role: 'me' })
    await runtime.close()
    const second = await runMultiAgentFlow(options())
    expect(second.error?.code).toBe('APPROVAL_PENDING')
    const later = await createRuntime({ store, layer, mine: new Set() })
    const [next] = await later.waiting()
    expect(next!.confirm.reason).toMatch('the result of cy') // nobody is asked again for what was turned down
    await later.decide(second.error!.confirms![0]!, { status: 'approved', decided_by_role: 'me' })
    await later.close()
    const { success, error: none, output, events } = await runMultiAgentFlow(options())
    expect({ success, error: none }).toEqual({ success: true })
    expect((output!.steps as JsonObject)[plan.ids.judge!]).toBe('yes')
    expect(
      mapEvents(events).find(({ event_type }) => event_type === 'MAPConflictResolved')!.payload.resolution_strategy,
    ).toBe('escalation')
    await proven(events, store, context.context_id)
  })

  it('fail the step when a person wants none of them', async () => {
    const { options, layer, store, context } = judging({ ann: 'no', bob: 'yes' }, {})
    for (let i = 0; i < 2; i++) {
      const { error } = await runMultiAgentFlow(options())
      const runtime = await createRuntime({ store, layer, mine: new Set() })
      await runtime.decide(error!.confirms![0]!, { status: 'rejected', decided_by_role: 'me' })
      await runtime.close()
    }
    const { error, events } = await runMultiAgentFlow(options())
    expect(error?.code).toBe('ACTION_REJECTED')
    await proven(events, store, context.context_id)
  })

  it.each<[string, (step: string) => string]>([
    ['readme', () => 'readme'],
    ['step:readme', () => 'step:readme'],
    ['step: and the id of one of them', (step) => `step:${step}`],
  ])('are found between steps that write the same, called %s, and do not wait for each other', async (_, called) => {
    const base = given({
      mode: 'swarm',
      participants: ['ann:dev', 'bob:dev'],
      steps: { left: {}, right: {}, after: { after: ['left', 'right'] } },
      functions: { left: () => 'L', right: () => 'R', after: () => 'A' },
    })
    const { left, right, after } = base.plan.ids
    const resource = called(right!)
    const writes = { [left!]: [resource], [right!]: [resource], [after!]: [resource, 'log'] }
    const session = { conflicts: { writes, ranks: { ann: 2, bob: 1 } } }
    const options = base.options()
    const { success, events, output } = await runMultiAgentFlow({ ...options, flow: { ...options.flow!, session } })
    expect(success).toBe(true)
    const [detected, resolved, ...others] = mapEvents(events).filter(({ event_type }) =>
      event_type.startsWith('MAPConflict'),
    )
    expect(detected!.payload).toMatchObject({ resource, resource_type: 'resource', conflict_type: 'concurrent_write' })
    expect(resolved!.payload.resolution_strategy).toBe('hierarchy')
    expect(others).toEqual([])
    expect(output!.steps).toEqual({ [left!]: 'L', [right!]: 'R', [after!]: 'A' })
    expect(output!.resources).toMatchObject({ [resource]: { step_id: after, output: 'A' }, log: { step_id: after } })
    await proven(events, base.store, base.context.context_id)
  })

  it('count once, also where what a step writes is named twice', async () => {
    const base = given({
      mode: 'round_robin',
      participants: ['ann:dev', 'bob:dev'],
      steps: { left: {}, right: {} },
      functions: { left: () => 'L', right: () => 'R' },
    })
    const { left, right } = base.plan.ids
    const writes = { [left!]: ['readme', 'readme'], [right!]: ['readme'] }
    const session = { conflicts: { writes, strategies: ['voting', 'timestamp'] as const } }
    const options = base.options()
    const { events, output } = await runMultiAgentFlow({ ...options, flow: { ...options.flow!, session } })
    expect(output!.resources).toMatchObject({ readme: { step_id: right } })
    const [detected] = mapEvents(events).filter(({ event_type }) => event_type === 'MAPConflictDetected')
    expect(detected!.payload.conflicting_roles).toHaveLength(2)
  })
})

describe('a role', () => {
  it('is found by its id or its name, or by who the participant is', async () => {
    const { options, collab, roles, modules, plan } = given({
      mode: 'round_robin',
      participants: ['ann:planner', 'bob:reviewer'],
      steps: { a: {}, b: {}, c: {} },
    })
    const participants = [
      { ...collab.participants[0]!, display_name: 'Ann' },
      { ...collab.participants[1]!, role_id: roles[1]!.role_id },
    ]
    const steps = plan.steps.map((step, i) => ({ ...step, agent_role: ['Ann', roles[1]!.role_id, 'planner'][i]! }))
    const said = saying({ collab: { ...collab, participants }, plan: { ...plan, steps } })
    const { success, output, error } = await runMultiAgentFlow({ ...options(), modules: { ...modules, ...said } })
    expect({ success, error }).toEqual({ success: true })
    expect(Object.values(output!.steps as JsonObject)).toEqual(['planner', 'reviewer', 'planner'])
  })
})

/** A runtime that has a context, roles and a Collab, and a flow for it that was not submitted. */
async function opened(base: ReturnType<typeof given>, functions: { readonly [name: string]: FunctionSpec } = {}) {
  const { context, plan, roles, collab, store } = base
  const layer = actionLayer({ adapters: [functionAdapter({ work: () => 'done', ...functions })], graceMs: 10 })
  const runtime = await createRuntime({ store, layer })
  onTestFinished(async () => {
    await runtime.close()
    await layer.close()
  })
  await runtime.call('context', { intent: 'create', ...context })
  for (const role of roles) await runtime.call('role', { intent: 'create', ...role })
  await runtime.call('collab', { intent: 'create', ...collab })
  const { bindings } = base.options().flow!
  const options = { profile: 'map', session: { collab_id: collab.collab_id } } as const
  return { runtime, flow: { context: context.context_id, plan, bindings: bindings!, options } }
}

describe('a session that has not begun', () => {
  it('does not end either, when its run is cancelled between approval and start', async () => {
    const base = given({ mode: 'swarm', participants: ['ann:dev'], steps: { a: {} } })
    const { runtime, flow } = await opened(base)
    const run = await runtime.submit({ ...flow, approval: {} })
    await runtime.call('context', { intent: 'suspend', context_id: base.context.context_id })
    const [question] = await runtime.waiting()
    await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'lead' })
    await runtime.cancel(run.run_id)
    const told: string[] = []
    for await (const { event } of run) told.push(event.event_type)
    expect((await run.result()).status).toBe('cancelled')
    expect(told.filter((type) => type.startsWith('MAP'))).toEqual([])
  })

  it.each([
    ['as it was made', []],
    ['started', ['start']],
    ['suspended', ['start', 'suspend']],
  ])('is cancelled with a run that nobody has approved: %s', async (_, intents) => {
    const base = given({ mode: 'swarm', participants: ['ann:dev'], steps: { a: {} } })
    const { collab_id } = base.collab
    const { runtime, flow } = await opened(base)
    const run = await runtime.submit({ ...flow, approval: {} })
    for (const intent of intents) await runtime.call('collab', { intent, collab_id })
    await runtime.cancel(run.run_id)
    const graph = await runtime.project.context(run.context_id)
    expect(await graph.document('collab', collab_id)).toMatchObject({ status: 'cancelled' })
  })
})

describe('a session that somebody else ends', () => {
  it.each([
    ['cancel', 'cancelled'],
    ['complete', 'completed'],
  ])('gives out no further turn and ends its run: %s', async (intent, stands) => {
    const base = given({
      mode: 'round_robin',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {}, b: { after: ['a'] } },
      functions: { a: () => null },
    })
    const { collab_id } = base.collab
    const a = async () => void (await runtime.call('collab', { intent, collab_id }))
    const { runtime, flow } = await opened(base, { a })
    const run = await runtime.submit(flow)
    const events: unknown[] = []
    for await (const { event } of run) events.push(event)
    expect(await run.result()).toMatchObject({ status: 'cancelled', error: { code: 'session_ended' } })
    expect(types(events).filter((type) => type === 'TurnDispatched')).toHaveLength(1)
    expect(types(events).at(-1)).toBe('SessionCompleted')
    await proven(events, base.store, base.context.context_id)
    const graph = await (await openProject(base.store)).context(base.context.context_id)
    expect((await graph.document('collab', collab_id)).status).toBe(stands)
  })

  it('does not begin when the plan is approved afterwards, to a runtime that never saw it open', async () => {
    const base = given({ mode: 'swarm', participants: ['ann:dev'], steps: { a: {} } })
    const first = await opened(base)
    const { run_id } = await first.runtime.submit({ ...first.flow, approval: {} })
    await first.runtime.call('collab', { intent: 'cancel', collab_id: base.collab.collab_id })
    await first.runtime.close()
    const runtime = await createRuntime({ store: base.store, layer: base.layer })
    onTestFinished(() => runtime.close())
    const [question] = await runtime.waiting()
    await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'lead' })
    const run = await runtime.get(run_id)
    const events: unknown[] = []
    for await (const { event } of run) events.push(event)
    expect(await run.result()).toMatchObject({ status: 'cancelled', error: { code: 'session_ended' } })
    expect(types(events)).toEqual([])
  })

  it('completes its run when that was its last turn', async () => {
    const base = given({ mode: 'swarm', participants: ['ann:dev'], steps: { a: {} }, functions: { a: () => null } })
    const { collab_id } = base.collab
    const a = async () => void (await runtime.call('collab', { intent: 'complete', collab_id }))
    const { runtime, flow } = await opened(base, { a })
    expect((await (await runtime.submit(flow)).result()).status).toBe('completed')
  })
})

describe('a session that a run has', () => {
  it('is not given to another before that has ended, also when both are submitted at once', async () => {
    const base = given({ mode: 'swarm', participants: ['ann:dev'], steps: { a: {} } })
    const { runtime, flow } = await opened(base)
    const other = planDocument(base.context, { b: {} })
    const steps = { [other.ids.b!]: { action_type: 'function', params: { name: 'work' } } }
    const flows = [flow, { ...flow, plan: other, bindings: { steps } }]
    const submitted = await Promise.allSettled(flows.map((one) => runtime.submit({ ...one, approval: {} })))
    expect(submitted.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect(submitted[1]).toMatchObject({ reason: { problems: [{ path: 'session.collab_id', rule: 'guard' }] } })
  })
})

describe('a session that is locked while it lasts', () => {
  it('keeps no run from its end, and stays as it is', async () => {
    const base = given({ mode: 'swarm', participants: ['ann:dev'], steps: { a: {} }, functions: { a: () => null } })
    const { context_id, collab_id } = base.collab
    let calls = 0
    const a = async () => {
      calls++
      const graph = await runtime.project.context(context_id)
      const set = { governance: { locked: true } }
      await graph.commit([{ kind: 'node_update', node: 'collab', id: collab_id, set }], {
        actor: 'me',
        reason: 'enough',
      })
    }
    const { runtime, flow } = await opened(base, { a })
    expect((await (await runtime.submit(flow)).result()).status).toBe('completed')
    expect(calls).toBe(1)
    expect(await (await runtime.project.context(context_id)).document('collab', collab_id)).toMatchObject({
      status: 'active',
    })
  })
})

describe('a session that is suspended', () => {
  it('gives out no turn until it goes on', async () => {
    const { plan, collab, roles, context, store, options } = given({
      mode: 'round_robin',
      participants: ['ann:dev', 'bob:dev'],
      steps: { a: {}, b: { after: ['a'] } },
    })
    const session = { collab_id: collab.collab_id }
    const suspend: FunctionSpec = async () => {
      await runtime.call('collab', { intent: 'suspend', ...session })
      return 'A'
    }
    const layer = actionLayer({ adapters: [functionAdapter({ suspend, work: () => 'B' })] })
    const runtime = await createRuntime({ store, layer })
    await runtime.call('context', { intent: 'create', ...context })
    for (const role of roles) await runtime.call('role', { intent: 'create', ...role })
    await runtime.call('collab', { intent: 'create', ...collab })
    const bindings = {
      steps: {
        ...options().flow!.bindings!.steps,
        [plan.ids.a!]: { action_type: 'function', params: { name: 'suspend' } },
      },
    }
    const run = await runtime.submit({
      context: context.context_id,
      plan,
      bindings,
      options: { profile: 'map', session },
    })
    const order: string[] = []
    for await (const { event } of run) {
      if (event.event_type.startsWith('MAP')) order.push(event.event_type.slice(3))
      if (order.length !== 4 || event.event_family !== 'graph_update') continue // the last event of its commit
      order.push('resumed')
      await runtime.call('collab', { intent: 'resume', ...session })
    }
    expect(order).toEqual([
      ...['SessionStarted', 'RolesAssigned', 'TurnDispatched', 'TurnCompleted', 'resumed'],
      ...['TurnDispatched', 'TurnCompleted', 'SessionCompleted'],
    ])
    expect((await run.result()).success).toBe(true)
    await runtime.close()
    await layer.close()
  })
})

describe('a session that cannot be one', () => {
  const base = () => given({ mode: 'pair', participants: ['ann:dev', 'bob:dev'], steps: { a: { role: 'dev' } } })
  type Base = ReturnType<typeof base>
  const refused = async (spoil: (base: Base) => { session?: object; collab?: object; plan?: object }) => {
    const one = base()
    const { session, ...documents } = spoil(one)
    const options = one.options()
    return runMultiAgentFlow({
      ...options,
      modules: { ...one.modules, ...saying(documents) },
      flow: { ...options.flow!, ...(session && { session: session as never }) },
    })
  }
  const participants = (...texts: string[]) =>
    texts.map((text) => ({
      participant_id: text.split(':')[0]!,
      kind: 'agent',
      ...(text.includes(':') && { role_id: text.split(':')[1] }),
    }))

  const HUM_OF = ($from: string, more: object = {}) => ({
    action_type: 'function',
    params: { name: 'work', args: { $from, ...more } },
  })
  const HUM = { action_type: 'function', params: { name: 'hum' } }
  it.each<[string, Parameters<typeof refused>[0], string, string]>([
    [
      'a participant without a role',
      ({ collab }) => ({ collab: { ...collab, participants: participants('ann:dev', 'bob') } }),
      'collab.participants[1].role_id',
      'map_participants_have_role_ids',
    ],
    [
      'a role that nobody knows',
      ({ collab }) => ({ collab: { ...collab, participants: participants('ann:dev', 'bob:wizard') } }),
      'collab.participants[1].role_id',
      'reference.resolves',
    ],
    [
      'three in a pair',
      ({ collab }) => ({ collab: { ...collab, participants: participants('ann:dev', 'bob:dev', 'cy:dev') } }),
      'collab.participants',
      'pair',
    ],
    [
      'one in a pair',
      ({ collab }) => ({ collab: { ...collab, participants: participants('ann:dev') } }),
      'collab.participants',
      'pair',
    ],
    [
      'somebody twice',
      ({ collab }) => ({ collab: { ...collab, participants: participants('ann:dev', 'ann:dev') } }),
      'collab.participants[1].participant_id',
      'unique',
    ],
    [
      'a lock',
      ({ collab }) => ({ collab: { ...collab, status: 'active', governance: { locked: true } } }),
      'collab.governance.locked',
      'governance.locked',
    ],
    [
      'a step whose role nobody has',
      ({ plan }) => ({ plan: { ...plan, steps: [{ ...plan.steps[0]!, agent_role: 'wizard' }] } }),
      'plan.steps[0].agent_role',
      'role.fits',
    ],
    [
      'a coordinator who does not take part',
      () => ({ session: { coordinator: 'cy' } }),
      'session.coordinator',
      'reference.resolves',
    ],
    ['a foreign field', () => ({ session: { speed: 9 } }), 'session.speed', 'extra_forbidden'],
    ['a token that lasts no time', () => ({ session: { token_ms: 0 } }), 'session.token_ms', 'range'],
    ['a token that no timer can keep', () => ({ session: { token_ms: 2 ** 31 } }), 'session.token_ms', 'range'],
    ['retakes below none', () => ({ session: { retakes: -1 } }), 'session.retakes', 'range'],
    ['a review that is no binding', () => ({ session: { review: {} } }), 'session.review.action_type', 'required'],
    [
      'a brief without params',
      () => ({ session: { brief: { action_type: 'function' } } }),
      'session.brief.params',
      'required',
    ],
    [
      'a review that waits for no time that there is',
      () => ({ session: { review: { action_type: 'wait', params: { ms: 'soon' } } } }),
      'session.review.params.ms',
      'range',
    ],
    [
      'a review of a step that is not there',
      () => ({ session: { review: HUM_OF('ghost') } }),
      'session.review.params.args.$from',
      'reference.resolves',
    ],
    [
      'a brief that misspells a path',
      () => ({ session: { brief: HUM_OF('step', { pth: 'x' }) } }),
      'session.brief.params.args.pth',
      'extra_forbidden',
    ],
    [
      'a review by nobody that has the turn',
      () => ({ session: { review: { ...HUM, params: { name: 'hum', args: { $turn: 'name' } } } } }),
      'session.review.params.args.$turn',
      'enum',
    ],
    ['a brief by a function that is not there', () => ({ session: { brief: HUM } }), 'session.brief', 'lacking'],
    ['a review by a function that is not there', () => ({ session: { review: HUM } }), 'session.review', 'lacking'],
    ['conflicts that are nothing', () => ({ session: { conflicts: null } }), 'session.conflicts', 'type'],
    ['conflicts that are a list', () => ({ session: { conflicts: [] } }), 'session.conflicts', 'type'],
    [
      'a misspelt rule for conflicts',
      () => ({ session: { conflicts: { strategy: ['voting'] } } }),
      'session.conflicts.strategy',
      'extra_forbidden',
    ],
    ['ranks that are none', () => ({ session: { conflicts: { ranks: null } } }), 'session.conflicts.ranks', 'type'],
    ['writes that are none', () => ({ session: { conflicts: { writes: 7 } } }), 'session.conflicts.writes', 'type'],
    [
      'an unknown strategy',
      () => ({ session: { conflicts: { strategies: ['dice'] } } }),
      'session.conflicts.strategies[0]',
      'enum',
    ],
    [
      'a rank that is no number',
      () => ({ session: { conflicts: { ranks: { dev: 'high' } } } }),
      'session.conflicts.ranks.dev',
      'type',
    ],
    [
      'a rank of nobody',
      () => ({ session: { conflicts: { ranks: { ann: 2, bpb: 1 } } } }),
      'session.conflicts.ranks.bpb',
      'reference.resolves',
    ],
    [
      'writes of a step that is not there',
      () => ({ session: { conflicts: { writes: { ghost: ['x'] } } } }),
      'session.conflicts.writes.ghost',
      'reference.resolves',
    ],
  ])('has %s: refused with path and rule, and the next call may do better', async (_, spoil, path, rule) => {
    const { success, error, events } = await refused(spoil)
    expect(success).toBe(false)
    expect(error).toMatchObject({ problems: expect.arrayContaining([expect.objectContaining({ path, rule })]) })
    expect(types(events)).toEqual([])
  })

  it('has no Collab', async () => {
    const { options, modules } = base()
    expect((await runMultiAgentFlow({ ...options(), modules: { ...modules, collab: undefined } })).error).toMatchObject(
      {
        code: 'INVALID_OUTPUT',
      },
    )
  })

  it('is asked for with a Collab of another context, or without the profile', async () => {
    const one = base()
    const runtime = await createRuntime({ store: one.store, layer: one.layer })
    const { context, plan } = one
    const flow = { context, plan, bindings: one.options().flow!.bindings! }
    const collab_id = crypto.randomUUID()
    await expect(
      runtime.submit({ ...flow, options: { profile: 'map', session: { collab_id } } }),
    ).rejects.toMatchObject({ code: 'not_found' })
    await expect(runtime.submit({ ...flow, options: { profile: 'map' } })).rejects.toMatchObject({
      problems: [{ path: 'options.session', rule: 'profile' }],
    })
    await expect(runtime.submit({ ...flow, options: { session: { collab_id } } })).rejects.toMatchObject({
      problems: [{ path: 'options.session', rule: 'profile' }],
    })
    await expect(runtime.submit({ ...flow, options: { profile: 'map', session: 7 as never } })).rejects.toMatchObject({
      problems: [{ path: 'options.session', rule: 'type' }],
    })
    await runtime.close()
  })

  it('is answered like any other call that cannot be one', async () => {
    const { flow, ...others } = base().options()
    for (const session of [7, null, []])
      expect((await runMultiAgentFlow({ ...others, flow: { ...flow, session } } as never)).error).toMatchObject({
        code: 'INVALID_INPUT',
        problems: [{ path: 'flow.session', rule: 'type' }],
      })
    const named = { ...others, flow: { ...flow, session: { collab_id: crypto.randomUUID() } } } // it would be another one
    expect((await runMultiAgentFlow(named as never)).error).toMatchObject({
      problems: [{ path: 'flow.session.collab_id', rule: 'extra_forbidden' }],
    })
    expect((await runMultiAgentFlow(undefined as never)).error?.code).toBe('INVALID_INPUT')
    expect(
      (await runMultiAgentFlow({ ...base().options(), runtimeContext: newContext('') as never })).error?.code,
    ).toBe('INVALID_INPUT')
  })
})

describe.each(MODES)('a session in mode %s where there is one place', (mode) => {
  it('gives every turn, one action after the other', async () => {
    let [under, most] = [0, 0]
    const work: FunctionSpec = async () => {
      most = Math.max(most, ++under)
      await new Promise((resolve) => setImmediate(resolve))
      under--
      return null
    }
    const asked = { action_type: 'function', params: { name: 'word' } } as const
    const { options, store, context } = given({
      mode,
      participants: ['ann:planner', 'bob:reviewer', 'cy:planner'].slice(0, mode === 'pair' ? 2 : 3),
      steps: { one: {}, two: {}, three: { after: ['one'] } },
      functions: { one: work, two: work, three: work, word: work },
      session: { brief: asked, review: asked },
      atOnce: { function: 1 },
    })
    const { success, error, events } = await runMultiAgentFlow(options())
    expect({ success, error, most }).toEqual({ success: true, most: 1 })
    const executions = (events as Told[]).filter(({ event_family }) => event_family === 'runtime_execution')
    expect(executions.length).toBeGreaterThan(4)
    expect(executions.map(({ status }, i) => [i % 2, status])).toEqual(
      executions.map((_, i) => [i % 2, i % 2 === 0 ? 'running' : 'completed']),
    )
    await proven(events, store, context.context_id)
  })
})
