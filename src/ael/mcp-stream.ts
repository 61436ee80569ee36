import type { IncomingMessage } from 'node:http'
import type { RequestId } from '@modelcontextprotocol/sdk/types.js'
import { type Clock, timer } from '../protocol/clock.ts'
import type { ActionError } from '../protocol/errors.ts'
import { slept } from '../protocol/waiting.ts'
import { passingFailure } from './failure.ts'
import { LATER } from './http-refusal.ts'
import { eventsIn, Oversized } from './mcp-events.ts'
import { isOk, refusalOf, wordsOf } from './mcp-request.ts'

/** From where a stream is read on, and how long to wait before. */
export interface Place {
  id?: string
  pauseMs: number
}

export interface McpStreamOptions {
  readonly host: string
  readonly maxMessageBytes: number
  readonly clock: Clock
  /** Asks for a stream: what the server says of its own, or the rest of one that ended at the place. */
  readonly ask: (place: Place, signal: AbortSignal) => Promise<IncomingMessage>
  /** Hands a message on; resolves with what it says. */
  readonly deliver: (text: string) => Promise<unknown>
}

export interface McpStreams {
  /** Reads the stream of a call until it is answered. One that ends before is taken up again where the server has said from where. */
  follow(first: IncomingMessage, id: RequestId, signal: AbortSignal): Promise<void>
  /** Reads what the server says without being asked, for as long as it offers a stream for it. */
  listen(signal: AbortSignal): Promise<void>
}

/** Between two connections to the same stream, unless the server says otherwise. */
const PAUSE_MS = 1_000
const [SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS] = [50, 30_000]
/** How often in a row the rest of a stream is asked for. */
const MOST_ATTEMPTS = 3
/** How long a stream may stay open behind the answer. */
const LINGER_MS = 500

export function mcpStreams({ host, maxMessageBytes, clock, ask, deliver }: McpStreamOptions): McpStreams {
  /** Reads a stream to its end, and says whether the answer was there. What it means that it was cut off is for its caller to say. */
  const readTo = async (id: RequestId | undefined, response: IncomingMessage, place: Place): Promise<boolean> => {
    let isAnswered = false
    let stay: (() => void) | undefined
    try {
      for await (const event of eventsIn(response, maxMessageBytes)) {
        if (event.id !== undefined) place.id = event.id
        if (event.retryMs !== undefined)
          place.pauseMs = Math.min(Math.max(event.retryMs, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS)
        const said = event.data === '' ? undefined : await deliver(event.data)
        if (isAnswered || id === undefined || !isAnswer(said, id)) continue
        isAnswered = true
        stay = timer(clock, LINGER_MS, () => response.destroy()) // mostly it ends now, and the connection is used again
      }
    } catch (error) {
      if (error instanceof Oversized && !isAnswered) throw error
    } finally {
      stay?.()
    }
    return isAnswered
  }

  const takenUp = async (place: Place, signal: AbortSignal): Promise<IncomingMessage> => {
    for (let attempt = 1; ; attempt++) {
      await slept(clock, place.pauseMs, signal)
      try {
        const response = await ask(place, signal)
        if (isOk(response) && isStream(response)) return response
        throw refusalOf(host, response, await wordsOf(response), clock.now())
      } catch (error) {
        if (signal.aborted || attempt === MOST_ATTEMPTS || !(error as ActionError).retryable) throw lost(error)
      }
    }
  }
  const lost = (cause?: unknown) =>
    passingFailure(`the connection to ${host} was lost before the answer came`, { cause })

  return {
    async follow(first, id, signal) {
      const place: Place = { pauseMs: PAUSE_MS }
      for (let response = first; !(await readTo(id, response, place)); response = await takenUp(place, signal))
        if (place.id === undefined) throw lost()
    },
    async listen(signal) {
      let place: Place = { pauseMs: PAUSE_MS }
      for (let failures = 0, isFirst = true; !signal.aborted; ) {
        try {
          const response = await ask(place, signal)
          if (isOk(response) && isStream(response)) {
            if (!isFirst && place.id === undefined) await deliver(LIST_CHANGED) // what was said meanwhile nobody has heard
            isFirst = false
            failures = 0
            await readTo(undefined, response, place)
          } else {
            response.destroy()
            if (!LATER.includes(response.statusCode ?? 0)) return
            failures++
          }
        } catch (error) {
          if (error instanceof Oversized) place = { pauseMs: place.pauseMs } // or the same would come again
          failures++
        }
        await slept(clock, Math.min(place.pauseMs * 2 ** failures, LONGEST_PAUSE_MS), signal)
      }
    },
  }
}

const LIST_CHANGED = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' })

export const isStream = ({ headers }: IncomingMessage): boolean =>
  /^\s*text\/event-stream\b/i.test(headers['content-type'] ?? '')

/** Is the answer to a request in what was said? By its id also where that comes back as text: the library takes it so, too. */
export const isAnswer = (said: unknown, id: RequestId): boolean =>
  Array.isArray(said)
    ? said.some((one) => isAnswer(one, id))
    : String(Object(said).id) === String(id) && Object(said).method === undefined
