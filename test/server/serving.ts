import { request } from 'node:http'
import { onTestFinished } from 'vitest'
import { type ComposedRuntime, type ComposeOptions, openRuntime } from '../../src/compose.ts'
import type { Config } from '../../src/config.ts'
import { type ServeOptions, type Server, serve } from '../../src/server/server.ts'

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

export interface Serving {
  readonly runtime: ComposedRuntime
  readonly server: Server
  readonly url: string
  ask(method: string, path: string, body?: unknown, headers?: { [name: string]: string }): Promise<Answer>
}

/** A server that really listens, on a store of its own; both are closed with the test. */
export async function serving(
  options: ServeOptions = {},
  config: Config = {},
  composing: ComposeOptions = {},
): Promise<Serving> {
  const runtime = await openRuntime({ vsl: 'memory:', functions: FUNCTIONS, ...config }, composing)
  onTestFinished(() => runtime.close())
  const server = await serve(runtime, { port: 0, ...options })
  onTestFinished(() => server.close())
  const { url } = server
  return {
    runtime,
    server,
    url,
    async ask(method, path, body, headers = {}) {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
    },
  }
}

export interface Told {
  readonly id: string | undefined
  readonly data: { readonly event: { readonly event_id: string; readonly event_type: string } }
}

const FUNCTIONS = {
  greet: () => 'hello',
  one: () => 1,
  boom: () => {
    throw new Error('boom')
  },
}

export async function* sse(response: Response): AsyncGenerator<Told> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop()!
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1]
      if (data !== undefined) yield { id: /^id: (.*)$/m.exec(block)?.[1], data: JSON.parse(data) }
    }
  }
}

export async function told(url: string, headers: { [name: string]: string } = {}): Promise<Told[]> {
  const all: Told[] = []
  for await (const one of sse(await fetch(url, { headers }))) all.push(one)
  return all
}

/** The status that a body of so many bytes gets; whether all of it was read or not. */
export function large(url: string, bytes: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let answered = false
    const sent = request(url, { method: 'POST', headers: { 'content-type': 'application/json' } }, (response) => {
      answered = true
      response.resume()
      resolve(response.statusCode!)
    })
    sent.on('error', (error) => answered || reject(error))
    const chunk = Buffer.alloc(64 * 1024, 0x20)
    for (let i = 0; i < bytes / chunk.length; i++) sent.write(chunk)
    sent.end()
  })
}

export function status(url: string, headers: { [name: string]: string }): Promise<number> {
  return new Promise((resolve, reject) =>
    request(url, { headers }, (response) => {
      response.resume()
      resolve(response.statusCode!)
    })
      .on('error', reject)
      .end(),
  )
}
