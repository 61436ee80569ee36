import { systemClock } from '../protocol/clock.ts'
import { Closed, FellBehind, InvalidInput, Refused } from '../protocol/errors.ts'
import { type Fields, timeout } from '../protocol/fields.ts'
import { backoffMs, slept } from '../protocol/waiting.ts'
import { checkMember } from './check-options.ts'
import { isAfter, placeOf } from './delivery.ts'
import { type Feed, type SourceOptions, source } from './source.ts'
import type { Source } from './transport.ts'
import { visit } from './websocket-visit.ts'

export interface ConnectOptions extends SourceOptions {
  /** What the server asks for. */
  readonly token?: string
  /** How long a handshake may take. Default 5,000. */
  readonly timeoutMs?: number
}

/**
 * The client's side of `websocketTransport`. One connection per subscription, which comes back by itself and goes on after the last delivery it
 * brought; from a server without a history it can only go on with what is published then, and says so to `onError`.
 */
export function connectEvents(url: string, options: ConnectOptions = {}): Source {
  checkOptions(url, options)
  const { clock = systemClock, timeoutMs = 5000, token } = options

  const feed: Feed = ({ filter, settled, queue, signal, report, fail }) =>
    new Promise((resolve, reject) => {
      let cursor = settled.after
      let retains = true
      let isReady = false
      let visits = 0

      const connect = () =>
        visit({
          ...{ url, token, timeoutMs, clock, filter, signal },
          after: retains ? cursor : undefined,
          onReady({ after }) {
            retains = after !== null
            cursor ??= after ?? undefined
            isReady = true
            visits = 0
            resolve(() => undefined)
          },
          onDelivery(delivery, bytes) {
            if (retains && cursor !== undefined && !isAfter(delivery, cursor)) return undefined
            cursor = placeOf(delivery)
            return queue.push({ delivery, bytes })
          },
        })
      const stay = async () => {
        while (!signal.aborted) {
          const end = await connect()
          if (signal.aborted) break
          if (!isReady) return reject(end)
          if (end instanceof Refused) return fail(end)
          if (visits === 0) report(end)
          if (visits === 0 && !retains) report(missed(url))
          visits++
          await slept(clock, backoffMs(visits, clock), signal)
          await queue.room() // until there is room, it would only be cut off again
        }
        reject(new Closed('the WebSocket client')) // it has a meaning only before it was ready
      }
      void stay()
    })

  const traits = { retains: true, durable: false, processes: 'many', groups: false } as const
  return source('the WebSocket client', traits, feed, options)
}

const missed = (url: string) =>
  new FellBehind(`the client of ${url}`, 'the server keeps nothing, so that what is published while it is away is lost')

/** What the client library would throw at each attempt is told here, once. */
function checkOptions(url: string, options: ConnectOptions): void {
  checkMember('the client of events', options, OWN)
  if (!URL.canParse(url) || !/^wss?:$/.test(new URL(url).protocol) || new URL(url).hash !== '')
    throw new InvalidInput('the client of events', [
      { path: 'url', rule: 'url', message: 'is not like ws://host:port/path' },
    ])
}

const OWN: Fields = {
  token: {
    says: 'text that a header can hold; look for a line end',
    rule: 'token',
    fits: (value) => typeof value === 'string' && /^[ -~\x80-\xff]+$/.test(value),
    secret: true,
  },
  timeoutMs: timeout,
}
