import { InvalidInput, Refused } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { History } from './fan-out.ts'
import type { KafkaTransportOptions } from './kafka.ts'
import { memoryTransport } from './memory.ts'
import type { RedisTransportOptions } from './redis.ts'
import type { SourceOptions } from './source.ts'
import type { Source, Transport } from './transport.ts'
import type { WebSocketTransportOptions } from './websocket.ts'
import type { ConnectOptions } from './websocket-client.ts'

export type { History } from './fan-out.ts'
export type { SourceOptions } from './source.ts'
export type * from './transport.ts'
export type { ConnectOptions } from './websocket-client.ts'

/** A transport under the name by which its relay remembers how far it has come: another name begins at the beginning. */
export interface Bus {
  readonly name: string
  readonly transport: Transport
}

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

/** One bus: its URL, its URL under a name of its own, or a transport of your own under a name. */
export type BusSpec = string | { readonly url: string; readonly name?: string } | Bus

/**
 * Opens the publishing end: `memory:`, `redis://…`, `rediss://…`, `kafka://host:port,host:port/topic`, or `ws://host:port/path` (where to serve it).
 * Without a name it has its scheme's.
 */
export async function openBus(spec: BusSpec, options: BusOptions = {}): Promise<Bus> {
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
  if (!Array.isArray(specs)) throw noBus('buses', 'must be a list', specs)
  const names = specs.map(nameOf)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined)
    throw new InvalidInput('buses', [
      {
        path: `[${names.lastIndexOf(twice)}].name`,
        rule: 'unique',
        message: 'is taken by another bus; give each a name',
        found: twice,
      },
    ])
  const opening = await Promise.allSettled(specs.map((spec) => openBus(spec, options)))
  const failed = opening.find((result) => result.status === 'rejected')
  const opened = opening.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  if (!failed) return opened
  await Promise.all(opened.map(({ transport }) => transport.close()))
  throw failed.reason
}

/** Opens the listening end for somebody who has only the URL; `ws:` and `wss:` connect to a server. */
export async function openSource(url: string, options: SourceUrlOptions = {}): Promise<Source> {
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

const SCHEMES = { memory: 'memory', redis: 'redis', rediss: 'redis', kafka: 'kafka', ws: 'websocket' } as const

function schemeOf(url: string): 'memory' | 'redis' | 'kafka' | 'websocket' {
  const scheme = /^([a-z]+):/.exec(url)?.[1] ?? ''
  if (Object.hasOwn(SCHEMES, scheme)) return SCHEMES[scheme as keyof typeof SCHEMES]
  if (scheme === 'wss')
    throw new Refused(
      'a bus does not serve TLS itself',
      'give websocketTransport an HTTPS server of yours, or put a proxy before ws:',
    )
  const known = Object.keys(SCHEMES).map((name) => `${name}:`)
  throw new InvalidInput('the URL of a bus', [
    { path: 'url', rule: 'scheme', message: `does not begin with one of ${known.join(', ')}`, found: `${scheme}:` },
  ])
}

function nameOf(spec: BusSpec): string {
  if (typeof spec !== 'string' && !isObject(spec))
    throw noBus('bus', 'is neither a URL nor an object with a url or a transport', spec)
  if (typeof spec === 'object' && 'transport' in spec) checkTransport(spec.transport)
  const name = typeof spec === 'string' ? schemeOf(spec) : (spec.name ?? ('url' in spec ? schemeOf(spec.url) : ''))
  if (/^[\w.-]{1,100}$/.test(name)) return name
  throw new InvalidInput('bus', [
    { path: 'name', rule: 'name', message: 'is not 1 to 100 letters, digits, or any of _ . -', found: name },
  ])
}

/** One that could not be published to would be found out by the first commit, and one that could not be closed by the last. */
function checkTransport(transport: unknown): void {
  const missing = ['publish', 'close'].filter(
    (method) => !isObject(transport) || typeof transport[method] !== 'function',
  )
  if (missing.length > 0) throw noBus('bus', `lacks ${missing.join(', ')}`, transport, 'transport')
}

const noBus = (subject: string, message: string, found: unknown, path = ''): InvalidInput =>
  new InvalidInput(subject, [{ path, rule: 'bus', message, found: shown(found) }])

function placeOf(url: string): { host: string; port: number; path: string } {
  if (!URL.canParse(url))
    throw new InvalidInput('the URL of a bus', [{ path: 'url', rule: 'url', message: 'is not a URL' }])
  const { hostname, port, pathname, search, username } = new URL(url)
  if (search !== '' || username !== '')
    throw new InvalidInput('the URL of a bus', [
      { path: 'url', rule: 'url', message: 'has a query or a user; token and settings are given as options' },
    ])
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), path: pathname === '/' ? '/events' : pathname }
}
