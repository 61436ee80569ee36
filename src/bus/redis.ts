import type { Redis } from 'ioredis'
import { causeOf } from '../protocol/cause.ts'
import { systemClock } from '../protocol/clock.ts'
import { inParts } from '../protocol/each.ts'
import { Closed, InvalidInput, type Problem, Refused } from '../protocol/errors.ts'
import { count, type Fields, text, timeout } from '../protocol/fields.ts'
import { roughBytes } from '../protocol/json.ts'
import { whenAborted } from '../protocol/on-abort.ts'
import { isOneServers } from '../protocol/redis-address.ts'
import { settingsOf } from '../protocol/redis-settings.ts'
import { checkMember, keptName } from './check-options.ts'
import { checkBatch } from './delivery.ts'
import { readAlone } from './redis-alone.ts'
import { beginGroup, isKnownGroup, readInGroup } from './redis-group.ts'
import { BLOCK_MS, isTooLong, type RedisLink, redisLink } from './redis-link.ts'
import { busKeys, newestPoint, PUBLISH, resumptionAfter } from './redis-stream.ts'
import { type Feed, type SourceOptions, source } from './source.ts'
import type { Delivery, Transport } from './transport.ts'

export interface RedisTransportOptions extends SourceOptions {
  /** `redis://user:password@host:port/database`, or `rediss:` for TLS; of a cluster the node that has the stream. Either this or a client. */
  readonly url?: string
  /** Lends its address, credentials and TLS settings to connections of our own; it stays yours and is not used. */
  readonly client?: Redis
  /** Names the deployment: the stream is `{prefix}:bus`. Default mplp. */
  readonly prefix?: string
  /** What the stream keeps, about: so many deliveries (100,000 unless told otherwise), or those of so long, or whichever ends first. */
  readonly keep?: { readonly deliveries?: number; readonly ms?: number }
  /**
   * This member's name in its groups. With a name that stays the same, a restart begins with what it had in hand; of two that run at once under
   * one name, both may get the same delivery. Default: a new name each time.
   */
  readonly member?: string
  /** A member without a sign of life for so long loses what it has in hand to the others. Default 30,000. */
  readonly claimAfterMs?: number
  /** How long a call may take. Default 5,000. */
  readonly timeoutMs?: number
}

/** The server does nothing else while it takes them, and a call has only so many arguments. */
const AT_ONCE = 1000

/**
 * One stream. Each subscriber reads it on a connection of its own; groups are the server's consumer groups, which share without order: one graph's
 * deliveries may be in the hands of two members at once. Needs Redis 7.
 */
export async function redisTransport(options: RedisTransportOptions): Promise<Transport> {
  checkOptions(options)
  const { prefix = 'mplp', keep = { deliveries: 100_000 }, claimAfterMs = 30_000, timeoutMs = 5000 } = options
  const { clock = systemClock } = options
  const link = redisLink(options.client ?? (options.url as string), timeoutMs, clock)
  const keys = busKeys(prefix)
  const key = keys.stream
  const main = await link.connect(timeoutMs)
  const durable = await checkServer(main, link, key).catch((error) => {
    main.disconnect()
    throw error
  })

  const feed: Feed = async (feeding) => {
    const { group, after } = feeding.settled
    const reader = await link.connect(timeoutMs + BLOCK_MS)
    whenAborted(feeding.signal, () => reader.disconnect()) // it waits at the server
    try {
      const isKnown = group !== undefined && (await isKnownGroup(main, key, group))
      const from =
        after === undefined || isKnown
          ? { point: await newestPoint(main, keys) }
          : await resumptionAfter(main, keys, after)
      if (group === undefined) {
        void readAlone(reader, link, key, from, feeding)
        return () => undefined
      }
      await beginGroup(main, key, group, from.point)
      const member = options.member ?? clock.uuid()
      return readInGroup({ link, main, reader, key, group, member, claimAfterMs, clock }, feeding)
    } catch (error) {
      reader.disconnect()
      throw link.error(error)
    }
  }
  const traits = {
    retains: true,
    durable,
    processes: 'many',
    groups: { inOrder: false, remembered: true },
  } as const
  const listening = source('the Redis bus', traits, feed, options)
  let closing: Promise<void> | undefined

  return {
    ...listening,
    async publish(batch) {
      if (closing) throw new Closed('the Redis bus')
      checkBatch(batch)
      try {
        for (const some of inParts(batch, AT_ONCE)) {
          const texts = some.map((delivery) => JSON.stringify(delivery))
          await main.eval(PUBLISH, 2, key, keys.counter, keep.deliveries ?? 0, keep.ms ?? 0, ...texts)
        }
      } catch (error) {
        if (closing) throw new Closed('the Redis bus')
        throw isTooLong(error) ? tooLong(link.what, batch, error) : link.error(error)
      }
    },
    close() {
      closing ??= listening.close().then(() => main.disconnect())
      return closing
    },
  }
}

/** The server counts what it takes for one value, and hangs up on more. */
function tooLong(what: string, batch: readonly Delivery[], cause: unknown): Refused {
  const { graph_id, event } = batch.reduce((a, b) => (roughBytes(b.event) > roughBytes(a.event) ? b : a))
  return new Refused(
    `${what} does not take the event ${event.event_id} of graph ${graph_id}`,
    'raise its proto-max-bulk-len: all that was committed after it waits for it',
    { cause: causeOf(cause) },
  )
}

/** Refuses a server that may throw the stream away; tells whether what it confirms outlasts its restart. */
async function checkServer(redis: Redis, link: RedisLink, key: string): Promise<boolean> {
  await redis.exists(key).catch((error) => {
    throw link.error(error) // another node of its cluster has the stream
  })
  const { policy, durable } = await settingsOf(redis).catch((error) => {
    // A hosted server may hide its settings: then nothing is promised.
    if (error instanceof Error && /NOPERM|unknown command/.test(error.message)) return { policy: '', durable: false }
    throw link.error(error)
  })
  if (policy.startsWith('allkeys'))
    throw new Refused(
      `${link.what} may evict the stream (maxmemory-policy ${policy})`,
      'set maxmemory-policy to noeviction or to one of the volatile ones, or use another server',
    )
  return durable
}

function checkOptions(options: RedisTransportOptions): void {
  checkMember('the Redis bus', options, OWN)
  const { url, client, keep } = options
  const problems: Problem[] = []
  if ((url === undefined) === (client === undefined))
    problems.push({ path: 'url', rule: 'one_of', message: 'or a client must be given, and not both' })
  if (keep && keep.deliveries === undefined && keep.ms === undefined)
    problems.push({
      path: 'keep',
      rule: 'bound',
      message: 'names neither deliveries nor ms: the stream would grow for ever',
    })
  if (problems.length > 0) throw new InvalidInput('the Redis bus', problems)
}

const OWN: Fields = {
  url: { ...text, secret: true }, // it may hold a password
  client: { says: 'a client of one server (of a cluster, give the URL of the node)', fits: isOneServers },
  prefix: keptName,
  keep: { deliveries: count, ms: count },
  member: keptName,
  claimAfterMs: count,
  timeoutMs: timeout,
}
