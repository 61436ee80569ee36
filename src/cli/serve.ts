import { once } from 'node:events'
import { type BusSpec, servedAt } from '../bus/bus-spec.ts'
import { tryPort } from '../bus/listening.ts'
import type { ComposedRuntime } from '../compose.ts'
import { effectiveConfig, SERVER } from '../config.ts'
import { MplpError } from '../protocol/errors.ts'
import { refuseUnlessFit } from '../protocol/fields.ts'
import type { Report } from '../protocol/reporter.ts'
import { inWords } from '../protocol/thrown.ts'
import { ownPort } from '../server/own-port.ts'
import { serve } from '../server/server.ts'
import { type Settled, settleOptions } from '../server/settle-options.ts'
import { EXIT } from './io.ts'
import { numberIn } from './number-in.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

/** From the signal on, so that the server's good-byes and the runtime's are over in time together. */
const DRAIN_MS = 10_000

export async function run({ options, io }: VerbCall): Promise<number> {
  const { bus, server: configured } = effectiveConfig(await io.config())
  const settings = {
    ...configured,
    ...(typeof options.host === 'string' && { host: options.host }),
    ...(typeof options.port === 'string' && { port: portOf(options.port) }),
  }
  await tryPorts(settleOptions(settings), bus) // both before a store is made for it
  const work = async (runtime: ComposedRuntime, onError: Report) => {
    const told = (error: unknown) =>
      error instanceof MplpError
        ? onError(error)
        : io.warn(error instanceof Error ? (error.stack ?? error.message) : inWords(error))
    const server = await serve(runtime, { ...settings, onError: told })
    io.line({ url: server.url }, () => `listening on ${server.url} (Ctrl-C ends it in good order)`)
    if (!io.signal.aborted) await once(io.signal, 'abort')
    const drained = AbortSignal.timeout(DRAIN_MS)
    await server.close()
    await runtime.close(drained)
    return EXIT.done
  }
  return withRuntime(io, work, { makes: true, stays: true, drives: 'all' })
}

/** Throws what listening would, and Refused for a bus that would be where the server is. The system is asked: a host has several names. */
async function tryPorts({ host, port }: Settled, buses: readonly BusSpec[]): Promise<void> {
  await tryPort(host, port)
  for (const [i, spec] of buses.entries()) {
    const place = servedAt(spec)
    if (place?.port !== port) continue
    await tryPort(place.host, port) // nobody else is there
    await tryPort(host, port, () => tryPort(place.host, port)).catch((cause: unknown) => {
      throw ownPort(i, place, cause)
    })
  }
}

/** Throws InvalidInput, with the text as it was given. */
function portOf(text: string): number {
  const port = numberIn(text)
  refuseUnlessFit('the command line', { '--port': port }, { '--port': SERVER.port })
  return Number(port)
}
