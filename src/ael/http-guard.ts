import type { LookupAddress } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { InvalidInput } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { denied } from './failure.ts'

/** All addresses of a name; `dns.promises.lookup` with `all` has this shape. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

export interface Guard {
  /** Throws action_denied for an address in the URL itself that must not be reached. */
  checkLiteral(url: URL): void
  /** Resolves a name once, refuses it if any of its addresses must not be reached, and hands out what the socket connects to. */
  lookupFor(url: URL): LookupFunction
}

/**
 * Keeps requests away from this machine, its networks and cloud metadata. `allow` names exceptions: `host`, `host:port`, or a range such as
 * `10.1.0.0/16`.
 */
export function addressGuard(allow: readonly string[], resolve: Resolve): Guard {
  const { hosts, ranges } = allowed(allow)
  const mayReach = (address: string): boolean => isPublic(address) || ranges.check(address, familyOf(address))
  const exempt = (url: URL): boolean => hosts.has(url.hostname) || hosts.has(`${url.hostname}:${portOf(url)}`)

  return {
    checkLiteral(url) {
      const host = bare(url.hostname)
      if (isIP(host) !== 0 && !exempt(url) && !mayReach(host)) throw unreachable(host, host)
    },
    lookupFor: (url) => (hostname, options, callback) => {
      resolve(hostname)
        .then((addresses) => {
          if (addresses.length === 0)
            throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' })
          const refused = exempt(url) ? undefined : addresses.find(({ address }) => !mayReach(address))
          if (refused !== undefined) throw unreachable(hostname, refused.address)
          const [first] = addresses as readonly [LookupAddress, ...LookupAddress[]]
          if (options.all) callback(null, [...addresses])
          else callback(null, first.address, first.family)
        })
        .catch((error: NodeJS.ErrnoException) => callback(error, ''))
    },
  }
}

/** Throws InvalidInput for exceptions that name neither a host nor a range. */
export const checkAllow = (allow: readonly string[]): void => void allowed(allow)

function allowed(allow: readonly string[]): { hosts: ReadonlySet<string>; ranges: BlockList } {
  const hosts = new Set<string>()
  const ranges = new BlockList()
  if (!Array.isArray(allow)) throw noException('allow', 'type', 'must be a list', allow)
  for (const [i, entry] of allow.entries()) {
    const [base = '', bits, ...more] = String(entry).split('/')
    const family = isIP(base)
    if (bits === undefined) hosts.add(asInUrl(entry, i))
    else if (family === 0 || more.length > 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128))
      throw noException(`allow[${i}]`, 'range', 'is not a range of addresses', entry)
    else ranges.addSubnet(base, Number(bits), family === 4 ? 'ipv4' : 'ipv6')
  }
  return { hosts, ranges }
}

/** `host` or `host:port` as URLs spell it: an address in its shortest form, of IPv6 in brackets. */
function asInUrl(entry: string, i: number): string {
  const [, host, port] = HOST.exec(isIP(entry) === 6 ? `[${entry}]` : entry) ?? []
  const url = `http://${host}${port === undefined ? '' : `:${port}`}`
  if (typeof entry === 'string' && host !== undefined && URL.canParse(url))
    return new URL(url).hostname + (port === undefined ? '' : `:${Number(port)}`)
  throw noException(`allow[${i}]`, 'host', 'must be a host, host:port or a range of addresses', entry)
}
const HOST = /^([^\s?#@\\]*?[^\s?#@\\:])(?::(\d+))?$/

const noException = (path: string, rule: string, message: string, found: unknown): InvalidInput =>
  new InvalidInput('http options', [{ path, rule, message, found: shown(found) }])

const unreachable = (host: string, address: string) =>
  denied(
    `${host} is at ${address}, which is private, local or reserved; name it in http_allow of the config, or allow of the adapter, to reach it`,
  )

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')
const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, '').toLowerCase()
const portOf = (url: URL): string => url.port || (url.protocol === 'https:' ? '443' : '80')

const RESERVED = new BlockList()
for (const range of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16], // link-local, and the metadata service of the clouds
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3], // multicast and everything above
] as const)
  RESERVED.addSubnet(range[0], range[1], 'ipv4')
/** The global unicast space; what is outside of it is loopback, private, link-local or multicast. */
const GLOBAL_V6 = new BlockList()
GLOBAL_V6.addSubnet('2000::', 3, 'ipv6')
for (const range of [
  ['2001::', 23], // Teredo, benchmarking, ORCHID
  ['2001:db8::', 32],
  ['2002::', 16], // 6to4 carries any IPv4 address
  ['3fff::', 20],
] as const)
  RESERVED.addSubnet(range[0], range[1], 'ipv6')

function isPublic(address: string): boolean {
  if (isIP(address) === 4) return !RESERVED.check(address, 'ipv4')
  const carried = carriedV4(address)
  if (carried !== undefined) return !RESERVED.check(carried, 'ipv4')
  return GLOBAL_V6.check(address, 'ipv6') && !RESERVED.check(address, 'ipv6')
}

/** The IPv4 address inside ::ffff:0:0/96 (mapped) and 64:ff9b::/96 (NAT64). */
function carriedV4(address: string): string | undefined {
  const [host] = new URL(`http://[${address.split('%')[0]}]/`).hostname.slice(1, -1).split('%') as [string]
  const match = /^(?:::ffff:|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(host)
  if (match === null) return undefined
  const high = Number.parseInt(match[1] as string, 16)
  const low = Number.parseInt(match[2] as string, 16)
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}
