import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect, Server } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { WebSocket } from 'ws'
import { FAMILIES } from '../../src/protocol/families.ts'
import { observabilityInvariants } from '../../src/protocol/invariant-rules.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { type Answer, large, type Serving, serving } from './serving.ts'

const TOKEN = 'a-token-that-may-everything'
const tokens = [{ token: TOKEN, roles: ['admin' as const] }]
const ABSENT = '00000000-0000-4000-8000-000000000000'

/** Every route of a server, as `['GET', '/runs/:id']`. */
const routesOf = ({ server }: Serving) => server.routes.map((route) => route.split(' ') as [string, string])
const isProblem = ({ headers, body, status }: Answer) => ({
  type: headers.get('content-type')?.split(';')[0],
  code: typeof (body as { code?: unknown }).code,
  status: (body as { status?: unknown }).status === status,
})
const WRONG = [400, 404]
const PROBLEM = { type: 'application/problem+json', code: 'string', status: true }

describe('every route', () => {
  it('answers a body of the wrong kind with a problem, and never with a failure of its own', async () => {
    const it_ = await serving({}, { root: tempFolder() })
    const bodies = [7, 'text', null, [], {}, { unknown: 1 }, { name: 7, status: 7, to: {}, plan: 'x', strategy: 1 }]
    for (const [method, path] of routesOf(it_).filter(([method]) => method === 'POST' || method === 'PATCH'))
      for (const body of bodies) {
        const answer = await it_.ask(method, path.replace(':id', ABSENT), body)
        // A scan takes no body and minds none.
        const expected = path === '/drift/scan' ? [200] : WRONG
        expect({ method, path, body, status: answer.status }).toEqual({
          method,
          path,
          body,
          status: expect.toBeOneOf(expected),
        })
        if (answer.status >= 400) expect(isProblem(answer)).toEqual(PROBLEM)
      }
    const { contexts } = (await it_.ask('GET', '/psg/contexts')).body as { contexts: string[] }
    expect(contexts).toHaveLength(1) // of the folder that was scanned
  })

  it.each([
    ['an id that nobody has', ABSENT],
    ['a path that climbs', '..%2f..%2f..%2fetc%2fpasswd'],
    ['a path that climbs, twice encoded', '%252e%252e%252fetc%252fpasswd'],
    ['a byte that ends texts elsewhere', '%00'],
    ['half of a character', '%ff'],
    ['what reads like a key of the store', 'id%2fcontext%2fx'],
    ['a name that objects have', '__proto__'],
    ['a space', '%20'],
  ])('does not know %s', async (_, id) => {
    const it_ = await serving({}, { root: tempFolder() })
    for (const [method, path] of routesOf(it_).filter(([, path]) => path.includes(':id'))) {
      const body = method === 'GET' || method === 'DELETE' ? undefined : {}
      const answer = await it_.ask(method, path.replace(':id', id), body)
      expect({ method, path, status: answer.status }).toEqual({ method, path, status: expect.toBeOneOf([400, 404]) })
      expect(isProblem(answer)).toEqual(PROBLEM)
    }
  })

  it('refuses a parameter that is given twice, and can be closed afterwards', async () => {
    const it_ = await serving({}, { root: tempFolder() })
    for (const [method, path] of routesOf(it_).filter(([method]) => method === 'GET'))
      for (const query of ['family=a&family=b', 'after=a&after=b', 'plan=a&plan=b', 'wait_ms=1&wait_ms=2']) {
        const answer = await it_.ask(method, `${path.replace(':id', ABSENT)}?${query}`)
        expect({ path, query, status: answer.status }).toEqual({ path, query, status: 400 })
        expect(isProblem(answer)).toEqual(PROBLEM)
      }
    await it_.server.close()
  })

  it('refuses a parameter that it does not know, and tells those that it does', async () => {
    const it_ = await serving({}, { root: tempFolder() })
    for (const [method, path] of routesOf(it_)) {
      const answer = await it_.ask(method, `${path.replace(':id', ABSENT)}?famliy=intent&__proto__=1`)
      expect({ method, path, status: answer.status }).toEqual({ method, path, status: 400 })
      expect(answer.body).toMatchObject({ problems: [{ path: 'famliy', rule: 'extra_forbidden' }, {}] })
    }
    const { body } = await it_.ask('GET', '/runs?state=waiting')
    expect(body).toMatchObject({ problems: [{ message: 'is not known; known are phase, status, after, limit' }] })
  })

  it.each([100, 1_000, 1_500])('knows a file whose path has %d characters', async (length) => {
    const root = tempFolder()
    const path = join(...Array.from({ length: length / 10 }, (_, i) => String(i).padStart(9, 'x')), 'notes.md')
    mkdirSync(join(root, dirname(path)), { recursive: true })
    writeFileSync(join(root, path), 'text')
    const { ask } = await serving({}, { root })
    await ask('POST', '/drift/scan')
    const found = await ask('GET', `/objects/${encodeURIComponent(path)}`)
    expect(found).toMatchObject({ status: 200, body: { path } })
  })

  it.each([
    ['a head', 'POST /runs HTTP/1.1\r\nHost: loc'],
    [
      'a body',
      'POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
    ],
  ])('is closed although somebody has sent half of %s', async (_, half) => {
    const { server, url, ask } = await serving({ graceMs: 10 })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.on('error', () => undefined)
    await new Promise<void>((resolve) => socket.write(half, () => resolve()))
    await ask('GET', '/health') // what was sent before is there by now
    const gone = once(socket, 'close')
    await server.close()
    await gone
  })

  it.each([
    ['is no text', '/runs/%ff'],
    ['is too long', `/runs/${'x'.repeat(5_000)}`],
  ])('is closed without waiting for who has asked for an address that %s', async (_, path) => {
    const { server, ask } = await serving({ graceMs: 60_000 })
    expect((await ask('GET', path)).status).toBeOneOf([400, 414])
    await server.close()
  })

  it('lets nobody in who shows no token, or a forged one, but for what anybody may ask', async () => {
    const it_ = await serving({ tokens })
    const open = new Set(['/health', '/ready', '/openapi.json'])
    for (const [method, path] of routesOf(it_).filter(([, path]) => !open.has(path)))
      for (const headers of [{}, { authorization: `Bearer ${TOKEN}x` }, { authorization: 'Bearer' }]) {
        const answer = await it_.ask(
          method,
          path.replace(':id', ABSENT),
          undefined,
          headers as { [name: string]: string },
        )
        expect({ method, path, status: answer.status }).toEqual({ method, path, status: 401 })
        expect(isProblem(answer)).toEqual(PROBLEM)
      }
    expect((await it_.ask('GET', '/nowhere')).status).toBe(404)
  })

  /** Somebody who has been sent more than the connections between us hold, and has not read it. */
  const reader = async (graceMs: number) => {
    const { server, url, ask } = await serving({ graceMs, body_limit_bytes: 40_000_000 })
    const { context, plan } = flowOf({ one: {} })
    const summary = 'x'.repeat(20_000_000)
    await ask('POST', '/psg/contexts', { ...(context as object), summary })
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    socket.write(`GET /psg/contexts/${plan.context_id} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    await once(socket, 'readable')
    return { server, url, socket, bytes: summary.length }
  }

  it('is closed only when somebody who reads has the whole of an answer', async () => {
    const { server, url, socket, bytes } = await reader(60_000)
    const closed = server.close()
    await expect.poll(() => fetch(`${url}/health`).catch((error) => error)).toBeInstanceOf(TypeError)
    let read = 0
    for await (const chunk of socket) read += chunk.length
    expect(read).toBeGreaterThan(bytes)
    await closed
  })

  it('tells who asks while it closes that it does, with a problem', async () => {
    const heard: unknown[] = []
    const { server, url, ask } = await serving({ graceMs: 60_000, onError: (error) => heard.push(error) })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write('GET /health HTTP/1.1\r\n')
    await ask('GET', '/health') // by then half of the other request is there
    const closed = server.close()
    await expect.poll(() => fetch(`${url}/health`).catch((error) => error)).toBeInstanceOf(TypeError)
    socket.write('host: 127.0.0.1\r\n\r\n')
    let answer = ''
    for await (const text of socket) answer += text
    expect(answer).toMatch(/^HTTP\/1\.1 503 .*connection: close.*application\/problem\+json.*"code":"closed"/is)
    await closed
    expect(heard).toEqual([])
  })

  it('is closed without waiting for who has connected ahead and asks for nothing, as fetch does where a stream of events was aborted', async () => {
    const { server, url } = await serving({ graceMs: 2_147_483_647 })
    const socket = connect(Number(new URL(url).port), '127.0.0.1').resume()
    const ended = once(socket, 'close')
    await once(socket, 'connect')
    await (await fetch(`${url}/health`)).text() // by then the other connection has been taken, too
    await server.close()
    await ended
  })

  it('passes over an Expect that it does not know, and is closed without waiting for who sent it', async () => {
    const { server, url } = await serving({ graceMs: 2_147_483_647 })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write('GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: more\r\n\r\n')
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /)
    await server.close()
  })

  it('is closed although somebody does not read an answer', async () => {
    const { server } = await reader(10)
    await server.close()
  })

  it('gives a request under way twice as long', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const inner = memoryBackend()
    let goOn: (() => void) | undefined
    const scan: Backend['scan'] = async function* (prefix, from) {
      if (prefix === 'id/context/') await new Promise<void>((resolve) => (goOn = resolve))
      yield* inner.scan(prefix, from)
    }
    const { server, url, ask } = await serving({ graceMs: 60_000 }, {}, { store: { ...inner, scan } })
    const answer = ask('GET', '/psg/contexts')
    await expect.poll(() => goOn).toBeDefined()
    const closed = server.close()
    await expect.poll(() => fetch(`${url}/health`).catch((error) => error)).toBeInstanceOf(TypeError)
    vi.advanceTimersByTime(60_000)
    goOn!()
    const { status, headers } = await answer
    expect({ status, connection: headers.get('connection') }).toEqual({ status: 200, connection: 'close' })
    await closed
  })

  it('is closed although the store does not answer a request under way, nor who tells what happens', async () => {
    const inner = memoryBackend()
    const asked: string[] = []
    const store: Backend = {
      ...inner,
      async commit(write) {
        if (isSilent || write.stream.startsWith('relay/')) await new Promise(() => asked.push(write.stream))
        return inner.commit(write)
      },
    }
    let isSilent = false
    const { server, url, ask } = await serving({ graceMs: 10 }, {}, { store })
    const { context } = flowOf({ one: {} })
    const guest = new WebSocket(`${url.replace('http', 'ws')}/events`)
    await once(guest, 'open')
    guest.send('{}')
    await ask('POST', '/psg/contexts', context)
    await expect.poll(() => asked.length).toBe(1)
    isSilent = true
    const answer = ask('POST', '/psg/contexts', flowOf({ one: {} }).context).catch((error) => error)
    await expect.poll(() => asked.length).toBe(2)
    const sentOff = once(guest, 'close')
    await server.close()
    expect((await sentOff)[0]).toBe(1001)
    expect(await answer).toBeInstanceOf(TypeError)
  }, 5_000)
})

describe('many and large', () => {
  it('refuses bodies of 10 MB wherever one is taken, and stays up', async () => {
    const it_ = await serving()
    for (const [, path] of routesOf(it_).filter(([method]) => method === 'POST'))
      expect({ path, status: await large(`${it_.url}${path.replace(':id', ABSENT)}`, 10 * 1024 * 1024) }).toEqual({
        path,
        status: 413,
      })
    expect(await it_.ask('GET', '/health')).toMatchObject({ status: 200 })
  }, 60_000)

  it('serves 1,000 clients at once and loses nothing of what they send', async () => {
    const it_ = await serving()
    const flows = Array.from({ length: 1000 }, () => flowOf({ one: {} }))
    const answers = await Promise.all(
      flows.map((flow, i) =>
        i % 10 === 0 ? it_.ask('POST', '/runs', flow) : it_.ask('POST', '/psg/contexts', flow.context),
      ),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 202]))
    const { contexts } = (await it_.ask('GET', '/psg/contexts')).body as { contexts: string[] }
    expect(new Set(contexts)).toEqual(new Set(flows.map(({ plan }) => plan.context_id)))
    const runs = flows.filter((_, i) => i % 10 === 0)
    for (const { plan } of runs)
      expect(await it_.ask('GET', `/runs/${plan.plan_id}?wait_ms=60000`)).toMatchObject({
        body: { result: { status: 'completed' } },
      })
  }, 180_000)

  it('has the system keep as many waiting while the thread is busy', async () => {
    const listen = vi.spyOn(Server.prototype, 'listen')
    onTestFinished(() => listen.mockRestore())
    await serving()
    const [asked] = listen.mock.calls.map(([options]) => options as unknown as { backlog?: number })
    expect(asked?.backlog).toBeGreaterThanOrEqual(1000)
  })

  it('is not held up by 1,000 connections that say nothing, or half of something', async () => {
    const it_ = await serving()
    const { port } = new URL(it_.url)
    const sockets = Array.from({ length: 1000 }, (_, i) => {
      const socket = connect(Number(port), '127.0.0.1')
      socket.on('error', () => undefined) // they are ended with the test
      if (i % 2) socket.write('POST /runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{"pl')
      return socket
    })
    try {
      expect(await it_.ask('GET', '/health')).toMatchObject({ status: 200 })
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  }, 60_000)

  it.each([
    ['what is no HTTP', 'hello\r\n\r\n'],
    ['a header without an end', `GET /health HTTP/1.1\r\nx: ${'a'.repeat(100_000)}\r\n\r\n`],
    ['two lengths', 'POST /runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}'],
  ])('answers %s with a problem, and others go on', async (_, text) => {
    const it_ = await serving()
    const said = await new Promise<string>((resolve) => {
      let heard = ''
      const socket = connect(Number(new URL(it_.url).port), '127.0.0.1', () => socket.write(text))
      socket.on('data', (data) => {
        heard += data
      })
      socket.on('error', () => resolve(heard))
      socket.on('close', () => resolve(heard))
    })
    const [, status, body] = /^HTTP\/1\.1 (4\d\d) .*application\/problem\+json.*\r\n\r\n(.*)$/s.exec(said) ?? []
    expect(JSON.parse(body ?? 'null')).toMatchObject({ status: Number(status), code: expect.any(String) })
    expect(await it_.ask('GET', '/health')).toMatchObject({ status: 200 })
  })
})

describe('what comes behind a request and is no HTTP', () => {
  const post = (body: string) =>
    `POST /runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`

  it.each([
    ['nothing that can be read', '}\n{'],
    ['half of another request, and then nothing that can be read', 'POST /runs HTTP/1.1\r\nhost: a\r\n}\n{'],
  ])('is not taken for the answer: %s', async (_, behind) => {
    const { url, ask } = await serving()
    const flow = flowOf({ greet: {} })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`${post(JSON.stringify(flow))}${behind}`)
    let heard = ''
    for await (const text of socket) heard += text // until the server ends it
    expect(heard).toMatch(/^HTTP\/1\.1 202 /)
    expect(heard.match(/HTTP\/1\.1/g)).toHaveLength(1)
    expect(await ask('GET', `/runs/${flow.plan.plan_id}`)).toMatchObject({ status: 200 })
  })

  it('is told so once all before it is answered', async () => {
    const { url } = await serving()
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write('GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
    let heard = String((await once(socket, 'data'))[0])
    socket.write('}\n{')
    for await (const text of socket) heard += text
    expect(heard).toMatch(/^HTTP\/1\.1 200 .*HTTP\/1\.1 400 .*"code":"invalid_input"/s)
  })

  it('waits until every request before it is answered', async () => {
    const { url, ask } = await serving({}, { functions: { hang: () => new Promise(() => undefined) } })
    const flow = flowOf({ hang: { binding: { timeout_ms: 3_000 } } })
    await ask('POST', '/runs', flow)
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`
    socket.write(`${get('/health')}${get(`/runs/${flow.plan.plan_id}?wait_ms=50`)}}\n{`)
    let heard = ''
    for await (const text of socket) heard += text
    expect(heard.match(/HTTP\/1\.1 200/g)).toHaveLength(2)
    await ask('POST', `/runs/${flow.plan.plan_id}/cancel`)
  })

  it('does not get into a stream of events', async () => {
    const { url, server, runtime } = await serving()
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const ended = once(socket, 'close')
    let heard = ''
    socket.on('data', (text) => {
      heard += text
    })
    socket.write('GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
    await once(socket, 'data')
    socket.write('}\n{')
    await (await runtime.submit(flowOf({ greet: {} }))).result()
    await expect.poll(() => heard).toContain('"status":"completed"')
    await server.close()
    await ended
    expect(heard.match(/HTTP\/1\.1/g)).toHaveLength(1)
    expect(heard).toMatch(/\r\n0\r\n\r\n$/)
  })
})

describe('waiting for a run', () => {
  it('ends when its time is over, though a step hangs', async () => {
    const { ask } = await serving({}, { functions: { hang: () => new Promise(() => undefined) } })
    const flow = flowOf({ hang: { binding: { timeout_ms: 3_000 } } })
    await ask('POST', '/runs', flow)
    expect(await ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=50`)).toMatchObject({
      status: 200,
      body: { phase: 'running' },
    })
    await ask('POST', `/runs/${flow.plan.plan_id}/cancel`)
  })

  it('ends when the server closes', async () => {
    const { runtime, server, ask } = await serving({}, { functions: { hang: () => new Promise(() => undefined) } })
    const flow = flowOf({ hang: { binding: { timeout_ms: 20_000 } } })
    const run = await runtime.submit(flow)
    const asked = vi.spyOn(runtime, 'get')
    const waiting = ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=60000`)
    await expect.poll(() => asked).toHaveBeenCalled()
    await server.close()
    expect(await waiting).toMatchObject({ status: 200, body: { phase: 'running' } })
    await run.cancel()
  })
})

describe('the families that can be asked for', () => {
  it('are those of the protocol, and no other', async () => {
    const rule = observabilityInvariants.find(({ id }) => id === 'obs_event_family_valid')
    expect(JSON.stringify(rule)).toContain(`enum(${FAMILIES.join(',')})`)
    const { ask } = await serving()
    expect(await ask('GET', '/events?follow=false&family=pipline_stage')).toMatchObject({
      status: 400,
      body: { problems: [{ path: 'family', found: 'pipline_stage' }] },
    })
  })
})
