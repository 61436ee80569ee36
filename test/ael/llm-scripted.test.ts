import type { LanguageModel } from 'ai'
import { describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { llmAdapter } from '../../src/ael/llm.ts'
import type { Provider } from '../../src/ael/llm-provider.ts'
import type { Reply } from '../../src/ael/llm-reply.ts'
import { type Script, scriptedProvider } from '../../src/ael/llm-scripted.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { toolRegistry } from '../../src/ael/tool-registry.ts'
import { type Clock, systemClock } from '../../src/protocol/clock.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'

adapterContract('llm with a script', async (): Promise<AdapterRig> => {
  const asleep = new Set<string>()
  let begin: () => void
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  /** Sleeps for ever, and knows who does. */
  const clock: Clock = {
    ...systemClock,
    sleep: (_: number, signal?: AbortSignal) =>
      new Promise<void>((_, reject) => {
        asleep.add('a sleeper')
        begin()
        signal?.addEventListener('abort', () => {
          asleep.delete('a sleeper')
          reject(signal.reason)
        })
      }),
  }
  const notes = { name: 'notes.add', description: 'add', input: { type: 'object' }, execute: () => null }
  const answered: string[] = []
  let isBusy = true
  /** Asks for a tool, is busy when it is told what came of that, once, and then answers. */
  const inTwoTurns = (turn: number): Reply => {
    if (turn > 0 && isBusy) {
      isBusy = false
      return { error: { message: 'busy', retryable: true } }
    }
    answered.push(`turn ${turn}`)
    return turn > 0 ? 'hello there' : { tool_calls: [{ tool: 'notes.add', args: {} }] }
  }
  const provider = scriptedProvider(
    ({ messages, turn }) => {
      if (messages[0]?.text === 'in two turns') return inTwoTurns(turn)
      const word = messages.at(-1)?.text ?? ''
      if (word === 'hang') return { text: 'never', delay_ms: 1 }
      if (word === 'later') return { error: { message: 'busy', retryable: true } }
      if (word === 'never') return { error: { message: 'no' } }
      if (word === 'talk') return 'word '.repeat(400)
      if (word === 'misshapen') return { object: { n: 'seven' } }
      return 'hello there'
    },
    { clock },
  )
  const ask = (content: string, more: JsonObject = {}) => ({
    model: 'm',
    messages: [{ role: 'user', content }],
    ...more,
  })
  return {
    adapter: llmAdapter({ providers: { scripted: provider }, tools: toolRegistry([notes]) }),
    works: { params: ask('greet'), output: { text: 'hello there', model: 'm', finish_reason: 'stop', rounds: 1 } },
    refused: [{ params: { model: 'm' }, path: 'messages' }],
    hangs: ask('hang'),
    underWay: () => began,
    remains: () => [...asleep],
    failsForNow: ask('later'),
    failsForGood: ask('never'),
    large: ask('talk'),
    misshapen: ask('misshapen', { schema: { type: 'object', properties: { n: { type: 'number' } } } }),
    resumes: {
      params: ask('in two turns', { tools: ['notes.add'] }),
      output: { text: 'hello there', rounds: 2 },
      done: () => answered,
    },
    never: { leaks: 'a script has no secrets', keys: 'nobody is on the other side' },
  }
})

describe('scriptedProvider', () => {
  const layerFor = (script: Script | Record<string, Script>) =>
    actionLayer({ adapters: [llmAdapter({ providers: { scripted: scriptedProvider(script) } })] })
  const ask = (params: JsonObject = {}, more: object = {}) =>
    newAction({
      action_type: 'llm_call',
      params: { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...params },
      ...more,
    })

  it('gives the same conversation the same reply, however often and in whatever order it is asked', async () => {
    const layer = layerFor(['first', 'second'])
    const later = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'first' },
      { role: 'user', content: 'and?' },
    ]
    const said = async (params = {}) => ((await layer.execute(ask(params))).output as JsonObject).text
    expect([await said({ messages: later }), await said(), await said(), await said({ messages: later })]).toEqual([
      'second',
      'first',
      'first',
      'second',
    ])
  })

  it('has a script for each model, and says when there is none, or no more of it', async () => {
    const layer = layerFor({ a: ['I am a'], b: [] })
    expect((await layer.execute(ask({ model: 'a' }))).output).toMatchObject({ text: 'I am a' })
    await expect(layer.execute(ask({ model: 'b' }))).rejects.toThrow(/no reply for turn 1/)
    await expect(layer.execute(ask({ model: 'c' }))).rejects.toThrow(/no script for model c/)
  })

  it('refuses scripts that are none, and takes no other model for one', async () => {
    for (const scripts of [null, 'hello', { m: 'hello' }, { m: undefined }])
      expect(() => scriptedProvider(scripts as never)).toThrow(InvalidInput)
    await expect(layerFor({}).execute(ask({ model: 'constructor' }))).rejects.toThrow(/no script for model constructor/)
  })

  it('says where a script has something that is no reply', async () => {
    const layer = actionLayer({ adapters: [llmAdapter({ providers: { a: scriptedProvider([null as never]) } })] })
    const params = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
    await expect(layer.execute(newAction({ action_type: 'llm_call', params }))).rejects.toMatchObject({
      code: 'action_failed',
      message: 'the script of m has null for turn 1, which is neither text nor an object',
    })
  })

  it.each([
    [{ txt: 'x' }, 'txt is not known; did you mean text?'],
    [{ text: 5 }, 'text must be text'],
    [{ tool_calls: [{ name: 'notes.add' }] }, 'tool_calls must be a list of calls, each with a tool and its args'],
    [{ usage: { prompt: -1 } }, 'usage.completion is missing'],
    [{ error: 'busy' }, 'error must be an object'],
  ])('says what is wrong with the reply %j', async (reply, says) => {
    const failure = expect.objectContaining({ code: 'action_failed', message: expect.stringContaining(says) })
    await expect(layerFor([reply as never]).execute(ask({}))).rejects.toThrow(failure)
    await expect(layerFor(() => reply as never).execute(ask({}))).rejects.toThrow(failure)
  })

  it('waits for what a function comes to', async () => {
    const { output } = await layerFor(async ({ turn }) => `turn ${turn}`).execute(ask({}))
    expect(output).toMatchObject({ text: 'turn 0' })
  })

  it('fails as the script says, and then goes on', async () => {
    const layer = layerFor([{ error: { message: 'busy', retryable: true, retry_after_ms: 1 } }, 'better now'])
    const { output } = await layer.execute(ask({}, { retry: { strategy: 'fixed', max_attempts: 2, delay_ms: 0 } }))
    expect(output).toMatchObject({ text: 'better now' })
  })

  it('streams its text and tells its reasoning', async () => {
    const layer = layerFor([{ text: 'one two three', reasoning: 'counting', usage: { prompt: 3, completion: 5 } }])
    const deltas: string[] = []
    const result = await layer.execute(ask({ stream: true }), { onDelta: (delta) => deltas.push(delta) })
    expect(deltas).toEqual(['one ', 'two ', 'three'])
    expect(result).toMatchObject({
      output: { reasoning: 'counting' },
      token_usage: { prompt: 3, completion: 5, total: 8 },
    })
  })
})

describe('llmAdapter', () => {
  it('refuses to be made without a provider', () => {
    for (const providers of [{}, null, undefined, { a: null }, { a: {} }])
      expect(() => llmAdapter({ providers: providers as never })).toThrow(InvalidInput)
    expect(() => llmAdapter(undefined as never)).toThrow(InvalidInput)
  })

  it.each([Number.NaN, 0, 1.5, '2', 'many'])('refuses to ask a model %s times', (maxRounds) => {
    const providers = { a: scriptedProvider([]) }
    expect(() => llmAdapter({ providers, maxRounds: maxRounds as number })).toThrow(InvalidInput)
  })

  it('asks the first provider unless the action names one', async () => {
    const providers = { a: scriptedProvider(['from a']), b: scriptedProvider(['from b']) }
    const layer = actionLayer({ adapters: [llmAdapter({ providers })] })
    const ask = (provider?: string) =>
      layer.execute(
        newAction({
          action_type: 'llm_call',
          params: { model: 'm', messages: [{ role: 'user', content: 'x' }], ...(provider && { provider }) },
        }),
      )
    expect((await ask()).output).toMatchObject({ text: 'from a' })
    expect((await ask('b')).output).toMatchObject({ text: 'from b' })
  })

  it('is read-only without tools, or with tools that only read', () => {
    const adapter = llmAdapter({ providers: { a: scriptedProvider([]) } })
    expect(adapter.readOnly?.({ model: 'm', messages: [] })).toBe(true)
  })

  it('estimates what an attempt may cost at most', () => {
    const adapter = llmAdapter({ providers: { a: scriptedProvider([]) }, price: ({ total }) => total * 2 })
    const spend = adapter.estimate?.({
      model: 'm',
      messages: [{ role: 'user', content: 'x'.repeat(400) }],
      max_tokens: 50,
    })
    expect(spend?.tokens).toBeGreaterThan(150)
    expect(spend?.cost).toBe((spend?.tokens ?? 0) * 2)
  })
})

it('refuses an answer whose calls have the same id, before any of them is made', async () => {
  const calls = ['anna', 'ben'].map((to) => ({ tool: 'bank.pay', args: { to } }))
  const script = scriptedProvider([{ tool_calls: calls }, 'done'])
  const provider: Provider = {
    ...script,
    async model(name) {
      const model = (await script.model(name)) as Exclude<LanguageModel, string>
      const doGenerate = async (asked: never) => {
        const answer = await model.doGenerate(asked)
        const content = answer.content.map((part) => ('toolCallId' in part ? { ...part, toolCallId: 'call_0' } : part))
        return { ...answer, content }
      }
      return { ...model, doGenerate } as LanguageModel
    },
  }
  const paid: Json[] = []
  const tools = toolRegistry()
  const execute = (args: JsonObject) => void paid.push(args.to!)
  tools.register({ name: 'bank.pay', description: 'pays', input: { type: 'object' }, execute })
  const layer = actionLayer({ adapters: [toolAdapter(tools), llmAdapter({ providers: { it: provider }, tools })] })
  const params = { model: 'm', messages: [{ role: 'user', content: 'pay both' }], tools: ['bank.pay'] }
  await expect(layer.execute(newAction({ action_type: 'llm_call', params }))).rejects.toMatchObject({
    code: 'action_failed',
    retryable: true,
  })
  expect(paid).toEqual([])
  await layer.close()
})
