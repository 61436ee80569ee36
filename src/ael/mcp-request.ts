import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isObject } from '../protocol/json.ts'
import { endedBy } from './ended-by.ts'
import { finalFailure } from './failure.ts'
import { refusal } from './http-refusal.ts'
import { networkFailure, REDIRECTS, refuseToSwitch } from './http-send.ts'
import { Oversized } from './mcp-events.ts'

export interface McpRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/** Requests to the URL of one server, and to nobody else. */
export interface McpRequests {
  /** The answer, whatever its status, with the body still to be read. Throws ActionError when there is none. */
  send(method: string, request: McpRequest): Promise<IncomingMessage>
  /** Throws Oversized for a body larger than it may be, and ActionError for one that is cut off. */
  textOf(response: IncomingMessage, limit: number, signal: AbortSignal): Promise<string>
  close(): void
}

/** Many servers end an idle connection after 5 s; one that is used just then would lose a call. */
const IDLE_MS = 3_000
const MOST_REDIRECTS = 5

/** Not by `fetch`, which gives up on a call after five minutes of silence, and keeps its connections after the end. */
export function mcpRequests(url: URL): McpRequests {
  const [request, agent] =
    url.protocol === 'https:'
      ? [httpsRequest, new HttpsAgent({ keepAlive: true, timeout: IDLE_MS })]
      : [httpRequest, new HttpAgent({ keepAlive: true, timeout: IDLE_MS })]

  const exchanged = (at: URL, method: string, { headers, body, signal }: McpRequest) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
      const ours = { 'accept-encoding': 'identity', ...length } // who says nothing accepts everything
      const sent = request(at, { method, agent, headers: { ...headers, ...ours } }, resolve)
      sent.on('error', (error) => reject(networkFailure(error, at, signal)))
      refuseToSwitch(sent, at, reject)
      endedBy(signal, sent)
      sent.end(body)
    })

  return {
    async send(method, asked) {
      let at = url
      for (let hop = 0; ; hop++) {
        const response = await exchanged(at, method, asked)
        const next = redirection(response, at, method)
        if (next === undefined) return response
        response.destroy() // what it says beside may have no end
        if (hop === MOST_REDIRECTS) throw finalFailure(`${url.host} redirected more than ${MOST_REDIRECTS} times`)
        at = next
      }
    },
    async textOf(response, limit, signal) {
      const chunks: Buffer[] = []
      let bytes = 0
      try {
        // Leaving the loop early ends the connection: what is too large is not read on.
        for await (const chunk of response as AsyncIterable<Buffer>) {
          bytes += chunk.length
          if (bytes > limit) throw new Oversized('a message is larger than it may be')
          chunks.push(chunk)
        }
      } catch (error) {
        throw error instanceof Oversized ? error : networkFailure(error, url, signal)
      }
      return new TextDecoder().decode(Buffer.concat(chunks))
    },
    close: () => agent.destroy(),
  }
}

/** Our headers go to the origin that the config names and to no other; a call that is not made again as it was is not made at all. */
function redirection(response: IncomingMessage, from: URL, method: string): URL | undefined {
  const { statusCode = 0, headers } = response
  const { location } = headers
  if (!REDIRECTS.includes(statusCode) || location === undefined) return undefined
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined
  const isKept = method === 'GET' || statusCode === 307 || statusCode === 308
  if (to?.origin === from.origin && to.username === '' && to.password === '' && isKept) return to
  response.destroy()
  const where = to === undefined ? 'something that is no URL' : to.origin
  throw finalFailure(
    `${from.host} answered ${statusCode} and redirects to ${where}, which is not followed; give the URL where the server is`,
  )
}

export const isOk = ({ statusCode = 0 }: IncomingMessage): boolean => statusCode >= 200 && statusCode < 300

/** The beginning of what a refusal says. */
export async function wordsOf(response: IncomingMessage): Promise<string> {
  let text = ''
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      text += chunk.toString()
      if (text.length > MOST_WORDS) break
    }
  } catch {
    // The status says enough.
  }
  return text
}
const MOST_WORDS = 16_384

/** What a status other than 2xx means to whoever asked. */
export const refusalOf = (
  host: string,
  { statusCode: status = 0, headers }: IncomingMessage,
  said: string,
  now: number,
) => refusal({ host, status, headers, words: messageIn(said), remedy: REMEDIES[status] }, now)

const NO_ENDPOINT = '; give the URL of its endpoint for Streamable HTTP, often one that ends in /mcp'
const REMEDIES: Readonly<Record<number, string>> = {
  401: '; give what it asks for in headers of this server, such as authorization',
  403: '; it knows who asks and does not allow it: see what its headers in the config give',
  404: NO_ENDPOINT,
  405: NO_ENDPOINT,
}

function messageIn(words: string): string {
  try {
    const { error } = Object(JSON.parse(words))
    return isObject(error) && typeof error.message === 'string' ? error.message : words
  } catch {
    return words // no JSON, then as it stands
  }
}
