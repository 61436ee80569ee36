import type { Redis } from 'ioredis'
import { FellBehind } from '../protocol/errors.ts'
import { isAfter } from './delivery.ts'
import { BLOCK_MS, type RedisLink } from './redis-link.ts'
import { deliveryOf, entryOf, PAGE, type Resumption, type StreamEntry } from './redis-stream.ts'
import type { Feeding } from './source.ts'

/** A subscriber of its own: remembers for itself where it is, so that a broken connection costs it nothing. */
export async function readAlone(
  redis: Redis,
  link: RedisLink,
  key: string,
  { point, after }: Resumption,
  { match, queue, signal, report, fail }: Feeding,
): Promise<void> {
  let { id: last, count } = point

  const take = async (entry: StreamEntry) => {
    const lost = entry.count - count - 1
    if (lost > 0)
      report(new FellBehind('a subscriber', `${lost} deliveries were trimmed from ${key} before it read them`))
    if (lost < 0)
      report(
        new FellBehind(
          'a subscriber',
          `the server has lost ${key}, or its last entries; what it held may not have come`,
        ),
      )
    last = entry.id
    count = entry.count
    const delivery = deliveryOf(entry, key)
    if ((after === undefined || isAfter(delivery, after)) && match(delivery))
      await queue.push({ delivery, bytes: entry.text.length })
  }
  const read = () => redis.xread('COUNT', PAGE, 'BLOCK', BLOCK_MS, 'STREAMS', key, last)

  try {
    while (!signal.aborted) {
      const streams = await link.insist(read, signal, report)
      for (const raw of streams?.[0]?.[1] ?? []) {
        if (signal.aborted) return
        const entry = entryOf(raw)
        if (entry) await take(entry).catch(report)
      }
    }
  } catch (error) {
    fail(link.error(error))
  }
}
