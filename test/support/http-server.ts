import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface Heard {
  readonly method: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface HttpServer {
  readonly port: number
  readonly url: string
  readonly requests: readonly (Heard & { readonly path: string })[]
  /** Resolves when so many requests have arrived since the start. */
  arrived(count: number): Promise<void>
  /** Connections with an unfinished request. */
  busy(): number
  close(): Promise<void>
}

/** A server on this machine that answers as it is told. */
export async function httpServer(
  answer: (request: Heard & { readonly url: URL }, response: ServerResponse) => void,
): Promise<HttpServer> {
  const requests: HttpServer['requests'][number][] = []
  const busy = new Set<Socket>()
  const waiting: { count: number; resolve: () => void }[] = []
  const server = createServer(async (incoming, response) => {
    busy.add(incoming.socket)
    incoming.socket.once('close', () => busy.delete(incoming.socket))
    response.once('finish', () => busy.delete(incoming.socket))
    let body = ''
    for await (const chunk of incoming) body += chunk
    const { method = '', url: path = '', headers } = incoming
    requests.push({ method, path, headers, body })
    for (const each of waiting) if (requests.length >= each.count) each.resolve()
    answer({ url: new URL(path, 'http://here'), method, headers, body }, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  return {
    port,
    url: `http://127.0.0.1:${port}`,
    requests,
    arrived: (count) =>
      requests.length >= count ? Promise.resolve() : new Promise((resolve) => waiting.push({ count, resolve })),
    busy: () => busy.size,
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

/** An answer that goes on for as long as somebody takes it. */
export function endless(response: ServerResponse): void {
  const more = () => {
    while (!response.destroyed && response.write(' '.repeat(65_536)));
    if (!response.destroyed) response.once('drain', more)
  }
  more()
}
