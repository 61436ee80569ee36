import type { Redis } from 'ioredis'
import type { Clock } from '../protocol/clock.ts'
import { Corrupt, FellBehind } from '../protocol/errors.ts'
import { replyCode } from '../protocol/redis-reply.ts'
import { sparing, TOLD_AGAIN_MS } from '../protocol/reporter.ts'
import { slept } from '../protocol/waiting.ts'
import { BLOCK_MS, type RedisLink } from './redis-link.ts'
import { deliveryOf, entryOf, PAGE, type RawEntry, type StreamPoint } from './redis-stream.ts'
import type { Feeding } from './source.ts'

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
  return groupsIn(await redis.xinfo('GROUPS', key)).some(({ name }) => name === group)
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
export function readInGroup(
  of: GroupMember,
  { match, queue, settled, signal, report, fail }: Feeding,
): () => Promise<void> {
  const { link, main, reader, key, group, member, claimAfterMs, clock } = of
  const atOnce = Math.min(PAGE, settled.limit) // what is read is kept from the others, be it handled soon or not
  const inHand = new Set<string>()
  const handled = new Set<string>() // and not yet acknowledged
  const left = new AbortController() // until then a handler may have something in hand, also when no more is read
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

  const isOurs = (id: string) => inHand.has(id) || handled.has(id)
  const tellTrimmed = (count: number, when: string) => {
    if (count > 0) report(new FellBehind(`the group ${group}`, `${count} deliveries were trimmed from ${key} ${when}`))
  }

  const take = async (raw: RawEntry) => {
    const [id] = raw
    const entry = entryOf(raw)
    if (!entry) {
      tellTrimmed(1, IN_HAND)
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
    const fresh = page.filter(([id]) => !isOurs(id))
    for (const [id] of fresh) inHand.add(id) // also what has to wait for room: without a sign of life others would take it
    for (const raw of fresh) {
      if (signal.aborted) done(raw[0], false)
      else await take(raw)
    }
  }

  const readOwn = async (from: string) =>
    pageOf(await reader.xreadgroup('GROUP', group, member, 'COUNT', atOnce, 'STREAMS', key, from))
  const readNew = async () => {
    const [lost, page] = (await reader.eval(READ_NEW, 1, key, group, member, atOnce)) as [number, readonly RawEntry[]]
    tellTrimmed(lost, 'before it read them')
    return page
  }
  const waitForNew = () =>
    reader
      .xreadgroup('GROUP', group, member, 'COUNT', atOnce, 'BLOCK', BLOCK_MS, 'STREAMS', key, '>')
      .then(pageOf, (error): readonly RawEntry[] => {
        if (replyCode(error) !== 'UNBLOCKED') throw error
        return [] // the stream is gone, or the server has become a replica: who asks again is told which
      })

  const read = async () => {
    // What a lost reply had brought is ours and comes before anything new, or a graph's later deliveries would overtake it.
    let from = '0'
    const command = async () => {
      if (from !== '>') return { isNew: false, page: await readOwn(from) }
      const page = await readNew()
      return { isNew: true, page: page.length > 0 ? page : await waitForNew() }
    }
    const broke = (error: unknown) => {
      from = '0'
      report(error)
    }
    while (!signal.aborted) {
      const got = await link.insist(command, signal, broke)
      if (!got) return
      await takeAll(got.page)
      if (got.isNew) continue
      from = got.page.at(-1)?.[0] ?? '>'
      if (from === '>') await link.insist(claim, signal, report) // what those who are gone had in hand is older than anything new, too
    }
  }

  const claim = async () => {
    for (let from = '-'; ; ) {
      await queue.room() // what cannot be handled soon is better claimed by somebody else
      if (signal.aborted) return
      const reply = await main.eval(CLAIM, 1, key, group, member, claimAfterMs, from, atOnce)
      const [page, gone, last] = reply as [readonly RawEntry[], number, string | undefined]
      tellTrimmed(gone, IN_HAND)
      await takeAll(page)
      if (last === undefined) return
      from = `(${last}`
    }
  }
  const showLife = async () => {
    await main.eval(KEEP_AND_TIDY, 1, key, group, member, ...inHand)
    await soonAcknowledge()
  }
  /** Again and again, whatever becomes of it; apart from the others, because a claim may have to wait for room. */
  const tend = async (chore: () => Promise<void>, everyMs: number, until: AbortSignal) => {
    while (await slept(clock, everyMs, until))
      await chore().catch((error) => {
        if (!until.aborted && replyCode(error) !== 'NOGROUP') tellTrouble(link.error(error)) // the reader mends that
      })
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
  void tend(showLife, claimAfterMs / 3, left.signal)
  void tend(claim, claimAfterMs / 2, signal)

  return async () => {
    left.abort()
    await soonAcknowledge()
    try {
      const gone = (await main.eval(LEAVE, 1, key, group, member, claimAfterMs)) as readonly string[]
      tellTrimmed(gone.filter((id) => !handled.has(id)).length, IN_HAND)
    } catch (error) {
      report(link.error(error))
    }
  }
}

const IN_HAND = 'while a member had them in hand'

const pageOf = (reply: unknown): readonly RawEntry[] =>
  (reply as readonly (readonly [string, readonly RawEntry[]])[] | null)?.[0]?.[1] ?? []

const groupsIn = (reply: unknown): readonly Record<string, unknown>[] =>
  (reply as readonly (readonly unknown[])[]).map(pairs)

const pairs = (flat: readonly unknown[]): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]))

/**
 * The next page, and how many were trimmed before any member came to them: between how far the group has read and where the page begins. Not every
 * server counts those as read, so that it is told to. ARGV: group, member, how many.
 */
const READ_NEW = `
  local lost = 0
  local groups = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('XINFO', 'GROUPS', KEYS[1]) or {}
  for _, group in ipairs(groups) do
    if group[2] == ARGV[1] then
      local last, read = group[8], group[10]
      local following = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', 1)[1]
      local count = following and tonumber(following[2][2])
      if count and (not read or read < count - 1) then
        lost = read and count - 1 - read or 0
        redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], last, 'ENTRIESREAD', count - 1)
      end
    end
  end
  local streams = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')
  return { lost, streams and streams[1][2] or {} }
`

/**
 * Makes ours what others have had for too long; what of that was trimmed is nobody's any more, and is counted. So is what we were given and never heard
 * of, as when the answer to this was lost; but what of ours was trimmed may be in hand. ARGV: group, member, idle time, from where, how many. The last
 * of a full page is told, to go on from.
 */
const CLAIM = `
  local idle = redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], ARGV[4], '+', ARGV[5])
  local page, gone = {}, 0
  for _, pending in ipairs(idle) do
    if pending[2] ~= ARGV[2] or #redis.call('XRANGE', KEYS[1], pending[1], pending[1]) > 0 then
      local entry = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], pending[1])[1]
      if entry then page[#page + 1] = entry else gone = gone + 1 end
    end
  end
  return { page, gone, #idle == tonumber(ARGV[5]) and idle[#idle][1] or nil }
`

/**
 * What is in hand gets its time again, if it is still ours; members that held nothing for a day are forgotten. Of what was trimmed the server would
 * forget that it was given to anybody, and should we vanish nobody would hear of it. ARGV: group, member, ids.
 */
const KEEP_AND_TIDY = `
  local inHand = {}
  for i = 3, #ARGV do inHand[ARGV[i]] = true end
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  local kept = redis.call('XPENDING', KEYS[1], ARGV[1], oldest and oldest[1] or '+', '+', 1000000, ARGV[2])
  for _, pending in ipairs(kept) do
    if inHand[pending[1]] then redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, pending[1], 'JUSTID') end
  end
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    if consumer[4] == 0 and consumer[6] > 86400000 then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer[2])
    end
  end
`

/**
 * What was not handled is free for others at once, or told if it was trimmed; a member that holds nothing is forgotten. ARGV: group, member, idle
 * time to give.
 */
const LEAVE = `
  local held = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1000000, ARGV[2])
  local gone = {}
  for _, pending in ipairs(held) do
    local freed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, pending[1], 'IDLE', ARGV[3], 'JUSTID')
    if #freed == 0 then gone[#gone + 1] = pending[1] end
  end
  local rest = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
  if #rest == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
  return gone
`
