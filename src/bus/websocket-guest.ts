import type { WebSocket } from 'ws'
import type { Clock } from '../protocol/clock.ts'
import { Closed, InvalidInput, MplpError } from '../protocol/errors.ts'
import type { Report } from '../protocol/reporter.ts'
import { slept } from '../protocol/waiting.ts'
import type { FanOut } from './fan-out.ts'
import { matcher } from './filter.ts'
import { type SubscriberQueue, subscriberQueue } from './queue.ts'
import type { Delivery } from './transport.ts'
import { CLOSE, readSubscribe, type Subscribe } from './websocket-frames.ts'

/** One connected client, as the server sees it. */
export interface Guest {
  /** Asks one that has said what it wants for a sign of life; ends it if it gave none since the last time. */
  beat(): void
  /** Sends what waits, then says good-bye. */
  leave(): Promise<void>
  end(): void
}

export interface GuestOptions {
  readonly carrier: FanOut
  readonly retains: boolean
  readonly limit: number
  readonly limitBytes: number
  /** How long it may take to say what it wants. */
  readonly heartbeatMs: number
  readonly clock: Clock
  readonly report: Report
}

/** Above this many bytes in the socket's own buffer, what comes next waits in ours, where it is counted. */
const SOCKET_BYTES = 256 * 1024

export function guest(socket: WebSocket, options: GuestOptions): Guest {
  const { carrier, retains, limit, limitBytes, heartbeatMs, clock, report } = options
  const over = new AbortController()
  let queue: SubscriberQueue | undefined
  let isAlive = true

  const close = (code: number, reason: string) => {
    over.abort()
    void queue?.end()
    socket.close(code, shortened(reason))
  }
  const subscribe = async ({ filter, after }: Subscribe) => {
    if (after !== undefined && !retains) return close(CLOSE.keepsNothing, 'nothing is kept here to go back to')
    queue = subscriberQueue({
      limit,
      limitBytes,
      overflow: 'disconnect',
      handle: ({ delivery }) => send(frameOf(delivery)),
      onOverflow: () =>
        close(CLOSE.tooSlow, `more than ${limit} deliveries or ${limitBytes} bytes waited; come back and resume`),
    })
    const from = after ?? (await carrier.now())
    if (over.signal.aborted) return
    const settled = { group: undefined, after: from, limit, limitBytes, overflow: 'disconnect', attempts: 1 } as const
    const ignored = { onError: undefined, signal: undefined }
    const feeding = carrier.feed({
      filter,
      match: matcher(filter),
      settled: { ...settled, ...ignored },
      queue,
      signal: over.signal,
      report,
      fail: (error) => close(CLOSE.badFrame, error instanceof MplpError ? error.message : 'it cannot go on'),
    })
    // In the same turn as the feed's beginning: nothing can be sent before it, and nothing is missed after it.
    await send(JSON.stringify({ ready: { after: from ?? null, heartbeat_ms: heartbeatMs } }))
    await feeding
  }
  const send = (frame: string): boolean | Promise<boolean> => {
    if (socket.readyState !== socket.OPEN) return false
    if (socket.bufferedAmount < SOCKET_BYTES) {
      socket.send(frame)
      return true
    }
    return new Promise((resolve) => socket.send(frame, (error) => resolve(!error)))
  }

  socket.on('message', (data, isBinary) => {
    try {
      if (isBinary) throw new InvalidInput('frame', [{ path: '', rule: 'text', message: 'is binary' }])
      if (queue || over.signal.aborted)
        throw new InvalidInput('frame', [{ path: '', rule: 'once', message: 'comes after the subscription' }])
      void subscribe(readSubscribe(String(data))).catch((error) => {
        if (!(error instanceof Closed)) report(error) // whoever closes it knows
        close(CLOSE.notNow, 'where to begin cannot be found out now') // or it would wait for ever
      })
    } catch (error) {
      if (!(error instanceof MplpError)) throw error
      close(CLOSE.badFrame, error.message)
    }
  })
  socket.on('pong', () => {
    isAlive = true
  })
  answerPings(socket)
  socket.on('error', () => undefined) // a malformed or oversized frame, or a broken connection: a close follows
  socket.on('close', () => {
    over.abort()
    void queue?.end()
  })
  // Slept, not reckoned: a clock that is set would send away who has only just come, or keep for hours who wants nothing.
  void slept(clock, heartbeatMs, over.signal).then((isOver) => {
    if (isOver && !queue) close(CLOSE.silent, 'nothing was asked for')
  })

  return {
    beat() {
      if (!queue) return
      if (!isAlive) return socket.terminate()
      isAlive = false
      socket.ping()
    },
    async leave() {
      over.abort()
      await queue?.idle()
      close(CLOSE.goingAway, 'the server is closing')
    },
    end: () => socket.terminate(),
  }
}

/**
 * A pong waits in the socket's own buffer, where nothing counts it: of pings that come while one does, the last alone is answered, or a client that
 * sends them and does not read could fill the memory.
 */
function answerPings(socket: WebSocket): void {
  let last: Buffer | undefined
  const pong = (data: Buffer) =>
    socket.pong(data, false, () => {
      if (last !== data) return pong(last!)
      last = undefined
    })
  socket.on('ping', (data) => {
    const isWaiting = last !== undefined
    last = data
    if (!isWaiting) pong(data)
  })
}

/** Made once for all clients of a delivery. */
function frameOf(delivery: Delivery): string {
  const known = frames.get(delivery)
  if (known !== undefined) return known
  const frame = `{"delivery":${JSON.stringify(delivery)}}`
  frames.set(delivery, frame)
  return frame
}
const frames = new WeakMap<Delivery, string>()

/** A close frame holds 123 bytes of reason. */
const shortened = (reason: string) =>
  Buffer.from(reason)
    .subarray(0, 123)
    .toString()
    .replace(/\uFFFD+$/, '')
