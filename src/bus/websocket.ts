import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { systemClock } from '../protocol/clock.ts'
import { Closed, InvalidInput, type Problem, Refused } from '../protocol/errors.ts'
import { count, type Fields, having, list, method, text, wholeFrom } from '../protocol/fields.ts'
import { reporter } from '../protocol/reporter.ts'
import { atMost, slept } from '../protocol/waiting.ts'
import { checkMember, history as historyField } from './check-options.ts'
import { checkBatch } from './delivery.ts'
import { fanOut, type History } from './fan-out.ts'
import { authority, isLoopback, listen, refuseUpgrade } from './listening.ts'
import { sleepers } from './sleepers.ts'
import { type SourceOptions, source } from './source.ts'
import type { Transport } from './transport.ts'
import { chosenProtocol, isFor, refusal } from './websocket-door.ts'
import { type Guest, guest } from './websocket-guest.ts'

export interface WebSocketTransportOptions extends SourceOptions {
  /** Loopback unless told otherwise; anything else needs a token. */
  readonly host?: string
  /** Default: a free one. */
  readonly port?: number
  /** Instead of host and port: an HTTP server of yours, which stays yours. Requests for other paths are left alone. */
  readonly server?: Server
  /** Default /events. */
  readonly path?: string
  /** What a client must show, as `Authorization: Bearer …` or, from a browser, as a protocol (see websocket-frames.ts). */
  readonly token?: string
  /** Web pages that may connect, as `https://host:port`. Default: none. Programs that are not browsers send no origin. */
  readonly origins?: readonly string[]
  /** With a server of yours, instead of token and origins: why a request is not let in, as an HTTP status. */
  readonly refuse?: (request: IncomingMessage) => number | undefined
  /** Where to look for deliveries of before the subscription; without it, `after` is refused. */
  readonly history?: History
  /** What may wait for one client before it is cut off: 1,000 deliveries, 16 MiB. */
  readonly limit?: number
  readonly limitBytes?: number
  /** A client that gives no sign of life for twice this long is dropped. Default 15,000. */
  readonly heartbeatMs?: number
}

export interface WebSocketTransport extends Transport {
  /** Where clients connect to; empty with a server of yours. */
  readonly url: string
  /** How many clients are connected. */
  readonly clients: number
}

const MAX_FRAME_BYTES = 64 * 1024

/** The server's side: publishes to whoever is connected, and to subscribers of this process. Clients use `connectEvents`. */
export async function websocketTransport(options: WebSocketTransportOptions = {}): Promise<WebSocketTransport> {
  checkOptions(options)
  const { clock = systemClock, host = '127.0.0.1', path = '/events', history, heartbeatMs = 15_000 } = options
  const { limit = 1000, limitBytes = 16 * 1024 * 1024, graceMs = 5000 } = options
  const door = { path, token: options.token, origins: options.origins ?? [] }
  const judge = options.refuse ?? ((request: IncomingMessage) => refusal(request, door))
  const report = reporter(options.onError)
  const { WebSocketServer } = await import('ws')
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    autoPong: false, // each guest answers its own
    handleProtocols: chosenProtocol,
  })
  const retains = history !== undefined
  const carrier = fanOut({ history, clock })
  const guests = new Set<Guest>()
  const emptied = sleepers()
  const over = new AbortController()
  let closing: Promise<void> | undefined

  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (!isFor(request, path)) return options.server ? undefined : refuseUpgrade(socket, 404)
    const status = closing ? 503 : judge(request)
    if (status) return refuseUpgrade(socket, status)
    sockets.handleUpgrade(request, socket, head, (client) => {
      const visitor = guest(client, { carrier, retains, limit, limitBytes, heartbeatMs, clock, report })
      guests.add(visitor)
      client.on('close', () => {
        guests.delete(visitor)
        if (guests.size === 0) emptied.wake()
      })
    })
  }
  const server = options.server ?? createServer((_, response) => response.writeHead(426).end())
  server.on('upgrade', upgrade)
  if (!options.server) await listen(server, host, options.port ?? 0)
  const beat = async () => {
    while (await slept(clock, heartbeatMs, over.signal)) for (const visitor of guests) visitor.beat()
  }
  void beat()

  const traits = {
    retains,
    durable: false,
    processes: 'many',
    within: true,
    groups: { inOrder: true, remembered: false },
  } as const
  const listening = source('the WebSocket bus', traits, carrier.feed, options)

  return {
    ...listening,
    url: options.server ? '' : `ws://${authority(host, server)}${path}`,
    get clients() {
      return guests.size
    },
    async publish(batch) {
      if (closing) throw new Closed('the WebSocket bus')
      checkBatch(batch)
      await carrier.publish(batch)
    },
    close() {
      closing ??= (async () => {
        over.abort()
        const leaving = Promise.all([...guests].map((visitor) => visitor.leave()))
        await Promise.all([listening.close(), atMost(graceMs, leaving, clock)])
        server.off('upgrade', upgrade)
        // A client that answers the good-bye is gone by itself; the others are not waited for.
        if (guests.size > 0) await atMost(graceMs, emptied.sleep(), clock)
        for (const visitor of guests) visitor.end()
        if (options.server) return
        const closed = new Promise((resolve) => server.close(resolve))
        server.closeAllConnections() // what is left has not asked for anything whole
        await closed
      })()
      return closing
    },
  }
}

function checkOptions(options: WebSocketTransportOptions): void {
  checkMember('the WebSocket bus', options, OWN)
  const { host, port, server, token, origins, refuse } = options
  const problems: Problem[] = []
  const wrong = (at: string, rule: string, message: string) => problems.push({ path: at, rule, message })
  if (server && (host !== undefined || port !== undefined))
    wrong('server', 'one_of', 'is given beside a host or port, which are its own affair')
  if (refuse && (!server || token !== undefined || origins !== undefined))
    wrong('refuse', 'one_of', 'is for a server of yours, and stands instead of token and origins')
  for (const [i, origin] of (origins ?? []).entries()) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin)
      wrong(`origins[${i}]`, 'origin', 'is not like https://host:port')
  }
  if (problems.length > 0) throw new InvalidInput('the WebSocket bus', problems)
  if (host !== undefined && !isLoopback(host) && token === undefined)
    throw new Refused(
      `${host} can be reached from outside`,
      'listen on 127.0.0.1, give websocketTransport a token from code, or let mplp serve tell events to whoever has one of its own',
    )
}

const OWN: Fields = {
  host: text,
  port: wholeFrom(0, 65_535),
  server: having('an HTTP server', 'on', 'off'),
  path: {
    says: 'a path that begins with /',
    rule: 'path',
    fits: (value) => typeof value === 'string' && /^\/[^\s?#]*$/.test(value),
  },
  token: {
    says: 'text of at least 16 characters',
    rule: 'length',
    fits: (value) => typeof value === 'string' && value.length >= 16,
    secret: true,
  },
  origins: list,
  refuse: method,
  history: historyField,
  limit: count,
  limitBytes: count,
  heartbeatMs: count,
}
