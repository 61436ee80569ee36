import type { WebSocket } from 'ws'
import type { Clock } from '../protocol/clock.ts'
import { FellBehind, type MplpError, Refused, Unavailable } from '../protocol/errors.ts'
import { slept } from '../protocol/waiting.ts'
import type { After, Delivery, Filter } from './transport.ts'
import { CLOSE, PROTOCOL, type Ready, readServerFrame } from './websocket-frames.ts'

export interface Visit {
  readonly url: string
  readonly token: string | undefined
  readonly timeoutMs: number
  readonly clock: Clock
  readonly filter: Filter
  readonly after: After | undefined
  readonly signal: AbortSignal
  readonly onReady: (ready: Ready) => void
  /** A promise means: read no more until it resolves. */
  readonly onDelivery: (delivery: Delivery, bytes: number) => Promise<void> | undefined
}

/** One connection from its handshake to its end. Resolves with what ended it: Refused when another attempt would end the same way. */
export async function visit(options: Visit): Promise<MplpError> {
  const { url, token, timeoutMs, clock, filter, after, signal, onReady, onDelivery } = options
  const { WebSocket: Client } = await import('ws')
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` }
  const socket = new Client(url, PROTOCOL, { headers, handshakeTimeout: timeoutMs, perMessageDeflate: false })
  const over = new AbortController()
  const abort = () => socket.terminate()
  signal.addEventListener('abort', abort, { once: true })

  const take = (data: Buffer) => {
    const frame = readServerFrame(String(data))
    if ('ready' in frame) {
      void watch(socket, frame.ready.heartbeat_ms, clock, over.signal)
      return onReady(frame.ready)
    }
    const held = onDelivery(frame.delivery, data.length)
    if (!held) return
    socket.pause()
    void held.then(() => socket.resume())
  }

  const end = await new Promise<MplpError>((resolve) => {
    let cause: unknown
    socket.on('open', () => socket.send(JSON.stringify({ filter, ...(after !== undefined && { after }) })))
    socket.on('message', (data) => {
      try {
        take(data as Buffer)
      } catch (error) {
        cause = error
        socket.terminate()
      }
    })
    socket.on('error', (error) => {
      cause ??= error
    })
    socket.on('unexpected-response', (_, { statusCode = 0 }) => {
      resolve(answered(url, statusCode))
      socket.terminate()
    })
    socket.on('close', (code, reason) => resolve(closed(url, code, String(reason), cause)))
    if (signal.aborted) abort()
  })
  over.abort()
  signal.removeEventListener('abort', abort)
  return end
}

/** A server that is silent for longer than it promised is gone, however open the connection looks. */
async function watch(socket: WebSocket, heartbeatMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  let isAlive = true
  const alive = () => {
    isAlive = true
  }
  socket.on('ping', alive).on('message', alive)
  while (await slept(clock, heartbeatMs * 2, signal)) {
    if (!isAlive && !socket.isPaused) socket.terminate()
    isAlive = false
  }
}

function answered(url: string, status: number): MplpError {
  if (status === 401)
    return new Refused(`${url} does not accept the token`, 'give the token that the server was started with')
  if (status === 403) return new Refused(`${url} does not let this origin in`, "add it to the server's origins")
  if (status === 404) return new Refused(`${url} has no events`, 'check the path')
  return new Unavailable(url, `it answered ${status}`)
}

function closed(url: string, code: number, reason: string, cause: unknown): MplpError {
  if (code === CLOSE.badFrame || code === CLOSE.tooLarge)
    return new Refused(`${url} does not take the subscription`, reason || 'use a client of the same version')
  if (code === CLOSE.keepsNothing)
    return new Refused(`${url} keeps nothing to go back to`, 'subscribe from now on, or give the server a history')
  if (code === CLOSE.tooSlow) return new FellBehind(`the client of ${url}`, reason)
  return new Unavailable(url, `the connection has ended (${code})${reason && `: ${reason}`}`, { cause })
}
