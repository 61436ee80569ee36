import type { Redis } from 'ioredis'
import { causeOf } from '../protocol/cause.ts'
import { Refused } from '../protocol/errors.ts'
import { noDatabase } from '../protocol/redis-address.ts'
import { isReply, replyCode } from '../protocol/redis-reply.ts'
import { settingsOf } from '../protocol/redis-settings.ts'
import { type Keys, OPEN, run, SCHEMA } from './redis-scripts.ts'

/** Refuses a server that would throw our keys away; tells whether what it acknowledges outlasts its machine's power. */
export async function checkSettings(redis: Redis, what: string, trustConfig: boolean): Promise<{ durable: boolean }> {
  try {
    const { policy, durable } = await settingsOf(redis)
    if (policy !== 'noeviction')
      throw new Refused(
        `${what} may evict keys (maxmemory-policy ${policy})`,
        'set maxmemory-policy to noeviction, or use another server',
      )
    return { durable }
  } catch (error) {
    if (!isReply(error) || replyCode(error) === 'NOAUTH') throw error
    if (trustConfig) return { durable: true }
    throw new Refused(
      `${what} does not let its settings be read, so that it might evict keys or forget commits`,
      'allow CONFIG GET, or vouch for noeviction and appendfsync always with trustConfig where the store is opened',
      { cause: causeOf(error) },
    )
  }
}

/** Refuses a database that the server does not have. */
export async function checkDatabase(redis: Redis, what: string): Promise<void> {
  const { db = 0 } = redis.options
  if (db === 0) return
  await redis.select(db).catch((error) => {
    throw replyCode(error) === 'ERR' ? noDatabase(what, db, causeOf(error)) : error
  })
}

/**
 * Makes the store if there is none and it may `create`, otherwise answers false; refuses one of a newer version, or keys that are not ours. Safe for
 * several processes at once.
 */
export async function openKeys(redis: Redis, what: string, keys: Keys, create: boolean): Promise<boolean> {
  const { meta, heads, leases, journal, places, values, own, blobs, blobTimes } = keys
  const pairs = [values, own, blobs].flatMap(({ hash, order }) => [hash, order])
  const touched = [meta, heads, leases, journal, places, blobTimes, ...pairs]
  const version = await run(redis, OPEN, touched, [SCHEMA, create ? 'create' : 'look']).catch((error) => {
    if (replyCode(error) === 'WRONGTYPE') return 'foreign'
    throw error
  })
  if (version === 'foreign')
    throw new Refused(`${what} has keys like ${meta} that are not a store's`, 'give another prefix')
  refuseIfNewer(version, what, meta)
  return version !== 'none'
}

export function refuseIfNewer(version: unknown, what: string, meta: string): void {
  if (!(Number(version) > SCHEMA)) return // there may be none
  throw new Refused(
    `the store ${meta} in ${what} was written by a newer version (schema ${version}, this one knows ${SCHEMA})`,
    'use that version, or give another prefix',
  )
}
