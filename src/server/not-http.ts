import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { problemOfRequest } from './problem.ts'

/**
 * Answers what could not be read as a request, for which there is no reply to send it with; a connection that is gone is let go. While an answer is
 * owed to a request from before, this would be taken for it, or stand in the midst of it: that one is given to its end, and the connection ends.
 */
export function notHttp(
  { code }: { readonly code: string },
  socket: Socket,
  owed: (socket: Socket) => ServerResponse | undefined,
): void {
  if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const last = owed(socket)
  if (last) {
    socket.pause() // what follows is no more HTTP than this was
    return void last.once('close', () => socket.destroySoon())
  }
  const [statusCode, message] = OF_NODE[code] ?? [400, 'this is not HTTP']
  const body = JSON.stringify(problemOfRequest({ statusCode, message }))
  const head = [
    'Connection: close',
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ]
  socket.end(`HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}\r\n${head.join('\r\n')}\r\n\r\n${body}`, () =>
    socket.destroy(),
  )
}

const OF_NODE: { readonly [code: string]: readonly [status: number, message: string] } = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'the whole of the request was not here in time'],
  HPE_HEADER_OVERFLOW: [431, 'the headers are too long'],
}
