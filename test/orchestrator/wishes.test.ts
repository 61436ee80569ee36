import { expect, it, onTestFinished, vi } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import type { Question } from '../../src/orchestrator/questions.ts'
import { createRuntime, type Runtime } from '../../src/orchestrator/runtime.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { InvalidInput, NotFound, Unavailable } from '../../src/protocol/errors.ts'
import type { Context, Plan } from '../../src/protocol/types.ts'
import { firstActionOf } from '../../src/psg/first-action.ts'
import { pathsOf } from '../../src/psg/paths.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collabDocument, contextDocument } from '../support/agents.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { heldCommit, inTime, passes, world } from '../support/on-a-clock.ts'

const binding = { action_type: 'wait', params: { signal: 'go' } } as const

it.each<[string, (other: Runtime, run: string) => Promise<void>, string]>([
  ['a signal', (other, run) => other.signal(run, 'go'), 'completed'],
  ['a wish to cancel', (other, run) => other.cancel(run), 'cancelled'],
])('takes in %s that crosses with the laying down of its run', async (_, wish, status) => {
  const store = memoryBackend()
  const layer = () => actionLayer({ adapters: [] })
  const owner = await createRuntime({ store, layer: layer(), quietMs: 100, patrolMs: 20 })
  onTestFinished(() => owner.close())
  const run = await owner.submit(flowOf({ wait: { binding } }))
  const graph = await owner.project.context(run.context_id)
  const phase = () => graph.get('run', run.run_id)?.data.phase
  let isHeld = false
  const other = await createRuntime({
    layer: layer(),
    patrolMs: 20,
    store: {
      ...store,
      async commit(write) {
        if (write.stream === run.context_id && !isHeld) {
          isHeld = true // decided while the run was running; it arrives when the run has been laid down
          await expect.poll(phase).toBe('waiting')
        }
        return store.commit(write)
      },
    },
  })
  onTestFinished(() => other.close())
  expect(phase()).toBe('running')
  await wish(other, run.run_id)
  expect(isHeld).toBe(true)
  expect(await run.result(AbortSignal.timeout(15_000))).toMatchObject({ status })
})

const by = (decided_by_role: string, status: 'approved' | 'rejected' = 'approved') =>
  ({ status, decided_by_role }) as const

async function desk(functions: Parameters<typeof runtimeOf>[0] = {}, options: Parameters<typeof runtimeOf>[1] = {}) {
  const runtime = await runtimeOf(functions, options)
  onTestFinished(() => runtime.close())
  return runtime
}

it('asks the same people again, and as many, when a plan is proposed again', async () => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(1, { approval: { needed: 2, roles: ['dba', 'lead'] } }))
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, by('dba', 'rejected'))
  const { confirm_id } = await runtime.propose(run.run_id)
  await expect(runtime.decide(confirm_id, by('intern'))).rejects.toMatchObject({
    violations: expect.arrayContaining([expect.objectContaining({ rule: 'decision.allowed' })]),
  })
  expect((await runtime.decide(confirm_id, by('dba'))).status).toBe('pending')
  expect((await runtime.decide(confirm_id, by('lead'))).status).toBe('approved')
  expect(await run.result()).toMatchObject({ success: true })
})

it('asks for as long as at first when a plan is proposed again, unless told for how long', async () => {
  const { clock, start } = world({})
  const runtime = await start()
  const run = await runtime.submit(chainOf(1, { approval: { expires_ms: 60_000 } }))
  const [{ confirm }] = (await runtime.waiting()) as [Question]
  const asksAgain = async (options?: { expires_ms: number }) => {
    await passes(clock, 10_000)
    await runtime.decide(confirm.confirm_id, by('dba', 'rejected'))
    await runtime.propose(run.plan_id, options)
    const [question] = await runtime.waiting()
    return Math.round((Date.parse(question!.expires_at!) - clock.now()) / 1000)
  }
  expect(await asksAgain()).toBe(60)
  expect(await asksAgain({ expires_ms: 90_000 })).toBe(90)
  expect(await asksAgain()).toBe(60)
  await inTime(clock, runtime.close())
})

it('cancels a plan without a run that was put up for so long, when nobody has decided by then', async () => {
  const { clock, start } = world({})
  const runtime = await start()
  const context = contextDocument(clock)
  const { context_id } = context
  await runtime.call('context', { intent: 'create', ...context })
  const steps = [{ description: 'it is to be done' }]
  const plan = await runtime.call('plan', {
    intent: 'create',
    context_id,
    title: 'Later',
    objective: 'It is done',
    steps,
  })
  const { plan_id } = plan as Plan
  const { confirm_id } = await runtime.propose(plan_id, { expires_ms: 60_000 })
  await passes(clock, 61_000)
  const graph = await runtime.project.context(context_id)
  expect(graph.get('plan', plan_id)?.data.status).toBe('cancelled')
  expect(graph.get('confirm', confirm_id)?.data.status).toBe('cancelled')
  expect(await graph.verify()).toEqual([])
  await inTime(clock, runtime.close())
})

it('tells of no question that is too late to answer, though its run is paused and takes that in when it goes on', async () => {
  const { clock, start } = world({ send: () => null })
  const runtime = await start()
  const run = await runtime.submit(flowOf({ send: { binding: { approval: { expires_ms: 60_000 } } } }))
  expect(await inTime(clock, run.rest())).toBe('waiting')
  const [asked] = await runtime.waiting()
  await runtime.pause(run.run_id)
  expect(await inTime(clock, run.rest())).toBe('waiting')
  await passes(clock, 61_000)
  expect(await runtime.waiting()).toEqual([])
  expect(await runtime.waiting({ limit: 1 })).toEqual([])
  const { confirm_id } = asked!.confirm
  await expect(runtime.decide(confirm_id, by('dba'))).rejects.toMatchObject({
    violations: [expect.objectContaining({ rule: 'decision.allowed' })],
  })
  await runtime.resume(run.run_id)
  expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'action_rejected' } })
  await inTime(clock, runtime.close())
})

it('tells with what waits what its plan is called', async () => {
  const runtime = await desk()
  const flow = chainOf(1, { approval: {} })
  await runtime.submit(flow)
  expect(await runtime.waiting()).toMatchObject([{ plan_id: flow.plan.plan_id, title: flow.plan.title }])
})

it('tells what waits page by page, in the order of ids, and opens no context but those of the page', async () => {
  const store = memoryBackend()
  const ids = Array.from({ length: 300 }, () => systemClock.uuid()).sort()
  const first = await desk({}, { store })
  for (const confirm of ids.toReversed()) await first.submit(chainOf(1, { approval: {}, chosen: { confirm } }))
  const opened = new Set<string>()
  const scan: Backend['scan'] = (prefix, from) => {
    if (!prefix.startsWith('waiting/')) opened.add(prefix.slice(0, 36))
    return store.scan(prefix, from)
  }
  const later = await desk({}, { store: { ...store, scan } })
  opened.clear()
  const idsOf = async (page?: { readonly after?: string; readonly limit?: number }) =>
    (await later.waiting(page)).map(({ confirm }) => confirm.confirm_id)
  expect(await idsOf({ limit: 2 })).toEqual(ids.slice(0, 2))
  expect(await idsOf({ limit: 3, after: ids[1]! })).toEqual(ids.slice(2, 5))
  expect(opened.size).toBe(5)
  expect(await idsOf({ limit: 250 })).toEqual(ids.slice(0, 250))
  expect(await idsOf({ after: ids[9]! })).toEqual(ids.slice(10))
  expect(await idsOf({ limit: 0 })).toEqual([])
  expect((await idsOf()).sort()).toEqual(ids)
  await expect(later.waiting({ limit: -1 })).rejects.toMatchObject({ problems: [{ path: 'limit', rule: 'range' }] })
  await expect(later.waiting({ after: '' })).rejects.toMatchObject({ problems: [{ path: 'after' }] })
})

it('fills a page beyond what was answered while it was put together', async () => {
  const store = memoryBackend()
  const ids = Array.from({ length: 4 }, () => systemClock.uuid()).sort()
  const first = await desk({}, { store })
  for (const confirm of ids) await first.submit(chainOf(1, { approval: {}, chosen: { confirm } }))
  let isAnswered = true
  const scan: Backend['scan'] = async function* (prefix, from) {
    const rows = []
    for await (const row of store.scan(prefix, from)) rows.push(row)
    if (prefix === 'waiting/' && !isAnswered) {
      isAnswered = true
      for (const id of ids.slice(0, 2)) await first.decide(id, by('dba', 'rejected'))
    }
    yield* rows
  }
  const later = await desk({}, { store: { ...store, scan } })
  isAnswered = false
  expect((await later.waiting({ limit: 2 })).map(({ confirm }) => confirm.confirm_id)).toEqual(ids.slice(2))
})

it('lets a plan that was sent back lose a step, and runs what is left of it', async () => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(2, { approval: {} }))
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, by('dba', 'rejected'))
  const graph = await runtime.project.context(run.context_id)
  const { steps } = await graph.document('plan', run.plan_id)
  await runtime.call('plan', { intent: 'remove_step', plan_id: run.plan_id, step_id: steps[1]!.step_id })
  const { confirm_id } = await runtime.propose(run.plan_id)
  await runtime.decide(confirm_id, by('dba'))
  expect(await run.result()).toMatchObject({ success: true })
  expect((await graph.document('plan', run.plan_id)).steps).toMatchObject([{ status: 'completed' }])
  expect(await graph.verify()).toEqual([])
})

it('does not start a plan that was changed and approved past it, and says which step has no binding', async () => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(1, { approval: {} }))
  const [asked] = await runtime.waiting()
  const { confirm_id } = asked!.confirm
  await runtime.decide(confirm_id, by('dba', 'rejected'))
  const plan = { intent: 'add_step', plan_id: run.plan_id, description: 'new' }
  const { steps } = await runtime.call('plan', plan)
  await pathsOf(runtime.project).patchPlanStatus(run.plan_id, 'proposed', { actor: 'x', reason: 'y' })
  await runtime.decide(confirm_id, by('dba'))
  expect(await run.result()).toMatchObject({
    status: 'cancelled',
    error: { code: 'step_unbound', message: expect.stringContaining(steps[1]!.step_id) },
  })
  expect(runtime.errors).toEqual([])
})

it('refuses to put a plan up again whose steps a single agent may not have', async () => {
  const runtime = await desk({}, { resolve: () => ({ action_type: 'function', params: { name: 'noop' } }) })
  const { plan_id } = await runtime.submit(chainOf(1, { approval: {} }))
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, by('dba', 'rejected'))
  await runtime.call('plan', { intent: 'add_step', plan_id, description: 'new', agent_role: '' })
  await expect(runtime.propose(plan_id)).rejects.toMatchObject({
    problems: [{ path: 'plan.steps[1].agent_role', rule: 'sa_steps_agent_role_if_present' }],
  })
})

it('does not run a session’s plan that was given a step which nobody of it may do', async () => {
  const resolve = () => ({ action_type: 'function', params: { name: 'noop' } })
  const runtime = await desk({}, { resolve })
  const flow = chainOf(1, { approval: {} })
  const context = flow.context as Context
  await runtime.project.create(context, { actor: 'x', reason: 'y' })
  const role_id = crypto.randomUUID()
  const collab = collabDocument(context, 'round_robin', [`ann:${role_id}`, `bob:${role_id}`])
  const { collab_id } = await runtime.call('collab', { intent: 'create', ...collab } as never)
  const { context_id, plan_id, ...run } = await runtime.submit({
    ...flow,
    context: context.context_id,
    options: { profile: 'map', session: { collab_id } },
  })
  const [asked] = await runtime.waiting()
  const { confirm_id } = asked!.confirm
  await runtime.decide(confirm_id, by('dba', 'rejected'))
  await runtime.call('plan', { intent: 'add_step', plan_id, description: 'new', agent_role: 'nobody' })
  await expect(runtime.propose(plan_id)).rejects.toMatchObject({
    problems: [{ path: 'plan.steps[1].agent_role', rule: 'role.fits' }],
  })
  await pathsOf(runtime.project).patchPlanStatus(plan_id, 'proposed', { actor: 'x', reason: 'y' })
  await runtime.decide(confirm_id, by('dba'))
  expect(await run.result()).toMatchObject({ status: 'cancelled', error: { code: 'step_unbound' } })
  expect(await (await runtime.project.context(context_id)).verify()).toEqual([])
})

it('refuses a decision that is none', async () => {
  const runtime = await desk()
  await runtime.submit(chainOf(1, { approval: {} }))
  const [asked] = await runtime.waiting()
  await expect(runtime.decide(asked!.confirm.confirm_id, undefined as never)).rejects.toThrow(InvalidInput)
})

const push = { repo_url: 'r', commit_id: 'c', ref_name: 'm', event_kind: 'push', timestamp: '2026-01-01T00:00:00Z' }

it('refuses what it does not know of a decision, a proposal or an event from outside', async () => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(1, { approval: { needed: 2, roles: ['dba', 'lead'] } }))
  const [asked] = await runtime.waiting()
  const { confirm_id } = asked!.confirm
  const problem = (path: string, rule: string) => ({ problems: [expect.objectContaining({ path, rule })] })
  const unbound = { ...by('dba'), digset: 'sha256:0' } as never // it would count for whatever is up for decision
  await expect(runtime.decide(confirm_id, unbound)).rejects.toMatchObject(problem('digset', 'extra_forbidden'))
  const nobody = { status: 'approved' } as never
  await expect(runtime.decide(confirm_id, nobody)).rejects.toMatchObject(problem('decided_by_role', 'required'))
  await runtime.decide(confirm_id, by('dba', 'rejected'))
  const easier = { needed: 1 } as never
  await expect(runtime.propose(run.plan_id, easier)).rejects.toMatchObject(problem('needed', 'extra_forbidden'))
  const over = { expires_ms: 0 }
  await expect(runtime.propose(run.plan_id, over)).rejects.toMatchObject(problem('expires_ms', 'range'))
  for (const [source, rule] of [
    [{ source: null }, 'type'],
    [{ sauce: 'ci' }, 'extra_forbidden'],
  ] as const) {
    const [path] = Object.keys(source)
    const told = runtime.ingest(run.context_id, 'git-event', push, source as never)
    await expect(told).rejects.toMatchObject(problem(path!, rule))
  }
})

it.each(['context', 'push', ''])('takes in no event of a kind called %j, whatever it looks like', async (kind) => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(1))
  await run.result()
  const graph = await runtime.project.context(run.context_id)
  const event = kind === 'context' ? await graph.document('context', run.context_id) : push
  await expect(runtime.ingest(run.context_id, kind as never, event)).rejects.toMatchObject({
    code: 'invalid_input',
    problems: [{ path: 'kind', rule: 'enum' }],
  })
})

it.each(['given', 'first looked at'])('tells an event from outside as it was when it was %s', async (when) => {
  const runtime = await desk()
  const { context_id } = await runtime.submit(chainOf(1, { approval: {} }))
  let isPush = true
  const event = {
    ...push,
    get event_kind() {
      const kind = isPush ? 'push' : 'nothing that git does'
      if (when === 'first looked at') isPush = false
      return kind
    },
  }
  const taken = runtime.ingest(context_id, 'git-event', event)
  isPush = false
  await taken
  const told: unknown[] = []
  for await (const entry of runtime.project.store.read(context_id))
    told.push(...eventsIn(entry).map(({ event: { event_type, payload } }) => [event_type, payload]))
  expect(told).toContainEqual(['git_operation', push])
})

it.each([undefined, null, 5, {}, '', '../x', 'x'.repeat(1_100)])(
  'knows no run and no question that is called %j',
  async (id) => {
    const runtime = await desk()
    for (const wish of ['cancel', 'pause', 'resume', 'get', 'propose'] as const)
      await expect(runtime[wish](id as never)).rejects.toThrow(NotFound)
    await expect(runtime.signal(id as never, 'go')).rejects.toThrow(NotFound)
    await expect(runtime.decide(id as never, by('user'))).rejects.toThrow(NotFound)
  },
)

it('refuses options that are none', async () => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(1, { approval: {} }))
  await expect(runtime.propose(run.plan_id, null as never)).rejects.toThrow(InvalidInput)
  await expect(runtime.ingest(run.context_id, 'git-event', {}, null as never)).rejects.toThrow(InvalidInput)
})

it('refuses a signal that is nested more deeply than a graph takes', async () => {
  const runtime = await desk()
  const run = await runtime.submit(flowOf({ one: { binding } }))
  await run.rest()
  const lists = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`)
  await expect(runtime.signal(run.run_id, 'go', lists(1_001))).rejects.toMatchObject({
    problems: [{ path: 'payload[0][0][0]', rule: 'json', message: expect.stringContaining('1000 levels deep') }],
  })
  await runtime.signal(run.run_id, 'go', lists(1_000))
  expect((await run.result()).status).toBe('completed')
})

it.each([
  ['of one byte each', 'x'],
  ['of three', '文'],
  ['that JSON writes in six', '\u0001'],
])(
  'hands over a signal as large as an output may be, and refuses a larger one, of characters %s',
  async (_, character) => {
    const runtime = await desk()
    const run = await runtime.submit(flowOf({ one: { binding } }))
    await run.rest()
    const most = 16 * 1024 * 1024
    const bytes = Buffer.byteLength(JSON.stringify(character)) - 2
    const characters = character.repeat(Math.floor((most - 2) / bytes))
    const whole = characters + 'x'.repeat(most - 2 - characters.length * bytes)
    await expect(runtime.signal(run.run_id, 'go', `${whole}x`)).rejects.toMatchObject({
      problems: [{ path: 'payload', rule: 'length', message: expect.stringContaining(`has ${most + 1} bytes`) }],
    })
    await runtime.signal(run.run_id, 'go', whole)
    const { status, outputs } = await run.result()
    expect(status).toBe('completed')
    expect(Object.values(outputs)[0] === whole).toBe(true)
  },
)

it('refuses a signal that would become JSON only by a toJSON, and so does the compiler', async () => {
  const runtime = await desk()
  const run = await runtime.submit(flowOf({ one: { binding } }))
  const problems = [expect.objectContaining({ path: 'payload', rule: 'json' })]
  // @ts-expect-error: a date is no JSON
  await expect(runtime.signal(run.run_id, 'go', new Date(0))).rejects.toMatchObject({ problems })
  // @ts-expect-error: nor is an address
  await expect(runtime.signal(run.run_id, 'go', new URL('http://a.b'))).rejects.toMatchObject({ problems })
})

it('refuses a signal of more than a text can be', async () => {
  const runtime = await desk()
  const run = await runtime.submit(flowOf({ one: { binding } }))
  const payload = Array.from({ length: 64 }, () => 'x'.repeat(10_000_000))
  await expect(runtime.signal(run.run_id, 'go', payload)).rejects.toMatchObject({
    problems: [{ path: 'payload', rule: 'length' }],
  })
})

it('hands a signal to one of two steps that wait for it', async () => {
  const runtime = await desk()
  const flow = flowOf({ one: { binding }, two: { binding } })
  const run = await runtime.submit(flow)
  await run.rest()
  await runtime.signal(run.run_id, 'go', 1)
  await runtime.signal(run.run_id, 'go', 2)
  const { outputs } = await run.result()
  expect(Object.values(outputs).sort()).toEqual([1, 2])
})

it('leaves a run laid down when a signal comes that nothing in it waits for, and keeps that signal', async () => {
  const runtime = await desk()
  const later = { action_type: 'wait', params: { signal: 'later' } } as const
  const flow = flowOf({ one: { binding }, two: { binding: later, after: ['one'] } })
  const run = await runtime.submit(flow)
  await run.rest()
  const graph = await runtime.project.context(run.context_id)
  const before = graph.revision
  for (let i = 0; i < 3; i++) await runtime.signal(run.run_id, 'later', i)
  expect({ phase: run.phase, commits: graph.revision - before }).toEqual({ phase: 'waiting', commits: 3 })
  await runtime.signal(run.run_id, 'go')
  const { outputs } = await run.result()
  expect(outputs[flow.ids.two!]).toBe(0)
})

const long = (_: unknown, { signal }: { readonly signal: AbortSignal }) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))

it('hands many signals to many steps without going through the plan for each of them', async () => {
  const names = Array.from({ length: 50 }, (_, i) => `s${i}`)
  const runtime = await desk()
  const steps = names.map((signal) => [signal, { binding: { action_type: 'wait', params: { signal } } }] as const)
  const flow = flowOf(Object.fromEntries(steps), { approval: {} })
  const run = await runtime.submit(flow)
  const walks = vi.spyOn((await runtime.project.context(run.context_id)).state, 'nodesOf')
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, by('dba'))
  expect(await run.rest()).toBe('waiting')
  for (const name of names) await runtime.signal(run.run_id, name, name)
  const { outputs } = await run.result()
  expect(names.map((name) => outputs[flow.ids[name]!])).toEqual(names)
  expect(walks.mock.calls.length).toBeLessThan(10 * names.length)
})

it('refuses a signal that no step waits for, now or later, with the one that may be meant', async () => {
  const runtime = await desk()
  const answer = { binding: { action_type: 'wait', params: { signal: 'answer' } } }
  const run = await runtime.submit(flowOf({ go: { binding: { action_type: 'wait', params: { ms: 1 } } }, answer }))
  const graph = await runtime.project.context(run.context_id)
  const refusal = (name: string, more = '') => ({
    problems: [
      {
        path: 'name',
        rule: 'awaited',
        message: `is ${name}, a signal that no step of run ${run.run_id} waits for${more}`,
      },
    ],
  })
  await expect(runtime.signal(run.run_id, 'anwser')).rejects.toMatchObject(refusal('anwser', '; did you mean answer?'))
  await expect(runtime.signal(run.run_id, 'payment', 1)).rejects.toMatchObject(
    refusal('payment', '; answer is waited for'),
  )
  expect(graph.state.plan(run.plan_id)?.signals.size).toBe(0)
  await runtime.signal(run.run_id, 'answer', 'yes')
  expect(Object.values((await run.result()).outputs)).toContain('yes')
})

it.each([
  [0, ''],
  [2, '; s1, s2 are waited for'],
  [12, '; s1, s10, s11, s12, s2, s3, s4, s5, s6, s7 and 2 more are waited for'],
])('refuses a signal unlike those that steps wait for with their names, of %i', async (count, more) => {
  const runtime = await desk()
  const pause = { binding: { action_type: 'wait', params: { ms: 60_000 } } }
  const binding = (i: number) => ({ binding: { action_type: 'wait', params: { signal: `s${i + 1}` } } })
  const waits = Object.fromEntries(Array.from({ length: count }, (_, i) => [`step ${i}`, binding(i)]))
  const run = await runtime.submit(flowOf({ pause, ...waits }))
  const message = `is payment, a signal that no step of run ${run.run_id} waits for${more}`
  await expect(runtime.signal(run.run_id, 'payment')).rejects.toMatchObject({ problems: [{ message }] })
})

it('takes a signal in without going through the plan, however many it has taken', async () => {
  const runtime = await desk({ long })
  const names = Array.from({ length: 30 }, (_, i) => `s${i}`)
  const binding = { action_type: 'wait', params: { signal: 'go' } } as const
  const chain = names.map((name, i) => [name, { binding, ...(i > 0 && { after: [names[i - 1]!] }) }] as const)
  const flow = flowOf({ long: {}, ...Object.fromEntries(chain) })
  const run = await runtime.submit(flow)
  const graph = await runtime.project.context(run.context_id)
  const { state } = graph
  const walks = vi.spyOn(state, 'nodesOf')
  for (const [i, name] of names.entries()) {
    await runtime.signal(run.run_id, 'go', i)
    await expect.poll(() => graph.get('step', flow.ids[name]!)?.data.status).toBe('completed')
  }
  expect(walks.mock.calls.length).toBeLessThanOrEqual(names.length + 1) // to find the run, each time
  await runtime.cancel(run.run_id)
  await run.result()
})

it('lets nothing outrank a cancel', async () => {
  const runtime = await desk({ long })
  const run = await runtime.submit(flowOf({ long: {} }))
  await Promise.all([runtime.cancel(run.run_id), runtime.pause(run.run_id), runtime.resume(run.run_id)])
  expect(await run.result()).toMatchObject({ status: 'cancelled' })
})

it('cancels a plan that is being approved at that moment', async () => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(2, { approval: {} }))
  const [asked] = await runtime.waiting()
  const deciding = runtime.decide(asked!.confirm.confirm_id, by('somebody'))
  await Promise.all([deciding.catch(() => undefined), runtime.cancel(run.run_id)])
  const { status } = await run.result()
  expect(['cancelled', 'completed']).toContain(status) // it may have been done before
})

it.each([
  ['sent back', 'rejected'],
  ['waits for an answer', 'pending'],
])('ends the run of a plan that %s and that its module cancels, and withdraws the question', async (_, status) => {
  const runtime = await desk()
  const run = await runtime.submit(chainOf(1, { approval: {} }))
  const [asked] = await runtime.waiting()
  const { confirm_id } = asked!.confirm
  if (status === 'rejected') await runtime.decide(confirm_id, by('somebody', status))
  await runtime.call('plan', { intent: 'cancel', plan_id: run.plan_id })
  expect(await run.result()).toMatchObject({ status: 'cancelled' })
  expect(await runtime.waiting()).toEqual([])
  const graph = await runtime.project.context(run.context_id)
  expect(graph.get('confirm', confirm_id)?.data.status).toBe(status === 'rejected' ? status : 'cancelled')
  expect(await graph.verify()).toEqual([])
})

it('says of a plan under way that its run is to be cancelled, not the plan by its module', async () => {
  const runtime = await desk()
  const run = await runtime.submit(flowOf({ wait: { binding } }))
  await expect(runtime.call('plan', { intent: 'cancel', plan_id: run.plan_id })).rejects.toMatchObject({
    problems: [{ path: 'plan_id', rule: 'owner.fence', message: expect.stringContaining(run.run_id) }],
  })
  await runtime.cancel(run.run_id)
  expect(await run.result()).toMatchObject({ status: 'cancelled' })
})

it('forgets no cancel that arrives while a pause is being taken in', async () => {
  const { start, clock } = world({ long })
  const held = heldCommit('"pausing"')
  const owner = await start({}, held.seen)
  const other = await start({ mine: new Set() })
  const run = await owner.submit(flowOf({ long: {} }))
  await other.pause(run.run_id)
  await inTime(clock, held.reached)
  await other.cancel(run.run_id)
  held.letGo()
  expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
  await inTime(clock, Promise.all([owner.close(), other.close()]))
})

it.each([
  ['cancel', 'skipped'],
  ['pause', 'pending'],
] as const)('lets no step begin once another process was told that its wish to %s is stored', async (wish, status) => {
  const did: string[] = []
  const { start, clock } = world({ one: () => void did.push('one'), two: () => void did.push('two') })
  const flow = flowOf({ one: {}, two: { after: ['one'] } })
  const held = heldCommit(firstActionOf(flow.ids.two!)) // what tells the end of one and the beginning of two
  const owner = await start({}, held.seen)
  const other = await start({ mine: new Set() })
  const run = await owner.submit(flow)
  await inTime(clock, held.reached)
  await other[wish](run.run_id)
  held.letGo()
  await inTime(clock, run.rest())
  const graph = await other.project.context(run.context_id)
  await graph.refresh()
  await graph.load(run.plan_id)
  const statusOf = (step: string) => graph.get('step', flow.ids[step]!)?.data.status
  expect({ did, one: statusOf('one'), two: statusOf('two') }).toEqual({ did: ['one'], one: 'completed', two: status })
  if (wish === 'pause') {
    await other.resume(run.run_id)
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  }
  await inTime(clock, Promise.all([owner.close(), other.close()]))
})

it.each(['before', 'after'])(
  'rests only when it is paused, where it waited for somebody: asked %s the wish is taken in',
  async (when) => {
    const { start, clock } = world({})
    const desk = await start({ mine: new Set() })
    const first = await start()
    const submitted = await first.submit(flowOf({ wait: { binding } }))
    expect(await inTime(clock, submitted.rest())).toBe('waiting')
    await inTime(clock, first.close())
    await desk.pause(submitted.run_id)
    const held = heldCommit('"phase":"paused"')
    const owner = await start({}, held.seen)
    const run = await owner.get(submitted.run_id)
    const phaseAtRest = async () => (await run.rest()) && run.phase
    const asked = when === 'before' ? [phaseAtRest()] : []
    await inTime(clock, held.reached)
    if (when === 'after') asked.push(phaseAtRest())
    await clock.advance(1_000)
    held.letGo()
    expect(await inTime(clock, Promise.all(asked))).toEqual(['paused'])
    await inTime(clock, Promise.all([owner.close(), desk.close()]))
  },
)

it('rests where who was about to pause it has died', async () => {
  const { start, clock } = world({})
  const held = heldCommit('"phase":"paused"')
  const owner = await start({}, held.seen)
  const run = await owner.submit(flowOf({ wait: { binding } }))
  await inTime(clock, run.rest())
  await owner.pause(run.run_id)
  await inTime(clock, held.reached)
  owner.die()
  const next = await start()
  expect(await inTime(clock, (await next.get(run.run_id)).rest())).toBe('waiting')
  await next.resume(run.run_id)
  await next.signal(run.run_id, 'go')
  expect(await inTime(clock, (await next.get(run.run_id)).result())).toMatchObject({ success: true })
  await inTime(clock, next.close())
})

it('ends a run all the same when a wish to cancel crosses with its end', async () => {
  const { start, clock } = world({ one: () => 1 })
  const held = heldCommit('"phase":"ended"')
  const owner = await start({}, held.seen)
  const other = await start({ mine: new Set() })
  const run = await owner.submit(flowOf({ one: {} }))
  await inTime(clock, held.reached)
  await other.cancel(run.run_id)
  held.letGo()
  expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
  await inTime(clock, Promise.all([owner.close(), other.close()]))
})

it('does not lay a run down over a signal, so that whoever dies then leaves nothing that nobody looks for', async () => {
  const { start, clock } = world({})
  const held = heldCommit('the run is waiting')
  const owner = await start(
    {
      onCommit: ({ body }) => {
        if (body.reason === 'the run is waiting') owner.die()
      },
    },
    held.seen,
  )
  const other = await start({ mine: new Set() })
  const run = await owner.submit(flowOf({ wait: { binding } }))
  await inTime(clock, held.reached)
  await other.signal(run.run_id, 'go')
  held.letGo()
  await passes(clock, 1_000)
  owner.die()
  const next = await start()
  expect(await inTime(clock, (await next.get(run.run_id)).result())).toMatchObject({ success: true })
  await inTime(clock, Promise.all([next.close(), other.close()]))
})

it('asks a plan that is proposed again anew: the time of the question before it is over', async () => {
  const { start, clock } = world({})
  const runtime = await start()
  const run = await runtime.submit(chainOf(1, { approval: { expires_ms: 3_000 } }))
  const [asked] = await runtime.waiting()
  await passes(clock, 2_000)
  await runtime.decide(asked!.confirm.confirm_id, by('somebody', 'rejected'))
  const { confirm_id } = await runtime.propose(run.plan_id)
  await passes(clock, 2_000)
  await runtime.decide(confirm_id, by('somebody'))
  expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('keeps what was submitted and wished for when the context cannot be looked at just then', async () => {
  const { start, clock } = world({})
  let away = true
  const runtime = await start({}, (store) => ({
    ...store,
    acquire: (...asked) => (away ? Promise.reject(new Unavailable('the store', 'later')) : store.acquire(...asked)),
  }))
  const run = await runtime.submit(flowOf({ wait: { binding } }))
  await runtime.signal(run.run_id, 'go')
  expect(runtime.errors).toContainEqual(expect.any(Unavailable))
  away = false
  expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  await inTime(clock, runtime.close())
})

it('refuses a signal to a run that ends meanwhile', async () => {
  const { start, clock } = world({})
  const held = heldCommit('signal go')
  const other = await start({ mine: new Set() }, held.seen)
  const owner = await start()
  const run = await owner.submit(flowOf({ wait: { binding } }))
  const signalled = other.signal(run.run_id, 'go')
  signalled.catch(() => undefined) // expected below
  await inTime(clock, held.reached)
  await owner.cancel(run.run_id)
  await inTime(clock, run.result())
  held.letGo()
  await expect(inTime(clock, signalled)).rejects.toThrow(InvalidInput)
  await inTime(clock, Promise.all([owner.close(), other.close()]))
})

it('tells the end of a run to whoever asks for it at that very moment', async () => {
  for (let moment = 0; moment < 50; moment++) {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1, { approval: {} }))
    const cancelled = runtime.cancel(run.run_id)
    for (let i = 0; i < moment; i++) await Promise.resolve()
    expect(await run.result(AbortSignal.timeout(10_000))).toMatchObject({ status: 'cancelled' })
    await cancelled
    await runtime.close()
  }
})

it.each([
  ['refuses it when nobody can execute it', undefined],
  ['has it executed as the runtime says', () => ({ action_type: 'function', params: { name: 'noop' } })],
])('proposes a plan again that got a step meanwhile: %s', async (_, resolve) => {
  const runtime = await desk({}, resolve && { resolve })
  const run = await runtime.submit(chainOf(1, { approval: {} }))
  const [asked] = await runtime.waiting()
  await runtime.decide(asked!.confirm.confirm_id, by('somebody', 'rejected'))
  await runtime.call('plan', { intent: 'add_step', plan_id: run.plan_id, description: 'one more' })
  const proposed = runtime.propose(run.plan_id)
  if (!resolve) return expect(proposed).rejects.toMatchObject({ problems: [{ rule: 'binding' }] })
  await runtime.decide((await proposed).confirm_id, by('somebody'))
  expect(await run.result()).toMatchObject({ success: true })
})
