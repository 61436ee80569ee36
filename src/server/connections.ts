import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/**
 * The connections on which no request has come to be handled: idle, or with half a request. Those that are handled end by themselves, and
 * WebSockets have their own good-bye; for these nobody would ever wait long enough.
 */
export function unhandled(app: FastifyInstance): { readonly destroy: () => void } {
  const waiting = new Set<Socket>()
  app.server.on('connection', (socket) => {
    waiting.add(socket)
    socket.once('close', () => waiting.delete(socket))
  })
  app.server.on('upgrade', ({ socket }) => waiting.delete(socket))
  app.addHook('preHandler', async ({ raw }) => void waiting.delete(raw.socket)) // by then its body is here
  app.addHook('onResponse', async ({ raw }) => void (raw.socket.destroyed || waiting.add(raw.socket)))
  return {
    destroy() {
      for (const socket of waiting) socket.destroy()
    },
  }
}
