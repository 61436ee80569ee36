import { systemClock } from '../protocol/clock.ts'
import { Refused } from '../protocol/errors.ts'
import { reporter } from '../protocol/reporter.ts'
import { type Bus, type BusSpec, checkBus, checkBuses, nameOf, placeOf, schemeOf } from './bus-spec.ts'
import { checkBusOptions, checkSourceOptions } from './check-options.ts'
import { closeBuses } from './close-buses.ts'
import type { History } from './fan-out.ts'
import type { KafkaTransportOptions } from './kafka.ts'
import { memoryTransport } from './memory.ts'
import type { RedisTransportOptions } from './redis.ts'
import type { SourceOptions } from './source.ts'
import type { Source, Transport } from './transport.ts'
import type { WebSocketTransportOptions } from './websocket.ts'
import type { ConnectOptions } from './websocket-client.ts'

export type { Bus, BusSpec } from './bus-spec.ts'
export { dedupe } from './dedupe.ts'
export type { History } from './fan-out.ts'
export { type DeliveryLog, fromLog } from './from-log.ts'
export { type Logger, logSink } from './log-sink.ts'
export type { SourceOptions } from './source.ts'
export type * from './transport.ts'
export type { ConnectOptions } from './websocket-client.ts'

export interface BusOptions extends SourceOptions {
  /** For carriers that keep nothing themselves: where the deliveries of a bus are kept. */
  readonly history?: (bus: string) => History
  readonly redis?: Omit<RedisTransportOptions, 'url' | 'client'>
  readonly kafka?: Omit<KafkaTransportOptions, 'url' | 'client' | 'topic'>
  readonly websocket?: Omit<WebSocketTransportOptions, 'host' | 'port' | 'path' | 'history'>
}

export interface SourceUrlOptions extends SourceOptions {
  readonly redis?: BusOptions['redis']
  readonly kafka?: BusOptions['kafka']
  readonly websocket?: ConnectOptions
}

/**
 * Opens the publishing end: `memory:`, `redis://…`, `rediss://…`, `kafka://host:port,host:port/topic`, or `ws://host:port/path` (where to serve it).
 * Without a name it has its scheme's.
 */
export async function openBus(spec: BusSpec, options: BusOptions = {}): Promise<Bus> {
  checkBus(spec)
  checkBusOptions(options)
  const name = nameOf(spec)
  if (typeof spec === 'object' && 'transport' in spec) return spec
  const url = typeof spec === 'string' ? spec : spec.url
  const { history: historyOf, redis, kafka, websocket, ...common } = options
  const history = historyOf && { history: historyOf(name) }
  return { name, transport: await opened() }

  async function opened(): Promise<Transport> {
    switch (schemeOf(url)) {
      case 'memory':
        return memoryTransport({ ...common, ...history })
      case 'redis':
        return (await import('./redis.ts')).redisTransport({ ...common, ...redis, url })
      case 'kafka':
        return (await import('./kafka.ts')).kafkaTransport({ ...common, ...kafka, url })
      case 'websocket':
        return (await import('./websocket.ts')).websocketTransport({
          ...common,
          ...history,
          ...websocket,
          ...placeOf(url),
        })
    }
  }
}

/** Several at once, each with a relay of its own. When one cannot be opened, the others are closed again. */
export async function openBuses(specs: readonly BusSpec[], options: BusOptions = {}): Promise<readonly Bus[]> {
  checkBuses(specs)
  checkBusOptions(options) // also when there are none to open
  const opening = await Promise.allSettled(specs.map((spec) => openBus(spec, options)))
  const failed = opening.find((result) => result.status === 'rejected')
  const opened = opening.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  if (!failed) return opened
  const { clock = systemClock, onError } = options
  await closeBuses(opened, clock).catch(reporter(onError)) // why they cannot be opened is what the caller must hear
  throw failed.reason
}

/** Opens the listening end for somebody who has only the URL; `ws:` and `wss:` connect to a server. */
export async function openSource(url: string, options: SourceUrlOptions = {}): Promise<Source> {
  checkSourceOptions(options)
  const { redis, kafka, websocket, ...common } = options
  switch (/^wss:/.test(url) ? 'websocket' : schemeOf(url)) {
    case 'memory':
      throw new Refused(
        'a memory bus cannot be reached by a URL',
        'subscribe to the transport itself, or use another bus',
      )
    case 'redis':
      return (await import('./redis.ts')).redisTransport({ ...common, ...redis, url })
    case 'kafka':
      return (await import('./kafka.ts')).kafkaTransport({ ...common, ...kafka, url })
    case 'websocket':
      return (await import('./websocket-client.ts')).connectEvents(url, { ...common, ...websocket })
  }
}
