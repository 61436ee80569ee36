import { credential } from './credential.ts'
import { InvalidInput, Refused } from './errors.ts'

export interface RedisAddress {
  readonly host: string
  readonly port: number
  readonly db: number
  readonly username?: string
  readonly password?: string
  readonly tls?: { readonly servername?: string }
}

/** What a URL says, and nothing else: the client would take any query for options of its own. */
export function redisAddress(url: string, of: 'store' | 'bus'): RedisAddress {
  const refuse = (message: string) =>
    new InvalidInput(`the URL of a Redis ${of}`, [{ path: 'url', rule: 'url', message }])
  if (!URL.canParse(url)) throw refuse('is not a URL')
  const { protocol, hostname, port, username, password, pathname, search } = new URL(url)
  if (protocol !== 'redis:' && protocol !== 'rediss:') throw refuse(`begins with ${protocol} and not redis: or rediss:`)
  if (search !== '') throw refuse('has a query; settings are given as options')
  if (!/^\/?\d*$/.test(pathname)) throw refuse('has a path that is not the number of a database')
  const host = hostname.replace(/^\[|\]$/g, '') || 'localhost'
  return {
    host,
    port: port === '' ? 6379 : Number(port),
    db: Number(pathname.slice(1)),
    ...(username && { username: credential(username, refuse) }),
    ...(password && { password: credential(password, refuse) }),
    ...(protocol === 'rediss:' && { tls: IS_ADDRESS.test(host) ? {} : { servername: host } }),
  }
}

/** No name ends in a number. Asking node:net would load it wherever the URL of a store is looked at, which takes longer than opening most of them. */
const IS_ADDRESS = /^[\d.]+$|:/

/** Is it a client of one server? A cluster's has the same methods and other options. */
export const isOneServers = (client: unknown): boolean =>
  typeof Object(client).duplicate === 'function' && !Object(client).isCluster

/** A server in messages; no credentials. `path` is that of a socket. */
export const redisAt = ({ path, host = 'localhost', port = 6379 }: Reached): string =>
  `Redis at ${path ?? `${host}:${port}`}`
interface Reached {
  readonly path?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
}

/** A server that does not have a database leaves the connection at its first one, and the client tells nobody. */
export const noDatabase = (what: string, db: number | undefined, cause: unknown): Refused =>
  new Refused(
    `${what} has no database ${db}`,
    'end the URL with the number of one that it has, or give a prefix instead',
    {
      cause,
    },
  )
