import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import { type ActionLayerOptions, actionLayer } from '../../src/ael/ael.ts'
import type { ActionLayer, EventDraft } from '../../src/ael/layer.ts'
import { llmAdapter, scriptedProvider } from '../../src/ael/llm.ts'
import {
  anthropicProvider,
  compatibleProvider,
  googleProvider,
  openAiProvider,
  type Provider,
} from '../../src/ael/llm-provider.ts'
import { memoryBudget } from '../../src/ael/memory-budget.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { type Tool, toolRegistry } from '../../src/ael/tool-registry.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError, ApprovalNeeded } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'
import { type Behaviour, type LlmRequest, type LlmServer, llmServer } from '../support/llm-server.ts'

const KEY = 'key-of-the-provider-31337'
const WIRES: Readonly<Record<string, (url: string) => Provider>> = {
  openai: (url) => openAiProvider({ apiKey: KEY, baseUrl: `${url}/v1` }),
  anthropic: (url) => anthropicProvider({ apiKey: () => KEY, baseUrl: `${url}/v1` }),
  google: (url) => googleProvider({ apiKey: KEY, baseUrl: `${url}/v1beta` }),
  compatible: (url) => compatibleProvider({ name: 'local', apiKey: KEY, baseUrl: `${url}/v1` }),
}
const PENDING = { verdict: 'pending' } as const
const NUMBER = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'], additionalProperties: false }

for (const [wire, provider] of Object.entries(WIRES))
  for (const stream of [false, true])
    adapterContract(`llm over ${wire}${stream ? ', streamed' : ''}`, async (): Promise<AdapterRig> => {
      const server = await llmServer()
      server.behave(byWord)
      const notes: Tool = { name: 'notes.add', description: 'add', input: { type: 'object' }, execute: () => null }
      const adapter = llmAdapter({ providers: { it: provider(server.url) }, tools: toolRegistry([notes]) })
      const ask = (content: string, more: JsonObject = {}) => ({
        model: 'test-model',
        messages: [{ role: 'user', content }],
        max_tokens: 500,
        stream,
        ...more,
      })
      return {
        adapter,
        works: {
          params: ask('greet'),
          output: { text: 'hello there', model: 'test-model', finish_reason: 'stop', rounds: 1 },
        },
        refused: [
          { params: { model: 'm', messages: [] }, path: 'messages' },
          { params: { model: '', messages: [{ role: 'user', content: 'x' }] }, path: 'model' },
          { params: { model: 'm', messages: [{ role: 'tool', content: 'x' }] }, path: 'messages[0].role' },
          { params: { model: 'm', messages: [{ role: 'user', content: 7 }] }, path: 'messages[0].content' },
          {
            params: ask('x', { messages: [{ role: 'user', content: [{ type: 'image', image: 'http://a' }] }] }),
            path: 'messages[0].content',
          },
          {
            params: ask('x', { messages: [{ role: 'system', content: [{ type: 'text', text: 'be kind' }] }] }),
            path: 'messages[0].content',
          },
          {
            params: ask('x', {
              messages: [{ role: 'user', content: [{ type: 'file', mediaType: 'a/b', data: 'YWJjA' }] }],
            }),
            path: 'messages[0].content',
          },
          { params: ask('x', { temperature: 'hot' }), path: 'temperature' },
          { params: ask('x', { max_tokens: 0 }), path: 'max_tokens' },
          { params: ask('x', { seed: 1.5 }), path: 'seed' },
          { params: ask('x', { provider_options: 'fast' }), path: 'provider_options' },
          { params: ask('x', { provider: 'nobody' }), path: 'provider' },
          { params: ask('x', { tools: ['no.such'] }), path: 'tools[0]' },
          { params: ask('x', { tools: ['bare'] }), path: 'tools[0]' },
          { params: ask('x', { max_rounds: 99 }), path: 'max_rounds' },
          { params: ask('x', { schema: { type: 'objekt' } }), path: 'schema' },
          { params: ask('x', { tool_choice: 'no.such' }), path: 'tool_choice' },
          { params: ask('x', { tool_choice: 'required' }), path: 'tool_choice' },
        ],
        hangs: ask('hang'),
        underWay: () => server.arrived(1),
        remains: () => Array.from({ length: server.busy() }, () => 'a connection'),
        failsForNow: ask('500'),
        failsForGood: ask('400'),
        large: ask('talk'),
        misshapen: ask('misshapen', { schema: NUMBER }),
        leaks: { params: ask('401'), secret: KEY },
        changes: ask('greet', { tools: ['notes.add'] }),
        keys: () => server.requests.map(({ headers }) => String(headers['idempotency-key'])),
        close: () => server.close(),
      }
    })

/** What the last message asks for. */
function byWord({ body }: LlmRequest): Behaviour {
  const asked = JSON.stringify(body.messages ?? body.contents)
  if (asked.includes('hang')) return { hang: true, after: 40, say: 'hello there' }
  if (asked.includes('talk')) return { say: 'word '.repeat(400) }
  if (asked.includes('misshapen')) return { say: '{"n":"seven"}' }
  const status = /"(\d{3})"/.exec(asked)?.[1]
  return status === undefined ? { say: 'hello there' } : { status: Number(status), body: errorBody(Number(status)) }
}

const errorBody = (status: number): string =>
  JSON.stringify({
    type: 'error',
    error: {
      type: 'made_up',
      code: status,
      status: 'MADE_UP',
      message: status === 401 ? `the key ${KEY} is not good` : 'it went wrong',
    },
  })

describe('llmAdapter', () => {
  let server: LlmServer
  let layer: ActionLayer | undefined
  let events: EventDraft[]
  beforeEach(async () => {
    server = await llmServer()
    events = []
  })
  afterEach(async () => {
    await layer?.close()
    await server.close()
  })

  const layerOver = (wire: keyof typeof WIRES, tools: readonly Tool[] = [], options: ActionLayerOptions = {}) => {
    const registry = toolRegistry(tools)
    const provider = (WIRES[wire] as (url: string) => Provider)(server.url)
    const llm = llmAdapter({
      providers: { it: provider },
      tools: registry,
      price: ({ prompt, completion }) => prompt + 10 * completion,
    })
    layer = actionLayer({
      emit: (event) => void events.push(event),
      ...options,
      adapters: [llm, toolAdapter(registry)],
    })
    return layer
  }
  const ask = (more: JsonObject = {}, retry?: { max_attempts: number }) =>
    newAction({
      action_type: 'llm_call',
      executor_kind: 'llm',
      params: { model: 'test-model', messages: [{ role: 'user', content: 'please' }], ...more },
      ...(retry && { retry: { strategy: 'fixed', delay_ms: 1, ...retry } }),
    })
  const failure = async (params: JsonObject = {}, wire: keyof typeof WIRES = 'openai') => {
    const error = await layerOver(wire)
      .execute(ask(params))
      .catch((caught) => caught)
    expect(error).toBeInstanceOf(ActionError)
    return error as ActionError
  }
  const look = (done: string[] = []): Tool => ({
    name: 'weather.look',
    description: 'The sky over a city',
    readOnly: true,
    input: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    execute: ({ city }) => {
      done.push(`look ${city}`)
      return { city: city as string, sky: 'clear' }
    },
  })

  describe.each([
    ['says nothing of tokens', undefined],
    ['says what cannot be', { prompt_tokens: -1, completion_tokens: 0.5, total_tokens: -3 }],
    ['says of nothing how many they were', {}],
    ['says only how many they were together', { total_tokens: 3 }],
  ])('a server that %s', (_, usage) => {
    it.each([false, true])('is reckoned by the length of what was said (streamed: %s)', async (stream) => {
      const choice = { index: 0, finish_reason: 'stop' }
      const said = { role: 'assistant', content: 'x'.repeat(4_000) }
      const answer = { id: 'a', created: 1, model: 'test-model', ...(usage && { usage }) }
      server.behave({
        garbage: stream
          ? `data: ${JSON.stringify({ ...answer, choices: [{ ...choice, delta: said }] })}\n\ndata: [DONE]\n\n`
          : JSON.stringify({ ...answer, choices: [{ ...choice, message: said }] }),
      })
      const content = [{ type: 'file', mediaType: 'image/png', data: 'A'.repeat(400_000) }]
      const { token_usage } = await layerOver('compatible').execute(
        ask({ stream, messages: [{ role: 'user', content }] }),
      )
      expect(token_usage!.prompt).toBeGreaterThan(1_600)
      expect(token_usage!.prompt).toBeLessThan(2_000) // no more than models make of an image
      expect(token_usage!.completion).toBeGreaterThanOrEqual(1_000)
      expect(token_usage!.total).toBe(token_usage!.prompt + token_usage!.completion)
    })
  })

  describe.each(Object.keys(WIRES))('over %s', (wire) => {
    it.each([false, true])('counts tokens and what they cost (streamed: %s)', async (stream) => {
      const result = await layerOver(wire).execute(ask({ stream }))
      expect(result).toMatchObject({ token_usage: { prompt: 11, completion: 7, total: 18 }, cost: 81 })
      expect(events.at(-1)).toMatchObject({
        event_type: 'llm_call_completed',
        payload: { tokens_in: 11, tokens_out: 7, cost: 81 },
      })
    })

    it.each([false, true])(
      'carries out the tools that the model chooses, and tells it what came of them (streamed: %s)',
      async (stream) => {
        const done: string[] = []
        server.behave(
          {
            say: 'let me see',
            call: [
              { name: 'weather__look', args: { city: 'Oslo' } },
              { name: 'weather__look', args: { city: 'Rome' } },
            ],
          },
          { say: 'both clear' },
        )
        const { output, token_usage } = await layerOver(wire, [look(done)]).execute(
          ask({ tools: ['weather.look'], stream }),
        )
        expect(output).toMatchObject({
          text: 'both clear',
          rounds: 2,
          tool_calls: [{ tool: 'weather.look', status: 'completed' }, {}],
        })
        expect(token_usage).toEqual({ prompt: 22, completion: 14, total: 36 })
        expect(done.sort()).toEqual(['look Oslo', 'look Rome'])
        const again = JSON.stringify(server.requests[1]?.body)
        for (const word of ['Oslo', 'Rome', 'clear', 'let me see']) expect(again).toContain(word)
        const starts = events.filter((event) => event.event_type.endsWith('started')).map((event) => event.event_type)
        expect(starts).toEqual(['llm_call_started', 'tool_execution_started', 'tool_execution_started'])
      },
    )

    it('streams the text as it comes', async () => {
      const deltas: string[] = []
      server.behave({ say: 'one two three' })
      const { output } = await layerOver(wire).execute(ask({ stream: true }), {
        onDelta: (delta) => deltas.push(delta),
      })
      expect(deltas.length).toBeGreaterThan(1)
      expect(deltas.join('')).toBe((output as JsonObject).text)
    })

    it.each([
      ['a cut connection', { cut: 30, say: 'one two three' }],
      ['an answer that ends early', { short: 60, say: 'one two three' }],
      ['an answer that is not on the wire', { garbage: '<html>busy</html>' }],
      ['an answer of nothing', { garbage: '' }],
    ])('says that %s may pass', async (_what, behaviour) => {
      for (const stream of [false, true]) {
        server.behave(behaviour)
        const error = await failure({ stream }, wire)
        expect(error, `${stream ? '' : 'not '}streamed: ${error.message}`).toMatchObject({
          code: 'action_failed',
          retryable: true,
        })
        await layer?.close()
      }
    })

    it('says what went wrong in the midst of a stream, and that it may pass', async () => {
      server.behave({ wrong: { message: 'Overloaded', code: 529 }, say: 'one two three' })
      const passing = { code: 'action_failed', message: expect.stringContaining('Overloaded'), retryable: true }
      expect(await failure({ stream: true }, wire)).toMatchObject(passing)
    })

    it('lets go of a stream that the server does not end behind what went wrong', async () => {
      server.behave({ wrong: { message: 'Overloaded', code: 529 }, say: 'one two three', stays: true })
      expect(await failure({ stream: true }, wire)).toMatchObject({ code: 'action_failed', retryable: true })
      await expect.poll(() => server.busy()).toBe(0)
    })

    it('ends an answer without end', async () => {
      server.behave({ endless: true })
      const provider = { openai: openAiProvider, anthropic: anthropicProvider, google: googleProvider }[wire]
      const options = { apiKey: KEY, baseUrl: `${server.url}/v1`, maxResponseBytes: 1_000_000 }
      const bounded = provider?.(options) ?? compatibleProvider({ ...options, name: 'local' })
      layer = actionLayer({ adapters: [llmAdapter({ providers: { bounded } })] })
      await expect(layer.execute(ask())).rejects.toMatchObject({ code: 'action_failed', retryable: false })
      await expect(layer.execute(ask({ stream: true }))).rejects.toMatchObject({
        code: 'action_failed',
        retryable: false,
      })
    })

    it('waits as long as it was told to after 429', async () => {
      server.behave({ status: 429, headers: { 'retry-after': '7' } })
      expect(await failure({}, wire)).toMatchObject({ retryable: true, retryAfterMs: 7_000 })
    })

    it('is attempted again after 500 and 503, and succeeds', async () => {
      server.behave({ status: 500 }, { status: 503 }, { say: 'at last' })
      const { output } = await layerOver(wire).execute(ask({}, { max_attempts: 3 }))
      expect(output).toMatchObject({ text: 'at last' })
      expect(server.requests).toHaveLength(3)
      expect(new Set(server.requests.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
    })

    it('asks anew for an answer of use, and not again for the one that was none', async () => {
      server.behave({ say: 'no JSON' }, { status: 503 }, { say: '{"n":"seven"}' }, { say: '{"n":7}' })
      const { output } = await layerOver(wire).execute(ask({ schema: NUMBER }, { max_attempts: 4 }))
      expect(output).toMatchObject({ object: { n: 7 } })
      const [first, ...keys] = server.requests.map(({ headers }) => String(headers['idempotency-key']))
      expect(keys).toEqual([`${first}.1`, `${first}.1`, `${first}.2`])
    })

    it('gives an object of the shape that was asked for', async () => {
      server.behave({ say: '{"n":7}' })
      const { output } = await layerOver(wire).execute(ask({ schema: NUMBER }))
      expect(output).toMatchObject({ object: { n: 7 } })
    })
  })

  it.each([false, true])(
    'takes an answer that ended in an error for none, and may be asked again (streamed: %s)',
    async (stream) => {
      const answer = JSON.stringify({
        candidates: [{ content: { role: 'model', parts: [] }, finishReason: 'MALFORMED_FUNCTION_CALL' }],
        usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 },
      })
      server.behave({ garbage: stream ? `data: ${answer}\n\n` : answer })
      const error = await failure({ stream }, 'google')
      expect(error).toMatchObject({ code: 'action_failed', retryable: true, spent: { tokens: 18 } })
      expect(error.message).toContain('MALFORMED_FUNCTION_CALL')
    },
  )

  it('says what stands in an answer that cannot be read', async () => {
    server.behave({ garbage: '{"error":{"message":"no capacity","code":503}}' })
    for (const wire of ['openai', 'compatible', 'anthropic'])
      expect((await failure({}, wire)).message).toContain('no capacity')
  })

  it('reckons what was heard of a stream that broke off, which is paid for like any other', async () => {
    server.behave({ wrong: { message: 'Overloaded', code: 529 }, say: 'one two three' })
    expect((await failure({ stream: true })).spent).toEqual({ tokens: 10, cost: 19 }) // 36 characters were asked, and 4 heard
    server.behave({ status: 529 })
    expect((await failure({ stream: true })).spent).toBeUndefined()
  })

  it('sets apart what it is told as a system, too', () => {
    const over = layerOver('openai')
    const tokens = (more: JsonObject) => over.estimate(ask({ max_tokens: 100, ...more })).tokens!
    expect(tokens({ system: 'x'.repeat(4_000) })).toBe(tokens({}) + 1_000)
  })

  it('sets apart for an image no more than models make of one, and of any other file its length', () => {
    const over = layerOver('openai')
    const tokens = (mediaType: string, length: number) => {
      const content = [{ type: 'file', mediaType, data: 'A'.repeat(length) }]
      return over.estimate(ask({ messages: [{ role: 'user', content }] })).tokens!
    }
    expect(tokens('image/png', 4_000) - tokens('image/png', 0)).toBe(1_000)
    expect(tokens('image/png', 4_000_000) - tokens('image/png', 0)).toBe(1_600)
    expect(tokens('video/mp4', 4_000_000) - tokens('video/mp4', 0)).toBe(1_000_000)
  })

  it('reckons the tools and the schema that a model is shown, which are paid for like what is said to it', async () => {
    const said = { name: 'fs.write', description: 'Writes. '.repeat(500), input: { type: 'object' } }
    const over = layerOver('openai', [{ ...said, execute: () => null }])
    const tokens = (more: JsonObject) => over.estimate(ask(more)).tokens! - over.estimate(ask()).tokens!
    expect(tokens({ tools: ['fs.write'] })).toBe(Math.ceil(JSON.stringify(Object.values(said)).length / 4))
    expect(tokens({ schema: NUMBER })).toBe(Math.ceil(JSON.stringify(NUMBER).length / 4))
    server.behave({ wrong: { message: 'Overloaded', code: 529 }, say: '{"n": 1}' })
    expect((await failure({ stream: true, schema: NUMBER })).spent!.tokens).toBe(9 + 2 + tokens({ schema: NUMBER }))
  })

  it('takes what went wrong in the midst of a stream for final where its code says so', async () => {
    server.behave({ wrong: { message: 'too many words', code: 400 }, say: 'one two three' })
    const final = { message: expect.stringContaining('too many words'), retryable: false }
    expect(await failure({ stream: true }, 'compatible')).toMatchObject(final)
  })

  it('asks the library for no retries of its own', async () => {
    server.behave({ status: 500 })
    await failure()
    expect(server.requests).toHaveLength(1)
  })

  it('says what the answer cost even when its shape is wrong', async () => {
    server.behave({ say: '{"n":"x"}' })
    const error = await failure({ schema: NUMBER })
    expect(error).toMatchObject({ retryable: true, spent: { tokens: 18, cost: 81 } })
    expect(error.message).toContain('object.n')
  })

  it.each([
    ['none', undefined],
    ['an empty one', ''],
    ['a function that finds none', () => undefined],
  ])('refuses to work with %s for a key, and does not look for one elsewhere', async (_what, apiKey) => {
    vi.stubEnv('OPENAI_API_KEY', 'from the environment')
    const provider = openAiProvider({ apiKey: apiKey as string, baseUrl: server.url })
    layer = actionLayer({ adapters: [llmAdapter({ providers: { it: provider } })] })
    await expect(layer.execute(ask())).rejects.toMatchObject({ code: 'action_failed', retryable: false })
    expect(server.requests).toEqual([])
    vi.unstubAllEnvs()
  })

  it('needs no key where none is asked for, and keeps what its own headers hold to itself', async () => {
    const headers = {
      'x-gateway-token': 'gateway-token-8128',
      'proxy-authorization': 'Bearer of-the-proxy',
      'x-team': 'the-blue-team',
    }
    const provider = compatibleProvider({ name: 'local', baseUrl: `${server.url}/v1`, headers })
    layer = actionLayer({ adapters: [llmAdapter({ providers: { it: provider } })] })
    server.behave({ status: 400, body: '{"error":{"message":"gateway-token-8128 and of-the-proxy, the-blue-team"}}' })
    await expect(layer.execute(ask())).rejects.toThrow('[redacted] and [redacted], the-blue-team')
    expect(server.requests[0]?.headers).toMatchObject(headers)
    expect(server.requests[0]?.headers.authorization).toBeUndefined()
    expect(() => compatibleProvider({ name: 'x', baseUrl: 'not a url' })).toThrow(/baseUrl must be a URL/)
  })

  it('follows no redirect with the key', async () => {
    server.behave({ status: 307, headers: { location: `${server.url}/elsewhere/chat/completions` } })
    const { message, retryable } = await failure()
    expect({ message, retryable }).toEqual({
      message: `the provider redirects to ${new URL(server.url).origin}, which is not followed; give the URL where it is`,
      retryable: false,
    })
    expect(server.requests).toHaveLength(1)
  })

  it('sends the key where it belongs and shows it nowhere', async () => {
    await layerOver('openai').execute(ask())
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`)
    expect(JSON.stringify(events)).not.toContain(KEY)
  })

  describe('with tools', () => {
    const write = (done: string[], more: Partial<Tool> = {}): Tool => ({
      name: 'fs.write',
      description: 'Writes',
      input: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
      execute: ({ path }, { idempotency_key }) => {
        done.push(`write ${path}`)
        return { path: path as string, key: idempotency_key }
      },
      ...more,
    })
    const calls = (...list: readonly [string, Json][]): Behaviour => ({
      call: list.map(([name, args]) => ({ name, args })),
    })
    const results = (request: LlmRequest | undefined): string[] =>
      ((request?.body.messages ?? []) as { role: string; content: string }[])
        .filter(({ role }) => role === 'tool')
        .map(({ content }) => content)

    it('lacks a provider and a tool that are not here, and nothing where no name is said', () => {
      const adapter = llmAdapter({ providers: { main: scriptedProvider([]) }, tools: toolRegistry([write([])]) })
      const lacks = (params: JsonObject) => adapter.lacks!({ model: 'm', ...params })
      expect(lacks({ provider: 'other' })).toEqual({ what: 'provider', name: 'other', known: ['main'] })
      const lack = { what: 'tool', name: 'fs.read', known: ['fs.write'] }
      expect(lacks({ provider: 'main', tools: ['fs.write', 'fs.read'] })).toEqual(lack)
      for (const params of [{}, { provider: 'main', tools: ['fs.write'] }, { provider: 1, tools: 'x' }, { tools: [1] }])
        expect(lacks(params as JsonObject)).toBeUndefined()
    })

    it('runs what only reads side by side, and what changes something, or does not say so, in the order of the model', async () => {
      const done: string[] = []
      const slow = (name: string, more: Pick<Tool, 'readOnly'> = {}): Tool => ({
        ...write(done),
        ...more,
        name,
        async execute({ path }) {
          done.push(`begin ${path}`)
          await new Promise((resolve) => setImmediate(resolve))
          done.push(`end ${path}`)
          return null
        },
      })
      server.behave(
        calls(['r__a', { path: 'a' }], ['r__a', { path: 'b' }]),
        calls(['r__a', { path: 'c' }], ['w__a', { path: 'd' }]),
        calls(['w__b', { path: 'e' }], ['w__b', { path: 'f' }]),
        { say: 'done' },
      )
      const tools = [slow('r.a', { readOnly: true }), slow('w.a', { readOnly: false }), slow('w.b')]
      await layerOver('openai', tools).execute(ask({ tools: tools.map(({ name }) => name) }))
      const sideBySide = ['begin a', 'begin b', 'end a', 'end b']
      const inOrder = ['c', 'd', 'e', 'f'].flatMap((path) => [`begin ${path}`, `end ${path}`])
      expect(done).toEqual([...sideBySide, ...inOrder])
    })

    it('tells the model of a tool that failed, that it may not use, or that does not exist, and goes on', async () => {
      const broken: Tool = { ...look(), name: 'a.broken', execute: () => Promise.reject(new Error('out of order')) }
      const secret: Tool = { ...look(), name: 'a.secret' }
      server.behave(
        calls(
          ['a__broken', { city: 'x' }],
          ['a__secret', { city: 'x' }],
          ['a__unheard', {}],
          ['a__broken', { town: 1 }],
        ),
        { say: 'I see' },
      )
      const admit = ({ tool }: { tool: string }) =>
        tool === 'a.secret' ? ({ allowed: false, reason: 'not for this role' } as const) : ({ allowed: true } as const)
      const { output } = await layerOver('openai', [broken, secret], { admit }).execute(
        ask({ tools: ['a.broken', 'a.secret'] }),
      )
      expect(output).toMatchObject({
        text: 'I see',
        tool_calls: [{ status: 'failed' }, { status: 'failed' }, { status: 'failed' }, { status: 'failed' }],
      })
      expect(results(server.requests[1])).toEqual([
        expect.stringContaining('out of order'),
        expect.stringContaining('not for this role'),
        expect.stringContaining('a__unheard'),
        expect.stringContaining('tool_args.city is required'),
      ])
    })

    it.each(['required', 'fs.write'])(
      'has the model choose once what it must choose (%s), and then lets it come to an answer',
      async (tool_choice) => {
        const done: string[] = []
        server.behave(({ body }) =>
          body.tool_choice === 'auto' ? { say: 'written' } : { call: [{ name: 'fs__write', args: { path: 'a' } }] },
        )
        const { output } = await layerOver('openai', [look(), write(done)]).execute(
          ask({ tools: ['weather.look', 'fs.write'], tool_choice }),
        )
        expect(output).toMatchObject({ text: 'written', rounds: 2 })
        expect(done).toEqual(['write a'])
        const forced = { type: 'function', function: { name: 'fs__write' } }
        const choices = server.requests.map(({ body }) => body.tool_choice)
        expect(choices).toEqual([tool_choice === 'required' ? 'required' : forced, 'auto'])
      },
    )

    it('lets a model choose only from what the action names, whatever is registered', async () => {
      const done: string[] = []
      server.behave(calls(['fs__write', { path: 'a' }]), { say: 'ok' })
      await layerOver('openai', [look(), write(done)]).execute(ask({ tools: ['weather.look'] }))
      expect(done).toEqual([])
      expect(JSON.stringify(server.requests[0]?.body.tools)).not.toContain('fs__write')
    })

    it('changes nothing by itself: what its tools have changed each of them takes back', async () => {
      const over = layerOver('openai', [write([])])
      server.behave(calls(['fs__write', { path: 'a' }]), { say: 'ok' })
      const action = ask({ tools: ['fs.write'] })
      expect(over.inverse(action, await over.execute(action))).toBe('none_needed')
      expect(over.inverse(ask(), {})).toBe('none_needed')
    })

    it('tells the model of arguments that are no JSON', async () => {
      server.behave({ call: [{ name: 'weather__look', args: '{"city": ' }] }, { say: 'sorry' })
      const { output } = await layerOver('openai', [look()]).execute(ask({ tools: ['weather.look'] }))
      expect(output).toMatchObject({ text: 'sorry', tool_calls: [{ status: 'failed' }] })
    })

    it('gives up after the last round, and does not call the tools of that one', async () => {
      const done: string[] = []
      server.behave(calls(['fs__write', { path: 'x' }]))
      const error = await layerOver('openai', [write(done)])
        .execute(ask({ tools: ['fs.write'], max_rounds: 3 }))
        .catch((caught) => caught)
      expect(error).toMatchObject({ code: 'action_failed', retryable: false, spent: { tokens: 54 } })
      expect(server.requests).toHaveLength(3)
      expect(done).toEqual(['write x', 'write x'])
    })

    it('asks no further when the budget has no action left for its tools', async () => {
      const done: string[] = []
      server.behave(calls(['fs__write', { path: 'a' }], ['fs__write', { path: 'b' }]), { say: 'written' })
      const over = layerOver('openai', [write(done)], { budget: memoryBudget({ actions: 2 }) })
      const error = await over.execute(ask({ tools: ['fs.write'] })).catch((caught) => caught)
      expect(error).toMatchObject({ code: 'budget_exceeded', spent: { tokens: 18 } })
      expect(done).toEqual(['write a'])
      expect(server.requests).toHaveLength(1)
    })

    it('goes on after a failure where it stood, and repeats no tool', async () => {
      const done: string[] = []
      server.behave(calls(['fs__write', { path: 'a' }]), { status: 503 }, { say: 'written' })
      const { output } = await layerOver('openai', [write(done)]).execute(
        ask({ tools: ['fs.write'] }, { max_attempts: 2 }),
      )
      expect(output).toMatchObject({ text: 'written', rounds: 2 })
      expect(done).toEqual(['write a'])
    })

    it('goes on with the question as it was asked, whatever is kept out of what is stored of it', async () => {
      const messages = [{ role: 'user', content: 'read https://files.test/a?key=abc123' }]
      server.behave(calls(['fs__write', { path: 'a' }]), { status: 503 }, { say: 'written' })
      const params = { tools: ['fs.write'], system: 'be brief', messages }
      await layerOver('openai', [write([])]).execute(ask(params, { max_attempts: 2 }))
      const [first, ...later] = server.requests.map(({ body }) => (body.messages as Json[]).slice(0, 2))
      expect(JSON.stringify(first)).toContain('?key=abc123')
      expect(later).toEqual([first, first])
    })

    it('pauses for an approval and goes on with it, without asking the model again', async () => {
      const done: string[] = []
      const approved = new Set<string>()
      server.behave(calls(['fs__write', { path: 'a' }], ['fs__write', { path: 'secret' }]), { say: 'written' })
      const guarded = write(done, {
        policy: 'ask',
        requestApproval: ({ path }) => (path === 'a' ? null : `write ${path}?`),
      })
      const over = layerOver('openai', [guarded], {
        gate: ({ digest }) => ({ verdict: approved.has(digest) ? 'approved' : 'pending' }),
      })
      const action = ask({ tools: ['fs.write'] })
      const pause = await over.attempt(action).catch((caught) => caught)
      expect(pause).toBeInstanceOf(ApprovalNeeded)
      expect(pause).toMatchObject({
        code: 'approval_needed',
        question: { tool: 'fs.write', arguments: { path: 'secret' }, description: 'write secret?' },
        spent: { tokens: 18 },
      })
      expect(done).toEqual(['write a'])
      expect(events.at(-1)).toMatchObject({ event_type: 'execution_paused', status: 'running' })

      approved.add(pause.question.digest)
      const resume = JSON.parse(JSON.stringify(pause.resume)) // as it comes back from a store
      const { output, token_usage } = await over.attempt(action, { attempt: 2, resume })
      expect(output).toMatchObject({ text: 'written', rounds: 2 })
      expect(token_usage).toMatchObject({ total: 18 })
      expect(done).toEqual(['write a', 'write secret'])
      expect(server.requests).toHaveLength(2)
    })

    it('asks the model once, even when its very first tool pauses', async () => {
      const approved = new Set<string>()
      server.behave(calls(['fs__write', { path: 'a' }]), { say: 'written' })
      const over = layerOver('openai', [write([], { policy: 'ask' })], {
        gate: ({ digest }) => ({ verdict: approved.has(digest) ? 'approved' : 'pending' }),
      })
      const action = ask({ tools: ['fs.write'] })
      const pause = await over.attempt(action).catch((caught) => caught)
      approved.add(pause.question.digest)
      const { output } = await over.attempt(action, { attempt: 2, resume: pause.resume })
      expect(output).toMatchObject({ text: 'written', tool_calls: [{ action_id: pause.question.action_id }] })
      expect(server.requests).toHaveLength(2)
    })

    it('puts no call to a person whose arguments are not kept until there is an answer, and tells the model', async () => {
      const done: string[] = []
      server.behave(calls(['fs__write', { path: 'a', password: 'first-1234' }]), { say: 'without then' })
      const over = layerOver('openai', [write(done, { policy: 'ask' })], {
        gate: ({ arguments: args }) =>
          JSON.stringify(args).includes('[redacted]') ? PENDING : { verdict: 'approved' },
      })
      const { output } = await over.attempt(ask({ tools: ['fs.write'] }))
      expect(output).toMatchObject({ text: 'without then', tool_calls: [{ tool: 'fs.write', status: 'failed' }] })
      expect(results(server.requests[1])[0]).toMatch(/^fs\.write was not called: .*call it without that$/)
      expect(done).toEqual([])
    })

    it('does not call a tool with what is left of its arguments when it goes on with a call that was cut off', async () => {
      const done: string[] = []
      const states: Json[] = []
      const action = ask({ tools: ['fs.write'] })
      const checkpoint = (state: Json) => void states.push(state)
      server.behave(
        calls(['fs__write', { path: 'a' }], ['fs__write', { path: 'b', password: 'first-1234' }]),
        { say: 'written' },
        { say: 'I see' },
      )
      const over = layerOver('openai', [write(done)])
      await over.attempt(action, { checkpoint })
      expect(done).toEqual(['write a', 'write b'])
      await over.attempt(action, { attempt: 2, resume: states[0]! })
      expect(done).toEqual(['write a', 'write b', 'write a'])
      expect(results(server.requests[2])[1]).toMatch(
        /^fs\.write is not called after an interruption, before which it may have been carried out: /,
      )
    })

    it('tells the model of a call that was put off by another and whose arguments are not kept that it was not made', async () => {
      const done: string[] = []
      const approved = new Set<string>()
      server.behave(calls(['fs__write', { path: 'a' }], ['fs__write', { path: 'b', password: 'first-1234' }]), {
        say: 'ok',
      })
      const over = layerOver('openai', [write(done, { policy: 'ask' })], {
        gate: ({ digest }) => ({ verdict: approved.has(digest) ? 'approved' : 'pending' }),
      })
      const action = ask({ tools: ['fs.write'] })
      const pause = await over.attempt(action).catch((caught) => caught)
      approved.add(pause.question.digest)
      await over.attempt(action, { attempt: 2, resume: pause.resume })
      expect(done).toEqual(['write a'])
      expect(results(server.requests[1])[1]).toMatch(/^fs\.write was not called: .*call it again$/)
    })

    const nested = (levels: number): Json => {
      let deep: Json = {}
      for (let i = 0; i < levels; i++) deep = { deep }
      return deep
    }

    it.each([false, true])('tells the model that its arguments are nested too deeply (stream: %s)', async (stream) => {
      const done: string[] = []
      const [first, second] = [{ path: 'a', deep: nested(1_100) }, { path: 'b' }]
      server.behave(calls(['fs__write', first], ['fs__write', second]), { say: 'flatter then' })
      const { output } = await layerOver('openai', [write(done)]).attempt(ask({ tools: ['fs.write'], stream }))
      expect(output).toMatchObject({
        text: 'flatter then',
        tool_calls: [{ status: 'failed' }, { status: 'completed' }],
      })
      expect(results(server.requests[1])[0]).toMatch(/nested too deeply.*make them flatter$/)
      expect(done).toEqual(['write b'])
    })

    it('may ask again where an answer is nested so deeply that nobody can read it', async () => {
      server.behave(calls(['fs__write', { path: 'a', deep: nested(2_500) }]))
      const failed = layerOver('openai', [write([])]).attempt(ask({ tools: ['fs.write'] }))
      await expect(failed).rejects.toMatchObject({ retryable: true, message: /is nested too deeply to be read$/ })
    })

    it('waits for the answer of a person without its time running on', async () => {
      const clock = manualClock()
      const { promise: asked, resolve: wasAsked } = promised<void>()
      const { promise: decision, resolve: decide } = promised<{ verdict: 'approved' }>()
      server.behave(calls(['fs__write', { path: 'a' }]), { say: 'written' })
      const gate = () => {
        wasAsked()
        return decision
      }
      const over = layerOver('openai', [write([], { policy: 'ask' })], { gate, clock })
      const result = over.execute({ ...ask({ tools: ['fs.write'] }), timeout_ms: 1_000 })
      await asked
      await clock.advance(3_600_000) // far longer than the action may take
      decide({ verdict: 'approved' })
      expect((await result).output).toMatchObject({ text: 'written' })
    })

    it('gives each call of a tool a key that the same call has at the next attempt', async () => {
      const keys: string[] = []
      const note = write([], { execute: (_, { idempotency_key }) => void keys.push(idempotency_key) as never })
      const over = layerOver('openai', [note])
      const action = ask({ tools: ['fs.write'] })
      for (const attempt of [1, 2]) {
        server.behave(calls(['fs__write', { path: 'a' }], ['fs__write', { path: 'a' }]), { say: 'ok' })
        await over.attempt(action, { attempt })
      }
      expect(keys.slice(0, 2)).toEqual(keys.slice(2))
      expect(new Set(keys).size).toBe(2)
    })

    it('has other keys for another action, also where the keys of the two only begin alike', async () => {
      const keys: string[] = []
      const over = layerOver('openai', [
        write([], { execute: (_, { idempotency_key }) => void keys.push(idempotency_key) as never }),
      ])
      for (const end of ['1', '2']) {
        server.behave(calls(['fs__write', { path: 'a' }]), { say: 'ok' })
        await over.execute({ ...ask({ tools: ['fs.write'] }), idempotency_key: 'k'.repeat(250) + end })
      }
      keys.push(...server.requests.map(({ headers }) => String(headers['idempotency-key'])))
      expect(new Set(keys).size).toBe(6)
      expect(keys.every((key) => key.length <= 255)).toBe(true)
    })

    it('shows the model a part of a large output, and says so', async () => {
      const big: Tool = { ...look(), execute: () => 'y'.repeat(100_000) }
      server.behave(calls(['weather__look', { city: 'x' }]), { say: 'ok' })
      await layerOver('openai', [big]).execute(ask({ tools: ['weather.look'] }))
      const [shown] = results(server.requests[1])
      expect(shown?.length).toBeLessThan(40_000)
      expect(shown).toContain('100000 characters')
    })

    it.each([
      ['a large output', (text: string) => text, 40_000],
      ['an output that was cut', (text: string) => text, 100],
      [
        'a long failure',
        (text: string) => {
          throw new Error(text)
        },
        40_000,
      ],
    ])('shows the model no half of a character, and no more than it may be shown, of %s', async (_, end, length) => {
      const text = 'x😀'.repeat(length).slice(0, 2 + 3 * (length - 1)) // ends in the midst of one, and so does what is shown
      const tool: Tool = { ...look(), execute: () => end(text) }
      server.behave(calls(['weather__look', { city: 'x' }]), { say: 'ok' })
      await layerOver('openai', [tool]).execute(ask({ tools: ['weather.look'] }))
      const [shown] = results(server.requests[1])
      expect(shown!.isWellFormed()).toBe(true)
      expect(shown!.length).toBeLessThan(33_000)
    })

    it('aborts the tools with the call that led to them', async () => {
      const controller = new AbortController()
      let seen: AbortSignal | undefined
      const hang: Tool = {
        ...look(),
        execute: (_, { signal }) =>
          new Promise((_, reject) => {
            seen = signal
            signal.addEventListener('abort', () => reject(signal.reason))
            controller.abort()
          }),
      }
      server.behave(calls(['weather__look', { city: 'x' }]), { say: 'never' })
      const over = layerOver('openai', [hang])
      await expect(over.execute(ask({ tools: ['weather.look'] }), { signal: controller.signal })).rejects.toMatchObject(
        { code: 'action_aborted' },
      )
      expect(seen?.aborted).toBe(true)
      expect(server.requests).toHaveLength(1)
    })
  })
})

function promised<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
