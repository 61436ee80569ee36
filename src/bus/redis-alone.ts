import type { Redis } from 'ioredis'
import { Corrupt, FellBehind } from '../protocol/errors.ts'
import { isAfter } from './delivery.ts'
import { BLOCK_MS, type RedisLink } from './redis-link.ts'
import {
  deliveryOf,
  entryOf,
  FIRST,
  isEarlier,
  newestId,
  PAGE,
  type RawEntry,
  type Resumption,
  type StreamEntry,
} from './redis-stream.ts'
import type { Feeding } from './source.ts'

/** A subscriber of its own: remembers for itself where it is, so that a broken connection costs it nothing. */
export async function readAlone(
  redis: Redis,
  link: RedisLink,
  key: string,
  { point, after }: Resumption,
  { match, queue, signal, report, fail }: Feeding,
): Promise<void> {
  let last = point.id
  let count: number | undefined = point.count
  let begunAnewFor = FIRST
  let isPast = after === undefined // the place; what follows is new wherever it stands: the store may be an older backup by now

  /** As after a failover to a server that had less, or nothing. */
  const beginAnew = () => {
    last = FIRST
    count = undefined
    const remedy = 'the server has forgotten what it held; reading begins again with the oldest entry'
    report(new Corrupt(`the stream ${key}`, remedy))
  }
  /** False when reading has to begin anew. */
  const take = async (entry: StreamEntry): Promise<boolean> => {
    last = entry.id
    const delivery = deliveryOf(entry, key)
    if (count !== undefined && entry.count <= count && isEarlier(begunAnewFor, entry.id)) {
      begunAnewFor = entry.id // only once, should the counting alone have begun anew
      beginAnew()
      return false
    }
    const lost = entry.count - (count ?? entry.count - 1) - 1
    if (lost > 0)
      report(new FellBehind('a subscriber', `${lost} deliveries were trimmed from ${key} before it read them`))
    count = entry.count
    isPast ||= isAfter(delivery, after!)
    if (isPast && match(delivery)) await queue.push({ delivery, bytes: entry.text.length })
    return true
  }
  const takeAll = async (page: readonly RawEntry[]) => {
    for (const raw of page) {
      if (signal.aborted) return
      const entry = entryOf(raw)
      const goesOn = entry ? await take(entry).catch(report) : true
      if (goesOn === false) return
    }
  }
  const read = () => redis.xread('COUNT', PAGE, 'BLOCK', BLOCK_MS, 'STREAMS', key, last)

  try {
    while (!signal.aborted) {
      const streams = await link.insist(read, signal, report)
      if (signal.aborted) return
      const newest = streams ? undefined : await link.insist(() => newestId(redis, key), signal, report)
      if (newest !== undefined && isEarlier(newest, last)) beginAnew() // what is added there now would come before where we are
      await takeAll(streams?.[0]?.[1] ?? [])
    }
  } catch (error) {
    fail(link.error(error))
  }
}
