import { describe, expect, it } from 'vitest'
import { passingFailure } from '../../src/ael/failure.ts'
import type { FunctionSpec } from '../../src/ael/function.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { waitsOf } from '../../src/orchestrator/waits.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { CollabMode } from '../../src/protocol/types.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { call, collabDocument, contextDocument, planDocument, roleDocument, saying } from '../support/agents.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { door, heldCommit, inTheFirstOfTwo, inTime, passes, until, world } from '../support/on-a-clock.ts'

const by = { status: 'approved', decided_by_role: 'somebody' } as const
const why = { actor: 'somebody', reason: 'it may go on' }
const wait = { binding: { action_type: 'wait', params: { signal: 'go' } } }

/** A run of two steps whose context is suspended during the first, which goes on until `slow` is opened. */
async function suspendedInTheFirst(...of: Parameters<typeof inTheFirstOfTwo>) {
  const { first: runtime, run, ...given } = await inTheFirstOfTwo(...of)
  const { context_id } = run
  await runtime.call('context', { intent: 'suspend', context_id })
  const goOn = () => runtime.call('context', { intent: 'activate', context_id })
  return { ...given, runtime, run, goOn }
}

describe('a run in a context that is suspended', () => {
  it('rests once nothing is under way, wherever one asks, and goes on with its context', async () => {
    const { clock, start, slow, runtime, run, called, goOn } = await suspendedInTheFirst()
    const other = await start({ mine: new Set() })
    const rests = [run.rest(), (await other.get(run.run_id)).rest()]
    let early = false
    for (const rest of rests) void rest.then(() => (early = true))
    await passes(clock, 1_000)
    expect(early).toBe(false)
    slow.open()
    expect(await inTime(clock, Promise.all(rests))).toEqual(['waiting', 'waiting'])
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect(called).toEqual(['one'])
    await goOn()
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    await inTime(clock, Promise.all([runtime.close(), other.close()]))
  })

  it.each([
    ['nothing else', {}],
    ['a signal', { wait }],
  ])('goes on by a commit of its own process too, while it waits for %s', async (_, more) => {
    const { clock, slow, runtime, run, called } = await suspendedInTheFirst(more)
    slow.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await passes(clock, 1_000)
    const graph = await runtime.project.context(run.context_id)
    await graph.commit([{ kind: 'node_update', node: 'context', id: graph.id, set: { status: 'active' } }], why)
    await until(clock, () => called.includes('two'))
    await inTime(clock, runtime.close())
  })

  it.each([
    ['later', ['one']],
    ['at once', ['one', 'two']],
  ])(
    'goes on where it is suspended while a step is about to begin, and let go on %s by its own process',
    async (_, at) => {
      const held = heldCommit('"suspended"')
      const { clock, slow, first, run, called } = await inTheFirstOfTwo({}, held.seen)
      const graph = await first.project.context(run.context_id)
      const set = (status: 'active' | 'suspended') =>
        graph.commit([{ kind: 'node_update', node: 'context', id: graph.id, set: { status } }], why)
      const suspended = set('suspended')
      await held.reached
      slow.open()
      await passes(clock, 1_000) // the step that is about to begin is behind that commit
      const active = at.length > 1 ? set('active') : undefined
      held.letGo()
      await suspended
      await passes(clock, 1_000)
      expect(called).toEqual(at)
      await (active ?? set('active'))
      expect(await inTime(clock, run.result())).toMatchObject({ success: true })
      await inTime(clock, first.close())
    },
  )

  it('goes on by a commit of its own process too, that comes when whoever listens had just lost the store', async () => {
    const lost = door()
    let isBack = false
    const losing = (store: Backend): Backend => ({
      ...store,
      async *read(stream, from) {
        if (!from?.follow || isBack) return yield* store.read(stream, from)
        const entries = store.read(stream, from)[Symbol.asyncIterator]()
        for (;;) {
          const next = await Promise.race([entries.next(), lost.opened])
          if (!next) throw new Unavailable('the store', 'it is away for a moment')
          if (next.done) return
          yield next.value
        }
      },
    })
    const { clock, slow, runtime, run } = await suspendedInTheFirst({}, losing)
    slow.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await passes(clock, 1_000)
    isBack = true
    lost.open()
    await new Promise((resolve) => setImmediate(resolve))
    const graph = await runtime.project.context(run.context_id)
    await graph.commit([{ kind: 'node_update', node: 'context', id: graph.id, set: { status: 'active' } }], why)
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    await inTime(clock, runtime.close())
  })

  it('is said to wait for its context', async () => {
    const { clock, slow, runtime, run, goOn } = await suspendedInTheFirst()
    slow.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const graph = await runtime.project.context(run.context_id)
    expect(waitsOf(graph, run.plan_id)).toEqual([
      { what: `the context ${run.context_id}, which is suspended, to be active`, isHeldUp: true },
    ])
    await goOn()
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    await inTime(clock, runtime.close())
  })

  it('goes on with its context though another of its steps waits', async () => {
    const { clock, slow, runtime, run, called, goOn } = await suspendedInTheFirst({ wait })
    slow.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await passes(clock, 1_000)
    await goOn()
    await until(clock, () => called.includes('two'))
    await runtime.signal(run.run_id, 'go')
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    await inTime(clock, runtime.close())
  })

  it('is said to wait for who cancels it where its context is archived, and never comes back', async () => {
    const { clock, slow, first: runtime, run } = await inTheFirstOfTwo()
    const { context_id } = run
    await runtime.call('context', { intent: 'archive', context_id })
    slow.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect(waitsOf(await runtime.project.context(context_id), run.plan_id)).toEqual([
      {
        what: `somebody to cancel it: the context ${context_id} is archived, and nothing begins there any more`,
        isHeldUp: true,
      },
    ])
    await run.cancel()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'cancelled' })
    await inTime(clock, runtime.close())
  })

  it.each([
    ['suspended', 'running'],
    ['paused', 'paused'],
  ] as const)('tries nothing again that fails while it is %s, though it need not wait for that', async (how, phase) => {
    let tries = 0
    const slow = door()
    const { start, clock } = world({
      one: async () => {
        if (++tries > 1) return
        await slow.opened
        throw passingFailure('not yet')
      },
    })
    const runtime = await start()
    const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 0 } as const
    const run = await runtime.submit(flowOf({ one: {} }, { options: { retry } }))
    await until(clock, () => tries === 1)
    const { context_id, run_id } = run
    if (how === 'paused') await runtime.pause(run_id)
    else await runtime.call('context', { intent: 'suspend', context_id })
    slow.open()
    expect(await inTime(clock, run.rest())).toBe('waiting')
    expect({ tries, phase: run.phase }).toEqual({ tries: 1, phase })
    if (how === 'paused') await runtime.resume(run_id)
    else await runtime.call('context', { intent: 'activate', context_id })
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(tries).toBe(2)
    await inTime(clock, runtime.close())
  })

  it('tries nothing again before its context goes on', async () => {
    let tries = 0
    const { start, clock } = world({
      one: () => {
        if (++tries === 1) throw passingFailure('not yet')
      },
    })
    const runtime = await start()
    const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 5_000 } as const
    const run = await runtime.submit(flowOf({ one: {} }, { options: { retry } }))
    await until(clock, () => tries === 1)
    await runtime.call('context', { intent: 'suspend', context_id: run.context_id })
    await passes(clock, 20_000)
    expect(tries).toBe(1)
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await runtime.call('context', { intent: 'activate', context_id: run.context_id })
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(tries).toBe(2)
    await inTime(clock, runtime.close())
  })

  it.each(['goes on', 'is cancelled', 'expires'] as const)('is not failed by an approval: it %s', async (what) => {
    const { start, clock } = world({})
    const runtime = await start()
    const run = await runtime.submit(chainOf(1, { approval: { expires_ms: 5_000 } }))
    const { context_id, run_id } = run
    await runtime.call('context', { intent: 'suspend', context_id })
    const [asked] = await runtime.waiting()
    await runtime.decide(asked!.confirm.confirm_id, by)
    expect(await inTime(clock, run.rest())).toBe('waiting')
    if (what === 'expires') await passes(clock, 5_000)
    if (what === 'is cancelled') await runtime.cancel(run_id)
    if (what === 'goes on') await runtime.call('context', { intent: 'activate', context_id })
    const { status, error } = await inTime(clock, run.result())
    expect({ status, code: error?.code }).toEqual(
      {
        'goes on': { status: 'completed', code: undefined },
        'is cancelled': { status: 'cancelled', code: 'cancelled' },
        expires: { status: 'cancelled', code: 'approval_expired' },
      }[what],
    )
    expect(runtime.errors).toEqual([])
    await inTime(clock, runtime.close())
  })
})

describe('a context that is suspended at the worst moment', () => {
  it.each(['no session', 'broadcast', 'round_robin', 'orchestrated', 'swarm', 'pair'] as const)(
    'lets no step begin, and nothing be done twice, with %s',
    async (mode) => {
      for (let before = 1; ; before++) {
        const { calls, begun, commits, ...end } = await suspendedBefore(before, mode)
        expect(end, `before commit ${before}`).toEqual({ status: 'completed', errors: [], wrong: [] })
        expect(begun, `before commit ${before}`).toEqual([])
        expect(new Set(calls).size, `before commit ${before}: ${calls}`).toBe(calls.length)
        if (commits < before) return expect(before).toBeGreaterThan(3)
      }
    },
  )

  /** A run whose context is suspended just before its owner's commit lands, and goes on when it rests. */
  async function suspendedBefore(commit: number, mode: CollabMode | 'no session') {
    const calls: string[] = []
    const work: FunctionSpec = (_, { idempotency_key }) => void calls.push(idempotency_key)
    const slow: FunctionSpec = async (_, { idempotency_key, signal }) => {
      calls.push(idempotency_key)
      await clock.sleep(200, signal)
      return null
    }
    const { start, clock, store } = world({ work, slow })
    const other = await start({ mine: new Set() })
    let commits = 0
    const owner = await start({}, (seen) => ({
      ...seen,
      async commit(write) {
        const { run, actor } = (write.entry ?? {}) as { run?: string; actor?: string }
        if (run !== undefined && actor === 'runtime' && ++commits === commit)
          await other.call('context', { intent: 'suspend', context_id })
        return seen.commit(write)
      },
    }))
    const context = contextDocument()
    const { context_id } = context
    const plan = planDocument(context, { a: {}, beside: {}, b: { after: ['a'] }, c: { after: ['a'] } })
    const collab = mode === 'no session' ? undefined : collabDocument(context, mode, ['ann:dev', 'bob:dev'])
    await owner.call('context', { intent: 'create', ...context })
    if (collab) await owner.call('role', { intent: 'create', ...roleDocument('dev') })
    if (collab) await owner.call('collab', { intent: 'create', ...collab })
    const bound = Object.entries(plan.ids).map(([name, id]) => [
      id,
      { action_type: 'function', params: { name: name === 'beside' ? 'slow' : 'work' } },
    ])
    const options = collab && { profile: 'map' as const, session: { collab_id: collab.collab_id } }
    const bindings = { steps: Object.fromEntries(bound) }
    const run = await owner.submit({ context: context_id, plan, bindings, ...(options && { options }) })
    if ((await inTime(clock, run.rest())) === 'waiting') await other.call('context', { intent: 'activate', context_id })
    const { status } = await inTime(clock, run.result())
    const begun: number[] = []
    let suspended = false
    for await (const { revision, body } of store.read(context_id)) {
      const text = JSON.stringify((body as { changes: unknown }).changes)
      if (suspended && text.includes('"now":{"status":"in_progress"}')) begun.push(revision)
      if (text.includes('/context/')) suspended = text.includes('"now":{"status":"suspended"')
    }
    const wrong = await (await owner.project.context(context_id)).verify()
    await inTime(clock, Promise.all([owner.close(), other.close()]))
    return { calls, begun, commits, status, errors: owner.errors, wrong }
  }
})

describe('a flow whose context is suspended', () => {
  /** A flow whose context is moved by somebody during its first step. */
  async function movedInTheFirst(intent: 'suspend' | 'archive') {
    const vsl = memoryBackend()
    const context = contextDocument()
    const plan = planDocument(context, { one: {}, two: { after: ['one'] }, three: { after: ['two'] } })
    const desk = await runtimeOf({}, { store: vsl, mine: new Set() })
    const ael = {
      async execute({ params }: { params: { description?: string } }) {
        if (params.description === 'one') await desk.call('context', { intent, context_id: context.context_id })
        return { output: params.description ?? null }
      },
    }
    const asked = call(vsl, saying({ context, plan }), { ael: ael as never })
    return { desk, context, asked }
  }

  it('says so, and goes on with the next call', async () => {
    const { desk, context, asked } = await movedInTheFirst('suspend')
    expect(await runSingleAgentFlow(asked)).toMatchObject({ success: false, error: { code: 'SUSPENDED' } })
    await desk.call('context', { intent: 'activate', context_id: context.context_id })
    expect(await runSingleAgentFlow(asked)).toMatchObject({ success: true })
    await desk.close()
  })

  it('is told that it goes on no more where that was archived', async () => {
    const { desk, asked } = await movedInTheFirst('archive')
    const { error } = await runSingleAgentFlow(asked)
    expect(error).toMatchObject({ code: 'SUSPENDED', message: expect.stringContaining('cancel the run') })
    await desk.close()
  })
})
