import type { Redis } from 'ioredis'
import type { Clock } from '../protocol/clock.ts'
import { Corrupt, FellBehind } from '../protocol/errors.ts'
import { sparing, TOLD_AGAIN_MS } from '../protocol/reporter.ts'
import { BLOCK_MS, type RedisLink, replyCode } from './redis-link.ts'
import { deliveryOf, entryOf, PAGE, type RawEntry, type StreamPoint } from './redis-stream.ts'
import type { Feeding } from './source.ts'
import { slept } from './waiting.ts'

export interface GroupMember {
  readonly link: RedisLink
  /** For commands that answer at once; reading waits on a connection of its own. */
  readonly main: Redis
  readonly reader: Redis
  readonly key: string
  readonly group: string
  readonly member: string
  /** What a member has had in hand for so long without a sign of life is taken from it. */
  readonly claimAfterMs: number
  readonly clock: Clock
}

/** Such a group goes on where it was, wherever it is told to begin. */
export async function isKnownGroup(redis: Redis, key: string, group: string): Promise<boolean> {
  if ((await redis.exists(key)) === 0) return false
  return (await groupsOn(redis, key)).some(({ name }) => name === group)
}

/** Begins the group at a point, unless the server knows it. */
export async function beginGroup(redis: Redis, key: string, group: string, point: StreamPoint): Promise<void> {
  try {
    await redis.xgroup('CREATE', key, group, point.id, 'MKSTREAM', 'ENTRIESREAD', point.count)
  } catch (error) {
    if (replyCode(error) !== 'BUSYGROUP') throw error
  }
}

/**
 * One member of a group. What it was given and has not acknowledged stays with it over a broken connection and, under the same name, over its own
 * restart; what a dead member held is claimed. Returns how to leave.
 */
export function readInGroup(of: GroupMember, { match, queue, signal, report, fail }: Feeding): () => Promise<void> {
  const { link, main, reader, key, group, member, claimAfterMs, clock } = of
  const inHand = new Set<string>()
  const handled = new Set<string>() // and not yet acknowledged
  let acknowledging: Promise<void> | undefined
  const tellTrouble = sparing(report, TOLD_AGAIN_MS, clock) // every chore meets the same

  const acknowledge = async () => {
    while (handled.size > 0) {
      const ids = [...handled]
      await main.xack(key, group, ...ids)
      for (const id of ids) handled.delete(id)
    }
  }
  /** What cannot be acknowledged now is told again later: by the next acknowledgement, or as a repeat. */
  const soonAcknowledge = () => {
    acknowledging ??= Promise.resolve()
      .then(acknowledge)
      .catch((error) => tellTrouble(link.error(error)))
      .finally(() => {
        acknowledging = undefined
      })
    return acknowledging
  }
  const done = (id: string, isHandled: boolean) => {
    inHand.delete(id)
    if (!isHandled) return
    handled.add(id)
    void soonAcknowledge()
  }

  const take = async (raw: RawEntry) => {
    const [id] = raw
    if (inHand.has(id) || handled.has(id)) return
    inHand.add(id)
    const entry = entryOf(raw)
    if (!entry) {
      report(new FellBehind(`the group ${group}`, `${key} was trimmed of an entry that a member had in hand`))
      return done(id, true)
    }
    try {
      const delivery = deliveryOf(entry, key)
      if (!match(delivery)) return done(id, true)
      await queue.push({ delivery, bytes: entry.text.length, done: (isHandled) => done(id, isHandled) })
    } catch (error) {
      report(error)
      done(id, true)
    }
  }
  const takeAll = async (page: readonly RawEntry[]) => {
    for (const raw of page) {
      if (signal.aborted) return
      await take(raw)
    }
  }

  const read = async () => {
    // What a lost reply had brought is ours and comes before anything new, or a graph's later deliveries would overtake it.
    let from = '0'
    const command = async () => {
      const isNew = from === '>'
      const reply = isNew
        ? await reader.xreadgroup('GROUP', group, member, 'COUNT', PAGE, 'BLOCK', BLOCK_MS, 'STREAMS', key, from)
        : await reader.xreadgroup('GROUP', group, member, 'COUNT', PAGE, 'STREAMS', key, from)
      return { isNew, page: reply?.[0]?.[1] ?? [] }
    }
    const broke = (error: unknown) => {
      from = '0'
      report(error)
    }
    while (!signal.aborted) {
      const got = await link.insist(command, signal, broke)
      if (!got) return
      await takeAll(got.page)
      if (!got.isNew) from = got.page.at(-1)?.[0] ?? '>'
    }
  }

  const claim = async () => {
    for (let from = '0-0'; ; ) {
      await queue.room() // what cannot be handled soon is better claimed by somebody else
      if (signal.aborted) return
      const reply = await main.call('XAUTOCLAIM', key, group, member, claimAfterMs, from, 'COUNT', PAGE)
      const [next, page] = reply as [string, readonly RawEntry[]]
      await takeAll(page)
      if (next === '0-0') return
      from = next
    }
  }
  const showLife = async () => {
    await main.eval(KEEP_AND_TIDY, 1, key, group, member, ...inHand)
    await soonAcknowledge()
  }
  let lostBefore = 0
  const tellLost = async () => {
    const mine = (await groupsOn(main, key)).find(({ name }) => name === group)
    const [oldest] = await main.xrange(key, '-', '+', 'COUNT', 1)
    const lost = oldest ? (entryOf(oldest)?.count ?? 0) - 1 - Number(mine?.['entries-read'] ?? 0) : 0
    if (lost > lostBefore)
      report(
        new FellBehind(
          `the group ${group}`,
          `${lost - lostBefore} deliveries were trimmed from ${key} before it read them`,
        ),
      )
    lostBefore = Math.max(lost, 0)
  }
  /** Again and again, whatever becomes of it; apart from the others, because a claim may have to wait for room. */
  const tend = async (chore: () => Promise<void>, everyMs: number) => {
    do {
      await chore().catch((error) => {
        if (!signal.aborted && replyCode(error) !== 'NOGROUP') tellTrouble(link.error(error)) // the reader mends that
      })
    } while (await slept(clock, everyMs, signal))
  }

  const readForEver = async () => {
    while (!signal.aborted) {
      try {
        await read()
      } catch (error) {
        if (replyCode(error) !== 'NOGROUP') return fail(link.error(error))
        report(
          new Corrupt(
            `the group ${group} on ${key}`,
            'the server has forgotten it; it begins again with the oldest entry',
          ),
        )
        await link.insist(() => beginGroup(main, key, group, { id: '0-0', count: 0 }), signal, report)
      }
    }
  }
  void readForEver()
  void tend(showLife, claimAfterMs / 3)
  void tend(claim, claimAfterMs / 2)
  void tend(tellLost, claimAfterMs)

  return async () => {
    await soonAcknowledge()
    await main.eval(LEAVE, 1, key, group, member, claimAfterMs).catch((error) => report(link.error(error)))
  }
}

const groupsOn = async (redis: Redis, key: string): Promise<readonly Record<string, unknown>[]> =>
  ((await redis.xinfo('GROUPS', key)) as readonly (readonly unknown[])[]).map(pairs)

const pairs = (flat: readonly unknown[]): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]))

/** What is in hand gets its time again, if it is still ours; members that held nothing for a day are forgotten. ARGV: group, member, ids. */
const KEEP_AND_TIDY = `
  for i = 3, #ARGV do
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
    if pending and pending[2] == ARGV[2] then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    end
  end
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    if consumer[4] == 0 and consumer[6] > 86400000 then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer[2])
    end
  end
`

/** What was not handled is free for others at once; a member that holds nothing is forgotten. ARGV: group, member, idle time to give. */
const LEAVE = `
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 10000, ARGV[2])
  for _, entry in ipairs(pending) do
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, entry[1], 'IDLE', ARGV[3], 'JUSTID')
  end
  if #pending == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
`
