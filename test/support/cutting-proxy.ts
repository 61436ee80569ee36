import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { freePort } from './private-server.ts'

type Match = (chunk: Buffer) => boolean

/** A bad network between a client and a server. Until told otherwise it forwards everything. */
export interface CuttingProxy {
  /** The target's address with the proxy's in place of it. */
  readonly url: string
  /** How many connections were opened through it so far. */
  readonly connections: number
  /** The next request that matches reaches the server, which carries it out; no reply comes back and the connection is cut. Resolves once the server has finished with it. */
  cutReply(match?: Match): Promise<void>
  /** The next request that matches does not reach the server, and the connection is cut. Resolves when that has happened. */
  cutRequest(match?: Match): Promise<void>
  /** New connections lead there, as those to a name do that was given another address; those that stand stay. */
  leadTo(target: string): void
  /** Holds everything back for so long, both ways. */
  delay(ms: number): void
  /** Cuts every connection there is. */
  cutAll(): void
  /** Cuts every connection and refuses new ones until `accept`. */
  refuse(): Promise<void>
  accept(): Promise<void>
  close(): Promise<void>
}

interface Trap {
  readonly reply: boolean
  readonly match: Match
  readonly sprung: () => void
}

/** `target` is a URL or `host:port`. */
export async function cuttingProxy(target: string): Promise<CuttingProxy> {
  const address = addressOf(target)
  let { hostname, port: targetPort } = address
  const port = await freePort()
  const pairs = new Set<readonly [Socket, Socket]>()
  let traps: Trap[] = []
  let delayMs = 0
  let connections = 0
  let server: Server | undefined

  const serve = (client: Socket) => {
    connections++
    const upstream = dial(Number(targetPort), hostname)
    const pair = [client, upstream] as const
    pairs.add(pair)
    let deaf = false // the reply was cut: what the server still says goes nowhere

    const inOrder = () => {
      let last = Promise.resolve()
      return (work: () => void) => {
        last = last
          .then(() => (delayMs > 0 ? new Promise((resolve) => setTimeout(resolve, delayMs)) : undefined))
          .then(work)
      }
    }
    const [toServer, toClient] = [inOrder(), inOrder()]

    client.on('data', (chunk) =>
      toServer(() => {
        const trap = traps.find(({ match }) => match(chunk))
        if (!trap) return void upstream.write(chunk)
        traps = traps.filter((other) => other !== trap)
        if (!trap.reply) {
          client.destroy()
          upstream.destroy()
          return trap.sprung()
        }
        deaf = true
        upstream.once('close', trap.sprung)
        upstream.end(chunk) // an orderly end: a reset could throw the request away before the server has read it
        client.destroy()
      }),
    )
    upstream.on('data', (chunk) => toClient(() => void (deaf || client.write(chunk))))
    client.on('end', () => toServer(() => upstream.end()))
    upstream.on('end', () => toClient(() => client.end()))
    for (const socket of pair) {
      socket.on('error', () => undefined) // a close follows, and that is what matters
      socket.once('close', () => {
        if (client.destroyed && upstream.destroyed) pairs.delete(pair)
        if (socket === upstream || !deaf) for (const other of pair) other.destroy()
      })
    }
  }

  const trap = (reply: boolean, match: Match = () => true) =>
    new Promise<void>((sprung) => {
      traps.push({ reply, match, sprung })
    })
  const cutAll = () => {
    for (const pair of pairs) for (const socket of pair) socket.destroy()
  }
  const accept = async () => {
    if (server) return
    const listening = createServer(serve)
    await new Promise<void>((resolve, reject) => listening.once('error', reject).listen(port, '127.0.0.1', resolve))
    server = listening
  }
  const refuse = async () => {
    const listening = server
    server = undefined
    cutAll()
    if (listening) await new Promise<void>((resolve) => listening.close(() => resolve()))
  }

  await accept()
  address.host = `127.0.0.1:${port}`
  return {
    url: target.includes('://') ? address.href : address.host,
    get connections() {
      return connections
    },
    leadTo(target) {
      ;({ hostname, port: targetPort } = addressOf(target))
    },
    cutReply: (match) => trap(true, match),
    cutRequest: (match) => trap(false, match),
    delay(ms) {
      delayMs = ms
    },
    cutAll,
    refuse,
    accept,
    close: refuse,
  }
}

const addressOf = (target: string): URL => new URL(target.includes('://') ? target : `tcp://${target}`)
