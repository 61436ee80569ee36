import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

export interface Connections {
  /** Ends what would be waited for in vain; with `all`, also whoever has not been answered yet. */
  readonly overdue: (all: boolean) => void
  /** The last answer that is still to be given, or to be given to its end, on a connection; not one whose request is not whole. */
  readonly owed: (socket: Socket) => ServerResponse | undefined
}

/** Browsers and fetch connect ahead of what they may ask for. What is asked has come by then. */
const UNUSED_MS = 100

/**
 * Closing waits for every connection, so somebody has to end each. Idle ones end at once, unused ones in a moment. Those whose request is handled end
 * by themselves once the client has its answer, and WebSockets have their own good-bye. In vain one would wait for the rest of half a request, and for
 * a client that does not read its answer.
 */
export function connectionsOf(app: FastifyInstance): Connections {
  const waiting = new Map<Socket, number>() // with how much of it had been read when its last answer was through
  const answering = new Map<Socket, ServerResponse>()
  const asked = new WeakMap<Socket, Set<ServerResponse>>()
  let isClosing = false
  app.server.on('request', ({ socket }, response) => {
    const here = asked.get(socket) ?? new Set()
    asked.set(socket, here.add(response))
    response.once('close', () => here.delete(response))
  })
  app.server.on('connection', (socket) => {
    waiting.set(socket, Number.NaN)
    socket.once('close', () => {
      waiting.delete(socket)
      answering.delete(socket)
    })
  })
  app.server.on('upgrade', ({ socket }) => waiting.delete(socket))
  app.addHook('preHandler', async ({ raw: { socket } }, reply) => {
    waiting.delete(socket) // by then its body is here
    answering.set(socket, reply.raw)
  })
  app.addHook('onResponse', async ({ raw: { socket } }) => {
    answering.delete(socket)
    if (isClosing) socket.destroySoon()
    else if (!socket.destroyed) waiting.set(socket, socket.bytesRead)
  })
  // Node's own takes a connection for idle once its answer is written, and would cut off whoever is still reading that.
  app.server.closeIdleConnections = () => {
    isClosing = true
    for (const [socket, read] of waiting) if (socket.bytesRead === read) socket.destroy()
    const endUnused = () => {
      for (const socket of waiting.keys()) if (socket.bytesRead === 0) socket.destroy()
    }
    setTimeout(endUnused, UNUSED_MS).unref()
  }
  return {
    owed: (socket) => [...(asked.get(socket) ?? [])].findLast(({ req, headersSent }) => req.complete || headersSent),
    overdue(all) {
      for (const socket of waiting.keys()) socket.destroy()
      for (const [socket, response] of answering) if (all || response.writableEnded) socket.destroy()
    },
  }
}
