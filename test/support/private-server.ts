import { createServer } from 'node:net'
import type { Owned } from './processes.ts'

/** A server of ours that a test may treat badly. */
export interface PrivateServer {
  readonly url: string
  readonly version: string
  readonly pid: number
  /** SIGKILL to all of it, and waits until it is gone. */
  kill(): Promise<void>
  /** Starts it again on the same port and folder, after an orderly stop if it still runs. */
  restart(): Promise<void>
  /** SIGSTOP: connections stay open and nobody answers. */
  pause(): void
  resume(): void
  /** In good order. Safe to call twice. */
  stop(): Promise<void>
}

/** For so long a server that ends at its start is started again. */
const STARTS_MS = 10_000

/** `start` spawns it, `ask` connects and returns its version; asked again and again until it answers or the process has ended. */
export async function privateServer(options: {
  readonly name: string
  readonly url: string
  readonly start: () => Owned
  readonly ask: () => Promise<string>
  readonly patienceMs?: number
}): Promise<PrivateServer> {
  let server = options.start()
  const version = await answered(server, options)

  return {
    url: options.url,
    version,
    get pid() {
      return server.pid
    },
    async kill() {
      server.signal('SIGKILL')
      await server.exited
    },
    async restart() {
      await server.stop()
      for (const until = Date.now() + STARTS_MS; ; ) {
        server = options.start()
        try {
          await answered(server, options)
          return
        } catch (error) {
          if (server.running || Date.now() > until) throw error
          await new Promise((resolve) => setTimeout(resolve, 50)) // what a killed server leaves behind holds on to its memory for a moment
        }
      }
    },
    pause: () => server.signal('SIGSTOP'),
    resume: () => server.signal('SIGCONT'),
    stop: () => server.stop(),
  }
}

async function answered(
  server: Owned,
  { name, ask, patienceMs = 30_000 }: { name: string; ask: () => Promise<string>; patienceMs?: number },
): Promise<string> {
  const until = Date.now() + patienceMs
  for (;;) {
    try {
      return await ask()
    } catch (cause) {
      if (!server.running) throw new Error(`${name} ended at its start: ${server.lastWords}`, { cause })
      if (Date.now() > until) {
        await server.stop('SIGKILL')
        throw new Error(`${name} did not answer within ${patienceMs / 1000} s: ${server.lastWords}`, { cause })
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

/**
 * Free now, and so is the one that lies `beside` so far above it. Both are outside the range from which the system serves outgoing connections, so
 * that none of those takes them meanwhile.
 */
export async function freePort(beside = 0): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * (15_000 - beside))
    if ((await isFree(port)) && (beside === 0 || (await isFree(port + beside)))) return port
  }
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
