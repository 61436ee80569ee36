import { describe, expect, it, onTestFinished } from 'vitest'
import type { FunctionSpec } from '../../src/ael/function.ts'
import type { RunOptions } from '../../src/orchestrator/live.ts'
import { mapBreaches } from '../../src/orchestrator/profiles/map.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import type { SessionAsked } from '../../src/orchestrator/session.ts'
import type { ApprovalAsked } from '../../src/orchestrator/submit.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { CollabMode } from '../../src/protocol/types.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { ofKind } from '../../src/psg/node.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collabDocument, contextDocument, dyingStore, planDocument, roleDocument } from '../support/agents.ts'
import { runtimeOf } from '../support/flows.ts'
import { inTime, passes } from '../support/on-a-clock.ts'

interface Given {
  readonly mode?: CollabMode
  readonly steps: { readonly [name: string]: { after?: readonly string[]; role?: string } }
  readonly session?: (ids: { readonly [name: string]: string }) => Omit<SessionAsked, 'collab_id'>
  readonly options?: RunOptions
  readonly approval?: ApprovalAsked
  /** Steps whose function throws, those that it says nothing in, and those in which it says the same to everybody. */
  readonly failing?: readonly string[]
  readonly silent?: readonly string[]
  readonly agreeing?: readonly string[]
}

/** A session of ann and bob. Who carries out which step is written down in `called`, and each gives that as its answer. */
async function opened({
  mode = 'broadcast',
  steps,
  session,
  options,
  approval,
  failing = ['last'],
  silent = [],
  agreeing = [],
}: Given) {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  const called: string[] = []
  const troubles = new Set(failing)
  const mute = new Set(silent)
  const does =
    (name: string): FunctionSpec =>
    async (args, { signal }) => {
      const { who, ...taken } = args as JsonObject
      const words = `${name} by ${String(who)}`
      called.push(words)
      if (mute.has(words)) await clock.sleep(3_600_000, signal)
      if (troubles.delete(words) || troubles.has(name)) throw new Error(`no ${name}`)
      if (agreeing.includes(name)) return name
      return Object.keys(taken).length > 0 ? { words, ...taken } : words
    }
  const functions = Object.fromEntries(
    [...Object.keys(steps), 'brief', 'review', 'undo'].map((name) => [name, does(name)]),
  )
  async function start(more: { store?: Backend; lacking?: readonly string[] } = {}): Promise<Runtime> {
    const known = Object.fromEntries(Object.entries(functions).filter(([name]) => !more.lacking?.includes(name)))
    const runtime = await runtimeOf(known, { clock, store: more.store ?? store, leaseTtlMs: 2_000 })
    if (!more.store) onTestFinished(() => inTime(clock, runtime.close()))
    return runtime
  }
  const runtime = await start()
  const context = contextDocument(clock)
  const plan = planDocument(context, steps, clock)
  const collab = collabDocument(context, mode, ['ann:dev', 'bob:dev'], clock)
  await runtime.call('context', { intent: 'create', ...context })
  await runtime.call('role', { intent: 'create', ...roleDocument('dev', clock) })
  await runtime.call('collab', { intent: 'create', ...collab })
  const bound = Object.entries(steps).map(([name, { after = [] }]) => {
    const before = after.map((other) => [other, { $from: plan.ids[other]! }] as const)
    const args = { who: { $turn: 'participant_id' }, ...Object.fromEntries(before) }
    const inverse = { action_type: 'function', params: { name: 'undo', args: { who: name } } }
    return [plan.ids[name]!, { action_type: 'function', params: { name, args }, inverse }] as const
  })
  const run = await runtime.submit({
    context: context.context_id,
    plan,
    bindings: { steps: Object.fromEntries(bound) },
    options: { profile: 'map', session: { collab_id: collab.collab_id, ...session?.(plan.ids) }, ...options },
    ...(approval && { approval }),
  })
  const graph = await runtime.project.context(context.context_id)
  /** What the steps of a run gave, by their names. */
  const gave = async (again: RunHandle) => {
    const { outputs } = await again.result()
    const { steps: names } = await graph.document('plan', again.plan_id)
    return Object.fromEntries(names.map(({ step_id, description }) => [description, outputs[step_id]!]))
  }
  return { runtime, start, clock, store, run, graph, gave, called, troubles, mute, collab }
}

/** The same once its run has failed, or was cancelled, with nothing noted yet. */
async function failed(given: Given) {
  const all = await opened(given)
  expect((await inTime(all.clock, all.run.result())).status).toBe('failed')
  all.called.splice(0)
  return all
}

const sessionOf = (run: RunHandle, graph: ProjectGraph) =>
  (graph.get('run', run.run_id)!.data.options.session as JsonObject).collab_id as string

const word = (name: string, about: string) => ({
  action_type: 'function',
  params: { name, args: { who: { $turn: 'participant_id' }, about: { $from: about } } },
})

const actionsOf = async (graph: ProjectGraph, run: RunHandle) =>
  [...ofKind(await graph.nodesOf(run.plan_id, ['action']), 'action')].map(({ data }) => data)

describe('a run of several agents that has failed', () => {
  it('goes on in a session of its own, with all that was answered', async () => {
    const { runtime, clock, run, graph, gave, called, troubles, collab } = await failed({
      steps: { poll: {}, last: { after: ['poll'] } },
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect(called).toEqual(['last by ann', 'last by bob'])
    const poll = ['ann', 'bob'].map((who) => ({
      participant_id: who,
      role_id: expect.any(String),
      output: `poll by ${who}`,
    }))
    expect(await gave(again)).toEqual({
      poll,
      last: ['ann', 'bob'].map((who) => ({
        participant_id: who,
        role_id: expect.any(String),
        output: { words: `last by ${who}`, poll },
      })),
    })
    const own = sessionOf(again, graph)
    expect(own).not.toBe(collab.collab_id)
    const { collab_id: _, created_at: __, ...first } = await graph.document('collab', collab.collab_id)
    expect(first.status).toBe('cancelled')
    expect(await graph.document('collab', own)).toMatchObject({ ...first, status: 'completed' })
    expect((await runtime.project.verify()).findings).toEqual([])
  })

  it('tells the turns of its own session, counted from the first', async () => {
    const { runtime, clock, run, graph, troubles } = await failed({ steps: { poll: {}, last: { after: ['poll'] } } })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    await inTime(clock, again.result())
    const told: JsonObject[] = []
    for await (const { event } of again.events())
      if (String(event.event_type).startsWith('MAP')) told.push(event as JsonObject)
    expect(mapBreaches({ events: told })).toEqual([])
    expect(new Set(told.map(({ session_id }) => session_id))).toEqual(new Set([sessionOf(again, graph)]))
    const turns = told
      .filter(({ event_type }) => event_type === 'MAPTurnDispatched')
      .map(({ payload }) => (payload as JsonObject).turn_number)
    expect(turns).toEqual([1, 2])
    expect(told.at(-1)).toMatchObject({ event_type: 'MAPSessionCompleted', payload: { turns_total: 2 } })
  })

  it('is given to whose turn it is by what was done before', async () => {
    const { runtime, clock, run, called, troubles } = await failed({
      mode: 'round_robin',
      steps: { one: {}, two: { after: ['one'] }, three: { after: ['two'] }, last: { after: ['three'] } },
      failing: ['last'],
    })
    troubles.clear()
    await inTime(clock, (await runtime.rerun(run.run_id)).result())
    expect(called).toEqual(['last by bob'])
  })

  it('does not say again what was said before the step that failed', async () => {
    const { runtime, clock, run, graph, called, troubles } = await failed({
      mode: 'orchestrated',
      steps: { one: {}, last: { after: ['one'] } },
      session: ({ one }) => ({ brief: word('brief', one!), review: word('review', one!) }),
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect(called).toEqual(['last by bob', 'review by ann'])
    const outputs = (await actionsOf(graph, again)).map(({ output }) => output)
    expect(outputs).toContainEqual({ words: 'review by ann', about: 'one by bob' })
  })

  it('has a result that stood contend with what others write of the same', async () => {
    const { runtime, clock, run, gave, graph, called, troubles } = await failed({
      mode: 'swarm',
      steps: { one: { role: 'ann' }, last: { role: 'bob' } },
      session: ({ one, last }) => ({
        conflicts: {
          strategies: ['hierarchy'],
          ranks: { ann: 2, bob: 1 },
          writes: { [one!]: ['page'], [last!]: ['page'] },
        },
      }),
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect(called).toEqual(['last by bob'])
    expect(await gave(again)).toEqual({ one: 'one by ann', last: 'last by bob' })
    const actions = await actionsOf(graph, again)
    const saying = (words: string) => actions.find(({ output }) => output === words)!
    expect(saying('last by bob')).toMatchObject({ lost: { page: saying('one by ann').action_id } })
  })

  it('has of several answers that agree the last one contend, as the first run had', async () => {
    const { runtime, clock, run, graph, troubles } = await failed({
      steps: { poll: {}, last: { role: 'bob' } },
      session: ({ poll, last }) => ({
        conflicts: { ranks: { ann: 1, bob: 2 }, writes: { [poll!]: ['page'], [last!]: ['page'] } },
      }),
      agreeing: ['poll'],
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await inTime(clock, again.result())).status).toBe('completed')
    const losers = (await actionsOf(graph, again)).filter(({ lost_to, lost }) => lost_to ?? lost)
    expect(losers).toEqual([]) // bob answered last, and nobody contends with himself
  })

  it('keeps of several answers the one that stood', async () => {
    const { runtime, clock, run, gave, troubles } = await failed({
      steps: { poll: {}, last: { after: ['poll'], role: 'ann' } },
      session: () => ({ conflicts: { strategies: ['hierarchy'], ranks: { bob: 2, ann: 1 } } }),
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    await inTime(clock, again.result())
    expect(await gave(again)).toEqual({ poll: 'poll by bob', last: { words: 'last by ann', poll: 'poll by bob' } })
  })

  it('does not let a result stand again that had lost', async () => {
    const { runtime, clock, run, graph, troubles } = await failed({
      mode: 'swarm',
      steps: { one: { role: 'ann' }, two: { role: 'bob' }, last: { after: ['one', 'two'] } },
      session: ({ one, two }) => ({
        conflicts: { ranks: { ann: 2, bob: 1 }, writes: { [one!]: ['page'], [two!]: ['page'] } },
      }),
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    await inTime(clock, again.result())
    const actions = await actionsOf(graph, again)
    const saying = (words: string) => actions.find(({ output }) => output === words)!
    expect(saying('two by bob')).toMatchObject({ lost: { page: saying('one by ann').action_id } })
  })

  it.each([
    ['one', 'page'],
    ['two', 'log'],
  ])('has a result contend anew only for what it had lost to %s, which was taken back', async (taken, resource) => {
    const kept = ['one', 'two', 'all'].filter((name) => name !== taken)
    const { runtime, clock, run, graph, called, troubles } = await failed({
      mode: 'swarm',
      steps: {
        one: { role: 'ann' },
        two: { role: 'ann' },
        all: { role: 'bob' },
        last: { after: ['one', 'two', 'all'] },
      },
      session: ({ one, two, all }) => ({
        conflicts: {
          ranks: { ann: 2, bob: 1 },
          writes: { [one!]: ['page'], [two!]: ['log'], [all!]: ['page', 'log'] },
        },
      }),
      options: { on_failure: 'compensate' },
      failing: ['last', ...kept.map((name) => `undo by ${name}`)],
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    const { status, resources } = await inTime(clock, again.result())
    expect({ status, called: called[0] }).toEqual({ status: 'completed', called: `${taken} by ann` })
    const { steps } = await graph.document('plan', again.plan_id)
    const nameOf = (id: string) => steps.find(({ step_id }) => step_id === id)?.description
    const stand = Object.entries(resources!).map(([what, { step_id }]) => [what, nameOf(step_id)])
    expect(Object.fromEntries(stand)).toEqual({ page: 'one', log: 'two' })
    const contended: Json[] = []
    for await (const { event } of again.events())
      if (event.event_type === 'MAPConflictDetected') contended.push((event.payload as JsonObject).resource!)
    expect(contended).toEqual([resource])
  })

  it('has a result contend anew for what it had lost to one that nobody has finished', async () => {
    const { runtime, clock, run } = await opened({
      mode: 'swarm',
      steps: { one: { role: 'ann' }, two: { role: 'bob' } },
      session: ({ one, two }) => ({
        conflicts: { strategies: ['escalation'], writes: { [one!]: ['page', 'log'], [two!]: ['page', 'log'] } },
      }),
      failing: [],
    })
    const decide = async (says: (reason: string) => boolean) => {
      await passes(clock, 1_000)
      const [question] = await runtime.waiting()
      const { confirm_id, reason } = question!.confirm
      const status = says(String(reason)) ? 'approved' : 'rejected'
      await runtime.decide(confirm_id, { status, decided_by_role: 'lead' })
      return reason
    }
    expect(await decide(() => false)).toMatch(/ann .* page/)
    expect(await decide(() => true)).toMatch(/bob .* page/)
    await passes(clock, 1_000)
    await runtime.cancel(run.run_id) // while people are asked about the log
    await inTime(clock, run.result())
    await runtime.rerun(run.run_id)
    expect(await decide(() => true)).toMatch(/ann .* page/)
  })

  it('does a step anew of which an answer was taken back', async () => {
    const { runtime, clock, run, gave, called, troubles } = await failed({
      steps: { poll: {}, last: { after: ['poll'] } },
      options: { on_failure: 'compensate' },
      failing: ['last', 'undo by poll'],
    })
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect(called).toEqual(['poll by ann', 'poll by bob', 'last by ann', 'last by bob'])
    expect((await gave(again)).poll).toHaveLength(2)
  })

  it('takes back every answer that it took over, when it fails too', async () => {
    const { runtime, clock, run, called } = await failed({ steps: { poll: {}, last: { after: ['poll'] } } })
    const again = await runtime.rerun(run.run_id, { options: { on_failure: 'compensate' } })
    expect(await inTime(clock, again.result())).toMatchObject({
      status: 'failed',
      undone: [{ status: 'undone' }, { status: 'undone' }],
    })
    expect(called).toEqual(['last by ann', 'last by bob', 'undo by poll', 'undo by poll'])
  })

  it('goes on again from where its rerun was cancelled, also before that came to what it had taken over', async () => {
    const { runtime, clock, run, gave, called, troubles } = await failed({
      steps: { poll: {}, last: { after: ['poll'] } },
    })
    troubles.clear()
    const asked = await runtime.rerun(run.run_id, { options: { deadline: new Date(clock.now() + 1).toISOString() } })
    await passes(clock, 100)
    await inTime(clock, asked.result())
    called.splice(0)
    const again = await runtime.rerun(asked.run_id, {
      options: { deadline: new Date(clock.now() + 60_000).toISOString() },
    })
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect(called.filter((words) => words.startsWith('poll'))).toEqual([])
    expect((await gave(again)).poll).toHaveLength(2)
  })

  it('does a step anew that not all had answered', async () => {
    const { runtime, clock, run, called, mute, gave } = await cancelledHalfway()
    mute.clear()
    const again = await runtime.rerun(run.run_id)
    await inTime(clock, again.result())
    expect(called).toEqual(['poll by ann', 'poll by bob'])
    expect((await gave(again)).poll).toHaveLength(2)
    expect((await runtime.project.verify()).findings).toEqual([])
  })

  it('takes back what was answered of such a step, too', async () => {
    const { runtime, clock, run, called, mute, troubles } = await cancelledHalfway()
    mute.clear()
    troubles.add('poll')
    const again = await runtime.rerun(run.run_id, { options: { on_failure: 'compensate' } })
    expect(await inTime(clock, again.result())).toMatchObject({ status: 'failed', undone: [{ status: 'undone' }] })
    expect(called).toEqual(['poll by ann', 'poll by bob', 'undo by poll'])
  })

  it('does not do a step again of which only an answer was taken back that did not go into what it came to', async () => {
    const { runtime, clock, run, called, mute, troubles } = await cancelledHalfway({ last: { after: ['poll'] } })
    mute.clear()
    const answersLeft = ['ann', 'bob'] // of those of the second run nobody can take back any
    troubles.has = (name) => name === 'last' || (name === 'undo' && answersLeft.pop() !== undefined)
    const again = await runtime.rerun(run.run_id, { options: { on_failure: 'compensate' } })
    expect(await inTime(clock, again.result())).toMatchObject({
      status: 'failed',
      undone: [{ status: 'failed' }, { status: 'failed' }, { status: 'undone' }],
    })
    called.splice(0)
    troubles.has = () => false
    const third = await runtime.rerun(again.run_id)
    expect((await inTime(clock, third.result())).status).toBe('completed')
    expect(called).toEqual(['last by ann', 'last by bob'])
  })

  it('has nobody review what is done anew before that is done', async () => {
    const { runtime, clock, run, called, mute } = await opened({
      mode: 'pair',
      steps: { one: { role: 'ann' }, two: { role: 'bob' } },
      session: ({ one, two }) => ({
        review: word('review', 'step'),
        conflicts: { strategies: ['escalation'], writes: { [one!]: ['page'], [two!]: ['page'] } },
      }),
      failing: [],
      silent: ['review by ann'],
    })
    await passes(clock, 1_000)
    await runtime.cancel(run.run_id) // while people are asked whose result shall stand
    await inTime(clock, run.result())
    called.splice(0)
    mute.clear()
    await runtime.rerun(run.run_id)
    await passes(clock, 1_000)
    expect(called).toEqual(['two by bob', 'review by ann'])
  })

  it('has everybody who took part take part again, also who has left the Collab since', async () => {
    const { runtime, clock, run, graph, called, mute, collab } = await opened({
      mode: 'swarm',
      steps: { one: {}, last: { after: ['one'], role: 'bob' } },
      session: () => ({ coordinator: 'bob' }),
      failing: [],
      silent: ['last by bob'],
    })
    await passes(clock, 1_000)
    const [ann] = ofKind(await graph.nodesOf(collab.collab_id, ['participant']), 'participant')
    await graph.commit([{ kind: 'node_delete', node: 'participant', id: ann!.id }], { actor: 'ann', reason: 'leaves' })
    await runtime.cancel(run.run_id)
    await inTime(clock, run.result())
    called.splice(0)
    mute.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect(called).toEqual(['last by bob'])
    const { participants } = await graph.document('collab', sessionOf(again, graph))
    expect(participants.map(({ participant_id }) => participant_id)).toEqual(['ann', 'bob'])
  })

  it('is put before people again, and its session begins when they have agreed', async () => {
    const all = await opened({ steps: { poll: {}, last: { after: ['poll'] } }, approval: {} })
    const { runtime, clock, run, graph, called, troubles } = all
    const agree = async () => {
      const [question] = await runtime.waiting()
      await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'lead' })
    }
    await agree()
    expect((await inTime(clock, run.result())).status).toBe('failed')
    called.splice(0)
    troubles.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await graph.document('collab', sessionOf(again, graph))).status).toBe('draft')
    await agree()
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect(called).toEqual(['last by ann', 'last by bob'])
  })

  it('needs of its process what is still to be done, and what takes each answer back where it may come to that', async () => {
    const { start, run, clock, troubles } = await failed({ steps: { poll: {}, last: { after: ['poll'] } } })
    troubles.clear()
    const able = await start({ lacking: ['poll', 'undo'] })
    const lacks = able.rerun(run.run_id, { options: { on_failure: 'compensate' } })
    await expect(lacks).rejects.toThrow('of the step “poll” asks for the function undo')
    const undoing = await start({ lacking: ['poll'] })
    const again = await undoing.rerun(run.run_id, { options: { on_failure: 'compensate' } })
    expect((await inTime(clock, again.result())).status).toBe('completed')
  })

  it.each([
    [
      'goes on with what was answered',
      ['more by ann', 'more by bob', 'last by ann', 'last by bob'],
      () => failed({ steps: { poll: {}, more: { after: ['poll'] }, last: { after: ['more'] } }, failing: ['more'] }),
    ],
    ['does anew what not all had answered', ['poll by ann', 'poll by bob'], () => cancelledHalfway()],
  ] as const)('%s, wherever a crash has cut it off', async (_, done, first) => {
    const { start, clock, run, store, gave, graph, called, troubles, mute, runtime } = await first()
    troubles.clear()
    mute.clear()
    await inTime(clock, runtime.close())
    for (const commit of [1, 2, 2, 3, 2, 3]) {
      const { store: dying, died } = dyingStore(store, commit, 'commit')
      const end = (await start({ store: dying })).rerun(run.run_id).then((again) => again.result())
      await inTime(clock, Promise.race([end, died]))
    }
    const again = await inTime(clock, (await start()).rerun(run.run_id))
    expect((await inTime(clock, again.result())).status).toBe('completed')
    expect([...new Set(called)].sort()).toEqual([...done].sort())
    await graph.refresh()
    expect((await gave(again)).poll).toMatchObject([{ participant_id: 'ann' }, { participant_id: 'bob' }])
    expect((await runtime.project.verify()).findings).toEqual([])
  })
})

/** Ann has answered, and bob never did. */
async function cancelledHalfway(more: Given['steps'] = {}) {
  const all = await opened({ steps: { poll: {}, ...more }, failing: [], silent: ['poll by bob'] })
  await passes(all.clock, 1_000)
  await all.runtime.cancel(all.run.run_id)
  expect((await inTime(all.clock, all.run.result())).status).toBe('cancelled')
  all.called.splice(0)
  return all
}
