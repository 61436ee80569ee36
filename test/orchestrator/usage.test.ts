import { describe, expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { finalFailure } from '../../src/ael/failure.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { llmAdapter, type Script, scriptedProvider } from '../../src/ael/llm.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { toolRegistry } from '../../src/ael/tool-registry.ts'
import type { Limits } from '../../src/orchestrator/live.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import type { Context } from '../../src/protocol/types.ts'
import { collabDocument, roleDocument } from '../support/agents.ts'
import { flowOf } from '../support/flows.ts'
import { door, inTime, passes, world } from '../support/on-a-clock.ts'

const usage = { prompt: 60, completion: 40 }
const chooses = { tool_calls: [{ tool: 'mail.send', args: {} }], usage }
/** A model that sends two mails, and has spoken three times by then. */
const TWO_MAILS: Script = [chooses, chooses, { text: 'sent', usage }]
const USED = { actions: 3, tokens: 300, cost: 3 }

const send = { name: 'mail.send', description: 'Sends', input: { type: 'object' } }
const params = { model: 'any', max_tokens: 100, messages: [{ role: 'user', content: 'Go' }], tools: ['mail.send'] }
const writes = { binding: { action_type: 'llm_call', params } }
const wait = { action_type: 'wait', params: { ms: 5_000 } } // long enough to be laid down
const laidDown = { wait: { after: ['thinks'], binding: wait } }
const options = { budget: { tokens: 10_000 } }

/** Processes with a model that costs a cent a token, a tool for it, and a step that lasts until it is let go. */
function writing(policy: 'ask' | 'always_allow', script: Script = TWO_MAILS) {
  const slow = door()
  const layer = (hands: Hands) => {
    const tools = toolRegistry()
    tools.register({ ...send, policy, execute: () => 'sent' })
    const price = ({ total }: { readonly total: number }) => total / 100
    const llm = llmAdapter({ providers: { any: scriptedProvider(script) }, tools, price })
    const functions = functionAdapter({ slow: () => slow.opened.then(() => null) })
    return actionLayer({ ...hands, adapters: [llm, toolAdapter(tools), functions] })
  }
  return { ...world({}, { layer }), slow }
}

/** A model that has spoken twice when its process dies: it had sent one mail, and answers for good in the next. */
async function cutOff(options: { readonly budget: Limits }) {
  let hangs = true
  const asked = door()
  const script: Script = ({ turn }) => {
    if (turn === 0) return chooses
    asked.open()
    return hangs ? { text: 'nobody hears it', usage, delay_ms: 3_600_000 } : { text: 'sent', usage }
  }
  const { start, clock } = writing('always_allow', script)
  const first = await start()
  const { run_id } = await first.submit(flowOf({ writes }, { options }))
  await inTime(clock, asked.opened)
  first.die()
  hangs = false
  const second = await start()
  const run = await inTime(clock, second.get(run_id))
  return { run, second, clock, result: await inTime(clock, run.result()) }
}

/** Processes with an action of one's own. */
function thinking(execute: Adapter['execute']) {
  const think: Adapter = { action_type: 'think', executor_kind: 'agent', execute }
  return world({}, { layer: (hands: Hands) => actionLayer({ ...hands, adapters: [think] }) })
}

async function spentBy(runtime: Runtime, run: RunHandle) {
  const graph = await runtime.project.context(run.context_id)
  expect(await graph.verify()).toEqual([])
  return graph.get('run', run.run_id)?.data.spent
}

describe('what a run has used up', () => {
  it.each([
    ['tokens', { tokens: 150 }],
    ['cost', { cost: 1.5 }],
  ])(
    'is looked at after each round of a model: of one that has used up its %s no tool is called any more',
    async (unit, budget) => {
      const { start, clock } = writing('always_allow')
      const runtime = await start()
      const run = await runtime.submit(flowOf({ writes }, { options: { budget } }))
      const message = `the budget of ${Object.values(budget)[0]} ${unit} is used up`
      expect(await inTime(clock, run.result())).toMatchObject({ error: { code: 'budget_exceeded', message } })
      expect(await spentBy(runtime, run)).toEqual({ actions: 2, tokens: 200, cost: 2 }) // two rounds of three, and one mail of two
      const told: string[] = []
      for await (const { event } of run.events()) told.push(String(event.event_type))
      expect(told.filter((type) => type === 'budget_exceeded')).toHaveLength(1)
      await inTime(clock, runtime.close())
    },
  )

  it.each([
    ['is not laid down', {}],
    ['is laid down and taken up', { wait: { after: ['writes'], binding: wait } }],
  ])('counts what a model had carried out, where the run %s', async (_, more) => {
    const { start, clock } = writing('always_allow')
    const runtime = await start()
    const run = await runtime.submit(flowOf({ writes, ...more }, { options }))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await spentBy(runtime, run)).toEqual(USED)
    await inTime(clock, runtime.close())
  })

  it.each([
    ['is laid down until then', {}, USED],
    ['has something else under way until then', { slow: {} }, { ...USED, actions: 4 }],
  ])('counts once what a model has used that waits for people, where the run %s', async (_, beside, used) => {
    const { start, clock, slow } = writing('ask')
    const runtime = await start()
    const run = await runtime.submit(flowOf({ writes, ...beside }, { options }))
    for (let mail = 1; mail <= 2; mail++) {
      await passes(clock, 1_000)
      const [asked] = await runtime.waiting()
      await runtime.decide(asked!.confirm.confirm_id, { status: 'approved', decided_by_role: 'somebody' })
    }
    slow.open()
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await spentBy(runtime, run)).toEqual(used)
    await inTime(clock, runtime.close())
  })

  it.each([
    ['is not laid down', {}],
    ['is laid down and taken up', { wait: { after: ['again'], binding: wait } }],
  ])('counts nothing for what was known already, where the run %s', async (_, more) => {
    const look: Adapter = {
      action_type: 'look',
      executor_kind: 'worker',
      readOnly: () => true,
      execute: async () => ({ output: 1, cost: 5 }),
    }
    const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [look], cache: { ttlMs: 60_000 } })
    const { start, clock } = world({}, { layer })
    const runtime = await start()
    const looks = { action_type: 'look', params: {} }
    const steps = { first: { binding: looks }, again: { after: ['first'], binding: looks }, ...more }
    const run = await runtime.submit(flowOf(steps))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await spentBy(runtime, run)).toEqual({ actions: 1, tokens: 0, cost: 5 })
    await inTime(clock, runtime.close())
  })

  it.each([
    ['is not laid down', {}],
    ['is laid down and taken up', { wait: { after: ['first'], binding: wait } }],
  ])('counts what was done and cannot be kept, where the run %s', async (_, more) => {
    const write: Adapter = {
      action_type: 'write',
      executor_kind: 'worker',
      execute: async () => ({ output: 1, cost: 5 }),
      inverse: () => {
        throw new Error('nobody knows')
      },
    }
    const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [write] })
    const { start, clock } = world({}, { layer })
    const runtime = await start()
    const first = { binding: { action_type: 'write', params: {}, on_failure: 'skip' as const } }
    const run = await runtime.submit(flowOf({ first, ...more }))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await spentBy(runtime, run)).toEqual({ actions: 1, tokens: 0, cost: 5 })
    await inTime(clock, runtime.close())
  })

  it.each([
    ['is not laid down', {}, finalFailure('no more', { spent: { tokens: 150 } }), 150],
    ['is laid down and taken up', laidDown, finalFailure('no more', { spent: { tokens: 150 } }), 150],
    ['is not laid down, and the failure says nothing of it', {}, new Error('no more'), 100],
    ['is laid down and taken up, likewise', laidDown, new Error('no more'), 100],
  ])('counts once what was told on the way of what then failed, where the run %s', async (_, more, failure, tokens) => {
    const { start, clock } = thinking(async (_action, { checkpoint }) => {
      await checkpoint('half', { tokens: 100 })
      throw failure
    })
    const runtime = await start()
    const thinks = { binding: { action_type: 'think', params: {}, on_failure: 'skip' as const } }
    const run = await runtime.submit(flowOf({ thinks, ...more }))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await spentBy(runtime, run)).toEqual({ actions: 1, tokens, cost: 0 })
    await inTime(clock, runtime.close())
  })

  it('counts what was told by a checkpoint also when a later one says nothing of it, and its process dies', async () => {
    const there = door()
    const { start, clock } = thinking(async (_action, { checkpoint, resume }) => {
      if (resume !== undefined) return { output: resume }
      await checkpoint('half', { tokens: 100 })
      await checkpoint('more')
      there.open()
      return new Promise(() => undefined)
    })
    const first = await start()
    const { run_id } = await first.submit(flowOf({ thinks: { binding: { action_type: 'think', params: {} } } }))
    await inTime(clock, there.opened)
    first.die()
    const second = await start()
    const run = await inTime(clock, second.get(run_id))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await spentBy(second, run)).toEqual({ actions: 2, tokens: 100, cost: 0 })
    await inTime(clock, second.close())
  })

  it('counts no turn in which nobody had anything to carry out', async () => {
    const { start, clock } = writing('always_allow', [{ text: 'done', usage }])
    const runtime = await start()
    const flow = flowOf({ writes, wait: { after: ['writes'], binding: wait }, last: { after: ['wait'], ...writes } })
    const context = flow.context as Context
    await runtime.call('context', { intent: 'create', ...context })
    await runtime.call('role', { intent: 'create', ...roleDocument('lead') })
    await runtime.call('role', { intent: 'create', ...roleDocument('dev') })
    const collab = collabDocument(context, 'orchestrated', ['lead:lead', 'ann:dev'])
    await runtime.call('collab', { intent: 'create', ...collab })
    const session = { collab_id: collab.collab_id }
    const run = await runtime.submit({ ...flow, context: context.context_id, options: { profile: 'map', session } })
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await spentBy(runtime, run)).toMatchObject({ actions: 2 })
    await inTime(clock, runtime.close())
  })

  it('counts what a model had used by its last checkpoint and what was set apart, when its process dies', async () => {
    const { run, second, clock, result } = await cutOff({ budget: { tokens: 10_000 } })
    expect(result).toMatchObject({ success: true })
    const asked = [params.messages, Object.values(send)].map((one) => Math.ceil(JSON.stringify(one).length / 4))
    const apart = 100 + asked[0]! + asked[1]!
    const tokens = 100 + apart + 100 // in the first round, for the one that was cut off, and in that one once more
    expect(await spentBy(second, run)).toEqual({ actions: 3, tokens, cost: tokens / 100 })
    await inTime(clock, second.close())
  })

  it('does not let a model begin anew that may have used up the budget when its process died', async () => {
    const { second, clock, result } = await cutOff({ budget: { tokens: 300 } })
    expect(result).toMatchObject({ success: false, error: { code: 'budget_exceeded' } })
    await inTime(clock, second.close())
  })

  it('says nothing of what was set apart where nothing had to be', async () => {
    const { run, second, clock } = await cutOff({ budget: { actions: 10 } })
    expect(await spentBy(second, run)).toEqual({ actions: 3, tokens: 200, cost: 2 })
    await inTime(clock, second.close())
  })
})

it('keeps no run from being taken up when nobody can say what was set apart for what was cut off', async () => {
  const begun = door()
  let hangs = true
  const count: Adapter = {
    action_type: 'count',
    executor_kind: 'worker',
    estimate: ({ text }) => ({ tokens: (text as string).length }), // which is not there before it is read from the store
    execute() {
      begun.open()
      return hangs ? new Promise(() => undefined) : Promise.resolve({ output: 'counted' })
    },
  }
  const make = functionAdapter({ make: () => 'x'.repeat(200_000) })
  const { start, clock } = world({}, { layer: (hands: Hands) => actionLayer({ ...hands, adapters: [count, make] }) })
  const flow = flowOf({ make: {}, count: { after: ['make'] } }, { options: { budget: { tokens: 1_000_000 } } })
  const { make: made, count: counted } = flow.ids
  const counts = { action_type: 'count', params: { text: { $from: made! } } }
  const first = await start()
  const bindings = { steps: { ...flow.bindings?.steps, [counted!]: counts } }
  const { run_id } = await first.submit({ ...flow, bindings })
  await inTime(clock, begun.opened)
  first.die()
  hangs = false
  const second = await start()
  expect(await inTime(clock, (await second.get(run_id)).result())).toMatchObject({ success: true })
  await inTime(clock, second.close())
})

describe('a line of the budget', () => {
  const warnings = async (run: RunHandle) => {
    const told: string[] = []
    for await (const { event } of run.events()) told.push(String(event.event_type))
    return told.filter((type) => type === 'budget_warning')
  }

  it('is told once, also when it was crossed by what was set apart and given back before the run was laid down', async () => {
    const { start, clock } = writing('always_allow', [{ text: 'done', usage: { prompt: 6, completion: 4 } }])
    const runtime = await start()
    const steps = { writes, wait: { after: ['writes'], binding: wait }, again: { after: ['wait'], ...writes } }
    const run = await runtime.submit(flowOf(steps, { options: { budget: { tokens: 200, warn_at: 0.5 } } }))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await warnings(run)).toHaveLength(1)
    await inTime(clock, runtime.close())
  })

  it('is told once, also when what crossed it was cut off after that was told', async () => {
    const { start, clock, slow } = writing('always_allow')
    const first = await start()
    const steps = { slow: {}, wait: { binding: { action_type: 'wait', params: { ms: 100 } } } } // told when that is over
    const { run_id } = await first.submit(flowOf(steps, { options: { budget: { actions: 5, warn_at: 0.2 } } }))
    await passes(clock, 1_000)
    first.die()
    const second = await start()
    const run = await inTime(clock, second.get(run_id))
    await passes(clock, 1_000)
    slow.open()
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(await warnings(run)).toHaveLength(1)
    await inTime(clock, second.close())
  })
})
