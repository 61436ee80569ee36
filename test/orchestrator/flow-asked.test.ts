import { describe, expect, it } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { FlowContract, FlowOptions, FlowResult } from '../../src/orchestrator/flow.ts'
import { protocolHandlers } from '../../src/orchestrator/modules/handlers.ts'
import { runMultiAgentFlow } from '../../src/orchestrator/multi-agent.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import type { Context } from '../../src/protocol/types.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import {
  call,
  collabDocument,
  confirmDocument,
  contextDocument,
  dyingStore,
  newContext,
  passing,
  planDocument,
  roleDocument,
  saying,
} from '../support/agents.ts'

const context = { title: 'An order', root: { domain: 'shop', environment: 'test' } }
const send = { title: 'Send it', objective: 'It arrives', steps: [{ description: 'send' }] }
const steps = [
  { module: 'context', input: context },
  { module: 'plan', input: send },
]
const keep = { ...send, title: 'Keep it' }

/** Everything that a store holds. */
async function contents(store: Backend): Promise<unknown> {
  const values: unknown[] = []
  for await (const value of store.scan('')) values.push(value)
  const entries: unknown[] = []
  for await (const entry of store.feed()) entries.push(entry)
  return { values, entries }
}

const ordered = (store: Backend, flow: FlowContract, more: Partial<FlowOptions> = {}): Promise<FlowResult> =>
  runSingleAgentFlow(call(store, protocolHandlers(), { flow: { steps, ...flow }, ...more }))

describe('another flow under the same runId', () => {
  it.each<[string, FlowContract, string]>([
    ['another plan', { steps: [steps[0]!, { module: 'plan', input: keep }] }, 'flow.steps[1].input'],
    ['no input where there was one', { steps: [steps[0]!, { module: 'plan' }] }, 'flow.steps[1].input'],
    ['without a module that has spoken', { steps: [steps[0]!] }, 'flow.steps'],
    ['another flowId', { flowId: 'returns' }, 'flow.flowId'],
  ])('is told so, which leaves everything as it is: %s', async (_, flow, path) => {
    const store = memoryBackend()
    await ordered(store, {})
    const before = await contents(store)
    const bus = memoryTransport()
    const heard: unknown[] = []
    await bus.subscribe({}, (delivery) => void heard.push(delivery))
    const other = await ordered(store, flow, { bus })
    expect(other).toMatchObject({ success: false, error: { code: 'FLOW_DIFFERS', problems: [{ path, rule: 'same' }] } })
    expect(other).not.toHaveProperty('output')
    expect({ events: other.events, heard, after: await contents(store) }).toEqual({
      events: [],
      heard: [],
      after: before,
    })
  })

  it('is told so when it is run by another function', async () => {
    const store = memoryBackend()
    await ordered(store, {})
    const map = await runMultiAgentFlow(call(store, protocolHandlers(), { flow: { steps } }))
    expect(map.error).toMatchObject({ code: 'FLOW_DIFFERS', problems: [{ path: 'profile' }] })
  })

  it('is none when only words, order of fields, or the way in which it is carried out differ', async () => {
    const store = memoryBackend()
    const first = await ordered(store, { options: { concurrency: 1 } })
    const again = await ordered(
      store,
      {
        description: 'once more',
        steps: [{ input: { root: context.root, title: context.title }, module: 'context' }, steps[1]!],
        options: { concurrency: 2 },
        approval: { needed: 2 },
        bindings: { roles: { packer: { action_type: 'step_execution', params: {} } } },
      },
      { runtimeContext: { ...newContext('run-1'), options: { maxRetries: 3 } } },
    )
    expect(again).toMatchObject({ success: true, output: first.output })
  })

  it('is none for inputs that JSON cannot tell apart, nor for what a module did to its input', async () => {
    const store = memoryBackend()
    const note = ({ input }: { input?: unknown }) => {
      Object.assign(input as object, { seen: true })
      return { output: null }
    }
    const flow = () => ({
      steps: [
        { module: 'a', input: { at: () => 1 } },
        { module: 'b', input: { n: 1 } },
      ],
    })
    const modules = { a: note, b: note }
    await runSingleAgentFlow(call(store, modules, { flow: flow() }))
    expect(await runSingleAgentFlow(call(store, modules, { flow: flow() }))).toMatchObject({ success: true })
  })
})

describe('a confirm module that came to the flow after its plan was submitted', () => {
  async function joined(flow: FlowContract) {
    const store = memoryBackend()
    const given = contextDocument()
    const plan = planDocument(given, { a: {} })
    const said = saying({ context: given, plan })
    let asked = 0
    const confirm = () => {
      asked++
      return { output: { confirm: confirmDocument(plan, [{ status: 'approved' }]) } }
    }
    const first = await runSingleAgentFlow(call(store, said, { flow }))
    const second = await runSingleAgentFlow(call(store, { ...said, confirm }, { flow }))
    const third = await runSingleAgentFlow(call(store, said, { flow }))
    return { first, second, third, asked }
  }

  it('is not asked when nobody is, and the answer stays what it was', async () => {
    const { second, third, asked } = await joined({})
    expect([second, third]).toMatchObject([{ success: true }, { success: true }])
    expect(asked).toBe(0)
  })

  it('answers what the flow has people asked', async () => {
    const { first, second, third, asked } = await joined({ approval: {} })
    const [question] = first.error!.confirms!
    expect(second).toMatchObject({ success: true, output: { confirm: { confirm_id: question, status: 'approved' } } })
    expect(third).toMatchObject({ success: true })
    expect(asked).toBe(1)
  })
})

describe('what nothing has followed from yet', () => {
  it('may be mended: the input of a module that failed', async () => {
    const store = memoryBackend()
    const unfit = await ordered(store, { steps: [steps[0]!, { module: 'plan', input: { title: 'no steps' } }] })
    expect(unfit).toMatchObject({ success: false, error: { code: 'RUNTIME_EXCEPTION' } })
    expect(await ordered(store, {})).toMatchObject({ success: true })
  })

  it.each<[string, string, string]>([
    ['a role that nobody has made', 'ann:nobody', 'INVALID_OUTPUT'],
    ['no role', 'ann: ', 'INVARIANT_BROKEN'],
  ])('may be mended: a Collab that cannot be the session of the plan, with %s', async (_, participant, code) => {
    const store = memoryBackend()
    const given = contextDocument()
    const said = saying({ context: given, role: roleDocument('dev'), plan: planDocument(given, { a: {} }) })
    const asking = (takesPart: string) => {
      const collab = () => ({ output: { collab: collabDocument(given, 'swarm', [takesPart]) } })
      return runMultiAgentFlow(call(store, { ...said, collab }))
    }
    expect(await asking(participant)).toMatchObject({ success: false, error: { code } })
    expect(await asking('ann:dev')).toMatchObject({ success: true })
  })

  it.each<[string, (elsewhere: Context) => object | null]>([
    ['of another context', (elsewhere) => collabDocument(elsewhere, 'swarm', ['ann:dev'])],
    ['that was not made', () => null],
  ])('may be mended: a Collab %s', async (_, wrong) => {
    const store = memoryBackend()
    const [given, elsewhere] = [contextDocument(), contextDocument()]
    await runSingleAgentFlow(call(store, saying({ context: elsewhere }), { runtimeContext: newContext('elsewhere') }))
    const said = saying({ context: given, role: roleDocument('dev'), plan: planDocument(given, { a: {} }) })
    const asking = (collab: object | null) =>
      runMultiAgentFlow(call(store, { ...said, collab: () => ({ output: { collab } }) }))
    const { error } = await asking(wrong(elsewhere))
    expect(error).toMatchObject({ code: 'INVALID_OUTPUT', problems: [{ path: 'collab' }] })
    expect(await asking(collabDocument(given, 'swarm', ['ann:dev']))).toMatchObject({ success: true })
  })

  it.each(['confirm', 'trace'])(
    'may be mended: a %s under the id of another, given otherwise or no more',
    async (module) => {
      const store = memoryBackend()
      const documents = () => {
        const given = contextDocument()
        const plan = planDocument(given, { a: {} })
        const trace_id = crypto.randomUUID()
        const trace = {
          meta: plan.meta,
          trace_id,
          context_id: given.context_id,
          root_span: { trace_id, span_id: trace_id },
        }
        return { context: given, plan, confirm: confirmDocument(plan, [{}]), trace: { ...trace, status: 'running' } }
      }
      const asking = (runId: string, said: object) =>
        runSingleAgentFlow(call(store, saying({ ...said }), { runtimeContext: newContext(runId) }))
      const first = documents()
      await asking('first', first)
      const { confirm_id } = first.confirm
      for (const runId of ['otherwise', 'no more']) {
        const own = documents()
        const wrong = { confirm: { ...own.confirm, confirm_id }, trace: first.trace }[module]
        expect(await asking(runId, { ...own, [module]: wrong })).toMatchObject({ error: { code: 'INVALID_OUTPUT' } })
        const { [module as 'confirm']: _, ...others } = own
        expect(await asking(runId, runId === 'otherwise' ? own : others)).toMatchObject({ success: true })
      }
    },
  )

  it('is begun by whoever was heard first, wherever a crash cut the first call off', async () => {
    const outcomes = new Set<string>()
    for (let before = 1; !outcomes.has('not cut off'); before++) {
      const clock = manualClock()
      const store = memoryBackend({ clock })
      const given = contextDocument(clock)
      const said = saying({ context: given, plan: planDocument(given, { a: {} }, clock) })
      const asking = (vsl: Backend, flowId: string) => runSingleAgentFlow(call(vsl, said, { clock, flow: { flowId } }))
      const dying = dyingStore(store, before)
      if (await passing(clock, Promise.race([dying.died, asking(dying.store, 'first')]))) outcomes.add('not cut off')
      const second = await passing(clock, asking(store, 'second'))
      const first = await passing(clock, asking(store, 'first'))
      const [went, refused] = second.success ? [second, first] : [first, second]
      expect({ before, went, refused }).toMatchObject({
        went: { success: true },
        refused: { error: { code: 'FLOW_DIFFERS', problems: [{ path: 'flow.flowId' }] } },
      })
      outcomes.add(second.success ? 'the second was heard' : 'the first was heard')
    }
    expect(outcomes.size).toBe(3)
  })
})
