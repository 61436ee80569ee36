import type { IncomingMessage, Server } from 'node:http'
import type { ComposedRuntime } from '../compose.ts'
import { relay } from '../orchestrator/relay.ts'
import { historyOf } from '../orchestrator/relay-history.ts'
import { systemClock } from '../protocol/clock.ts'
import { Closed } from '../protocol/errors.ts'
import { sparing, TOLD_AGAIN_MS } from '../protocol/reporter.ts'
import { atMost } from '../protocol/waiting.ts'
import { thisHolder } from '../vsl/holder.ts'
import type { Door } from './door.ts'
import { problemOf } from './problem.ts'
import { upgradesOf } from './upgrades.ts'

/** Under which the place in the journal is kept that every server of this store has come to. */
const NAME = 'mplp.serve'

/** Events over WebSocket on the server's own port, in the frames of a `ws:` bus: `connectEvents` speaks to either. */
export async function openSockets(
  { store }: ComposedRuntime,
  server: Server,
  options: {
    readonly path: string
    readonly door: Door
    readonly graceMs: number
    readonly onError: (error: unknown) => void
  },
): Promise<{ readonly close: () => Promise<void> }> {
  const { websocketTransport } = await import('../bus/websocket.ts')
  const { path, door, graceMs, onError } = options
  const history = historyOf(store, NAME)
  const closing = new AbortController()
  /** To a server that is new to its store, or was away for long, all that happened until now is still to be told: that is not for who asks what comes. */
  const published = async () => {
    await feeding.flush(closing.signal)
    if (closing.signal.aborted) throw new Closed('the server') // short of the end: who came back to that place would be told what is long over
    return history.published()
  }
  const transport = await websocketTransport({
    server: upgradesOf(server, path),
    path,
    graceMs,
    onError,
    history: { ...history, published },
    refuse: (request) => refusal(request, door),
  })
  const holder = thisHolder(systemClock.uuid())
  const tellTrouble = sparing(onError, TOLD_AGAIN_MS, systemClock) // it tries again ten times a second for as long as the store is away
  const feeding = relay({ store, transport, name: NAME, holder, graceMs, onError: tellTrouble })
  return {
    async close() {
      closing.abort()
      await atMost(graceMs, feeding.close(), systemClock) // guests are sent off, also when the store does not answer
      await transport.close()
    },
  }
}

/** The status of a handshake that is not let in; whoever may read may listen. */
function refusal({ headers }: IncomingMessage, door: Door): number | undefined {
  try {
    door(
      { ...headers, authorization: headers.authorization ?? fromProtocol(headers['sec-websocket-protocol']) },
      'read',
    )
    return undefined
  } catch (error) {
    return problemOf(error).status
  }
}

/** A browser cannot send headers with a handshake: it names its token as a protocol, in base64url after `bearer.`. */
function fromProtocol(protocols = ''): string | undefined {
  const token = /(?:^|,)\s*bearer\.([\w-]+)/.exec(protocols)?.[1]
  return token === undefined ? undefined : `Bearer ${Buffer.from(token, 'base64url')}`
}
