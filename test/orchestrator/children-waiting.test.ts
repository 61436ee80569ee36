import { describe, expect, it } from 'vitest'
import type { ActionExecutionLayer } from '../../src/ael/adapter.ts'
import type { FunctionSpec } from '../../src/ael/function.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { allWaitsOf } from '../../src/orchestrator/waits.ts'
import type { ManualClock } from '../../src/protocol/clock.ts'
import { uuidOf } from '../../src/protocol/json.ts'
import { openProject, upToDate } from '../../src/psg/project.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { contextDocument, newContext, planDocument, saying } from '../support/agents.ts'
import { childIdOf, type Functions, having, oneStep, parentOf, slowly, underWay } from '../support/children.ts'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { heldCommit, inTime, passes, until, world } from '../support/on-a-clock.ts'

const YES = { status: 'approved', decided_by_role: 'lead' } as const
const ASKS: StepSpec = { call: 'noop', binding: { approval: 'ask' } }
const SIGNALLED = { go: { binding: { action_type: 'wait', params: { signal: 'go' } } } }

/** Submits these flows, as children of the step, and waits for all of them. */
const childrenOf =
  (...steps: readonly { readonly [name: string]: StepSpec }[]): FunctionSpec =>
  async (_args, { child, idempotency_key }) => {
    const named = (i: number) => uuidOf(`${idempotency_key} child${i === 0 ? '' : ` ${i}`}`)
    const flows = steps.map((one, i) => flowOf(one, { chosen: { run: named(i) } }))
    return (await Promise.all(flows.map(child))).map(({ status }) => status)
  }

/** A parent that was submitted, and how to ask in what it rests. */
async function begun(functions: Functions, steps: { readonly [name: string]: StepSpec } = { parent: {} }) {
  const given = world({})
  const runtime = await given.start(having(functions, given.clock))
  const flow = flowOf(steps)
  const run = await runtime.submit(flow)
  return { ...given, runtime, flow, run, child: childIdOf(flow), functions }
}

async function waitsOf({ project }: Pick<Runtime, 'project'>, { context_id, plan_id }: RunHandle) {
  return allWaitsOf(project, await upToDate(project, { graph: context_id, group: plan_id }), plan_id)
}

/** Does the run rest, after so much time in which it could have come to that? */
async function rests(run: RunHandle, clock: ManualClock, ms = 3_000): Promise<'ended' | 'waiting' | 'goes on'> {
  const over = new AbortController()
  const rest = run.rest(over.signal).catch(() => 'goes on' as const)
  await passes(clock, ms)
  over.abort()
  return rest
}

describe('a run whose child waits for somebody', () => {
  it('rests too, tells what the child asks, and goes on with the answer', async () => {
    const { clock, runtime, run, child } = await begun({ parent: childrenOf({ asks: ASKS }) })
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect(run.phase).toBe('running')
    const [question] = await runtime.waiting()
    const { confirm_id } = question!.confirm
    const { plan_id, context_id } = await runtime.get(child)
    expect(await waitsOf(runtime, run)).toEqual([
      {
        what: `the child ${child}: the decision ${confirm_id}`,
        decision: { confirm_id, roles: undefined, reason: question!.confirm.reason },
        child: { run_id: child, plan_id, context_id },
      },
    ])
    await runtime.decide(confirm_id, YES)
    expect(await inTime(clock, run.rest())).toBe('ended')
    expect(await run.result()).toMatchObject({ status: 'completed' })
    await inTime(clock, runtime.close())
  })

  it.each<[string, { readonly [name: string]: StepSpec }, string]>([
    ['a signal', SIGNALLED, 'the signal go'],
    ['a person, who has paused it', { slow: {}, noop: { after: ['slow'] } }, 'which is paused'],
  ])('rests where that is %s', async (what, steps, told) => {
    const { work, slow } = slowly()
    const { clock, runtime, run, child } = await begun({ parent: childrenOf(steps), slow })
    if (what !== 'a signal') {
      await until(clock, () => work.begun === 1)
      await runtime.pause(child)
      expect(await rests(run, clock)).toBe('goes on') // what is under way comes to its end first
      work.open()
    }
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect((await waitsOf(runtime, run)).map((wait) => wait.what)).toEqual([expect.stringContaining(told)])
    if (what === 'a signal') await runtime.signal(child, 'go')
    else await runtime.resume(child)
    expect(await inTime(clock, run.rest())).toBe('ended')
    await inTime(clock, runtime.close())
  })

  it('rests where the child has not been allowed to start', async () => {
    const { clock, runtime, run } = await begun({ parent: parentOf('noop', { approval: { roles: ['lead'] } }) })
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const [wait] = await waitsOf(runtime, run)
    await runtime.decide(wait!.decision!.confirm_id, YES)
    expect(await inTime(clock, run.rest())).toBe('ended')
    await inTime(clock, runtime.close())
  })

  it('rests where it is a child of its child that waits', async () => {
    const functions = { parent: childrenOf({ middle: {} }), middle: childrenOf({ asks: ASKS }) }
    const { clock, runtime, run, child } = await begun(functions)
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const [wait] = await waitsOf(runtime, run)
    const [question] = await runtime.waiting()
    expect(wait).toMatchObject({
      what: expect.stringMatching(`^the child ${child}: the child .*: the decision ${question!.confirm.confirm_id}$`),
      child: { plan_id: question!.plan_id },
    })
    await runtime.decide(question!.confirm.confirm_id, YES)
    expect(await inTime(clock, run.rest())).toBe('ended')
    await inTime(clock, runtime.close())
  })

  it('goes on while another of its children does, and then rests', async () => {
    const { work, slow } = slowly()
    const { clock, runtime, run } = await begun({ parent: childrenOf({ asks: ASKS }, { slow: {} }), slow })
    expect(await rests(run, clock)).toBe('goes on')
    expect((await waitsOf(runtime, run)).map(({ what }) => what)).toEqual([
      'the step “parent”, attempt 1',
      expect.stringContaining('the decision'),
    ])
    const rest = run.rest()
    work.open()
    expect(await inTime(clock, rest)).toBe('waiting')
    await inTime(clock, runtime.close())
  })

  it('goes on while a step beside it does, and then rests', async () => {
    const { work, slow } = slowly()
    const { clock, runtime, run } = await begun({ parent: childrenOf({ asks: ASKS }), slow }, { parent: {}, slow: {} })
    expect(await rests(run, clock)).toBe('goes on')
    const rest = run.rest()
    work.open()
    expect(await inTime(clock, rest)).toBe('waiting')
    await inTime(clock, runtime.close())
  })

  it.each(['decision', 'signal'] as const)('does not rest while a %s of its own is to be taken in', async (what) => {
    const { clock, start, runtime, run } = await begun(
      { parent: childrenOf({ asks: ASKS }) },
      { parent: {}, own: what === 'decision' ? ASKS : SIGNALLED.go },
    )
    expect(await inTime(clock, run.rest())).toBe('waiting')
    runtime.die()
    const other = await start(having({}, clock)) // who cannot go on with it
    const seen = await other.get(run.run_id)
    expect(await rests(seen, clock)).toBe('waiting')
    const own = (await waitsOf(other, seen)).find(({ child }) => child === undefined)
    if (what === 'signal') await other.signal(run.run_id, 'go')
    else await other.decide(own!.decision!.confirm_id, YES)
    expect(await rests(seen, clock)).toBe('goes on')
    await inTime(clock, other.close())
  })

  it('rests, and goes on, for who only looks on from another process', async () => {
    const { work, slow } = slowly()
    const child = { slow: {}, asks: { ...ASKS, after: ['slow'] } }
    const { clock, start, runtime, run } = await begun({ parent: childrenOf(child), slow })
    const other = await start(having({}, clock))
    const seen = await other.get(run.run_id)
    expect(await rests(seen, clock)).toBe('goes on')
    const rest = seen.rest()
    work.open()
    expect(await inTime(clock, rest)).toBe('waiting')
    const [wait] = await waitsOf(other, seen)
    await other.decide(wait!.decision!.confirm_id, YES)
    expect(await inTime(clock, seen.rest())).toBe('ended')
    await inTime(clock, Promise.all([runtime.close(), other.close()]))
  })

  it('rests for who looks on since before the child was there', async () => {
    const given = world({})
    const flow = flowOf({ parent: {} })
    const held = heldCommit(`/run/${childIdOf(flow)}`)
    const runtime = await given.start(having({ parent: childrenOf({ asks: ASKS }) }, given.clock), held.seen)
    const other = await given.start(having({}, given.clock))
    const run = await runtime.submit(flow)
    await inTime(given.clock, held.reached)
    const rest = [run, await other.get(run.run_id)].map((one) => one.rest())
    await passes(given.clock, 500)
    held.letGo()
    expect(await inTime(given.clock, Promise.all(rest))).toEqual(['waiting', 'waiting'])
    await inTime(given.clock, Promise.all([runtime.close(), other.close()]))
  })

  it('rests where nobody is counted on to go on with the child', async () => {
    const { clock, first, start, functions, run, flow } = await underWay()
    await inTime(clock, first.close(AbortSignal.abort()))
    const { parent } = functions
    const second = await start({ parent: parent! }, { mine: new Set([flow.plan.plan_id]) }) // alone, and without what the child calls
    expect(await inTime(clock, (await second.get(run.run_id)).rest())).toBe('waiting')
    await inTime(clock, second.close())
  })

  it('is told of without a look at the contexts of children that have ended', async () => {
    const noops = Array.from({ length: 5 }, () => ({ noop: {} }))
    const { clock, runtime, run, store } = await begun({ parent: childrenOf({ asks: ASKS }, ...noops) })
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const heads = new Set<string>()
    const project = await openProject({
      ...store,
      head(stream) {
        heads.add(stream)
        return store.head(stream)
      },
    })
    heads.clear()
    const [wait, ...more] = await waitsOf({ project }, run)
    expect(more).toEqual([])
    expect([...heads].sort()).toEqual([run.context_id, wait!.child!.context_id].sort())
    await inTime(clock, runtime.close())
  })

  it('lets a flow of a single agent end with the question', async () => {
    const execute: ActionExecutionLayer['execute'] = async ({ idempotency_key }, call) =>
      (await call!.child!(oneStep(`${idempotency_key} child`, 'noop', { approval: { roles: ['lead'] } }))).status
    const context = contextDocument()
    const result = await runSingleAgentFlow({
      flow: {},
      runtimeContext: newContext('run-1'),
      modules: saying({ context, plan: planDocument(context, { parent: {} }) }),
      vsl: memoryBackend(),
      ael: { execute },
    })
    expect(result).toMatchObject({
      success: false,
      error: { code: 'APPROVAL_PENDING', confirms: [expect.any(String)] },
    })
  })
})

describe('a parent that is to be paused', () => {
  it('lets what its children have under way end, and is paused once they have ended with it', async () => {
    const next = { noop: { after: ['parent'] } }
    const { clock, first, run, work, flow, child } = await underWay({ next })
    await first.pause(run.run_id)
    expect(await rests(run, clock)).toBe('goes on')
    expect((await first.get(child)).phase).toBe('running')
    work.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect([run.phase, (await first.get(child)).phase]).toEqual(['paused', 'ended'])
    const graph = await first.project.context(run.context_id)
    expect(graph.get('step', flow.plan.steps[1]!.step_id)?.data.status).toBe('pending')
    await first.resume(run.run_id)
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
    await inTime(clock, first.close())
  })

  it('has its children, and theirs, begin nothing more until it is resumed, also over a restart', async () => {
    const { work, slow } = slowly()
    const middle = childrenOf({ slow: {}, noop: { after: ['slow'] } })
    const functions = { parent: childrenOf({ middle: {} }), middle, slow }
    const { clock, runtime, run, start } = await begun(functions)
    await until(clock, () => work.begun === 1)
    await runtime.pause(run.run_id)
    work.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const phases = async ({ list }: Runtime) => (await list()).map(({ phase }) => phase).sort()
    expect(await phases(runtime)).toEqual(['paused', 'running', 'running'])
    expect(await waitsOf(runtime, run)).toEqual([{ what: expect.stringMatching(/is paused$/), isPaused: true }])
    await inTime(clock, runtime.close())

    const second = await start(having(functions, clock))
    await passes(clock, 3_000)
    expect(await phases(second)).toEqual(['paused', 'paused', 'paused'])
    const again = await second.get(run.run_id)
    expect(await waitsOf(second, again)).toEqual([{ what: expect.stringMatching(/is paused$/), isPaused: true }])
    await second.resume(run.run_id)
    expect(await inTime(clock, again.result())).toMatchObject({ status: 'completed' })
    await inTime(clock, second.close())
  })

  it('pauses a child that a step submits only then, and leaves one that nobody has allowed to start', async () => {
    const { work, slow } = slowly()
    const parent: FunctionSpec = async (args, call) => {
      await slow(args, call)
      const flow = (steps: { readonly [name: string]: StepSpec }, more: Parameters<typeof flowOf>[1], name: string) =>
        call.child(flowOf(steps, { ...more, chosen: { run: uuidOf(`${call.idempotency_key} ${name}`) } }))
      const late = flow(SIGNALLED, {}, 'child')
      const ended = await Promise.all([late, flow({ noop: {} }, { approval: { roles: ['lead'] } }, 'asked')])
      return ended.map(({ status }) => status)
    }
    const { clock, runtime, run, child, flow } = await begun({ parent })
    await until(clock, () => work.begun === 1)
    await runtime.pause(run.run_id)
    await passes(clock, 200)
    work.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect((await runtime.get(child)).phase).toBe('paused')
    const [question] = await runtime.waiting()
    await runtime.pause(run.run_id)
    await runtime.decide(question!.confirm.confirm_id, YES)
    await runtime.resume(run.run_id)
    await runtime.signal(child, 'go')
    const { outputs } = await inTime(clock, run.result())
    expect(outputs[flow.plan.steps[0]!.step_id]).toEqual(['completed', 'completed'])
    await inTime(clock, runtime.close())
  })

  it('leaves alone a child whose step has not waited for it', async () => {
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      void child(flowOf(SIGNALLED, { chosen: { run: uuidOf(`${idempotency_key} child`) } })).catch(() => undefined)
      return 'gone on'
    }
    const { clock, runtime, run, child } = await begun(
      { parent },
      { parent: {}, last: { after: ['parent'], binding: { action_type: 'wait', params: { signal: 'end' } } } },
    )
    await passes(clock, 1_000)
    await runtime.pause(run.run_id)
    await passes(clock, 1_000)
    expect([run.phase, (await runtime.get(child)).phase]).toEqual(['paused', 'waiting'])
    await inTime(clock, runtime.close())
  })

  it('rests before that, where they wait for somebody', async () => {
    const { clock, runtime, run } = await begun({ parent: childrenOf({ asks: ASKS }) })
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await runtime.pause(run.run_id)
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect(run.phase).toBe('running')
    await inTime(clock, runtime.close())
  })
})

describe('a step that was cut off often', () => {
  /** Takes the run up again and again, each time by a process that ends so while the step waits for its child. */
  async function takenUp(ends: readonly ('close' | 'die')[], more: Parameters<typeof flowOf>[1] = {}) {
    const given = world({})
    let begun = 0
    const parent: FunctionSpec = async (_args, { child, idempotency_key }) => {
      begun++
      return (await child(flowOf(SIGNALLED, { chosen: { run: uuidOf(`${idempotency_key} child`) } }))).status
    }
    const flow = flowOf({ parent: {} }, more)
    for (const [i, end] of ends.entries()) {
      const process = await given.start(having({ parent }, given.clock))
      if (i === 0) await process.submit(flow)
      await until(given.clock, () => begun === i + 1)
      await passes(given.clock, 200)
      if (end === 'close') await inTime(given.clock, process.close())
      else process.die()
    }
    const last = await given.start(having({ parent }, given.clock))
    await passes(given.clock, 2_000)
    return { ...given, last, run: await last.get(flow.plan.plan_id), child: childIdOf(flow) }
  }

  it('begins again without a question where processes closed while it waited for a child', async () => {
    const { clock, last, run, child } = await takenUp(Array.from({ length: 22 }, () => 'close'))
    expect(await last.waiting()).toEqual([])
    await last.signal(child, 'go')
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
    await inTime(clock, last.close())
  })

  it('uses up no more of its budget for that than it would have in one process', async () => {
    const { clock, last, run, child } = await takenUp(['close', 'close'], { options: { budget: { actions: 1 } } })
    await last.signal(child, 'go')
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
    await inTime(clock, last.close())
  })

  it('has used up what died: whatever it did may have been done', async () => {
    const { clock, last, run } = await takenUp(['die'], { options: { budget: { actions: 1 } } })
    expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'budget_exceeded' } })
    await inTime(clock, last.close())
  })

  it.each([
    [19, 0],
    [20, 1],
  ])('asks a person where %i of them died, whatever the others did: %i questions', async (died, questions) => {
    const dying = Array.from({ length: died }, () => 'die' as const)
    const ends = ['close' as const, ...dying, ...(questions === 0 ? ['close' as const] : [])]
    const { clock, last } = await takenUp(ends)
    expect((await last.waiting()).map(({ confirm }) => confirm.reason)).toEqual(
      Array.from({ length: questions }, () => expect.stringContaining(`was cut off ${ends.length} times`)),
    )
    await inTime(clock, last.close())
  })

  it('asks a person all the same where its binding says so', async () => {
    const { clock, first, start, functions } = await underWay({ step: { on_interrupt: 'hold' } })
    await inTime(clock, first.close())
    const second = await start(functions)
    await passes(clock, 1_000)
    expect((await second.waiting()).map(({ confirm }) => confirm.reason)).toEqual([
      expect.stringContaining('was cut off once'),
    ])
    await inTime(clock, second.close())
  })
})
