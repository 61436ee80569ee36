import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Tool } from '../../src/ael/tool-registry.ts'
import { type ComposedRuntime, openRuntime } from '../../src/compose.ts'
import type { Config } from '../../src/config.ts'
import { flowOf, type NamedFlow } from '../../src/orchestrator/named-flow.ts'
import { rerunOf } from '../../src/orchestrator/rerun.ts'
import { rerunIds } from '../../src/orchestrator/rerun-ids.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { InvalidInput, NotFound, Refused } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { ActionRecord } from '../../src/psg/change.ts'
import { takeApart } from '../../src/psg/document.ts'
import { isKind } from '../../src/psg/node.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { dyingStore } from '../support/agents.ts'
import { flowOf as plainFlow, runtimeOf } from '../support/flows.ts'
import { inTime, passes, world } from '../support/on-a-clock.ts'
import { tempFolder } from '../support/temp-folder.ts'

const item = { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] }

/** A shop that keeps its books: what was called, and what fails. */
function shop() {
  const calls: string[] = []
  const failing = new Set(['ship'])
  const does = (name: string, output: (given: Json) => Json) => (given: Json) => {
    calls.push(name)
    if (failing.has(name)) throw new Error(`no ${name}`)
    return output(given)
  }
  const tool = (name: string, more: Partial<Tool> = {}): Tool => ({
    name: `shop.${name}`,
    description: name,
    input: item,
    execute: (args) => does(name, () => ({ ref: `${name} of ${(args as { item: string }).item}` }))(null),
    ...more,
  })
  return {
    calls,
    failing,
    config: {
      functions: { pay: does('pay', (order) => ({ paid: order })), ship: does('ship', (what) => ({ shipped: what })) },
      tools: [
        tool('reserve', {
          effect: 'reversible',
          inverse: (args) => ({ tool_name: 'shop.release', tool_args: args }),
        }),
        tool('release'),
      ],
    } satisfies Config,
  }
}

const reserve = { action_type: 'tool_call', params: { tool_name: 'shop.reserve', tool_args: { item: 'lamp' } } }
const pay = { action_type: 'function', params: { name: 'pay', args: { $from: 'reserve', path: 'ref' } } }
const ship = { action_type: 'function', params: { name: 'ship', args: { $from: 'pay' } } }
const order = (more: Partial<NamedFlow> = {}) =>
  flowOf({ title: 'Order 7', steps: { reserve, pay, ship }, ...more } as NamedFlow)

async function opened(config: Config, store: Backend = memoryBackend()): Promise<ComposedRuntime> {
  const runtime = await openRuntime(config, { store })
  onTestFinished(() => runtime.close())
  return runtime
}

/** An order that could not be shipped. */
async function failed(more: Partial<NamedFlow> = {}, store?: Backend) {
  const books = shop()
  const runtime = await opened(books.config, store)
  const run = await runtime.submit(order(more).flow)
  expect(await run.result()).toMatchObject({ status: 'failed', error: { message: 'no ship' } })
  books.calls.splice(0)
  return { ...books, runtime, run }
}

/** What the steps of a run gave, by their names. */
async function byName(runtime: ComposedRuntime, run: RunHandle) {
  const { outputs } = await run.result()
  const { steps } = await (await runtime.project.context(run.context_id)).document('plan', run.plan_id)
  return Object.fromEntries(steps.map(({ step_id, description }) => [description, outputs[step_id]]))
}

async function actionsOf(runtime: ComposedRuntime, run: RunHandle): Promise<readonly ActionRecord[]> {
  const graph = await runtime.project.context(run.context_id)
  return graph.reading([['plan', run.plan_id]], (state) =>
    [...state.nodesOf(run.plan_id)].flatMap((node) => (isKind(node, 'action') ? node.data : [])),
  )
}

const isWhole = async ({ project }: Pick<ComposedRuntime, 'project'>) =>
  expect((await project.verify()).findings).toEqual([])

describe('a run that has failed', () => {
  it('goes on in another, which has what the first had done and does the rest', async () => {
    const { runtime, run, failing, calls } = await failed()
    failing.clear()
    const again = await runtime.rerun(run.run_id, { actor: 'support', reason: 'there is a truck' })
    expect((await again.result()).status).toBe('completed')
    expect(calls).toEqual(['ship'])
    expect(await byName(runtime, again)).toEqual({
      reserve: { ref: 'reserve of lamp' },
      pay: { paid: 'reserve of lamp' },
      ship: { shipped: { paid: 'reserve of lamp' } },
    })
    expect(again).toMatchObject({ run_id: rerunIds(run.run_id).run, context_id: run.context_id })
    const graph = await runtime.project.context(run.context_id)
    const [entry] = await graph.history('run', again.run_id)
    expect(entry).toMatchObject({ actor: 'support', reason: 'there is a truck' })
    expect((await graph.require('run', again.run_id)).data.rerun_of).toBe(run.run_id)
    expect([again.rerun_of, (await runtime.get(again.run_id)).rerun_of, run.rerun_of]).toEqual([
      run.run_id,
      run.run_id,
      undefined,
    ])
    expect((await run.result()).status).toBe('failed')
    await isWhole(runtime)
  })

  it('says of what it has taken over where that comes from, and that nobody carried it out', async () => {
    const { runtime, run, failing } = await failed()
    failing.clear()
    const [first] = await actionsOf(runtime, run)
    const again = await runtime.rerun(run.run_id)
    await again.result()
    const [taken] = await actionsOf(runtime, again)
    const carried_from = { run_id: run.run_id, action_id: first!.action_id }
    expect(taken).toMatchObject({ carried_from, attempts: 0, idempotency_key: first!.idempotency_key })
    const graph = await runtime.project.context(run.context_id)
    const trace = await graph.document('trace', again.trace_id)
    expect(trace.segments!.map(({ label, attributes }) => [label, attributes!.carried_from !== undefined])).toEqual([
      ['reserve', true],
      ['pay', true],
      ['ship', false],
    ])
    expect(trace.segments![0]!.attributes).toMatchObject({ carried_from })
    const told: unknown[] = []
    for await (const { event } of again.events())
      told.push([event.event_type, (event.payload as JsonObject | undefined)?.step_id])
    const [reserved] = (await graph.document('plan', again.plan_id)).steps
    expect(told).toContainEqual(['SAStepStarted', reserved!.step_id])
    expect(told).toContainEqual(['SAStepCompleted', reserved!.step_id])
    const executed = (await graph.document('trace', again.trace_id)).events ?? []
    expect(executed.filter((one) => JSON.stringify(one).includes(taken!.execution_id))).toEqual([])
    const chain = await graph.why('action', taken!.action_id)
    expect(chain.map(({ id }) => id)).toContain(first!.action_id)
  })

  it('is gone on with once, whoever asks and however often', async () => {
    const folder = tempFolder()
    const stores: Backend[] = []
    for (let i = 0; i < 3; i++) {
      const store = await openStore(`sqlite:${folder}/state.db`)
      onTestFinished(() => store.close())
      stores.push(store)
    }
    const { runtime, run, failing, calls, config } = await failed({}, stores[0])
    failing.clear()
    const others = [await opened(config, stores[1]), await opened(config, stores[2])]
    const asked = await Promise.all([runtime, ...others, runtime].map((one) => one.rerun(run.plan_id)))
    for (const one of asked) {
      expect(one.run_id).toBe(rerunIds(run.run_id).run)
      expect((await one.result()).status).toBe('completed')
    }
    expect(calls).toEqual(['ship'])
    expect((await runtime.rerun(run.trace_id, { options: { concurrency: 1 } })).phase).toBe('ended')
    expect(calls).toEqual(['ship'])
    await isWhole(runtime)
  })

  it('is gone on with whole or not at all, wherever a crash has cut it off', async () => {
    const { runtime, run, failing, calls, config } = await failed()
    failing.clear()
    const mortal = { ...config, lease_ttl_ms: 200, patrol_ms: 20 }
    for (let isDead = true, commit = 1; isDead; commit++) {
      isDead = false
      const { store, died } = dyingStore(runtime.store, commit, 'commit')
      const process = await openRuntime(mortal, { store, onError: () => undefined })
      const dies = died.then(() => {
        isDead = true
      })
      await Promise.race([process.rerun(run.run_id).then((one) => one.result()), dies])
    }
    const again = await (await opened(mortal, runtime.store)).rerun(run.run_id)
    expect((await again.result()).status).toBe('completed')
    expect([...new Set(calls)]).toEqual(['ship'])
    await isWhole(runtime)
  })

  it('is gone on with whole, too, where that takes several commits', async () => {
    const many = Array.from({ length: 1_400 }, (_, i) => `s${i}`)
    const steps = Object.fromEntries(many.map((name) => [name, { call: 'noop' }]))
    let isBroken = true
    let calls = 0
    const functions = {
      noop: () => ++calls,
      last: () => (isBroken ? Promise.reject(new Error('broken')) : 'done'),
    }
    const flow = plainFlow({ ...steps, last: { after: many } }, { options: { concurrency: 1_000 } })
    const runtime = await runtimeOf(functions)
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flow)
    expect((await run.result()).status).toBe('failed')
    isBroken = false
    for (const commit of [1, 2]) {
      const { store, died } = dyingStore(runtime.store, commit, 'commit')
      const process = await runtimeOf(functions, { store })
      await Promise.race([process.rerun(run.run_id), died])
      await expect(runtime.get(rerunIds(run.run_id).run)).rejects.toThrow(NotFound)
    }
    expect(await runtime.project.locate(rerunIds(run.run_id).plan)).toBeDefined() // the half of it
    const again = await runtime.rerun(run.run_id)
    const { outputs } = await again.result()
    expect(Object.values(outputs)).toHaveLength(1_401)
    expect(Object.values(outputs)).toContain('done')
    expect(calls).toBe(1_400)
    await isWhole(runtime)
  }, 60_000)

  it('is not gone on with by half of what was to be carried over, once that was taken back', async () => {
    const { runtime, run, failing } = await failed()
    failing.clear()
    const graph = await runtime.project.context(run.context_id)
    const { flow, inherits } = await graph.reading([['plan', run.plan_id]], () =>
      rerunOf(graph, graph.get('run', run.run_id)!, {}, systemClock),
    )
    const by = { actor: 'a process', reason: 'it is cut off' }
    await graph.commit([...takeApart('plan', flow.plan), ...inherits.actions], by)
    expect((await runtime.rollback(run.run_id)).status).toBe('done')
    await expect(runtime.rerun(run.run_id)).rejects.toThrow('taken back since')
  })

  it('goes on again from where its rerun has failed', async () => {
    const { runtime, run, failing, calls } = await failed()
    const second = await runtime.rerun(run.run_id)
    expect((await second.result()).status).toBe('failed')
    failing.clear()
    expect((await runtime.rerun(run.run_id)).run_id).toBe(second.run_id)
    const third = await runtime.rerun(second.run_id)
    expect((await third.result()).status).toBe('completed')
    expect(calls).toEqual(['ship', 'ship'])
    expect(await byName(runtime, third)).toMatchObject({ ship: { shipped: { paid: 'reserve of lamp' } } })
    const [taken] = await actionsOf(runtime, third)
    expect(taken!.carried_from!.run_id).toBe(second.run_id)
  })

  it('gives what lies in the store by itself, too', async () => {
    const large = 'x'.repeat(100_000)
    let isBroken = true
    const runtime = await opened({
      functions: {
        read: () => large,
        count: (text: Json) => (isBroken ? Promise.reject(new Error('broken')) : String(text).length),
      },
    })
    const { flow } = flowOf({
      title: 'Count',
      steps: {
        read: { action_type: 'function', params: { name: 'read' } },
        count: { action_type: 'function', params: { name: 'count', args: { $from: 'read' } } },
      },
    })
    const run = await runtime.submit(flow)
    await run.result()
    isBroken = false
    const again = await runtime.rerun(run.run_id)
    expect(await byName(runtime, again)).toEqual({ read: large, count: 100_000 })
    expect((await actionsOf(runtime, again))[0]!.output_blob).toBeDefined()
    await isWhole(runtime)
  })

  it('has what was skipped, blocked or never begun carried out, and what had waited for that carried over', async () => {
    const books = shop()
    books.failing.add('reserve')
    const runtime = await opened(books.config)
    const { flow } = flowOf({
      title: 'Order 7',
      steps: {
        reserve: { ...reserve, on_failure: 'skip' },
        pay,
        ship: { ...ship, on_failure: 'continue' },
        tell: { dependencies: ['ship'], action_type: 'function', params: { name: 'pay', args: 'told' } },
      },
    })
    const run = await runtime.submit(flow)
    expect((await run.result()).status).toBe('failed')
    books.failing.clear()
    books.calls.splice(0)
    const again = await runtime.rerun(run.run_id)
    expect((await again.result()).status).toBe('completed')
    expect(books.calls).toEqual(['reserve', 'ship', 'pay'])
    expect(await byName(runtime, again)).toMatchObject({ pay: { paid: null }, tell: { paid: 'told' } })
  })

  it('carries over what its rerun was to carry over and did not come to', async () => {
    const books = shop()
    books.failing.add('reserve')
    const runtime = await opened(books.config)
    const { flow } = order({ steps: { reserve: { ...reserve, on_failure: 'skip' }, pay, ship } } as never)
    const run = await runtime.submit(flow)
    await run.result()
    const waits = await runtime.rerun(run.run_id)
    await waits.cancel()
    await waits.result()
    books.failing.clear()
    books.calls.splice(0)
    const again = await runtime.rerun(waits.run_id)
    expect((await again.result()).status).toBe('completed')
    expect(books.calls).not.toContain('pay')
  })

  it('goes on, too, when it was cancelled, and waits once for what it had waited for', async () => {
    const { config, calls, failing } = shop()
    failing.clear()
    const runtime = await opened(config)
    const wait = (signal: string) => ({ action_type: 'wait', params: { signal } })
    const { flow } = flowOf({
      title: 'Order 7',
      steps: {
        paid: wait('paid'),
        ready: { ...wait('ready'), dependencies: ['paid'] },
        ship: { ...ship, params: { name: 'ship', args: { $from: 'paid' } }, dependencies: ['ready'] },
      },
    })
    const run = await runtime.submit(flow)
    await runtime.signal(run.run_id, 'paid', 12)
    await run.rest()
    await run.cancel()
    expect((await run.result()).status).toBe('cancelled')
    const again = await runtime.rerun(run.run_id)
    expect(await again.rest()).toBe('waiting')
    await runtime.signal(again.run_id, 'ready')
    expect(await byName(runtime, again)).toMatchObject({ paid: 12, ship: { shipped: 12 } })
    expect(calls).toEqual(['ship'])
  })

  it('completes at once where all of it was done', async () => {
    const { config, calls, failing } = shop()
    failing.clear()
    const runtime = await opened(config)
    const ids: string[] = []
    const { flow } = flowOf({
      title: 'Order 7',
      steps: {
        reserve,
        last: { dependencies: ['reserve'], action_type: 'function', params: { name: 'leave' } },
      },
    })
    const leaving = await opened(
      { ...config, functions: { leave: async () => void (await leaving.cancel(ids[0]!)) } },
      runtime.store,
    )
    const run = await leaving.submit({ ...flow, chosen: { run: systemClock.uuid() } })
    ids.push(run.run_id)
    const first = await run.result()
    if (first.status === 'completed') return expect.fail('it was to be cancelled')
    const again = await runtime.rerun(run.run_id)
    expect((await again.result()).status).toBe('completed')
    expect(calls).toEqual(['reserve'])
  })
})

describe('taking back what goes on from another', () => {
  it('takes back what was carried over, last done first, when it fails', async () => {
    const { runtime, run, calls } = await failed()
    const again = await runtime.rerun(run.run_id, { options: { on_failure: 'compensate' } })
    const { status, undone } = await again.result()
    expect(status).toBe('failed')
    expect(calls).toEqual(['ship', 'release'])
    expect(undone).toMatchObject([{ status: 'undone' }])
    await isWhole(runtime)
  })

  it('rolls back what was carried over, and not a second time by way of the first', async () => {
    const { runtime, run, failing, calls } = await failed()
    failing.clear()
    const again = await runtime.rerun(run.run_id)
    await again.result()
    calls.splice(0)
    const first = () => runtime.rollback(run.run_id)
    await expect(first()).rejects.toThrow(Refused)
    await expect(first()).rejects.toThrow(again.run_id)
    await expect(runtime.rollback(run.run_id, { dryRun: true })).rejects.toThrow(Refused)
    expect(calls).toEqual([])
    expect((await runtime.rollback(again.run_id)).status).toBe('done')
    expect(calls).toEqual(['release'])
    await expect(first()).rejects.toThrow(Refused)
    expect(calls).toEqual(['release'])
  })

  it('says of what was carried over, too, why nobody can take it back', async () => {
    const { config, failing } = shop()
    const inverse = () => {
      throw new Error('the books are lost')
    }
    const [reserving, releasing] = config.tools
    const runtime = await opened({ ...config, tools: [{ ...reserving!, inverse }, releasing!] })
    const run = await runtime.submit(order().flow)
    await run.result()
    failing.clear()
    const again = await runtime.rerun(run.run_id)
    await again.result()
    const { plan } = await runtime.rollback(again.run_id, { dryRun: true })
    expect(plan.irreversible).toMatchObject([{ reason: expect.stringContaining('the books are lost') }])
  })

  it('does again what the first has taken back, and nothing else', async () => {
    const { runtime, run, failing, calls } = await failed({ options: { on_failure: 'compensate' } })
    failing.clear()
    const again = await runtime.rerun(run.run_id)
    expect((await again.result()).status).toBe('completed')
    expect(calls).toEqual(['reserve', 'ship'])
  })

  it('does all of it again once the first was rolled back, and waits for that to be done', async () => {
    const { runtime, run, failing, calls } = await failed()
    failing.clear()
    failing.add('release')
    expect((await runtime.rollback(run.run_id)).status).toBe('incomplete')
    await expect(runtime.rerun(run.run_id)).rejects.toThrow(Refused)
    await expect(runtime.get(rerunIds(run.run_id).run)).rejects.toThrow(NotFound)
    failing.clear()
    expect((await runtime.rollback(run.run_id)).status).toBe('done')
    calls.splice(0)
    const again = await runtime.rerun(run.run_id)
    expect((await again.result()).status).toBe('completed')
    expect(calls).toEqual(['reserve', 'pay', 'ship'])
    expect((await runtime.rollback(run.run_id)).status).toBe('nothing')
  })

  it('is not begun while somebody rolls the first back', async () => {
    const { runtime, run, config, failing } = await failed()
    failing.clear()
    const releasing = signal()
    const over = signal()
    const [reserving] = config.tools
    const slow = {
      ...config.tools[1]!,
      execute: async () => {
        releasing.give()
        await over.given
        return null
      },
    }
    const other = await opened({ ...config, tools: [reserving!, slow] }, runtime.store)
    const back = other.rollback(run.run_id)
    await releasing.given
    await expect(runtime.rerun(run.run_id)).rejects.toThrow(Refused)
    over.give()
    expect((await back).status).toBe('done')
    expect((await (await runtime.rerun(run.run_id)).result()).status).toBe('completed')
  })

  it('is decided by whoever is first, where one goes on with a run and another rolls it back', async () => {
    const { runtime, run, failing, config } = await failed()
    const other = await failed({}, runtime.store)
    failing.clear()
    const late = (first: () => Promise<unknown>) => opened(config, beforeCommit(runtime.store, first))
    const reruns = await late(() => runtime.rollback(run.run_id))
    await expect(reruns.rerun(run.run_id)).rejects.toThrow('is being taken back')
    const rollsBack = await late(() => runtime.rerun(other.run.run_id))
    await expect(rollsBack.rollback(other.run.run_id)).rejects.toThrow('has taken over')
    await isWhole(runtime)
  })

  describe('in a folder that is tracked', () => {
    const write = (content: string) => ({
      action_type: 'file_operation',
      params: { operation: 'write', path: 'a.txt', content },
    })
    const check = { action_type: 'function', params: { name: 'check' } }

    /** A run that has written a file and failed, in a folder that its context tracks. */
    async function written() {
      const root = tempFolder()
      const broken = new Set(['check'])
      const there = () => readFileSync(join(root, 'a.txt'), 'utf8')
      const runtime = await opened({
        root,
        functions: { check: () => (broken.size > 0 ? Promise.reject(new Error('broken')) : null) },
      })
      writeFileSync(join(root, 'a.txt'), 'before')
      await runtime.folder!.scan()
      const { flow } = flowOf({
        title: 'Write',
        context: (await runtime.folder!.graph()).id,
        steps: {
          write: write('after'),
          check: { ...check, dependencies: ['write'] },
          more: { ...write('and more'), dependencies: ['check'] },
        },
      })
      const run = await runtime.submit(flow)
      await run.result()
      expect(there()).toBe('after')
      return { runtime, run, broken, there }
    }

    it('takes back a file that the first has written', async () => {
      const { runtime, run, there } = await written()
      const again = await runtime.rerun(run.run_id)
      await again.result()
      expect(await runtime.rollback(again.run_id)).toMatchObject({ status: 'done', left: [] })
      expect(there()).toBe('before')
    })

    it('takes back one that both have written', async () => {
      const { runtime, run, broken, there } = await written()
      broken.clear()
      const again = await runtime.rerun(run.run_id)
      await again.result()
      expect(there()).toBe('and more')
      expect(await runtime.rollback(again.run_id)).toMatchObject({ status: 'done', left: [] })
      expect(there()).toBe('before')
      expect((await runtime.rollback(again.run_id)).status).toBe('nothing')
    })

    it('does not bring back what has been compensated', async () => {
      const { runtime, run, there } = await written()
      const again = await runtime.rerun(run.run_id, { options: { on_failure: 'compensate' } })
      expect((await again.result()).undone).toMatchObject([{ status: 'undone' }])
      expect(there()).toBe('before')
      await runtime.rollback(again.run_id)
      expect(there()).toBe('before')
    })
  })
})

describe('what is asked of a run that goes on', () => {
  it('is what was asked of the first, but for what is given', async () => {
    const options = { concurrency: 3, budget: { actions: 3 }, timeout_ms: 5_000 }
    const { runtime, run, failing } = await failed({ options })
    failing.clear()
    const again = await runtime.rerun(run.run_id, { options: { timeout_ms: 7_000 } })
    expect((await again.result()).status).toBe('completed')
    const { data } = await (await runtime.project.context(run.context_id)).require('run', again.run_id)
    expect(data.options).toEqual({ ...options, timeout_ms: 7_000 })
    expect(data.spent).toMatchObject({ actions: 1 })
  })

  it('is another deadline where the first has passed', async () => {
    const { runtime, run, failing } = await failed({ options: { deadline: '2400-01-01T00:00:00Z' } })
    failing.clear()
    const late = { ...systemClock, now: () => Date.parse('2401-01-01T00:00:00Z') }
    const later = await openRuntime(shop().config, { store: runtime.store, clock: late })
    onTestFinished(() => later.close())
    const { revision } = await runtime.project.context(run.context_id)
    const refused = await later.rerun(run.run_id).catch((error: unknown) => error)
    expect(refused).toMatchObject({ problems: [{ path: 'options.deadline', rule: 'passed' }] })
    expect((await later.project.context(run.context_id)).revision).toBe(revision)
    const again = await later.rerun(run.run_id, { options: { deadline: '2402-01-01T00:00:00Z' } })
    expect(again.run_id).toBe(rerunIds(run.run_id).run)
  })

  it('is put before people for as long as the first question of its run, not for as long as that one and the next', async () => {
    const { clock, start } = world({ fails: () => Promise.reject(new Error('no')) })
    const runtime = await start()
    const run = await runtime.submit(plainFlow({ fails: {} }, { approval: { expires_ms: 60_000 } }))
    const [asked] = await runtime.waiting()
    const { confirm_id } = asked!.confirm
    await passes(clock, 10_000)
    await runtime.decide(confirm_id, { status: 'rejected', decided_by_role: 'dba' })
    await runtime.propose(run.plan_id)
    await runtime.decide(confirm_id, { status: 'approved', decided_by_role: 'dba' })
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed' })
    await runtime.rerun(run.run_id)
    const [again] = await runtime.waiting()
    expect(Math.round((Date.parse(again!.expires_at!) - clock.now()) / 1_000)).toBe(60)
    await inTime(clock, runtime.close())
  })

  it('is put before the same people again', async () => {
    const books = shop()
    const runtime = await opened(books.config)
    const approval = {
      roles: ['lead', 'dba'],
      needed: 2,
      expires_ms: 60_000,
      reason: 'it costs',
      requested_by_role: 'clerk',
    }
    const run = await runtime.submit(order({ approval }).flow)
    const approve = async () => {
      const [asked] = await runtime.waiting()
      for (const decided_by_role of approval.roles)
        await runtime.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role })
      return asked!
    }
    const first = await approve()
    await run.result()
    books.failing.clear()
    books.calls.splice(0)
    const again = await runtime.rerun(run.run_id)
    expect(await again.rest()).toBe('waiting')
    expect(books.calls).toEqual([])
    const second = await approve()
    expect(second).toMatchObject({ roles: approval.roles, needed: 2, plan_id: again.plan_id })
    expect(second.confirm).toMatchObject({ reason: 'it costs', requested_by_role: 'clerk' })
    const patience = Date.parse(second.expires_at!) - Date.parse(second.confirm.requested_at)
    expect(Math.round(patience / 10_000)).toBe(6) // between one look at the clock and the next a slow machine may pause
    expect(second.digest).not.toBe(first.digest)
    expect((await again.result()).status).toBe('completed')
    expect(books.calls).toEqual(['ship'])
    await isWhole(runtime)
  })

  it('is no function of a step that was carried over, of whoever takes it up', async () => {
    const { runtime, run, config, failing } = await failed()
    failing.clear()
    await runtime.close()
    const { store } = runtime
    const desk = await openRuntime(config, { store, mine: new Set() })
    const { run_id } = await desk.rerun(run.run_id)
    await desk.close()
    const worker = await opened({ functions: { ship: config.functions.ship } }, store)
    const again = await worker.get(run_id)
    expect(again.lacking).toBeUndefined()
    expect((await again.result()).status).toBe('completed')
  })

  it('is what takes back what was carried over, where it may come to that', async () => {
    const { runtime, run, config, failing } = await failed()
    failing.clear()
    await runtime.close()
    const later = await opened({ functions: { ship: config.functions.ship } }, runtime.store)
    const { revision } = await later.project.context(run.context_id)
    const refused = await later.rerun(run.run_id, { options: { on_failure: 'compensate' } }).catch((error) => error)
    expect(refused).toMatchObject({ problems: [{ rule: 'lacking', path: expect.stringMatching(/\.inverse$/) }] })
    expect(refused.message).toContain('shop.release')
    expect((await later.project.context(run.context_id)).revision).toBe(revision)
    expect((await (await later.rerun(run.run_id)).result()).status).toBe('completed')
  })
})

describe('a rerun', () => {
  it.each([
    ['no object', 'now'],
    ['a field that it does not have', { why: 'so' }],
    ['an actor that is no text', { actor: 7 }],
    ['options that are none', { options: { concurrency: 0 } }],
    ['a session', { options: { session: { collab_id: 'a' } } }],
  ])('refuses %s, and leaves nothing behind', async (_, given) => {
    const { runtime, run } = await failed()
    const { revision } = await runtime.project.context(run.context_id)
    await expect(runtime.rerun(run.run_id, given as never)).rejects.toThrow(InvalidInput)
    await expect(runtime.get(rerunIds(run.run_id).run)).rejects.toThrow(NotFound)
    expect((await runtime.project.context(run.context_id)).revision).toBe(revision)
  })

  it('refuses what is not there, goes on, or is completed', async () => {
    const { runtime, run, failing } = await failed()
    await expect(runtime.rerun(systemClock.uuid())).rejects.toThrow(NotFound)
    const waits = await runtime.submit(order({ approval: {} }).flow)
    await expect(runtime.rerun(waits.run_id)).rejects.toThrow('cancel it')
    failing.clear()
    const again = await runtime.rerun(run.run_id)
    await again.result()
    await expect(runtime.rerun(again.run_id)).rejects.toThrow(Refused)
  })

  it('begins one that was never allowed to start', async () => {
    const books = shop()
    books.failing.clear()
    const runtime = await opened(books.config)
    const waits = await runtime.submit(order({ approval: {} }).flow)
    await waits.cancel()
    const again = await runtime.rerun(waits.run_id)
    const [asked] = await runtime.waiting()
    await runtime.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'lead' })
    expect((await again.result()).status).toBe('completed')
    expect(books.calls).toEqual(['reserve', 'pay', 'ship'])
  })
})

function signal() {
  let give = (): void => undefined
  const given = new Promise<void>((resolve) => {
    give = resolve
  })
  return { given, give: () => give() }
}

/** A store in which somebody else is faster with the first commit. */
function beforeCommit(store: Backend, first: () => Promise<unknown>): Backend {
  let isFirst = true
  const commit: Backend['commit'] = async (write) => {
    if (isFirst) {
      isFirst = false
      await first()
    }
    return store.commit(write)
  }
  return new Proxy(store, { get: (target, name) => (name === 'commit' ? commit : Reflect.get(target, name)) })
}
