import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { type HttpOptions, httpAdapter } from '../../src/ael/http.ts'
import type { ActionLayer } from '../../src/ael/layer.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'
import { endless, type HttpServer, httpServer } from '../support/http-server.ts'

const TOKEN = 'token-of-the-service-2718'

adapterContract('http', async (): Promise<AdapterRig> => {
  const server = await httpServer(answer)
  const get = (path: string) => ({ url: `${server.url}${path}` })
  return {
    adapter: httpAdapter({
      allow: [`127.0.0.1:${server.port}`],
      credentials: () => ({ authorization: `Bearer ${TOKEN}` }),
      secrets: [TOKEN],
    }),
    works: {
      params: get('/json'),
      output: {
        status: 200,
        url: `${server.url}/json`,
        headers: { 'content-type': 'application/json' },
        body: { ok: true },
      },
    },
    refused: [
      { params: {}, path: 'url' },
      { params: { url: 'not a url' }, path: 'url' },
      { params: { url: 'ftp://example.com' }, path: 'url' },
      { params: { url: 'https://me:secret@example.com' }, path: 'url' },
      { params: { ...get('/json'), method: 'CONNECT' }, path: 'method' },
      { params: { ...get('/json'), method: ['DELETE'] }, path: 'method' },
      { params: { ...get('/json'), query: 'a=1' }, path: 'query' },
      { params: { ...get('/json'), headers: { 'a b': 'x' } }, path: 'headers.a b' },
      { params: { ...get('/json'), headers: { Host: 'x' } }, path: 'headers.Host' },
      { params: { ...get('/json'), headers: { 'Idempotency-Key': 'x' } }, path: 'headers.Idempotency-Key' },
      { params: { ...get('/json'), headers: { Authorization: 'x' } }, path: 'headers.Authorization' },
      { params: { ...get('/json'), headers: { a: 'x\r\nb: y' } }, path: 'headers.a' },
      { params: { ...get('/json'), headers: { a: 'naïve ✓' } }, path: 'headers.a' },
      { params: { ...get('/json'), headers: { a: 'x\u007f' } }, path: 'headers.a' },
      { params: { ...get('/json'), accept_status: 'all' }, path: 'accept_status' },
    ],
    hangs: get('/hang'),
    underWay: () => server.arrived(1),
    remains: () => Array.from({ length: server.busy() }, () => 'a connection'),
    failsForNow: get('/status?code=503'),
    failsForGood: get('/status?code=404'),
    large: get('/large'),
    misshapen: get('/not-json'),
    leaks: { params: get('/leak'), secret: TOKEN },
    changes: { ...get('/json'), method: 'POST', body: { a: 1 } },
    keys: () => server.requests.map(({ headers }) => String(headers['idempotency-key'])),
    close: () => server.close(),
  }
})

function answer({ url }: { readonly url: URL }, response: ServerResponse): void {
  const json = (body: string | Buffer) => response.setHeader('content-type', 'application/json').end(body)
  const ask = (name: string) => url.searchParams.get(name) ?? ''
  if (url.pathname === '/json') json('{"ok":true}')
  else if (url.pathname === '/hang') response.write('{"ok":')
  else if (url.pathname === '/status')
    response.writeHead(Number(ask('code')), { 'retry-after': ask('after') }).end('the reason')
  else if (url.pathname === '/large') json(JSON.stringify('x'.repeat(2_000)))
  else if (url.pathname === '/not-json') json('{"ok":')
  else if (url.pathname === '/leak') response.writeHead(401).end(`the token ${TOKEN} is not good`)
  else if (url.pathname === '/late-leak') response.writeHead(401).end(`${'x '.repeat(240)}${TOKEN} is not good`)
  else if (url.pathname === '/text') response.setHeader('content-type', 'text/plain').end('plain')
  else if (url.pathname === '/latin')
    response.setHeader('content-type', 'text/plain').end(Buffer.from('\xe9', 'latin1'))
  else if (url.pathname === '/json-latin') json(Buffer.from('{"é":1}', 'latin1'))
  else if (url.pathname === '/json-marked') json('\ufeff{"é":1}')
  else if (url.pathname === '/packed') {
    response.setHeader('content-encoding', 'gzip')
    json(gzipSync('{}'))
  } else if (url.pathname === '/bytes') response.setHeader('content-type', 'image/png').end(Buffer.from([1, 2, 255]))
  else if (url.pathname === '/redirect') response.writeHead(Number(ask('code') || 302), { location: ask('to') }).end()
  else if (url.pathname === '/cut')
    response.writeHead(200, { 'content-length': 100 }).write('half', () => response.destroy())
  else if (url.pathname === '/endless') endless(response)
  else if (url.pathname === '/switch') response.writeHead(101, { connection: 'upgrade', upgrade: 'other' }).end()
  else response.writeHead(404).end()
}

describe('httpAdapter', () => {
  let server: HttpServer
  let layer: ActionLayer
  beforeEach(async () => {
    server = await httpServer(answer)
  })
  afterEach(async () => {
    await layer?.close()
    await server.close()
  })
  const here = () => `127.0.0.1:${server.port}`
  const send = (params: JsonObject, options: HttpOptions = { allow: [here()] }) => {
    layer = actionLayer({ adapters: [httpAdapter(options)] })
    return layer.execute(newAction({ action_type: 'http_request', executor_kind: 'external', params }))
  }
  const nameOf = (...addresses: readonly string[]) => ({
    asked: 0,
    async resolve() {
      this.asked++
      return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    },
  })

  it.each([
    'http://127.0.0.1/',
    'http://127.1.2.3:8080/',
    'http://0.0.0.0/',
    'http://10.1.2.3/',
    'http://172.31.0.1/',
    'http://192.168.1.1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://100.100.100.200/',
    'http://0x7f.1/',
    'http://2130706433/',
    'http://017700000001/',
    'http://224.0.0.1/',
    'http://255.255.255.255/',
    'http://[::1]/',
    'http://[::]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
    'http://[fe80::1]/',
    'http://[fd00::1]/',
    'http://[ff02::1]/',
    'http://localhost/',
  ])('does not reach %s, and says how it could', async (url) => {
    const message = expect.stringContaining('name it in http_allow of the config')
    await expect(send({ url }, {})).rejects.toMatchObject({ code: 'action_denied', message })
  })

  it.each([
    ['a private address', ['10.0.0.7']],
    ['a public and a private address', ['93.184.216.34', '127.0.0.1']],
    ['a mapped loopback', ['::ffff:127.0.0.1']],
  ])('does not reach a name that resolves to %s', async (_what, addresses) => {
    const dns = nameOf(...addresses)
    await expect(send({ url: 'http://innocent.example/' }, { resolve: () => dns.resolve() })).rejects.toMatchObject({
      code: 'action_denied',
    })
  })

  it('connects to the very address that was checked, and asks for it once', async () => {
    const dns = nameOf('127.0.0.1')
    const url = `http://service.internal:${server.port}/json`
    const { output } = await send({ url }, { allow: ['127.0.0.0/8'], resolve: () => dns.resolve() })
    expect(output).toMatchObject({ body: { ok: true } })
    expect(server.requests[0]?.headers.host).toBe(`service.internal:${server.port}`)
    expect(dns.asked).toBe(1)
  })

  it('allows by host, by host and port, and by range, and nothing beside', async () => {
    const url = `${server.url}/json`
    for (const allow of ['127.0.0.1', here(), '127.0.0.0/8'])
      expect((await send({ url }, { allow: [allow] })).output).toMatchObject({ status: 200 })
    for (const allow of ['127.0.0.1:1', '10.0.0.0/8', 'localhost'])
      await expect(send({ url }, { allow: [allow] })).rejects.toMatchObject({ code: 'action_denied' })
    expect(() => httpAdapter({ allow: ['10.0.0.0/99'] })).toThrow(InvalidInput)
  })

  it.each([
    ['[::1]', 'http://[::1]:1/', true],
    ['[::1]:1', 'http://[::1]:1/', true],
    ['0:0:0:0:0:0:0:1', 'http://[::1]:1/', true],
    ['[::1]:2', 'http://[::1]:1/', false],
    ['::1:1', 'http://[::1]:1/', false],
    ['Büro.local', 'http://büro.local:1/', true],
  ])('knows %s as a URL spells it', async (allow, url, reached) => {
    const resolve = async () => [{ address: '::1', family: 6 }]
    const code = reached ? 'action_failed' : 'action_denied' // nobody listens there
    await expect(send({ url }, { allow: [allow], resolve })).rejects.toMatchObject({ code })
  })

  it.each(['', ' ', 'a b', 'user@host', 'host:', 'host:99999', 7, null])(
    'refuses to allow %j, which is no host',
    (allow) => {
      const problem = { path: 'allow[1]', rule: 'host' }
      expect(() => httpAdapter({ allow: ['a', allow as never] })).toThrow(
        expect.objectContaining({ problems: [expect.objectContaining(problem)] }),
      )
    },
  )

  it('checks where it is redirected to', async () => {
    const dns = nameOf('127.0.0.1')
    const options = { allow: [`first.example:${server.port}`], resolve: () => dns.resolve() }
    const first = `http://first.example:${server.port}`
    for (const to of [`${server.url}/json`, `http://localhost:${server.port}/json`, 'http://169.254.169.254/'])
      await expect(send({ url: `${first}/redirect?to=${encodeURIComponent(to)}` }, options)).rejects.toMatchObject({
        code: 'action_denied',
      })
    await expect(send({ url: `${first}/redirect?to=file:///etc/passwd` }, options)).rejects.toMatchObject({
      code: 'action_failed',
    })
    expect(server.requests).toHaveLength(4)
  })

  it('follows five redirects and no more', async () => {
    const hops = (count: number): string =>
      count === 0 ? '/json' : `/redirect?to=${encodeURIComponent(hops(count - 1))}`
    expect((await send({ url: `${server.url}${hops(5)}` })).output).toMatchObject({ body: { ok: true } })
    await expect(send({ url: `${server.url}${hops(6)}` })).rejects.toThrow(/more than 5 times/)
  })

  it.each([
    [302, 'POST', 'GET', ''],
    [303, 'PUT', 'GET', ''],
    [307, 'POST', 'POST', '{"a":1}'],
    [308, 'PATCH', 'PATCH', '{"a":1}'],
  ])('after %i sends a %s on as %s', async (code, method, then, body) => {
    await send({ url: `${server.url}/redirect?to=/json&code=${code}`, method, body: { a: 1 } })
    expect(server.requests[1]).toMatchObject({ method: then, body })
    expect(server.requests[1]?.headers['idempotency-key'] !== undefined).toBe(then !== 'GET')
  })

  it('gives credentials to the origin they belong to, and takes no header along to another', async () => {
    const other = await httpServer(answer)
    try {
      const options: HttpOptions = {
        allow: ['127.0.0.1'],
        credentials: (url) => (url.port === String(server.port) ? { Authorization: `Bearer ${TOKEN}` } : undefined),
      }
      const to = encodeURIComponent(`${other.url}/json`)
      await send({ url: `${server.url}/redirect?to=${to}`, headers: { 'X-Custom': 'mine' } }, options)
      expect(server.requests[0]?.headers).toMatchObject({ authorization: `Bearer ${TOKEN}`, 'x-custom': 'mine' })
      expect(other.requests[0]?.headers.authorization).toBeUndefined()
      expect(other.requests[0]?.headers['x-custom']).toBeUndefined()
    } finally {
      await other.close()
    }
  })

  it('ends an answer without end, and its connection', async () => {
    const options = { allow: [here()], maxResponseBytes: 1_000_000 }
    await expect(send({ url: `${server.url}/endless` }, options)).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
    })
    await expect.poll(() => server.busy()).toBe(0)
  })

  it('does not wait for a server that goes over to another protocol, and lets go of it', async () => {
    await expect(send({ url: `${server.url}/switch` })).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
      message: expect.stringContaining('answered 101'),
    })
    await expect.poll(() => server.busy()).toBe(0)
  })

  it('shows no part of a secret, also where what was said is cut', async () => {
    const error = await send({ url: `${server.url}/late-leak` }, { allow: [here()], secrets: [TOKEN] }).catch(String)
    expect(error).toMatch(/answered 401: x x .*x …$/)
  })

  it('says how long it was told to wait', async () => {
    const answered = send({ url: `${server.url}/status?code=429&after=12` })
    await expect(answered).rejects.toMatchObject({ retryable: true, retryAfterMs: 12_000 })
    await expect(answered).rejects.toThrow(/answered 429: the reason/)
  })

  it.each([
    ['a cut connection', () => `${server.url}/cut`, true],
    ['a port where nobody listens', () => 'http://127.0.0.1:1/', true],
    ['a name that does not exist', () => 'http://nowhere.invalid/', false],
  ])('says whether %s may pass', async (_what, url, retryable) => {
    const missing = Object.assign(new Error('ENOTFOUND'), { code: 'ENOTFOUND' })
    const options: HttpOptions = { allow: ['127.0.0.1'], resolve: () => Promise.reject(missing) }
    await expect(send({ url: url() }, options)).rejects.toMatchObject({ code: 'action_failed', retryable })
  })

  it('accepts the status codes that the action names', async () => {
    const params = { url: `${server.url}/status?code=404`, accept_status: [404] }
    expect((await send(params)).output).toMatchObject({ status: 404 })
    const redirect = { url: `${server.url}/redirect?to=/json`, accept_status: [302] }
    expect((await send(redirect)).output).toMatchObject({ status: 302, headers: { location: '/json' } })
  })

  it('gives text as text, and bytes as base64, also of text in another charset', async () => {
    expect((await send({ url: `${server.url}/text` })).output).toMatchObject({ body: 'plain' })
    expect((await send({ url: `${server.url}/bytes` })).output).toMatchObject({ body_base64: 'AQL/' })
    expect((await send({ url: `${server.url}/latin` })).output).toMatchObject({ body_base64: '6Q==' })
    const { output } = await send({ url: `${server.url}/json-latin` })
    expect(output).toMatchObject({ body_base64: Buffer.from('{"é":1}', 'latin1').toString('base64') })
  })

  it('reads JSON behind a byte order mark', async () => {
    expect((await send({ url: `${server.url}/json-marked` })).output).toMatchObject({ body: { é: 1 } })
  })

  it.each<[string, (socket: Socket) => void]>([
    ['was cut', (socket) => void socket.destroy()],
    ['still held something of the answer before', (socket) => void socket.write('and more')],
  ])(
    'asks again over a new connection when the one it had kept %s, unless that could do something twice',
    async (_, spoil) => {
      let connections = 0
      const cutting = createServer((socket) => {
        connections++
        socket.on('error', () => undefined)
        socket.once('data', () => {
          socket.write('HTTP/1.1 204 No Content\r\n\r\n')
          socket.once('data', () => spoil(socket))
        })
      })
      await new Promise<void>((resolve) => cutting.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void cutting.close())
      const url = `http://127.0.0.1:${(cutting.address() as AddressInfo).port}/`
      layer = actionLayer({ adapters: [httpAdapter({ allow: ['127.0.0.1'] })] })
      const sent = (method: string) =>
        layer.execute(newAction({ action_type: 'http_request', params: { url, method } }))
      for (const method of ['POST', 'GET']) expect((await sent(method)).output).toMatchObject({ status: 204 })
      expect(connections).toBe(2)
      await expect(sent('POST')).rejects.toMatchObject({ code: 'action_failed', retryable: true })
    },
  )

  it('asks for an answer that is not compressed, and says so where it is all the same', async () => {
    const { output } = await send({ url: `${server.url}/packed` })
    expect(server.requests[0]?.headers['accept-encoding']).toBe('identity')
    expect(output).toMatchObject({
      headers: { 'content-encoding': 'gzip' },
      body_base64: gzipSync('{}').toString('base64'),
    })
  })

  it('sends query, headers, a body and the trace', async () => {
    layer = actionLayer({ adapters: [httpAdapter({ allow: [here()] })] })
    const run = { context_id: 'c', plan_id: 'p', step_id: 's', trace_id: 'the-trace' }
    const params = {
      url: `${server.url}/json?a=1`,
      method: 'put',
      query: { b: ['x', 2] },
      headers: { 'X-Mine': 'y' },
      body: 'text',
    }
    await layer.execute(newAction({ action_type: 'http_request', params }), { run })
    expect(server.requests[0]).toMatchObject({ method: 'PUT', path: '/json?a=1&b=x&b=2', body: 'text' })
    expect(server.requests[0]?.headers).toMatchObject({
      'x-mine': 'y',
      'x-trace-id': 'the-trace',
      'content-type': 'text/plain; charset=utf-8',
    })
  })

  it('knows what only reads, and that the rest cannot be taken back', () => {
    const adapter = httpAdapter()
    const action = (method: string) => newAction({ action_type: 'http_request', params: { url: 'http://a', method } })
    expect(['GET', 'head', 'OPTIONS', 'POST', 'DELETE'].map((method) => adapter.readOnly?.({ method }))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
    expect([adapter.inverse?.(action('GET'), {}), adapter.inverse?.(action('POST'), {})]).toEqual([
      'none_needed',
      'irreversible',
    ])
  })
})
