import type { Admin, Batch, EachBatchPayload, Kafka, KafkaMessage } from 'kafkajs'
import type { Clock } from '../protocol/clock.ts'
import { Corrupt, FellBehind, Refused } from '../protocol/errors.ts'
import { sparing, TOLD_AGAIN_MS } from '../protocol/reporter.ts'
import { slept } from '../protocol/waiting.ts'
import { aheadOf, isAfter, isBefore } from './delivery.ts'
import { kafkaError, patiently, RETRY } from './kafka-link.ts'
import { deliveryOf } from './kafka-message.ts'
import type { Item } from './queue.ts'
import type { Feeding } from './source.ts'

export interface KafkaTopic {
  readonly kafka: Kafka
  readonly admin: Admin
  readonly topic: string
  /** The brokers, for messages. */
  readonly what: string
  readonly maxBytes: number
  readonly clock: Clock
}

/** By partition: the first offset that is wanted, the oldest there is, and the next to be given. */
type Starts = Map<number, { readonly start: bigint; readonly oldest: bigint; readonly end: bigint }>

/** After a crash of the broker or of a member, the group goes on once those who are gone have been silent for so long. */
const SESSION_MS = 15_000
const HEARTBEAT_MS = 3000

/**
 * Reads a topic as a member of a group. kafkajs reads in groups only, so that a subscriber of its own gets a group of its own, which is removed when
 * it leaves. Where reading begins is decided here and not by the broker, or what is published while the group forms could be missed.
 */
export async function readTopic(of: KafkaTopic, feeding: Feeding): Promise<() => Promise<void>> {
  const { kafka, admin, topic, what, maxBytes, clock } = of
  const { match, queue, signal, report, fail } = feeding
  const { group, after } = feeding.settled
  const groupId = group ?? `${topic}.listener.${clock.uuid()}`
  const isKnown = group !== undefined && (await patiently(() => isKnownGroup(admin, topic, group), clock))
  const starts: Starts = isKnown
    ? new Map()
    : await patiently(() => whereToStart(admin, topic, after !== undefined), clock)
  const removed = isKnown ? await patiently(() => removedUnread(admin, topic, group), clock) : 0n
  if (removed > 0n) report(new FellBehind(`the group ${group}`, removedFrom(topic, removed)))
  // What there is, until something comes that stands at the wanted place or after it.
  let unread = after === undefined || after === '' || isKnown ? undefined : endsOf(starts)
  if (unread && [...starts.values()].every(({ end }) => end === 0n)) throw aheadOf(topic, after!)
  if (unread?.size === 0) unread = undefined // of what was all removed nobody can say how far it went
  let isAskedAgain = false
  const next = new Map<number, bigint>() // of each partition, while it stays ours
  const written = new Map<number, string>() // when the message before that was
  const past = new Set<number>() // the place; what follows is new wherever it stands: the store may be an older backup by now
  const tellTrouble = sparing(report, TOLD_AGAIN_MS, clock) // a reader begins again every few seconds while the broker is away

  const consumer = kafka.consumer({
    groupId,
    allowAutoTopicCreation: false,
    sessionTimeout: SESSION_MS,
    heartbeatInterval: HEARTBEAT_MS,
    maxBytesPerPartition: Math.max(maxBytes, 1_048_576),
    maxWaitTimeInMs: 500,
    retry: RETRY,
  })
  const joined = new Promise<void>((resolve, reject) => {
    consumer.on(consumer.events.GROUP_JOIN, () => {
      if (group !== undefined && next.size > 0) unread = undefined // another member may have read some of it
      if (group !== undefined) next.clear() // or have read on meanwhile
      resolve()
    })
    consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
      if (restart) return tellTrouble(kafkaError(what, error))
      reject(error)
      if (!signal.aborted) fail(kafkaError(what, error))
    })
  })
  joined.catch(() => undefined) // told above

  /** The delivery in a message, if this subscriber is to have it. */
  const wanted = (message: KafkaMessage, partition: number): Item | undefined => {
    const offset = BigInt(message.offset)
    const { start, oldest } = starts.get(partition) ?? NONE
    if (offset < start) return undefined
    const isFirst = !next.has(partition)
    const lost = isFirst ? 0n : offset - (next.get(partition) as bigint)
    if (lost < 0n && group === undefined) return undefined // read again after a rebalance
    if (lost > 0n) report(new FellBehind('a subscriber', removedFrom(topic, lost)))
    next.set(partition, offset + 1n)
    written.set(partition, message.timestamp)
    const delivery = deliveryOf(message, `message ${offset} in partition ${partition} of ${topic}`)
    if (after !== undefined && !isKnown && !past.has(partition)) {
      if (!isBefore(delivery, after)) unread = undefined
      if (!isAfter(delivery, after)) return undefined
      past.add(partition)
      if (isFirst && oldest > 0n && after !== '')
        throw new Refused(
          `${topic} no longer holds everything after that place`,
          'read on from the store, or keep more on the topic',
        )
    }
    return match(delivery) ? { delivery, bytes: message.value?.length ?? 0 } : undefined
  }
  /** True when the reader may go on to the next message; a member of a group may once it has been handled. */
  const take = (item: Item): true | Promise<boolean> => {
    if (group !== undefined)
      return new Promise((done) => {
        queue.push({ ...item, done })
      })
    return queue.push(item)?.then(() => true) ?? true
  }

  /**
   * A topic that was deleted and made again counts from 0: what comes now has not been read, however far the one before had come. By now it may hold
   * more than that had; but another message where we read the last one.
   */
  const isAnother = ({ partition, highWatermark, messages }: Batch): boolean => {
    const end = next.get(partition)
    if (BigInt(highWatermark) < (end ?? starts.get(partition)?.start ?? 0n)) return true
    if (group !== undefined || end === undefined || BigInt(messages[0]?.offset ?? end) >= end) return false
    const last = messages.find(({ offset }) => BigInt(offset) + 1n === end)
    return last !== undefined && last.timestamp !== written.get(partition)
  }
  const beginAnew = ({ partition, messages }: Batch) => {
    next.delete(partition)
    starts.set(partition, NONE)
    unread = undefined
    const remedy = 'the broker has forgotten what it held; reading begins again with its oldest message'
    report(new Corrupt(`partition ${partition} of ${topic}`, remedy))
    if (group === undefined && messages[0]?.offset !== '0') consumer.seek({ topic, partition, offset: '0' })
  }
  const eachBatch = async ({ batch, resolveOffset, commitOffsetsIfNecessary, ...run }: EachBatchPayload) => {
    const life = showLife(run.heartbeat, clock)
    if (isAnother(batch)) beginAnew(batch)
    try {
      for (const message of batch.messages) {
        if (!run.isRunning() || run.isStale() || signal.aborted) return
        const item = read(message, batch.partition)
        if (isAllRead(message, batch.partition) && !(await hasMore())) return fail(aheadOf(topic, after!))
        const taken = item ? take(item) : true
        if (taken !== true && !(await taken)) return
        resolveOffset(message.offset)
        if (group !== undefined) await commitOffsetsIfNecessary()
        life.check()
      }
    } finally {
      life.stop()
    }
  }
  const read = (message: KafkaMessage, partition: number): Item | undefined => {
    try {
      return wanted(message, partition)
    } catch (error) {
      if (error instanceof Refused) fail(error)
      else report(error)
      return undefined
    }
  }

  const isAllRead = ({ offset }: KafkaMessage, partition: number): boolean => {
    if (unread && BigInt(offset) + 1n >= (unread.get(partition) ?? 0n)) unread.delete(partition)
    return unread?.size === 0
  }
  /** Asked once: what was brought while the group formed may stand at the place, as a relay is always a little behind its store. */
  const hasMore = async (): Promise<boolean> => {
    if (isAskedAgain) return false
    const ends = endsOf(await patiently(() => whereToStart(admin, topic, true), clock))
    isAskedAgain = true
    unread = new Map([...ends].filter(([partition, end]) => end > (next.get(partition) ?? 0n)))
    return unread.size > 0
  }

  /** Where to begin, as far as nobody has: reading goes on meanwhile, and must not be taken back. */
  const beginnings = () =>
    [...starts]
      .filter(([partition]) => !next.has(partition))
      .map(([partition, { start }]) => ({ topic, partition, offset: String(start) }))
  const begin = async () => {
    if (group !== undefined && !isKnown) {
      // A new group keeps its beginning even if nobody of it reads on. Whoever else begins it at this moment has, like us, asked for the newest
      // offsets before its own subscribe resolved: either beginning is right.
      await joined
      if (await patiently(() => isKnownGroup(admin, topic, group), clock)) return
      await patiently(() => consumer.commitOffsets(beginnings()), clock)
    }
    for (const place of beginnings()) consumer.seek(place)
  }
  try {
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    // Joining may have to wait for another member; nothing is missed meanwhile, because it is known where to begin.
    consumer.run({ eachBatch, eachBatchAutoResolve: false, autoCommitInterval: 1000 }).catch(fail)
    await begin()
  } catch (error) {
    await consumer.disconnect().catch(report)
    throw kafkaError(what, error)
  }
  return async () => {
    await consumer.disconnect().catch((error) => report(kafkaError(what, error)))
    if (group === undefined) await admin.deleteGroups([groupId]).catch(() => undefined) // the broker forgets an empty group by itself, later
  }
}

/** Does the group have a place to go on from? */
async function isKnownGroup(admin: Admin, topic: string, groupId: string): Promise<boolean> {
  const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return offsets?.partitions.some(({ offset }) => offset !== '-1') ?? false
}

/** How much is gone that the group has yet to read. The oldest is asked for first: what the group reads meanwhile is not lost to it. */
async function removedUnread(admin: Admin, topic: string, groupId: string): Promise<bigint> {
  const oldest = new Map((await admin.fetchTopicOffsets(topic)).map(({ partition, low }) => [partition, BigInt(low)]))
  const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] })
  let removed = 0n
  for (const { partition, offset } of offsets?.partitions ?? []) {
    const lost = offset === '-1' ? 0n : (oldest.get(partition) ?? 0n) - BigInt(offset)
    if (lost > 0n) removed += lost
  }
  return removed
}

const removedFrom = (topic: string, count: bigint) =>
  `${count} deliveries were removed from ${topic} before it read them`

async function whereToStart(admin: Admin, topic: string, fromOldest: boolean): Promise<Starts> {
  const offsets = await admin.fetchTopicOffsets(topic)
  return new Map(
    offsets.map(({ partition, low, high }) => [
      partition,
      { start: BigInt(fromOldest ? low : high), oldest: BigInt(low), end: BigInt(high) },
    ]),
  )
}

const NONE = { start: 0n, oldest: 0n, end: 0n }

const endsOf = (starts: Starts): Map<number, bigint> =>
  new Map([...starts].flatMap(([partition, { oldest, end }]) => (oldest < end ? [[partition, end] as const] : [])))

/**
 * Tells the broker that we live, also while a handler takes its time. `check` throws what the broker answered: a rebalance waits for us. Until then it
 * is told on: of who falls silent meanwhile it gives away what the handler still has in hand.
 */
function showLife(heartbeat: () => Promise<void>, clock: Clock): { check(): void; stop(): void } {
  const over = new AbortController()
  let answer: unknown
  const beat = async () => {
    while (await slept(clock, HEARTBEAT_MS, over.signal)) {
      await heartbeat().catch((error) => {
        answer ??= error
      })
    }
  }
  void beat()
  return {
    check() {
      if (answer !== undefined) throw answer
    },
    stop: () => over.abort(),
  }
}
