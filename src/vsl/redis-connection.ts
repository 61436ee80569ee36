import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Redis, RedisOptions } from 'ioredis'
import { causeOf } from '../protocol/cause.ts'
import { Closed, MplpError, OutcomeUnknown, Unavailable } from '../protocol/errors.ts'
import { redisAt } from '../protocol/redis-address.ts'
import { isReply, replyCode } from '../protocol/redis-reply.ts'
import { required } from '../protocol/required.ts'
import { isUnsent, movedTo, redisError } from './redis-errors.ts'
import { wakeable } from './wakeable.ts'

type Command<T> = (redis: Redis) => Promise<T>
interface Node {
  readonly host: string
  readonly port: number
}

/**
 * A connection that comes back by itself, follows its store to another node of a cluster, and never sends a command twice unless it is told that
 * it may.
 */
export interface RedisConnection {
  /** The server in error messages; no credentials. */
  readonly what: string
  /** Sent at most once: throws OutcomeUnknown, for the stream or key `of`, when the reply is lost. */
  once<T>(of: string, command: Command<T>): Promise<T>
  /** For what may be done twice: sent again after a lost reply while there is time, then Unavailable. */
  ask<T>(command: Command<T>): Promise<T>
  /** A second connection for the messages of a channel; `onJoin` whenever messages may have been missed before. */
  listen(channel: string, onJoin: () => void, onMessage: (text: string) => void): void
  /** From here on, what the server no longer allows may pass: Unavailable, where it was Refused before. */
  stands(): void
  /** What is in flight is given up. Safe to call twice. */
  close(): void
}

/** Connects, or throws within `timeoutMs` and leaves nothing behind. A client lends its address and credentials; it is not used itself. */
export async function connect(target: RedisOptions | Redis, timeoutMs: number): Promise<RedisConnection> {
  const { Redis: Client } = required('ioredis') as typeof import('ioredis')
  const address: RedisOptions = 'duplicate' in target ? target.options : target
  const what = redisAt(address)
  let state: 'opening' | 'open' | 'closed' = 'opening'
  let stood = false
  let trouble: unknown
  const changed = wakeable()

  const settings: RedisOptions = {
    ...OURS,
    connectTimeout: timeoutMs,
    socketTimeout: timeoutMs, // silence while an answer is due: that connection is dead, however open it looks
  }
  const given: Node = { host: address.host ?? 'localhost', port: address.port ?? 6379 }
  /** Where the store was last. */
  let node = given
  const make = (): Redis => {
    const client: Redis = new Client({
      ...address,
      ...node,
      ...settings,
      replyMapping: 'legacy',
      retryStrategy(attempt) {
        if (state !== 'open') return null
        Object.assign(client.options, attempt % 2 === 0 ? given : node) // a node that is gone cannot say who has the store since
        return Math.min(20 * 2 ** attempt, 1000)
      },
    })
    return client.on('error', (error: unknown) => {
      trouble = error
    })
  }
  const redis = make().on('ready', () => changed.wake())
  const listeners: { redis: Redis; heartbeat: NodeJS.Timeout }[] = []

  /** Waits until commands can be sent. */
  async function standing(time: Timer): Promise<void> {
    while (redis.status !== 'ready' || time.isUp()) {
      if (state === 'closed') throw new Closed(what)
      if (time.isUp()) throw unreachable(what, trouble)
      const impatience = new AbortController()
      void time.up.then(() => impatience.abort())
      await changed.wait(impatience.signal)
    }
  }

  /** Tells of a command without an answer whether it was sent. */
  async function attempt<T>(command: Command<T>, time: Timer): Promise<{ reply: T } | { sent: boolean }> {
    await standing(time)
    try {
      const reply = await Promise.race([command(redis), time.up])
      if (reply !== TIME_UP) return { reply }
      trouble = new Error(`no answer within ${timeoutMs} ms`)
      return { sent: true }
    } catch (error) {
      if (error instanceof MplpError) throw error
      const moved = movedTo(error)
      if (moved) moveTo(moved)
      else if (isReply(error)) {
        // A master that steps down keeps its connections, while its address may lead to the new one by now.
        if (replyCode(error) === 'READONLY') connectAnew()
        throw redisError(what, error, stood)
      }
      const sent = moved === undefined && !isUnsent(error)
      if (sent) trouble = error
      await nextTurn() // it broke just now: its status will soon say so
      return { sent }
    }
  }

  /** Sent again while there is time; `lost` makes the error for one that may not be sent again. */
  async function answered<T>(command: Command<T>, lost?: () => MplpError): Promise<T> {
    const time = timer(timeoutMs)
    try {
      for (;;) {
        const got = await attempt(command, time)
        if ('reply' in got) return got.reply
        if (got.sent && lost) throw lost()
      }
    } finally {
      time.stop()
    }
  }

  /** Once for all the commands that were on their way to the node we leave. */
  function moveTo({ host = redis.options.host!, port }: Partial<Node> & Pick<Node, 'port'>): void {
    if (host === redis.options.host && port === redis.options.port) return
    node = { host, port }
    connectAnew()
  }

  /** Those that listen too: once the node that we leave is gone, or on its own, they would hear nothing more. */
  function connectAnew(): void {
    for (const each of [redis, ...listeners.map((listener) => listener.redis)]) each.disconnect(true)
  }

  const connected = timer(timeoutMs)
  try {
    const answer = await Promise.race([redis.connect(), connected.up])
    if (answer === TIME_UP) throw new Error(`no answer within ${timeoutMs} ms`)
    state = 'open'
  } catch (error) {
    state = 'closed'
    redis.disconnect()
    throw redisError(what, trouble ?? error) // what connect() says is only that it failed
  } finally {
    connected.stop()
  }

  return {
    what,
    once: (of, command) => answered(command, () => new OutcomeUnknown(of, { cause: causeOf(trouble) })),
    ask: (command) => answered(command),
    listen(channel, onJoin, onMessage) {
      const ear = make()
      ear.on('ready', () => ear.subscribe(channel).then(onJoin, () => ear.disconnect(true)))
      ear.on('message', (_, text) => onMessage(text))
      ear.connect().catch(() => undefined) // it goes on trying, and joins when it succeeds
      // A connection that only listens would not notice that the other side is gone.
      const heartbeat = setInterval(() => ear.ping().catch(() => undefined), timeoutMs).unref()
      listeners.push({ redis: ear, heartbeat })
    },
    stands() {
      stood = true
    },
    close() {
      state = 'closed'
      redis.disconnect()
      for (const listener of listeners) {
        clearInterval(listener.heartbeat)
        listener.redis.disconnect()
      }
      changed.end()
    },
  }
}

/**
 * Commands in flight are rejected when the connection breaks, and none waits in a queue of the client's: whether one was sent is then certain.
 * The rest keeps a lent client's own settings out.
 */
const OURS: RedisOptions = {
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  autoResubscribe: false,
  maxLoadingRetryTime: 100,
  disconnectTimeout: 200,
  keyPrefix: '',
  stringNumbers: false,
  enableAutoPipelining: false,
  reconnectOnError: null,
  commandTimeout: undefined,
}

/** After a connection once stood, whatever keeps it away may pass. */
function unreachable(what: string, trouble: unknown): MplpError {
  const error = redisError(what, trouble)
  return error instanceof Unavailable
    ? error
    : new Unavailable(what, 'it does not let us in any more; the cause says why', { cause: error })
}

const TIME_UP = Symbol('time is up')
interface Timer {
  readonly up: Promise<typeof TIME_UP>
  isUp(): boolean
  stop(): void
}
function timer(ms: number): Timer {
  let isUp = false
  let handle: NodeJS.Timeout | undefined
  const up = new Promise<typeof TIME_UP>((resolve) => {
    handle = setTimeout(() => {
      isUp = true
      resolve(TIME_UP)
    }, ms)
  })
  return { up, isUp: () => isUp, stop: () => clearTimeout(handle) }
}
