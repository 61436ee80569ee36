import type { Redis } from 'ioredis'
import { Corrupt, Refused } from '../protocol/errors.ts'
import { aheadOf, isAfter, isAt, readDelivery } from './delivery.ts'
import type { After, Delivery } from './transport.ts'

/** One entry of the stream. `count` numbers them without gaps from 1, so that a reader sees what was trimmed before it came. */
export interface StreamEntry {
  readonly id: string
  readonly count: number
  readonly text: string
}

/** A point between two entries: the last one before it. */
export type StreamPoint = Pick<StreamEntry, 'id' | 'count'>

export type RawEntry = readonly [id: string, fields: readonly string[] | null]

/** How many entries travel at once. */
export const PAGE = 100

export interface BusKeys {
  readonly stream: string
  /** How many entries were ever added. */
  readonly counter: string
}
/** In one slot of a cluster. */
export const busKeys = (prefix: string): BusKeys => ({ stream: `{${prefix}}:bus`, counter: `{${prefix}}:bus:count` })

/**
 * All of them or none, in order, one round trip; then trims. ARGV: how many to keep or 0, for how many milliseconds or 0, deliveries.
 * Trimming is approximate (whole nodes of the stream), which costs next to nothing.
 */
export const PUBLISH = `
  local before = (redis.call('GET', KEYS[2]) or 0) - 2
  for i = 3, #ARGV do
    redis.call('XADD', KEYS[1], '*', 'count', before + i, 'delivery', ARGV[i])
  end
  redis.call('INCRBY', KEYS[2], #ARGV - 2)
  if ARGV[1] ~= '0' then redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[1]) end
  if ARGV[2] ~= '0' then
    local now = redis.call('TIME')
    local oldest = now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[2]
    redis.call('XTRIM', KEYS[1], 'MINID', '~', string.format('%.0f', oldest))
  end
`

/** `undefined` for an entry that was trimmed while it was pending. */
export function entryOf([id, fields]: RawEntry): StreamEntry | undefined {
  if (!fields) return undefined
  const [, count, , text] = fields
  return { id, count: Number(count), text: text ?? '' }
}

/** Throws Corrupt for what another program has put there. */
export const deliveryOf = (entry: StreamEntry, key: string): Delivery =>
  readDelivery(entry.text, `entry ${entry.id} of the stream ${key}`)

/** After the newest entry there is. */
export async function newestPoint(redis: Redis, keys: BusKeys): Promise<StreamPoint> {
  const newest = await firstOfOurs(keys, (past) => redis.xrevrange(keys.stream, past ?? '+', '-', 'COUNT', 1))
  return newest ?? emptyPoint(redis, keys)
}

export interface Resumption {
  readonly point: StreamPoint
  /** From the point on only what is after this; everything when absent. */
  readonly after?: After
}

/**
 * Right behind a place that the stream holds, whatever the positions there: a store that was copied, or put back from a backup, counts anew, and what
 * it tells stands behind the place all the same. Otherwise before the first entry that is after it. Positions mean nothing to Redis, so this reads from
 * the oldest entry on; throws Refused when the stream begins after the place, because it was trimmed or lost, InvalidInput when
 * there is nothing from the place on. The empty place is before whatever there is.
 */
export async function resumptionAfter(redis: Redis, keys: BusKeys, after: After): Promise<Resumption> {
  if (after === '') return { point: await oldestPoint(redis, keys) }
  let held: StreamPoint | undefined
  let before: StreamPoint | undefined
  let later: StreamPoint | undefined
  for (let read: string | undefined; ; ) {
    const page = await redis.xrange(keys.stream, read === undefined ? '-' : `(${read}`, '+', 'COUNT', PAGE)
    for (const raw of page) {
      const entry = entryOf(raw) as StreamEntry
      read = entry.id
      const delivery = deliveryIn(entry, keys.stream)
      if (!delivery) continue
      if (isAt(delivery, after)) held = entry
      else if (held) return { point: held }
      else if (isAfter(delivery, after)) later ??= entry
      else if (!later) before = entry
    }
    if (page.length === PAGE) continue
    if (held) return { point: held }
    if (later && !before)
      throw new Refused(
        `the stream ${keys.stream} no longer holds everything after that place`,
        'read on from the store, or begin with the oldest delivery there is (after: ""); keep more of them on the stream',
      )
    const end = before ?? (await emptyPoint(redis, keys))
    if (later || (!before && end.count > 0)) return { point: end, after } // of what was all removed nobody can say how far it went
    throw aheadOf(`the stream ${keys.stream}`, after)
  }
}

async function oldestPoint(redis: Redis, keys: BusKeys): Promise<StreamPoint> {
  const oldest = await firstOfOurs(keys, (past) => redis.xrange(keys.stream, past ?? '-', '+', 'COUNT', 1))
  return oldest ? { id: FIRST, count: oldest.count - 1 } : emptyPoint(redis, keys)
}

/** What another program has put there has no count. */
async function firstOfOurs(
  { stream }: BusKeys,
  next: (past?: string) => Promise<readonly RawEntry[]>,
): Promise<StreamEntry | undefined> {
  for (let past: string | undefined; ; ) {
    const [raw] = await next(past)
    const entry = raw && (entryOf(raw) as StreamEntry)
    if (!entry || deliveryIn(entry, stream)) return entry
    past = `(${entry.id}`
  }
}

/** `undefined` for what another program has put there: whoever reads it will tell. */
function deliveryIn(entry: StreamEntry, key: string): Delivery | undefined {
  try {
    return deliveryOf(entry, key)
  } catch (error) {
    if (error instanceof Corrupt) return undefined
    throw error
  }
}

/** The newest id that the stream ever gave to an entry, also if that is trimmed. */
export async function newestId(redis: Redis, stream: string): Promise<string> {
  try {
    const info = (await redis.xinfo('STREAM', stream)) as readonly unknown[]
    return String(info[info.indexOf('last-generated-id') + 1])
  } catch (error) {
    if (error instanceof Error && error.message === 'ERR no such key') return FIRST
    throw error
  }
}

/** Does this id stand before that one? */
export function isEarlier(id: string, other: string): boolean {
  const [ms, place] = id.split('-').map(Number) as [number, number]
  const [otherMs, otherPlace] = other.split('-').map(Number) as [number, number]
  return ms < otherMs || (ms === otherMs && place < otherPlace)
}

/** Before every entry. */
export const FIRST = '0-0'
const emptyPoint = async (redis: Redis, { counter }: BusKeys): Promise<StreamPoint> => ({
  id: FIRST,
  count: Number((await redis.get(counter)) ?? 0),
})
