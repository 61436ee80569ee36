import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { type AddressInfo, createConnection, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { closeBuses } from '../../src/bus/close-buses.ts'
import type { Delivery, Source } from '../../src/bus/transport.ts'
import { type WebSocketTransportOptions, websocketTransport } from '../../src/bus/websocket.ts'
import { type ConnectOptions, connectEvents } from '../../src/bus/websocket-client.ts'
import { bearerProtocol, CLOSE, PROTOCOL } from '../../src/bus/websocket-frames.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { FellBehind, InvalidInput, type MplpError, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { delivery, ids, series, transportContract, until } from '../contracts/transport-contract.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { inTime } from '../support/on-a-clock.ts'
import { freePort } from '../support/private-server.ts'
import { keptHistory } from './kept-history.ts'

const quiet = { graceMs: 300, onError: () => undefined }

transportContract('websocket', async () => {
  const history = keptHistory()
  const server = await websocketTransport({ history, ...quiet })
  const proxy = await cuttingProxy(server.url)
  const listeners: Source[] = []
  return {
    transport: history.over(server),
    async listener() {
      const listener = connectEvents(proxy.url, quiet)
      listeners.push(listener)
      return listener
    },
    interrupt: async () => proxy.cutAll(),
    async close() {
      for (const listener of listeners) await listener.close()
      await server.close()
      await proxy.close()
    },
  }
})

describe('bus/websocket', () => {
  const token = 'a token of enough length'

  it('lets in who shows the token, as a header or as a browser can', async () => {
    const { url } = await open({ token })
    for (const wrong of [undefined, 'another token, just as long']) {
      const error = await connect(url, wrong === undefined ? {} : { token: wrong })
        .subscribe({}, () => undefined)
        .catch((e) => e)
      expect(error).toBeInstanceOf(Refused)
      expect(error.message).not.toContain(token)
    }
    await connect(url, { token }).subscribe({}, () => undefined)
    const browser = await raw(url, { protocols: [PROTOCOL, bearerProtocol(token)] })
    expect(browser.socket.protocol).toBe(PROTOCOL)
    expect((await raw(url, { protocols: [PROTOCOL, bearerProtocol('wrong')] })).status).toBe(401)
    expect(await handshake(url, `${PROTOCOL}, ${bearerProtocol(token)}`)).toBe(101) // as browsers write it
  })

  it('lets in programs and listed web pages, and no other pages', async () => {
    const { url } = await open({ origins: ['https://console.example'] })
    expect((await raw(url)).status).toBe(101)
    expect((await raw(url, { origin: 'https://console.example' })).status).toBe(101)
    expect((await raw(url, { origin: 'https://evil.example' })).status).toBe(403)
    expect((await raw(url, { origin: 'http://127.0.0.1' })).status).toBe(403)
  })

  it.each<[string, string | Buffer, number, RegExp]>([
    ['what is not JSON', '{', CLOSE.badFrame, /not JSON/],
    ['what is no object', '[]', CLOSE.badFrame, /not an object/],
    ['a binary frame', Buffer.from('{}'), CLOSE.badFrame, /binary/],
    ['an unknown field', '{"filtre":{}}', CLOSE.badFrame, /filtre/],
    ['an unknown filter field', '{"filter":{"colour":"red"}}', CLOSE.badFrame, /colour/],
    ['a family that there is not', '{"filter":{"family":"pipline_stage"}}', CLOSE.badFrame, /family is none of/],
    ['an `after` that is no place', '{"after":7}', CLOSE.badFrame, /after/],
    ['a long name, cut where a letter begins', `{"${'é'.repeat(100)}":1}`, CLOSE.badFrame, /é$/],
    ['a long name, cut within a letter', `{"x${'é'.repeat(100)}":1}`, CLOSE.badFrame, /é$/],
    ['an oversized frame', JSON.stringify({ filter: { graph: 'x'.repeat(100_000) } }), CLOSE.tooLarge, /^$/],
  ])('closes the client that sends %s, and only that one', async (_, frame, code, reason) => {
    const server = await open()
    const got: Delivery[] = []
    await connect(server.url).subscribe({}, (d) => void got.push(d))
    const bad = await raw(server.url)
    bad.socket.send(frame)
    expect(await bad.closed).toEqual({ code, reason: expect.stringMatching(reason) })
    await server.publish([delivery(1)])
    await until(() => got.length === 1)
  })

  it('closes a client that asks twice', async () => {
    const server = await open()
    const bad = await raw(server.url)
    bad.socket.send('{}')
    bad.socket.send('{}')
    expect((await bad.closed).code).toBe(CLOSE.badFrame)
  })

  it('cuts off a client that reads too slowly, with a reason, and the client can resume', async () => {
    const history = keptHistory()
    const server = await open({ history, limit: 50 })
    const { url } = server
    const slow = await raw(url)
    slow.socket.send('{}')
    await until(() => slow.frames.length === 1)
    slow.socket.pause()
    const published = 400 // more than the sockets' buffers and 50 deliveries hold
    const large = series(1, published, () => ({ event: { payload: { filling: 'x'.repeat(100_000) } } }))
    for (const d of large) await history.over(server).publish([d])
    slow.socket.resume()
    expect(await slow.closed).toEqual({ code: CLOSE.tooSlow, reason: expect.stringContaining('resume') })
    const read = slow.frames.slice(1).map((frame) => JSON.parse(frame).delivery as Delivery)
    expect(read.length).toBeLessThan(published)
    const rest: Delivery[] = []
    await connect(url).subscribe({}, (d) => void rest.push(d), { after: read.at(-1) ?? '' })
    await until(() => read.length + rest.length >= published)
    expect(ids([...read, ...rest])).toEqual(ids(series(1, published)))
  })

  it('comes to its end as long as a runtime waits for it, also when a client reads nothing', async () => {
    const clock = manualClock()
    const transport = await websocketTransport({ clock })
    const { socket, frames } = await raw(transport.url)
    socket.send('{}')
    await until(() => frames.length === 1)
    socket.pause()
    const large = series(1, 10, () => ({ event: { payload: { filling: 'x'.repeat(1_500_000) } } })) // more than the sockets' buffers hold
    await transport.publish(large)
    const before = clock.now()
    const closed = closeBuses([{ name: 'websocket', transport }], clock)
    expect((await raw(transport.url)).status).toBe(503)
    await inTime(clock, closed)
    expect(clock.now() - before).toBeGreaterThanOrEqual(10_000)
    await until(() => transport.clients === 0)
  })

  it.each([
    ['nothing', ''],
    ['half a request', 'GET / HTTP/1.1\r\n'],
  ])('does not wait for who has connected and sent %s when it is closed', async (_, text) => {
    const server = await websocketTransport()
    const socket = createConnection(Number(new URL(server.url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
    socket.write(text)
    await raw(server.url) // by then the other connection has been taken, too
    await server.close()
  })

  it('keeps no answers for a client that asks for signs of life and does not read them', async () => {
    const http = createServer().listen(0, '127.0.0.1')
    await once(http, 'listening')
    onTestFinished(() => void http.close())
    const entered = once(http, 'connection') as Promise<[Socket]>
    await open({ server: http, path: '/events' })
    const { socket, frames } = await raw(`ws://127.0.0.1:${(http.address() as AddressInfo).port}/events`)
    socket.send('{}')
    await until(() => frames.length === 1)
    const [theirs] = await entered
    const pongs: string[] = []
    socket.on('pong', (data) => pongs.push(String(data)))
    socket.pause()
    const before = theirs.bytesRead
    const sent = 120_000 // their answers are more than the sockets' buffers hold
    for (let i = 1; i <= sent; i++) socket.ping(String(i).padEnd(125))
    await until(() => theirs.bytesRead - before >= sent * 131)
    expect(theirs.writableLength).toBeLessThan(1_000)
    socket.resume()
    await until(() => pongs.at(-1) === String(sent).padEnd(125))
    expect(pongs.length).toBeLessThan(sent)
  })

  it('drops a client that vanished without closing', async () => {
    const clock = manualClock()
    const server = await open({ clock, heartbeatMs: 1000 })
    const [gone, living] = [await raw(server.url, { autoPong: false }), await raw(server.url)]
    for (const { socket, frames } of [gone, living]) {
      socket.send('{}')
      await until(() => frames.length === 1)
    }
    expect(server.clients).toBe(2)
    await clock.advance(1000)
    await until(() => living.pings === 1)
    await answered(living.socket)
    await clock.advance(1000)
    expect((await gone.closed).code).toBe(1006)
    expect(server.clients).toBe(1)
  })

  it('drops a client that never says what it wants', async () => {
    const clock = manualClock()
    const server = await open({ clock, heartbeatMs: 1000 })
    const mute = await raw(server.url)
    await clock.advance(1000)
    expect((await mute.closed).code).toBe(CLOSE.silent)
  })

  it('gives a client that has only just come the time to say what it wants', async () => {
    const clock = manualClock()
    const server = await open({ clock, heartbeatMs: 1000 })
    await clock.advance(999)
    const late = await raw(server.url)
    await until(() => server.clients === 1)
    await clock.advance(1)
    late.socket.send('{}')
    await until(() => late.frames.length === 1 || late.socket.readyState > WebSocket.OPEN)
    expect(late.frames).toHaveLength(1)
  })

  it.each([
    ['back', -3_600_000],
    ['forward', 3_600_000],
  ])('lets a client go and stay as before when the clock is set %s', async (_, set) => {
    const clock = manualClock()
    let offset = 0
    const server = await open({ clock: { ...clock, now: () => clock.now() + offset }, heartbeatMs: 1000 })
    const mute = await raw(server.url)
    await until(() => server.clients === 1)
    await clock.advance(500)
    const late = await raw(server.url)
    await until(() => server.clients === 2)
    offset = set
    await clock.advance(500)
    expect((await mute.closed).code).toBe(CLOSE.silent)
    late.socket.send('{}')
    await until(() => late.frames.length === 1 || late.socket.readyState > WebSocket.OPEN)
    expect(late.frames).toHaveLength(1)
    await clock.advance(500)
    expect(server.clients).toBe(1)
  })

  it('sends a client away, to come back later, when it cannot find out where to begin', async () => {
    const history = keptHistory()
    let isAway = true
    const published = async () => {
      if (isAway) throw new Unavailable('the store', 'wait')
      return ''
    }
    const server = await open({ history: { ...history, published } })
    const early = await raw(server.url)
    early.socket.send('{}')
    expect((await early.closed).code).toBe(CLOSE.notNow)
    await expect(connect(server.url).subscribe({}, () => undefined)).rejects.toThrow(Unavailable)
    isAway = false
    const got: Delivery[] = []
    await connect(server.url).subscribe({}, (d) => void got.push(d))
    await history.over(server).publish([delivery(1)])
    await until(() => got.length === 1)
  })

  it('leaves a server that is silent for longer than it promised', async () => {
    const clock = manualClock()
    let connections = 0
    const url = await serverThat((socket) => {
      connections++
      socket.on('message', () => socket.send(READY))
    })
    const errors: unknown[] = []
    await connect(url, { clock, onError: (e: unknown) => void errors.push(e) }).subscribe({}, () => undefined)
    await until(async () => {
      await clock.advance(1000)
      return connections === 2
    })
    expect(errors[0]).toBeInstanceOf(Unavailable)
  })

  it('tells once that the server is away, however often it tries, and again when it is away again', async () => {
    const clock = manualClock()
    let visits = 0
    const ready: WebSocket[] = []
    const url = await serverThat((socket) => {
      const isLet = [1, 4].includes(++visits)
      if (!isLet) return socket.terminate()
      socket.on('pong', () => ready.push(socket)) // it answers behind what it was sent
      return socket.on('message', () => socket.send(READY, () => socket.ping()))
    })
    const errors: unknown[] = []
    await connect(url, { clock, onError: (e: unknown) => void errors.push(e) }).subscribe({}, () => undefined)
    for (const [away, next] of [4, 7].entries()) {
      await until(() => ready.length === away + 1)
      ready.at(-1)!.terminate()
      await until(async () => {
        await clock.advance(1000)
        return visits === next
      })
      expect(errors).toHaveLength(away + 1)
    }
  })

  it('passes over what a server tells twice', async () => {
    const url = await serverThat((socket) =>
      socket.on('message', () => {
        socket.send(READY)
        for (const d of [...series(1, 2), ...series(1, 3)]) socket.send(JSON.stringify({ delivery: d }))
      }),
    )
    const got: Delivery[] = []
    await connect(url).subscribe({}, (d) => void got.push(d))
    await until(() => got.some((d) => d.revision === 3))
    expect(ids(got)).toEqual(ids(series(1, 3)))
  })

  it('goes on where it was when the server is restarted, without repeats', async () => {
    const history = keptHistory()
    const port = await freePort()
    const first = await open({ history, port })
    const got: Delivery[] = []
    await connect(first.url).subscribe({}, (d) => void got.push(d))
    await history.over(first).publish(series(1, 3))
    await until(() => got.length === 3)
    await first.close()
    history.kept.push(...series(4, 6)) // committed and published by others meanwhile
    const second = await open({ history, port })
    await history.over(second).publish(series(7, 8))
    await until(() => got.some((d) => d.revision === 8))
    expect(ids(got)).toEqual(ids(series(1, 8)))
  })

  it('goes on from where it began when the server is restarted before anything came', async () => {
    const history = keptHistory()
    const port = await freePort()
    const first = await open({ history, port })
    const got: Delivery[] = []
    await connect(first.url).subscribe({}, (d) => void got.push(d))
    await first.close()
    history.kept.push(...series(1, 5))
    await open({ history, port })
    await until(() => got.length === 5)
    expect(ids(got)).toEqual(ids(series(1, 5)))
  })

  it('says that something may be missing when a server without a history comes back', async () => {
    const port = await freePort()
    const first = await open({ port })
    const errors: unknown[] = []
    const got: Delivery[] = []
    const client = connect(first.url, { onError: (e: unknown) => void errors.push(e) })
    await expect(client.subscribe({}, () => undefined, { after: '' })).rejects.toThrow(Refused)
    await client.subscribe({}, (d) => void got.push(d))
    await first.publish([delivery(1)])
    await until(() => got.length === 1)
    await first.close()
    const second = await open({ port })
    await until(() => second.clients === 1)
    expect(errors).toEqual([expect.any(Unavailable), expect.any(FellBehind)])
    await until(async () => {
      await second.publish([delivery(2)])
      return got.some((d) => d.revision === 2)
    })
  })

  it('serves subscribers of its own process, too', async () => {
    const server = await open()
    const got: Delivery[] = []
    await server.subscribe({ graph: 'g' }, (d) => void got.push(d))
    await server.publish([delivery(1), delivery(2, { graph: 'other' })])
    await until(() => got.length === 1)
  })

  it('joins an HTTP server that exists, answers for its own path only, and leaves the server open', async () => {
    const http = createServer((_, response) => response.end('hello'))
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void http.close())
    const base = `127.0.0.1:${(http.address() as AddressInfo).port}`
    const server = await open({ server: http, path: '/bus' })
    http.on('upgrade', (request, socket) => {
      if (request.url === '/other') socket.end('HTTP/1.1 418 Teapot\r\n\r\n')
    })
    const got: Delivery[] = []
    await connect(`ws://${base}/bus`).subscribe({}, (d) => void got.push(d))
    expect((await raw(`ws://${base}/other`)).status).toBe(418)
    await server.publish([delivery(1)])
    await until(() => got.length === 1)
    await server.close()
    expect(await (await fetch(`http://${base}`)).text()).toBe('hello')
    expect(http.listenerCount('upgrade')).toBe(1)
  })

  it.each([
    [401, Refused],
    [403, Refused],
    [404, Refused],
    [503, Unavailable],
  ])('tells whether another attempt would help where the handshake is answered with %d', async (status, error) => {
    const http = createServer().listen(0, '127.0.0.1')
    await once(http, 'listening')
    onTestFinished(() => void http.close())
    http.on('upgrade', (_, socket) => socket.end(`HTTP/1.1 ${status} No\r\n\r\n`))
    const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/events`
    await expect(connect(url).subscribe({}, () => undefined)).rejects.toThrow(error)
  })

  it('does not try again with what is too large for the server, and waits no longer for a handshake than it is told to', async () => {
    const { url } = await open()
    await expect(connect(url).subscribe({ graph: 'x'.repeat(100_000) }, () => undefined)).rejects.toThrow(Refused)
    const mute = createServer().listen(0, '127.0.0.1')
    await once(mute, 'listening')
    onTestFinished(() => void mute.close())
    mute.on('upgrade', (_, socket) => void onTestFinished(() => void socket.destroy()))
    const silent = `ws://127.0.0.1:${(mute.address() as AddressInfo).port}/events`
    await expect(connect(silent, { timeoutMs: 50 }).subscribe({}, () => undefined)).rejects.toThrow(Unavailable)
  })

  it('answers 404 for another path, and the client does not try again', async () => {
    const { url } = await open()
    await expect(connect(`${url}/nowhere`).subscribe({}, () => undefined)).rejects.toThrow(Refused)
  })

  it('is not open to the network without a token, and says when a port is taken', async () => {
    await expect(websocketTransport({ host: '0.0.0.0' })).rejects.toThrow(Refused)
    const { url } = await open()
    expect(new URL(url).hostname).toBe('127.0.0.1')
    await expect(websocketTransport({ port: Number(new URL(url).port) })).rejects.toThrow(Refused)
  })

  it.each<[string, WebSocketTransportOptions, string]>([
    ['a port that is none', { port: 70_000 }, 'port'],
    ['a path that does not begin with /', { path: 'events' }, 'path'],
    ['a token that can be guessed', { token: 'secret' }, 'token'],
    ['a token that is no text', { token: 7 as unknown as string }, 'token'],
    ['origins that are no list', { origins: 'https://host' as unknown as string[] }, 'origins'],
    ['an origin that is a path', { origins: ['https://host/page'] }, 'origins[0]'],
    ['a limit of nothing', { limit: 0 }, 'limit'],
    ['a port beside a server', { server: createServer(), port: 1 }, 'server'],
  ])('refuses %s', async (_, options, path) => {
    const error = await websocketTransport(options).catch((e: MplpError) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect((error as InvalidInput).problems[0]?.path).toBe(path)
  })

  it.each<[string, string, ConnectOptions, string]>([
    ['a URL with a fragment', 'ws://127.0.0.1:1/events#all', {}, 'url'],
    ['a token with the line end of its file', 'ws://127.0.0.1:1/events', { token: 'sixteen-characters\n' }, 'token'],
    ['a time that is none', 'ws://127.0.0.1:1/events', { timeoutMs: -1 }, 'timeoutMs'],
  ])('refuses %s at once, and does not end the process by it', (_, url, options, path) => {
    expect(() => connectEvents(url, options)).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining({ path })] }),
    )
  })

  it('refuses a URL that is none, and says that nobody answers', async () => {
    expect(() => connectEvents('http://localhost')).toThrow(InvalidInput)
    await expect(connect('ws://127.0.0.1:1/events').subscribe({}, () => undefined)).rejects.toThrow(Unavailable)
  })
})

async function open(options: WebSocketTransportOptions = {}) {
  const server = await websocketTransport({ ...quiet, ...options })
  onTestFinished(() => server.close())
  return server
}

function connect(url: string, options: Parameters<typeof connectEvents>[1] = {}): Source {
  const client = connectEvents(url, { ...quiet, ...options })
  onTestFinished(() => client.close())
  return client
}

const READY = '{"ready":{"after":"","heartbeat_ms":1000}}'

/** A server that does only this with whoever comes. */
async function serverThat(meets: (socket: WebSocket) => unknown): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => server.close())
  await once(server, 'listening')
  server.on('connection', meets)
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** The status that a handshake gets which names these protocols. */
function handshake(url: string, protocols: string): Promise<number> {
  const headers = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    'sec-websocket-protocol': protocols,
  }
  return new Promise((resolve, reject) => {
    const sent = request(url.replace('ws:', 'http:'), { headers }, ({ statusCode }) => resolve(statusCode!))
    sent.on('upgrade', ({ statusCode }, socket) => {
      socket.destroy()
      resolve(statusCode!)
    })
    sent.on('error', reject).end()
  })
}

/** A client that does only what it is told to. */
async function raw(url: string, options: { protocols?: string[]; origin?: string; autoPong?: boolean } = {}) {
  const { protocols = [], ...settings } = options
  const socket = new WebSocket(url, protocols, settings)
  onTestFinished(() => socket.terminate())
  const frames: string[] = []
  const client = { socket, frames, status: 0, pings: 0, closed: Promise.resolve({ code: 0, reason: '' }) }
  socket.on('message', (data) => void frames.push(String(data)))
  socket.on('ping', () => void client.pings++)
  client.closed = new Promise((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }))
  })
  client.status = await new Promise((resolve) => {
    socket.on('open', () => resolve(101))
    socket.on('unexpected-response', (_, response) => resolve(response.statusCode ?? 0))
    socket.on('error', () => undefined)
  })
  return client
}

/** Our pong goes out before our ping, which the server answers. */
const answered = (socket: WebSocket) =>
  new Promise<void>((resolve) => {
    socket.once('pong', () => resolve())
    socket.ping()
  })
