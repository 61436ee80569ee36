import { InvalidInput } from '../protocol/errors.ts'
import { type Fields, having, needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import { redisAddress } from '../protocol/redis-address.ts'
import { retold } from '../protocol/retold.ts'
import { pathUnder } from '../protocol/under.ts'
import { busName } from './check-options.ts'
import { kafkaAddress } from './kafka-link.ts'
import type { Transport } from './transport.ts'

/** A transport under the name by which its relay remembers how far it has come: another name begins at the beginning. */
export interface Bus {
  readonly name: string
  readonly transport: Transport
}

/** One bus: its URL, its URL under a name of its own, or a transport of your own under a name. */
export type BusSpec = string | { readonly url: string; readonly name?: string } | Bus

/** Throws InvalidInput for buses of which one cannot be opened, or two would be taken for one; none is opened for it. */
export function checkBuses(specs: readonly BusSpec[]): void {
  if (!Array.isArray(specs)) throw noBus('must be a list', specs)
  for (const [i, spec] of specs.entries()) checkOneOf(i, spec)
  const names = specs.map(nameOf)
  const twice = names.findIndex((name, i) => names.indexOf(name) !== i)
  if (twice < 0) return
  const message = 'is taken by another bus; give each a name'
  throw new InvalidInput('buses', [{ path: `[${twice}].name`, rule: 'unique', message, found: names[twice]! }])
}

const checkOneOf = (i: number, spec: BusSpec): void =>
  retold(
    'buses',
    (path) => pathUnder(`[${i}]`, typeof spec === 'string' ? '' : path),
    () => checkBus(spec),
  )

/** Throws InvalidInput for a bus that cannot be opened, whatever runs. */
export function checkBus(spec: BusSpec): void {
  if (typeof spec === 'string') return checkUrl(spec)
  if (!isObject(spec)) throw noBus('is neither a URL nor an object with a url or a transport', spec)
  if ('transport' in spec) return refuseUnlessFit('bus', spec, OWN)
  refuseUnlessFit('bus', spec, NAMED)
  checkUrl(spec.url)
}

/** One that could not be published to would be found out by the first commit, and one that could not be closed by the last. */
const OWN: Fields = { name: needed(busName), transport: having('a transport: publish, close', 'publish', 'close') }
const NAMED: Fields = { name: busName, url: { ...needed(text), secret: true } } // it may hold a password

/** Without a name it has its scheme's. */
export function nameOf(spec: BusSpec): string {
  if (typeof spec === 'string') return schemeOf(spec)
  return 'transport' in spec ? spec.name : (spec.name ?? schemeOf(spec.url))
}

/** Does it live in the process that opens it? */
export const isWithin = (spec: BusSpec): boolean =>
  typeof spec === 'string' ? /^(memory|ws):/.test(spec) : 'url' in spec && isWithin(spec.url)

const SCHEMES = { memory: 'memory', redis: 'redis', rediss: 'redis', kafka: 'kafka', ws: 'websocket' } as const

export function schemeOf(url: string): 'memory' | 'redis' | 'kafka' | 'websocket' {
  const scheme = /^([a-z]+):/.exec(url)?.[1] ?? ''
  if (Object.hasOwn(SCHEMES, scheme)) return SCHEMES[scheme as keyof typeof SCHEMES]
  if (scheme === 'wss')
    throw badUrl(
      'cannot be served over TLS; give websocketTransport an HTTPS server of yours, or put a proxy before ws:',
    )
  const known = Object.keys(SCHEMES).map((name) => `${name}:`)
  const message = `does not begin with one of ${known.join(', ')}`
  throw new InvalidInput('the URL of a bus', [{ path: 'url', rule: 'scheme', message, found: `${scheme}:` }])
}

function checkUrl(url: string): void {
  const check = {
    memory: () => {
      if (!/^memory:(\/\/)?$/.test(url)) throw badUrl('has something after memory:')
    },
    redis: () => redisAddress(url, 'bus'),
    kafka: () => kafkaAddress(url),
    websocket: () => placeOf(url),
  }
  check[schemeOf(url)]()
}

/** Where this process would listen for the clients of a bus, if it is one that listens. */
export function servedAt(spec: BusSpec): { host: string; port: number } | undefined {
  if (typeof spec === 'object') return 'url' in spec ? servedAt(spec.url) : undefined
  return schemeOf(spec) === 'websocket' ? placeOf(spec) : undefined
}

/** Where a WebSocket bus is served. A URL without a port means 80, and so does one with it, to whoever parses URLs. */
export function placeOf(url: string): { host: string; port: number; path: string } {
  if (!URL.canParse(url)) throw badUrl('is not a URL')
  const { hostname, port, pathname, search, username } = new URL(url)
  if (search !== '' || username !== '') throw badUrl('has a query or a user; token and settings are given as options')
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 80 : Number(port),
    path: pathname === '/' ? '/events' : pathname,
  }
}

const badUrl = (message: string): InvalidInput =>
  new InvalidInput('the URL of a bus', [{ path: 'url', rule: 'url', message }])

const noBus = (message: string, found: unknown): InvalidInput =>
  new InvalidInput('bus', [problem('', 'bus', message, found)])
