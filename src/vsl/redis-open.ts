import { isIP } from 'node:net'
import type { Redis, RedisOptions } from 'ioredis'
import { causeOf } from '../protocol/cause.ts'
import { InvalidInput, Refused } from '../protocol/errors.ts'
import { isRefusal, replyCode } from './redis-errors.ts'
import { type Keys, OPEN, run } from './redis-scripts.ts'

export const SCHEMA = 1

/** Refuses a server that would throw our keys away; tells whether what it acknowledges outlasts its machine's power. */
export async function checkSettings(redis: Redis, what: string, trustConfig: boolean): Promise<{ durable: boolean }> {
  const setting = async (name: string) => ((await redis.config('GET', name)) as string[])[1]
  try {
    const [policy, appendonly, appendfsync] = await Promise.all(
      ['maxmemory-policy', 'appendonly', 'appendfsync'].map(setting),
    )
    if (policy !== 'noeviction')
      throw new Refused(
        `${what} may evict keys (maxmemory-policy ${policy})`,
        'set maxmemory-policy to noeviction, or use another server',
      )
    return { durable: appendonly === 'yes' && appendfsync === 'always' }
  } catch (error) {
    if (!isRefusal(error) || replyCode(error) === 'NOAUTH') throw error
    if (trustConfig) return { durable: true }
    throw new Refused(
      `${what} does not let its settings be read, so that it might evict keys or forget commits`,
      'allow CONFIG GET, or vouch for noeviction and appendfsync always with trustConfig where the store is opened',
      { cause: causeOf(error) },
    )
  }
}

/** Makes the store if there is none; refuses one of a newer version, or keys that are not ours. Safe for several processes at once. */
export async function openKeys(redis: Redis, what: string, keys: Keys): Promise<void> {
  const { meta, heads, leases, journal, places, values, own, blobs } = keys
  const pairs = [values, own, blobs].flatMap(({ hash, order }) => [hash, order])
  const version = await run(redis, OPEN, [meta, heads, leases, journal, places, ...pairs], [SCHEMA]).catch((error) => {
    if (replyCode(error) === 'WRONGTYPE') return 'foreign'
    throw error
  })
  if (version === 'foreign')
    throw new Refused(`${what} has keys like ${meta} that are not a store's`, 'give another prefix')
  if (Number(version) > SCHEMA)
    throw new Refused(
      `the store ${meta} in ${what} was written by a newer version (schema ${version}, this one knows ${SCHEMA})`,
      'use that version, or give another prefix',
    )
}

/** What a URL says, and nothing else: the client would take any query for options of its own. */
export function addressOf(url: string): RedisOptions {
  const refuse = (message: string) =>
    new InvalidInput('the URL of a Redis store', [{ path: 'url', rule: 'url', message }])
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
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' && { tls: isIP(host) ? {} : { servername: host } }),
  }
}
