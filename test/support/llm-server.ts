import type { IncomingMessage, ServerResponse } from 'node:http'
import { endless, type HttpServer, httpServer } from './http-server.ts'

/** How the server treats one request. */
export type Behaviour =
  | { readonly say: string }
  | { readonly call: readonly { readonly name: string; readonly args: unknown }[]; readonly say?: string }
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }
  /** Takes the request and never answers; `after` bytes of an answer when given. */
  | { readonly hang: true; readonly after?: number; readonly say?: string }
  /** Cuts the connection after so many bytes of the answer. */
  | { readonly cut: number; readonly say: string }
  /** Ends the answer in good order, but too early. */
  | { readonly short: number; readonly say: string }
  /** Begins to stream, and then says what went wrong; with `stays` it does not end the answer behind that. */
  | {
      readonly wrong: { readonly message: string; readonly code?: number }
      readonly say: string
      readonly stays?: true
    }
  /** A good status, and something else than the wire. */
  | { readonly garbage: string }
  /** Text without end. */
  | { readonly endless: true }

export interface LlmRequest {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Record<string, unknown>
}

/** A model on this machine that speaks the wires of OpenAI, Anthropic and Google, streamed or not, and can misbehave. */
export interface LlmServer extends Omit<HttpServer, 'requests'> {
  readonly requests: readonly LlmRequest[]
  /** For the requests to come, in order; the last one stays. A function decides by the request. */
  behave(...behaviours: readonly (Behaviour | ((request: LlmRequest) => Behaviour))[]): void
}

export async function llmServer(): Promise<LlmServer> {
  const requests: LlmRequest[] = []
  let behaviours: (Behaviour | ((request: LlmRequest) => Behaviour))[] = [{ say: 'hello' }]
  const server = await httpServer(({ url, headers, body }, response) => {
    const request: LlmRequest = { path: url.pathname, headers, body: JSON.parse(body || '{}') }
    requests.push(request)
    const next = behaviours.length > 1 ? behaviours.shift() : behaviours[0]
    answer(request, typeof next === 'function' ? next(request) : (next as Behaviour), response)
  })
  return {
    ...server,
    requests,
    behave: (...next) => {
      behaviours = [...next]
    },
  }
}

function answer(request: LlmRequest, behaviour: Behaviour, response: ServerResponse): void {
  if ('status' in behaviour) {
    response.writeHead(behaviour.status, { 'content-type': 'application/json', ...behaviour.headers })
    response.end(
      behaviour.body ?? JSON.stringify({ error: { message: `status ${behaviour.status}`, type: 'made_up' } }),
    )
    return
  }
  const wire = wireOf(request)
  const streaming = request.body.stream === true || request.path.includes('streamGenerateContent')
  response.setHeader('content-type', streaming ? 'text/event-stream' : 'application/json')
  if ('garbage' in behaviour) {
    response.end(behaviour.garbage)
    return
  }
  if ('endless' in behaviour) {
    endless(response)
    return
  }
  const say = behaviour.say ?? ''
  const calls = 'call' in behaviour ? behaviour.call : []
  const whole = streaming ? wire.streamed(say, calls) : JSON.stringify(wire.whole(say, calls))
  if ('hang' in behaviour) {
    response.flushHeaders()
    if (behaviour.after !== undefined) response.write(whole.slice(0, behaviour.after))
  } else if ('cut' in behaviour) response.write(whole.slice(0, behaviour.cut), () => response.socket?.destroy())
  else if ('short' in behaviour) response.end(whole.slice(0, behaviour.short))
  else if ('wrong' in behaviour) {
    const begun = whole.split('\n\n').slice(0, 2).join('\n\n')
    response.write(
      `${begun}\n\n${data({ type: 'error', error: { type: 'made_up', status: 'MADE_UP', ...behaviour.wrong } })}`,
    )
    if (!behaviour.stays) response.end()
  } else response.end(whole)
}

type Calls = readonly { readonly name: string; readonly args: unknown }[]
interface Wire {
  whole(say: string, calls: Calls): unknown
  streamed(say: string, calls: Calls): string
}

const wireOf = ({ path }: LlmRequest): Wire => {
  if (path.endsWith('/chat/completions')) return OPENAI
  if (path.endsWith('/messages')) return ANTHROPIC
  if (path.includes(':generateContent') || path.includes(':streamGenerateContent')) return GOOGLE
  throw new Error(`no wire for ${path}`)
}

const words = (say: string): string[] => say.match(/\S+\s*/g) ?? []
const data = (...chunks: readonly unknown[]): string =>
  chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')

const OPENAI: Wire = {
  whole: (say, calls) => ({
    id: 'chat-1',
    object: 'chat.completion',
    created: 1,
    model: 'test-model',
    choices: [
      {
        index: 0,
        finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
        message: {
          role: 'assistant',
          content: say === '' ? null : say,
          ...(calls.length > 0 && {
            tool_calls: calls.map(({ name, args }, i) => ({
              id: `call_${i}`,
              type: 'function',
              function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
            })),
          }),
        },
      },
    ],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
  }),
  streamed(say, calls) {
    const chunk = (delta: unknown, finish_reason: string | null = null) => ({
      id: 'chat-1',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'test-model',
      choices: [{ index: 0, delta, finish_reason }],
    })
    return `${data(
      chunk({ role: 'assistant', content: '' }),
      ...words(say).map((word) => chunk({ content: word })),
      ...calls.map(({ name, args }, index) =>
        chunk({
          tool_calls: [
            { index, id: `call_${index}`, type: 'function', function: { name, arguments: JSON.stringify(args) } },
          ],
        }),
      ),
      chunk({}, calls.length > 0 ? 'tool_calls' : 'stop'),
      { ...chunk({}), choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } },
    )}data: [DONE]\n\n`
  },
}

const ANTHROPIC: Wire = {
  whole: (say, calls) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'test-model',
    content: [
      ...(say === '' ? [] : [{ type: 'text', text: say }]),
      ...calls.map(({ name, args }, i) => ({ type: 'tool_use', id: `toolu_${i}`, name, input: args })),
    ],
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 11, output_tokens: 7 },
  }),
  streamed(say, calls) {
    const event = (type: string, rest: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`
    const blocks = [...(say === '' ? [] : [{ text: say }]), ...calls]
    return [
      event('message_start', {
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'test-model',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 11, output_tokens: 0 },
        },
      }),
      ...blocks.map((block, index) =>
        'text' in block
          ? event('content_block_start', { index, content_block: { type: 'text', text: '' } }) +
            words(block.text)
              .map((text) => event('content_block_delta', { index, delta: { type: 'text_delta', text } }))
              .join('') +
            event('content_block_stop', { index })
          : event('content_block_start', {
              index,
              content_block: { type: 'tool_use', id: `toolu_${index}`, name: block.name, input: {} },
            }) +
            event('content_block_delta', {
              index,
              delta: { type: 'input_json_delta', partial_json: JSON.stringify(block.args) },
            }) +
            event('content_block_stop', { index }),
      ),
      event('message_delta', {
        delta: { stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn', stop_sequence: null },
        usage: { output_tokens: 7 },
      }),
      event('message_stop', {}),
    ].join('')
  },
}

const GOOGLE: Wire = {
  whole: (say, calls) => ({
    candidates: [
      {
        content: {
          role: 'model',
          parts: [
            ...(say === '' ? [] : [{ text: say }]),
            ...calls.map(({ name, args }) => ({ functionCall: { name, args } })),
          ],
        },
        finishReason: 'STOP',
      },
    ],
    usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 },
  }),
  streamed(say, calls) {
    const chunk = (parts: readonly unknown[], last = false) => ({
      candidates: [{ content: { role: 'model', parts }, ...(last && { finishReason: 'STOP' }) }],
      ...(last && { usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 } }),
    })
    return data(
      ...words(say).map((text) => chunk([{ text }])),
      ...calls.map(({ name, args }) => chunk([{ functionCall: { name, args } }])),
      chunk([], true),
    )
  },
}
