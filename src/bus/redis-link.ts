import type { Redis, RedisOptions } from 'ioredis'
import { causeOf } from '../protocol/cause.ts'
import type { Clock } from '../protocol/clock.ts'
import { MplpError, Refused, Unavailable } from '../protocol/errors.ts'
import { noDatabase, redisAddress, redisAt } from '../protocol/redis-address.ts'
import { isReply, replyCode } from '../protocol/redis-reply.ts'
import type { Report } from '../protocol/reporter.ts'
import { required } from '../protocol/required.ts'
import { slept } from '../protocol/waiting.ts'

/** A server and how to reach it; every connection made here comes back by itself. */
export interface RedisLink {
  /** The server in messages; no credentials. */
  readonly what: string
  /** A connection that is silent for `silenceMs` while an answer is due is taken for dead, however open it looks. */
  connect(silenceMs: number): Promise<Redis>
  /** Errors of the client and error replies as ours. */
  error(error: unknown): MplpError
  /**
   * Sends a command again and again until it is answered; `undefined` when the signal was aborted first. Tells of a breakdown once, at its
   * beginning. An error reply is thrown: asking again would not change it.
   */
  insist<T>(command: () => Promise<T>, signal: AbortSignal, report: Report): Promise<T | undefined>
}

/** A client lends its address and credentials; it is not used itself. */
export function redisLink(target: string | Redis, timeoutMs: number, clock: Clock): RedisLink {
  const address: RedisOptions = typeof target === 'string' ? redisAddress(target, 'bus') : target.options
  const what = redisAt(address)

  const refusedDatabase = (error: unknown) => {
    throw replyCode(error) === 'ERR' ? noDatabase(what, address.db, causeOf(error)) : error
  }

  return {
    what,
    async connect(silenceMs) {
      const { Redis: Client } = required('ioredis') as typeof import('ioredis')
      let isOpen = false
      let trouble: unknown
      const redis = new Client({
        ...address,
        ...OURS,
        connectTimeout: timeoutMs,
        socketTimeout: silenceMs,
        retryStrategy: (attempt: number) => (isOpen ? Math.min(20 * 2 ** attempt, 1000) : null),
      })
      redis.on('error', (error: unknown) => {
        trouble = error
      })
      try {
        await redis.connect()
        if (address.db) await redis.select(address.db).catch(refusedDatabase)
      } catch (error) {
        redis.disconnect()
        throw error instanceof Refused ? error : redisError(what, trouble ?? error) // what connect() says is only that it failed
      }
      isOpen = true
      return redis
    },
    error: (error) => redisError(what, error),
    async insist(command, signal, report) {
      for (let failures = 0; !signal.aborted; failures++) {
        try {
          return await command()
        } catch (error) {
          if (signal.aborted) break
          if (isReply(error) && !(redisError(what, error) instanceof Unavailable)) throw error
          if (failures === 0) report(redisError(what, error))
          await slept(clock, Math.min(20 * 2 ** failures, 1000), signal)
        }
      }
      return undefined
    },
  }
}

/** How long a read waits at the server for something new. */
export const BLOCK_MS = 5000

/** True when the server says that one value is longer than it takes. */
export const isTooLong = (error: unknown): boolean => isReply(error) && error.message.includes('invalid bulk length')

/** A command that was in flight when the connection broke is rejected, and none waits in a queue of the client's. */
const OURS = {
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  maxLoadingRetryTime: 100,
  disconnectTimeout: 200, // the process is kept for so long, also by a connection that never stood
  keyPrefix: '',
  stringNumbers: false,
  replyMapping: 'legacy',
  enableAutoPipelining: false,
  reconnectOnError: (error: Error) => replyCode(error) === 'READONLY', // a master that steps down keeps its connections
  commandTimeout: undefined,
} as const satisfies RedisOptions

function redisError(what: string, error: unknown): MplpError {
  if (error instanceof MplpError) return error
  const cause = { cause: causeOf(error) }
  const code = replyCode(error)
  const refusal = REFUSALS[code]
  if (refusal) return new Refused(`${what} ${refusal[0]}`, refusal[1], cause)
  if (isReply(error) && !PASSING.has(code))
    return new Refused(`${what} refused a command`, 'see the cause for its reason', cause)
  if (code === 'OOM')
    return new Unavailable(what, 'its memory is full; raise maxmemory, or keep fewer deliveries', cause)
  return new Unavailable(what, 'check host, port and TLS in the URL, and that the server runs', cause)
}

const REFUSALS: Readonly<Record<string, readonly [string, string]>> = {
  WRONGPASS: ['does not accept the password', 'check user name and password in the URL'],
  NOAUTH: ['asks for a password', 'put user name and password into the URL'],
  NOPERM: ['does not let this user do what a bus needs', 'give the user @stream, @scripting and @read on the prefix'],
  MOVED: ['is a node of a cluster that does not have the stream', 'give the URL of the one that the cause names'],
  WRONGTYPE: ['has another kind of key where the stream belongs', 'give the bus a prefix of its own'],
}

const PASSING = new Set([
  'ASK', // the stream is on its way to another node
  'BUSY',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'MISCONF',
  'NOREPLICAS',
  'OOM',
  'READONLY',
  'TRYAGAIN',
  'UNBLOCKED', // a read that waited when the server became a replica
])
