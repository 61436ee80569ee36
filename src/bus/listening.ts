import { STATUS_CODES } from 'node:http'
import { createServer, type Server } from 'node:net'
import type { Duplex } from 'node:stream'
import { type MplpError, Refused, Unavailable } from '../protocol/errors.ts'

/** Is a host, as it is or as URLs write it, reached from this machine alone? */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d+){3}$/.test(host)

/** Where a server listens, as URLs write it. */
export const authority = (host: string, server: Server): string => {
  const { port } = server.address() as { readonly port: number }
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Throws Refused for a port that is taken, Unavailable for one that cannot be used. */
export function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => reject(portError(host, port, cause))).listen(port, host, resolve)
  })
}

/** Throws what `listen` would, for who has something to make before it; the port is free again afterwards, and held for as long as `meanwhile` takes. */
export async function tryPort(host: string, port: number, meanwhile?: () => Promise<void>): Promise<void> {
  const server = createServer((socket) => socket.destroy())
  await listen(server, host, port)
  try {
    await meanwhile?.()
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
}

/** What is wrong with a port, by what the system said. */
export function portError(host: string, port: number, cause: unknown): MplpError {
  const { code } = cause as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') return new Refused(`port ${port} of ${host} is taken`, 'choose another port', { cause })
  const remedy = 'choose a host of this machine and a port that may be used'
  return new Unavailable(`port ${port} of ${host}`, remedy, { cause })
}

/** Answers a wish for an upgrade that is not granted. */
export function refuseUpgrade(socket: Duplex, status: number): void {
  socket.on('error', () => socket.destroy()) // or a client that is gone already would end the process
  const answer = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
  socket.end(answer, () => socket.destroy()) // or a client that does not end it either would hold it, and every close
}
