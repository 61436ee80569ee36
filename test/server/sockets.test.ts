import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import type { Delivery } from '../../src/bus/transport.ts'
import { connectEvents } from '../../src/bus/websocket-client.ts'
import { bearerProtocol, PROTOCOL } from '../../src/bus/websocket-frames.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { serve } from '../../src/server/server.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { flowOf } from '../support/flows.ts'
import { serving, told } from './serving.ts'

const READ = 'a-token-that-may-read'
const tokens = [{ token: READ, roles: ['read' as const] }]
const ws = (url: string) => `${url.replace('http', 'ws')}/events`

describe('events over WebSocket', () => {
  it('are those of the other stream, live, filtered, and after any one of them', async () => {
    const { ask, url } = await serving()
    const source = connectEvents(ws(url))
    onTestFinished(() => source.close())
    const stages: Delivery[] = []
    await source.subscribe({ family: 'pipeline_stage' }, (delivery) => void stages.push(delivery))
    const flow = flowOf({ greet: {} })
    await ask('POST', '/runs', flow)
    await ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=20000`)
    const all = (await told(`${url}/events?follow=false`)).map(({ data }) => data as unknown as Delivery)
    for (const from of [0, 2, all.length - 2]) {
      const rest: string[] = []
      for await (const { event } of source.events({}, { after: all[from]! })) {
        rest.push(event.event_id)
        if (rest.length === all.length - from - 1) break
      }
      expect(rest).toEqual(all.slice(from + 1).map(({ event }) => event.event_id))
    }
    await expect.poll(() => stages).toEqual(all.filter(({ event }) => event.event_family === 'pipeline_stage'))
  })

  it('begin with what comes, also of a server that has not yet told what happened before it', async () => {
    const { runtime, server } = await serving()
    await server.close()
    for (let i = 0; i < 5; i++) await (await runtime.submit(flowOf({ greet: {} }))).result()
    const later = await serve(runtime, { port: 0 })
    onTestFinished(() => later.close())
    const source = connectEvents(ws(later.url))
    onTestFinished(() => source.close())
    const heard = new Set<string | undefined>()
    await source.subscribe({}, ({ plan_id }) => void heard.add(plan_id))
    const run = await runtime.submit(flowOf({ greet: {} }))
    await run.result()
    await expect.poll(() => heard.has(run.plan_id)).toBe(true)
    expect([...heard].filter((plan) => plan !== undefined)).toEqual([run.plan_id])
  })

  it('are waited for until the server closes, which sends nobody to a place short of what comes', async () => {
    const { runtime, server } = await serving()
    await server.close()
    let isRead = false
    const feed: Backend['feed'] = async function* (from = {}) {
      if (from.follow) return yield* runtime.store.feed(from)
      isRead = true
      await once(from.signal!, 'abort') // it is long
      isRead = false
    }
    const heard: unknown[] = []
    const onError = (error: unknown) => heard.push(error)
    const later = await serve({ ...runtime, store: { ...runtime.store, feed } }, { port: 0, onError })
    onTestFinished(() => later.close())
    const source = connectEvents(ws(later.url), { onError: () => undefined })
    onTestFinished(() => source.close())
    const subscribing = source.subscribe({}, () => undefined).catch((error) => error)
    await expect.poll(() => isRead).toBe(true)
    await later.close()
    expect(await subscribing).toBeInstanceOf(Unavailable)
    expect([isRead, heard]).toEqual([false, []])
  })

  it('tell of a store that is away once, however often they try to write down how far they have come', async () => {
    const away = new Unavailable('the store', 'wait')
    const { runtime, server } = await serving()
    await server.close()
    let tries = 0
    const commit: Backend['commit'] = async (write) => {
      if (!write.stream.startsWith('relay/')) return runtime.store.commit(write)
      tries++
      throw away
    }
    const heard: unknown[] = []
    const onError = (error: unknown) => heard.push(error)
    const cut = await serve({ ...runtime, store: { ...runtime.store, commit } }, { port: 0, onError })
    onTestFinished(() => cut.close())
    await (await runtime.submit(flowOf({ greet: {} }))).result()
    await expect.poll(() => tries).toBeGreaterThan(2)
    expect(heard).toEqual([away])
  })

  it('are refused after a place that the store has not come to, or at which something else happened', async () => {
    const [old, restored] = [await serving(), await serving()]
    for (const { runtime } of [old, old, restored]) await (await runtime.submit(flowOf({ greet: {} }))).result()
    const known = (await told(`${old.url}/events?follow=false`)).map(({ data }) => data as unknown as Delivery)
    const source = connectEvents(ws(restored.url), { onError: () => undefined })
    onTestFinished(() => source.close())
    for (const after of [known.at(-1)!.position, known.at(-1)!, known[2]!]) {
      const { ended } = await source.subscribe({}, () => undefined, { after })
      expect(await ended).toMatchObject({ code: 'refused', message: expect.stringContaining('of this store') })
    }
  })

  it('go on where they were when the server comes back', async () => {
    const first = await serving()
    const { port } = new URL(first.url)
    const seen: string[] = []
    const source = connectEvents(ws(first.url), { onError: () => undefined })
    onTestFinished(() => source.close())
    const flows = [flowOf({ greet: {} }), flowOf({ greet: {} })]
    let end: () => void
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    await source.subscribe({ family: 'pipeline_stage' }, ({ event, plan_id }) => {
      seen.push(event.event_id)
      const isLast = JSON.stringify(event).includes('"stage_id":"plan"') && JSON.stringify(event).includes('completed')
      if (isLast && plan_id === flows[1]!.plan.plan_id) end()
    })
    await first.ask('POST', '/runs', flows[0])
    await first.ask('GET', `/runs/${flows[0]!.plan.plan_id}?wait_ms=20000`)
    await first.server.close()
    await (await first.runtime.submit(flows[1]!)).result() // while nobody can be told
    const second = await serve(first.runtime, { port: Number(port) })
    onTestFinished(() => second.close())
    await ended
    const all = await told(`${second.url}/events?follow=false&family=pipeline_stage`)
    expect(seen).toEqual(all.map(({ data }) => data.event.event_id))
  })

  it.each([
    ['no token', {}, [PROTOCOL], 401],
    ['a forged token', { authorization: 'Bearer a-token-that-may-reaD' }, [PROTOCOL], 401],
    ['a token', { authorization: `Bearer ${READ}` }, [PROTOCOL], 101],
    ['a token as a browser sends it', {}, [PROTOCOL, bearerProtocol(READ)], 101],
    ['a forged one as a browser sends it', {}, [PROTOCOL, bearerProtocol('another-token-of-ours')], 401],
    [
      'a token and a foreign page',
      { authorization: `Bearer ${READ}`, origin: 'https://evil.example' },
      [PROTOCOL],
      403,
    ],
  ])('are asked for with %s', async (_, headers, protocols, status) => {
    const { url } = await serving({ tokens })
    expect(await handshake(ws(url), headers, protocols)).toBe(status)
  })

  it('are not for pages, or under names pointed here, without a token', async () => {
    const { url } = await serving()
    expect(await handshake(ws(url), { origin: 'https://evil.example' })).toBe(403)
    expect(await handshake(ws(url), { host: 'evil.example' })).toBe(403)
    expect(await handshake(ws(url), { origin: url })).toBe(101)
    expect(await handshake(ws(url).replace('/events', '/elsewhere'), {})).toBe(404)
  })

  it('are for those too who write the name of the protocol in another way', async () => {
    const { url } = await serving()
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    const head = ['GET /events HTTP/1.1', 'Host: 127.0.0.1', 'Connection: Upgrade', 'Upgrade: WebSocket']
    socket.write(`${head.join('\r\n')}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${'A'.repeat(22)}==\r\n\r\n`)
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toMatch(/^HTTP\/1.1 101 /)
  })

  it('survive a handshake that is not even a URL', async () => {
    const { ask, url } = await serving()
    const { port } = new URL(url)
    const socket = connect(Number(port), '127.0.0.1')
    socket.write('GET //[ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toMatch(/^HTTP\/1.1 404 /)
    expect(await ask('GET', '/health')).toMatchObject({ status: 200 })
  })

  it('survive a client that resets the connection right after its handshake', async () => {
    const { ask, url } = await serving()
    const { port } = new URL(url)
    for (let i = 0; i < 50; i++) {
      const socket = connect(Number(port), '127.0.0.1')
      socket.on('error', () => undefined)
      socket.write('GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', () =>
        i % 2 === 0 ? socket.resetAndDestroy() : setImmediate(() => socket.resetAndDestroy()),
      )
      await once(socket, 'close')
      expect(await ask('GET', '/health')).toMatchObject({ status: 200 })
    }
  })

  it.each([
    ['/events', 401],
    ['/nowhere', 404],
  ])(
    'keep no connection of who is refused %s and does not end it: it would outlast every close',
    async (path, status) => {
      const { server, url } = await serving({ tokens })
      const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
      onTestFinished(() => void socket.destroy())
      socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
      const [answer] = await once(socket, 'data')
      expect(String(answer)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      await server.close()
    },
  )

  it('are not waited for longer than asked when the server closes and a client answers no good-bye', async () => {
    const { server, url } = await serving({ graceMs: 10 })
    const client = new WebSocket(ws(url), PROTOCOL)
    onTestFinished(() => client.terminate())
    await once(client, 'open')
    client.pause()
    await server.close()
  }, 4_000)

  it.each([
    ['GET', '/health', '', 200],
    ['GET', '/events?follow=false', '', 200],
    ['GET', '/nowhere', '', 404],
    ['POST', '/runs', '{"plan":7}', 400],
  ])('leave an upgrade to something else aside: %s %s', async (method, path, body, status) => {
    const { url } = await serving()
    const { port } = new URL(url)
    const head = [
      `${method} ${path} HTTP/1.1`,
      'Host: 127.0.0.1',
      'Connection: Upgrade, HTTP2-Settings',
      'Upgrade: h2c',
      'HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA',
      ...(body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${body.length}`]),
    ]
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(`${head.join('\r\n')}\r\n\r\n`)
    setImmediate(() => socket.write(body)) // apart, as it comes from afar
    let answer = ''
    for await (const text of socket) {
      answer += String(text)
      if (answer.includes('\r\n')) break // where Node asks first, the connection is kept
    }
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  })

  it('end when the server closes', async () => {
    const { url, server } = await serving()
    const socket = new WebSocket(ws(url), PROTOCOL)
    await once(socket, 'open')
    socket.send('{"filter":{}}')
    await once(socket, 'message')
    const closed = once(socket, 'close')
    await server.close()
    expect((await closed)[0]).toBe(1001)
  })
})

/** The status of the answer to a handshake. */
function handshake(url: string, headers: { [name: string]: string }, protocols = [PROTOCOL]): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, protocols, { headers })
    socket.on('upgrade', () => resolve(101))
    socket.on('open', () => socket.terminate())
    socket.on('unexpected-response', (request, { statusCode }) => {
      request.destroy()
      resolve(statusCode!)
    })
    socket.on('error', (error) => reject(error))
  })
}
