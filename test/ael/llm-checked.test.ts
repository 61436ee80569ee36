import { describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { llmAdapter } from '../../src/ael/llm.ts'
import type { Model } from '../../src/ael/llm-model.ts'
import type { Provider } from '../../src/ael/llm-provider.ts'
import { ActionError, InvalidInput } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'

/** A provider of somebody's own, whose only model gives what it is told to. */
const giving = (answer: unknown, more: object = {}): Provider => ({
  model: async (modelId) =>
    ({
      specificationVersion: 'v3',
      provider: 'mine',
      modelId,
      supportedUrls: {},
      doGenerate: async () => answer,
      doStream: async () => answer,
      ...more,
    }) as Model,
  secrets: () => [],
})

async function heard(provider: Provider, params: JsonObject = {}) {
  const layer = actionLayer({ adapters: [llmAdapter({ providers: { mine: provider } })] })
  const messages = [{ role: 'user', content: 'please' }]
  const action = newAction({
    action_type: 'llm_call',
    executor_kind: 'llm',
    params: { model: 'm', messages, ...params },
  })
  try {
    return await layer.execute(action)
  } finally {
    await layer.close()
  }
}
const refusal = async (provider: Provider, params: JsonObject = {}) => {
  const error = await heard(provider, params).catch((caught) => caught)
  expect(error).toBeInstanceOf(ActionError)
  expect(error).toMatchObject({ code: 'action_failed', retryable: false })
  return (error as ActionError).message
}

const finishReason = { unified: 'stop', raw: 'stop' }
const usage = { inputTokens: { total: 3 }, outputTokens: { total: 4 } }
const GOOD = { content: [{ type: 'text', text: 'hi' }], finishReason, usage, warnings: [] }
const SPOKEN = [
  { type: 'text-start', id: '0' },
  { type: 'text-delta', id: '0', delta: 'hi' },
  { type: 'text-end', id: '0' },
]
const part = (given: unknown) => ({ ...GOOD, content: [given] })

describe('a model of one’s own', () => {
  it('answers in one piece, of either version', async () => {
    expect(await heard(giving(GOOD))).toMatchObject({
      output: { text: 'hi' },
      token_usage: { prompt: 3, completion: 4 },
    })
    const older = { ...GOOD, finishReason: 'stop', usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 } }
    expect(await heard(giving(older, { specificationVersion: 'v2' }))).toMatchObject({
      output: { text: 'hi', finish_reason: 'stop' },
      token_usage: { total: 7 },
    })
  })

  it.each([[undefined], [null], [7], [{}], [{ inputTokens: { total: -3 }, outputTokens: null }]])(
    'is reckoned by its length where it says %j of what was used',
    async (told) => {
      const { token_usage } = await heard(giving({ ...GOOD, usage: told }))
      expect(token_usage!.prompt).toBeGreaterThan(0)
      expect(token_usage!.completion).toBeGreaterThan(0)
    },
  )

  it.each<[string, unknown]>([
    ['its answer is undefined, and must be an object', undefined],
    ['its answer is "hi", and must be an object', 'hi'],
    ['content is undefined, and must be a list', { ...GOOD, content: undefined }],
    ['content[0] is null, and must be an object with a type', part(null)],
    ['content[0].type is undefined, and must be text', part({ text: 'hi' })],
    ['content[0].text is undefined, and must be text', part({ type: 'text' })],
    ['content[0].text is 5, and must be text', part({ type: 'text', text: 5 })],
    [
      'content[0].input is object, and must be text',
      part({ type: 'tool-call', toolCallId: '1', toolName: 'a', input: {} }),
    ],
    ['content[0].toolCallId is undefined, and must be text', part({ type: 'tool-call', toolName: 'a', input: '{}' })],
    ['finishReason.unified is undefined, and must be text', { ...GOOD, finishReason: 'stop' }],
    ['warnings is null, and must be a list', { ...GOOD, warnings: null }],
  ])('is told that %s', async (says, answer) => expect(await refusal(giving(answer))).toBe(`provider mine: ${says}`))

  it.each<[string, unknown]>([
    ['stream is undefined, and must be a ReadableStream', undefined],
    ['stream is array of 0 items, and must be a ReadableStream', { stream: [] }],
    ['a part of its stream is null, and must be an object with a type', { stream: ReadableStream.from([null]) }],
    [
      'the start of its stream: warnings is null, and must be a list',
      { stream: ReadableStream.from([{ type: 'stream-start', warnings: null }]) },
    ],
    [
      'a part of its stream.delta is 7, and must be text',
      {
        stream: ReadableStream.from([
          { type: 'text-start', id: '0' },
          { type: 'text-delta', id: '0', delta: 7 },
        ]),
      },
    ],
    [
      'the end of its stream: finishReason.unified is undefined, and must be text',
      { stream: ReadableStream.from([{ type: 'finish', finishReason: undefined, usage }]) },
    ],
    [
      'what follows the end of its stream is "finish", and must be nothing',
      { stream: ReadableStream.from([...SPOKEN, { type: 'finish', finishReason }, { type: 'finish', finishReason }]) },
    ],
    [
      'what follows the end of its stream is "text-delta", and must be nothing',
      { stream: ReadableStream.from([{ type: 'finish', finishReason }, ...SPOKEN, { type: 'finish', finishReason }]) },
    ],
  ])('is told, where it streams, that %s', async (says, answer) =>
    expect(await refusal(giving(answer), { stream: true })).toBe(`provider mine: ${says}`),
  )

  const streaming = (end: object, more?: object) =>
    heard(giving({ stream: ReadableStream.from([...SPOKEN, { type: 'finish', ...end }]) }, more), { stream: true })
  const V2 = { specificationVersion: 'v2' }

  it('streams, and need not say what was used', async () => {
    const { output, token_usage } = await streaming({ finishReason })
    expect(output).toMatchObject({ text: 'hi', finish_reason: 'stop' })
    expect(token_usage!.completion).toBeGreaterThan(0)
  })

  it('streams in the older version too, which has no words of its server for the end', async () => {
    const used = { inputTokens: 3, outputTokens: 4, totalTokens: 7 }
    const { output, token_usage } = await streaming({ finishReason: 'stop', usage: used }, V2)
    expect(output).toMatchObject({ text: 'hi', finish_reason: 'stop' })
    expect(token_usage).toMatchObject({ total: 7 })
  })

  it.each([
    ['v3', { finishReason: { unified: 'other', raw: undefined } }, {}],
    ['v2', { finishReason: 'unknown' }, V2],
  ])('is asked again where its stream (%s) ends and nobody knows why', async (_, end, more) =>
    expect(streaming(end, more)).rejects.toMatchObject({ message: 'the stream ended early', retryable: true }),
  )

  it.each<[string, unknown]>([
    ['what model() gave is undefined, and must be a model of the AI SDK', undefined],
    ['doGenerate of its model is undefined, and must be a function', {}],
    [
      'specificationVersion of its model is "v9", and must be v2 or v3',
      { specificationVersion: 'v9', doGenerate: () => GOOD, doStream: () => GOOD },
    ],
  ])('is one: %s', async (says, model) =>
    expect(await refusal({ model: async () => model as Model, secrets: () => [] })).toBe(`provider mine: ${says}`),
  )

  it.each([
    ['a promise', async () => ['key']],
    ['a promise that is broken', () => Promise.reject(new Error('vault'))],
    ['nothing', () => undefined],
    ['an error', () => expect.fail('vault')],
  ])('is refused with %s for its secrets', (_, secrets) => {
    const provider = { ...giving(GOOD), secrets } as unknown as Provider
    const refused = () => llmAdapter({ providers: { mine: provider } })
    expect(refused).toThrow(InvalidInput)
    expect(refused).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining({ path: 'providers.mine.secrets' })] }),
    )
  })

  it('may add the keys that it uses to the list that it gave', async () => {
    const keys: string[] = []
    const provider: Provider = {
      async model(id) {
        keys.push(`key-of-${id}-0815`)
        return giving(part({ type: 'text', text: `by ${keys.join(' and ')}` })).model(id)
      },
      secrets: () => keys,
    }
    const layer = actionLayer({ adapters: [llmAdapter({ providers: { mine: provider } })] })
    for (const model of ['one', 'two']) {
      const params = { model, messages: [{ role: 'user', content: 'please' }] }
      const { output } = await layer.execute(newAction({ action_type: 'llm_call', executor_kind: 'llm', params }))
      expect(JSON.stringify(output)).not.toContain('key-of')
    }
    await layer.close()
  })

  it('is paid for what it had thought, and put together to call a tool with, when its stream breaks off', async () => {
    const parts = [
      { type: 'reasoning-start', id: '0' },
      { type: 'reasoning-delta', id: '0', delta: 'I think. '.repeat(400) },
      { type: 'reasoning-end', id: '0' },
      { type: 'tool-input-start', id: '1', toolName: 'x__y' },
      { type: 'tool-input-delta', id: '1', delta: '{"a":'.padEnd(400) },
    ]
    const { spent } = await heard(giving({ stream: ReadableStream.from(parts) }), { stream: true }).catch((e) => e)
    expect(spent).toEqual({ tokens: 1_009 }) // 36 characters were asked, and 4,000 heard
  })

  const busy = { 'Retry-After': '7' }
  const inSeven = { retryable: true, retryAfterMs: 7_000 }
  it.each([
    ['tried again', { statusCode: 503 }, { retryable: true }],
    ['tried again when it asks for it', { statusCode: 429, responseHeaders: busy }, inSeven],
    ['tried again when it asks for it', { status: 429, headers: new Headers(busy) }, inSeven],
    ['tried again when it asks for it', { name: 'AI_APICallError', statusCode: 429, responseHeaders: busy }, inSeven],
    ['tried again', { status: 429, headers: [{ name: 'Retry-After', value: '7' }] }, { retryable: true }],
    ['not tried again', { statusCode: 400, responseHeaders: busy }, { retryable: false }],
    ['not tried again for a number of another kind', { status: 1 }, { retryable: false }],
  ])('is %s, where it throws an error with %j', async (_, fields, expected) => {
    const doGenerate = () => Promise.reject(Object.assign(new Error('no'), fields))
    await expect(heard(giving(GOOD, { doGenerate }))).rejects.toMatchObject(expected)
  })

  it('answers nobody once its secrets are no list any more', async () => {
    let secrets: unknown = []
    const provider = { ...giving(GOOD), secrets: () => secrets } as unknown as Provider
    const adapter = llmAdapter({ providers: { mine: provider } })
    secrets = undefined
    expect(() => adapter.secrets!()).toThrow(ActionError)
  })
})
