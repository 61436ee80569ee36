import { describe, expect, it, onTestFinished } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { llmAdapter, scriptedProvider } from '../../src/ael/llm.ts'
import { toolAdapter, toolRegistry } from '../../src/ael/tool.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { uuidOf } from '../../src/protocol/json.ts'
import { flowOf } from '../support/flows.ts'
import { inTime, world } from '../support/on-a-clock.ts'

const MINUTE = 60_000
const call = (path: string) => ({ tool: 'fs.drop', args: { path } })

/** A model that chooses these calls of a tool that people are asked about, and then answers; `heard` is what it was told of them. */
function choosing(...calls: readonly ReturnType<typeof call>[]) {
  const done: string[] = []
  const heard: string[] = []
  const tools = toolRegistry([
    {
      name: 'fs.drop',
      description: 'Drops a file',
      input: { type: 'object' },
      policy: 'ask',
      approvers: { expires_ms: MINUTE },
      execute: ({ path }: { path: string }) => void done.push(path),
    },
  ])
  const it = scriptedProvider(({ turn, messages }) => {
    if (turn === 0) return { tool_calls: calls }
    heard.push(...messages.filter(({ role }) => role === 'tool').map(({ text }) => text))
    return 'I see'
  })
  const given = world({})
  const { clock } = given
  const layer = (hands: Hands) =>
    actionLayer({ ...hands, clock, adapters: [llmAdapter({ providers: { it }, tools }), toolAdapter(tools)] })
  const params = { model: 'any', messages: [{ role: 'user', content: 'clear out' }], tools: ['fs.drop'] }
  const flow = flowOf({ think: { binding: { action_type: 'llm_call', params } } })
  return { ...given, layer, done, heard, flow }
}

const questionOf = async (runtime: Runtime) => (await runtime.waiting())[0]!.confirm.confirm_id
const no = { status: 'rejected', decided_by_role: 'lead', reason: 'we need it' } as const
const yes = { status: 'approved', decided_by_role: 'lead' } as const

const said = (value: string) => JSON.stringify({ type: 'error-text', value })

describe('a tool that a model chose, when people turn it down', () => {
  it('is not called, and the model is told by whom and why, and goes on', async () => {
    const { start, clock, layer, done, heard, flow } = choosing(call('a'))
    const runtime = await start({ layer })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flow)
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await runtime.decide(await questionOf(runtime), no)
    const { status, outputs } = await inTime(clock, run.result())
    expect({ status, output: outputs[flow.ids.think!] }).toMatchObject({
      status: 'completed',
      output: { text: 'I see', tool_calls: [{ tool: 'fs.drop', status: 'failed' }] },
    })
    expect(heard).toEqual([said('fs.drop was rejected by lead: we need it')])
    expect(done).toEqual([])
  })

  it('leaves the others that it chose to be asked about', async () => {
    const { start, clock, layer, done, flow } = choosing(call('a'), call('b'))
    const runtime = await start({ layer })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flow)
    for (const answer of [no, yes]) {
      expect(await inTime(clock, run.rest())).toBe('waiting')
      await runtime.decide(await questionOf(runtime), answer)
    }
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(done).toEqual(['b'])
  })

  it('counts as turned down when nobody has answered in time', async () => {
    const { start, clock, layer, done, heard, flow } = choosing(call('a'))
    const runtime = await start({ layer })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flow)
    const began = clock.now()
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(clock.now() - began).toBeGreaterThanOrEqual(MINUTE)
    expect(heard).toEqual([said('fs.drop was rejected: it had no approval in time')])
    expect(done).toEqual([])
  })

  it('is told to the model by the next process, where the one that asked has died', async () => {
    const { start, clock, layer, done, heard, flow } = choosing(call('a'))
    const first = await start({ layer })
    const { run_id } = await first.submit(flow)
    expect(await inTime(clock, (await first.get(run_id)).rest())).toBe('waiting')
    await first.decide(await questionOf(first), no)
    first.die()
    const second = await start({ layer })
    onTestFinished(() => second.close())
    expect(await inTime(clock, (await second.get(run_id)).result())).toMatchObject({ success: true })
    expect(heard).toEqual([said('fs.drop was rejected by lead: we need it')])
    expect(done).toEqual([])
  })

  it('fails a step whose adapter takes no notice', async () => {
    const { start, clock } = world({})
    const tools = toolRegistry([
      { name: 'fs.drop', description: 'Drops a file', input: { type: 'object' }, policy: 'ask', execute: () => null },
    ])
    const layer = (hands: Hands) =>
      actionLayer({
        ...hands,
        clock,
        adapters: [
          toolAdapter(tools),
          {
            action_type: 'clear',
            executor_kind: 'worker',
            execute: async ({ action_id, idempotency_key }, { act }) => {
              const params = { tool_name: 'fs.drop', tool_args: {} }
              const inner = {
                action_id: uuidOf(action_id),
                action_type: 'tool_call',
                executor_kind: 'tool',
                params,
              } as const
              return { output: (await act({ ...inner, idempotency_key: `${idempotency_key}/1` })).output ?? null }
            },
          },
        ],
      })
    const runtime = await start({ layer })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flowOf({ clear: { binding: { action_type: 'clear', params: {} } } }))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    await runtime.decide(await questionOf(runtime), no)
    expect(await inTime(clock, run.result())).toMatchObject({
      status: 'failed',
      error: { code: 'action_rejected', message: 'fs.drop was rejected by lead: we need it' },
    })
  })
})
