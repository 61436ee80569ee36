import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { ActionError, TooLarge } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import { endedBy } from './ended-by.ts'
import { aborted, finalFailure, finalFrom, passingFailure } from './failure.ts'
import type { Guard } from './http-guard.ts'

export interface Request {
  readonly url: URL
  readonly method: string
  readonly body: Json | undefined
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Statuses that are wanted as they are, also where they redirect. */
  readonly accepts: readonly Json[]
}

export interface Answer {
  readonly url: URL
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface SenderOptions {
  readonly guard: Guard
  readonly credentials: (url: URL) => Readonly<Record<string, string>> | undefined
  readonly maxResponseBytes: number
  readonly maxRedirects: number
}

/** Sends requests and follows where they are redirected to; every address on the way is checked, and is the one connected to. */
export interface Sender {
  /** Whatever the status; throws ActionError when there is no answer. */
  send(request: Request): Promise<Answer>
  close(): void
}

export function httpSender(options: SenderOptions): Sender {
  const agents = { 'http:': new HttpAgent({ keepAlive: true }), 'https:': new HttpsAgent({ keepAlive: true }) }
  return {
    async send(first) {
      let request = first
      for (let hop = 0; hop <= options.maxRedirects; hop++) {
        options.guard.checkLiteral(request.url)
        const answer = await exchanged(request, options, agents)
        const next = first.accepts.includes(answer.status) ? undefined : redirection(answer)
        if (next === undefined) return answer
        request = redirected(request, answer.status, next)
      }
      throw finalFailure(`${request.url.host} redirected more than ${options.maxRedirects} times`)
    },
    close() {
      for (const agent of Object.values(agents)) agent.destroy()
    },
  }
}

export const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308]

function redirection({ status, headers, url }: Answer): URL | undefined {
  const { location } = headers
  if (!REDIRECTS.includes(status) || location === undefined) return undefined
  if (!URL.canParse(location, url.href)) throw finalFailure(`${url.host} redirected to something that is no URL`)
  const next = new URL(location, url)
  if (!/^https?:$/.test(next.protocol))
    throw finalFailure(`${url.host} redirected to ${next.protocol}, not to http or https`)
  return next
}

/** As browsers do: what was posted is not posted again, except where the status says so. Another origin is told only what it must know. */
function redirected(request: Request, status: number, url: URL): Request {
  const asGet = request.method !== 'HEAD' && (status === 303 || (status < 303 && request.method === 'POST'))
  const elsewhere = url.origin !== request.url.origin
  const kept = Object.entries(request.headers).filter(
    ([name]) => (!elsewhere || CARRIED.has(name)) && !(asGet && ABOUT_THE_BODY.has(name)),
  )
  const headers = Object.fromEntries(kept)
  return asGet ? { ...request, url, headers, method: 'GET', body: undefined } : { ...request, url, headers }
}

const CARRIED = new Set([
  'accept',
  'accept-language',
  'content-type',
  'idempotency-key',
  'user-agent',
  'x-trace-id',
  'x-span-id',
])
const ABOUT_THE_BODY = new Set(['content-type', 'idempotency-key'])

/** Methods that change nothing: what is asked with them may be asked twice. */
export const SAFE: readonly string[] = ['GET', 'HEAD', 'OPTIONS']

interface Agents {
  readonly 'http:': HttpAgent
  readonly 'https:': HttpsAgent
}

function exchanged(request: Request, options: SenderOptions, agents: Agents): Promise<Answer> {
  const { url, method, body, signal } = request
  const protocol = url.protocol as keyof Agents
  const payload = body === undefined ? undefined : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const wire: RequestOptions = {
    method,
    agent: agents[protocol],
    lookup: options.guard.lookupFor(url),
    headers: {
      accept: 'application/json, text/*;q=0.9, */*;q=0.5',
      'accept-encoding': 'identity', // who says nothing accepts everything
      ...(payload && { 'content-type': typeof body === 'string' ? 'text/plain; charset=utf-8' : 'application/json' }),
      ...request.headers,
      ...options.credentials(url),
      ...(payload && { 'content-length': payload.length }),
    },
  }
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => reject(networkFailure(error, url, signal))
    const sent = (protocol === 'https:' ? httpsRequest : httpRequest)(url, wire, (response) => {
      whole(response, options.maxResponseBytes, url).then(resolve, fail)
    })
    // The other side may end a connection that was kept just as it is used again, or something left over from the answer before may
    // come through it: no answer, and no fault of this request.
    const wasStale = ({ code = '' }: NodeJS.ErrnoException) =>
      sent.reusedSocket && /^(?:ECONNRESET|HPE_\w+)$/.test(code) && SAFE.includes(method) && !signal.aborted
    sent.on('error', (error) => (wasStale(error) ? resolve(exchanged(request, options, agents)) : fail(error)))
    refuseToSwitch(sent, url, fail)
    endedBy(signal, sent)
    sent.end(payload)
  })
}

/** Of a switch to another protocol Node makes neither an answer nor an error: who does not look for it waits out the time. */
export function refuseToSwitch(sent: ClientRequest, { host }: URL, refuse: (error: ActionError) => void): void {
  sent.once('upgrade', ({ statusCode }, socket) => {
    socket.destroy()
    refuse(finalFailure(`${host} answered ${statusCode}: it wants to speak something else than it was asked in`))
  })
}

async function whole(response: IncomingMessage, limit: number, url: URL): Promise<Answer> {
  const chunks: Buffer[] = []
  let bytes = 0
  // Leaving the loop early ends the connection: an endless answer does not go on behind our back.
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > limit)
      throw finalFrom(
        new TooLarge(`the answer of ${url.host}`, bytes, limit, 'ask for less, or raise maxResponseBytes'),
      )
    chunks.push(chunk)
  }
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(response.headers))
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value
  return { url, status: response.statusCode ?? 0, headers, body: Buffer.concat(chunks) }
}

/** A name that is not known, a certificate that is not good: these do not pass by waiting. */
const PASSING =
  /^(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|EPIPE|ETIMEDOUT|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EMFILE|HPE_\w+)$/

/** Why there is no answer, as what it means to whoever asked. */
export function networkFailure(error: unknown, url: URL, signal: AbortSignal): ActionError {
  if (signal.aborted) return aborted(`the request to ${url.host}`, signal)
  if (error instanceof ActionError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const text = `the request to ${url.host} failed: ${message || code || 'the connection was cut'}`
  return PASSING.test(String(code)) ? passingFailure(text, { cause: error }) : finalFailure(text, { cause: error })
}
