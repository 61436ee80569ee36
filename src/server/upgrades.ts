import { EventEmitter } from 'node:events'
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuseUpgrade } from '../bus/listening.ts'
import { isFor } from '../bus/websocket-door.ts'

/**
 * Who listens for upgrades gets every one of them, and nobody else answers it. Those to WebSocket on `path` go to whom this returns; other
 * WebSockets are told that nothing is there; any other upgrade is ignored, and the request answered as if it had not asked for one.
 */
export function upgradesOf(server: Server, path: string): Server {
  const wanted = new EventEmitter()
  Object.assign(server, { shouldUpgradeCallback: isWebSocket }) // Node 22, 24 and later ask this first, and let no other upgrade come here
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (!isWebSocket(request)) ignore(server, request, socket, head)
    else if (!isFor(request, path)) refuseUpgrade(socket, 404)
    else if (!wanted.emit('upgrade', request, socket, head)) refuseUpgrade(socket, 503)
  })
  return wanted as Server // of which only the upgrades are listened to
}

const isWebSocket = ({ headers }: IncomingMessage): boolean => headers.upgrade?.toLowerCase() === 'websocket'

/** Java's client and `curl --http2` ask for h2c with every request. The request is read once more, without the wish. */
function ignore(server: Server, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`, 'Connection: close']
  for (let i = 0; i < request.rawHeaders.length; i += 2)
    if (!OF_UPGRADES.has(request.rawHeaders[i]!.toLowerCase()))
      lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`)
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  server.emit('connection', socket)
}
const OF_UPGRADES: ReadonlySet<string> = new Set(['connection', 'upgrade', 'http2-settings'])
