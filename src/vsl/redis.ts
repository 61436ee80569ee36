import type { Redis } from 'ioredis'
import { inParts } from '../protocol/each.ts'
import { Closed, NotFound, TooLarge } from '../protocol/errors.ts'
import { anything, type Fields, timeout, wholeFrom } from '../protocol/fields.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import { isOneServers, redisAddress } from '../protocol/redis-address.ts'
import type { Backend, Entry, Lease } from './backend.ts'
import { isName, textOf } from './check-input.ts'
import { checkEither, checkOpening } from './check-options.ts'
import { checked } from './checked.ts'
import { followers } from './followers.ts'
import { grouped, type PreparedWrite, type Verdict } from './grouped.ts'
import { holderIsGone } from './holder.ts'
import { connect } from './redis-connection.ts'
import { checkDatabase, checkSettings, openKeys, refuseIfNewer } from './redis-open.ts'
import { journalPages, outlasting, PAGE_ROWS, walk } from './redis-pages.ts'
import {
  ACQUIRE,
  COMMIT,
  DELETE,
  FORGET,
  FORGET_BLOBS,
  KEEP,
  keysOf,
  PUT,
  PUT_BLOB,
  run,
  SCHEMA,
} from './redis-scripts.ts'
import { parsedValue } from './stored-json.ts'

export interface RedisBackendOptions {
  /** `redis://user:password@host:port/database`, or `rediss:` for TLS; of a cluster any node. Either this or a client. */
  readonly url?: string
  /** Lends its address, credentials and TLS settings to connections of our own; it stays yours and is not used. */
  readonly client?: Redis
  /** Made if it is not there: true when absent. With false NotFound is thrown instead, and nothing is left behind. */
  readonly create?: boolean
  /** All keys begin with `{prefix}:`, so that a store lives in one slot. Default mplp. */
  readonly prefix?: string
  /** How long a call may take, a reconnection included. Default 5,000. */
  readonly timeoutMs?: number
  /** Redis keeps all of it in memory. Default 1 MiB. */
  readonly maxBlobBytes?: number
  /** For servers whose settings cannot be read: you vouch that nothing is evicted and every write synced. */
  readonly trustConfig?: boolean
  /** Told once when the server may forget what it has acknowledged. Default: a warning of the process. */
  readonly onWarning?: (message: string) => void
}

const OPTIONS = 'the options of a Redis store'
const OWN: Fields = {
  url: anything, // looked at where it is read
  client: { says: 'a client of one server (of a cluster, give the URL of any node)', fits: isOneServers },
  prefix: { says: 'text without braces', fits: (value) => isName(value) && !/[{}]/.test(value) },
  timeoutMs: timeout,
  maxBlobBytes: wholeFrom(0),
}

/** One server, one slot, one script and one round trip for a batch of commits, for any number of processes. Leases run by the server's clock. */
export async function redisBackend(options: RedisBackendOptions): Promise<Backend> {
  checkOpening(OPTIONS, options, 'create', 'trustConfig', 'onWarning', OWN)
  checkEither(OPTIONS, options, 'url', 'client')
  const { prefix = 'mplp', timeoutMs = 5000, maxBlobBytes = 1024 * 1024, trustConfig = false } = options
  const { create = true, onWarning = (message: string) => process.emitWarning(message) } = options
  const keys = keysOf(prefix)
  const connection = await connect(options.client ?? redisAddress(options.url ?? '', 'store'), timeoutMs)
  const what = `the store ${prefix} in ${connection.what}`
  const durable = await connection
    .ask(async (redis) => {
      await checkDatabase(redis, connection.what)
      await redis.exists(keys.meta) // in a cluster, this leads to the node whose settings matter
      const settings = await checkSettings(redis, connection.what, trustConfig)
      await redis.publish(keys.news, '[]') // tells nothing to anybody; who may not do it would learn so from the first commit
      if (!(await openKeys(redis, connection.what, keys, create)))
        throw new NotFound('store', `${prefix} in ${connection.what}`)
      return settings.durable
    })
    .catch((error) => {
      connection.close()
      throw error
    })
  connection.stands()
  if (!durable)
    onWarning(
      `${what} may lose acknowledged commits with its machine: set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no`,
    )

  let closed = false
  const open = () => {
    if (closed) throw new Closed(what)
  }
  let listening = false
  const following = followers(what, async () => {
    if (listening) return
    listening = true
    connection.listen(keys.news, following.wakeAll, (streams) => following.wake(JSON.parse(streams)))
  })
  const journal = journalPages(connection, keys)
  const commits = grouped(
    {
      async commitBatch(writes) {
        const touched = [keys.heads, keys.journal, keys.places, keys.values.hash, keys.values.order, keys.meta]
        const args = commitArguments(keys.news, writes)
        return verdictsOf(await connection.once(prefix, (redis) => run(redis, COMMIT, touched, args)))
      },
    },
    { what, lanes: 2 },
  )
  const entries = (
    stream: string | undefined,
    nextPage: () => Promise<Entry[]>,
    from: { follow?: boolean; signal?: AbortSignal },
  ) => {
    const isOver = () => closed || !from.follow || from.signal?.aborted === true
    return following.entries(stream, () => outlasting(nextPage, isOver), from)
  }
  const blobKeys = [keys.blobs.hash, keys.blobs.order, keys.blobTimes]
  const keep = async ({ stream, token, holder }: Lease, ttl: number | ''): Promise<boolean> =>
    (await connection.ask((redis) => run(redis, KEEP, [keys.heads, keys.leases], [stream, token, holder.id, ttl]))) ===
    1

  return checked(open, {
    traits: { durable, processes: 'many', grouped: true },
    async facts() {
      const [version, time] = await connection.ask((redis) =>
        Promise.all([redis.hget(keys.meta, 'schema'), redis.time()]),
      )
      refuseIfNewer(version, connection.what, keys.meta)
      const [seconds, micros] = time.map(Number)
      return { layout: SCHEMA, now: seconds! * 1000 + micros! / 1000 }
    },

    async get(key) {
      const text = await connection.ask((redis) => redis.hget(keys.own.hash, key))
      return text === null ? undefined : parsedValue(key, text)
    },
    async set(key, value) {
      const text = textOf('value', value)
      await connection.once(key, (redis) => run(redis, PUT, [keys.own.hash, keys.own.order, keys.meta], [key, text]))
    },
    async delete(key) {
      await connection.once(key, (redis) => run(redis, DELETE, [keys.own.hash, keys.own.order], [key]))
    },

    commit: commits.commit,

    async getMany(wanted) {
      const found = new Map<string, Json>()
      for (const part of inParts(wanted, PAGE_ROWS)) {
        const texts = await connection.ask((redis) => redis.hmget(keys.values.hash, ...part))
        for (const [i, key] of part.entries()) if (texts[i]) found.set(key, parsedValue(key, texts[i]))
      }
      return found
    },
    async *scan(start, from = {}) {
      for await (const [key, text] of walk(connection, from.own ? keys.own : keys.values, start, from)) {
        open()
        yield [key, parsedValue(key, text)]
      }
    },

    async head(stream) {
      const text = await connection.ask((redis) => redis.hget(keys.heads, stream))
      const [revision = 0, token = 0] = text?.split(' ').map(Number) ?? []
      return { revision, token }
    },
    read: (stream, from = {}) => entries(stream, journal.ofStream(stream, from.after ?? 0), from),
    feed: (from = {}) => entries(undefined, journal.ofAll(from.after), from),

    async acquire(stream, holder, ttlMs) {
      const args = [stream, JSON.stringify(holder), holder.id, Math.ceil(ttlMs)]
      const attempt = async (gone: string) =>
        (await connection.ask((redis) =>
          run(redis, ACQUIRE, [keys.heads, keys.leases, keys.meta], [...args, gone]),
        )) as Answered
      let [token, revision, held] = await attempt('')
      // Another one that is gone by now may have been quicker.
      while (held !== undefined && holderIsGone(JSON.parse(held))) [token, revision, held] = await attempt(token)
      if (held !== undefined) return undefined
      return { stream, holder, token: Number(token), ttlMs, revision: Number(revision) }
    },
    async renew(lease) {
      return keep(lease, Math.ceil(lease.ttlMs))
    },
    async release(lease) {
      await keep(lease, '')
    },

    async putBlob(bytes) {
      if (bytes.byteLength > maxBlobBytes)
        throw new TooLarge(
          'a blob',
          bytes.byteLength,
          maxBlobBytes,
          'raise maxBlobBytes where the store is opened, or use one that is not all in memory',
        )
      const copy = Buffer.from(bytes)
      const digest = digestOf(copy)
      const put = (...args: [Digest, Buffer?]) =>
        connection.ask((redis) => run(redis, PUT_BLOB, [...blobKeys, keys.meta], args as (Digest | Buffer)[]))
      if ((await put(digest)) === 0) await put(digest, copy) // what is there already is not sent again
      return digest
    },
    async forgetBlobs(digests, unputMs) {
      const gone: Digest[] = []
      for (const some of inParts(digests, PAGE_ROWS)) {
        const args = [Math.ceil(unputMs), ...some]
        gone.push(...((await connection.ask((redis) => run(redis, FORGET_BLOBS, blobKeys, args))) as Digest[]))
      }
      return gone
    },
    async getBlob(digest) {
      const bytes = await connection.ask((redis) => redis.hgetBuffer(keys.blobs.hash, digest))
      return bytes === null ? undefined : new Uint8Array(bytes)
    },
    async *blobs() {
      for (let after = ''; ; ) {
        open()
        const from = after === '' ? '-' : `(${after}`
        const page = await connection.ask((redis) => redis.zrangebylex(keys.blobs.order, from, '+', 'LIMIT', 0, 1000))
        if (page.length === 0) return
        for (const digest of page) {
          open()
          yield digest as Digest
          after = digest
        }
      }
    },

    async close() {
      closed = true
      following.end()
      await commits.close()
      connection.close()
    },
  })
}

type Answered = readonly [token: string, revision: string, held?: string]

function commitArguments(channel: string, writes: readonly PreparedWrite[]): (string | number)[] {
  const args: (string | number)[] = [channel, writes.length, ...writes.map((write) => write.stream)]
  for (const { expected, fence, entry, forget, inserts, puts, deletes } of writes) {
    args.push(expected, fence ?? '', forget ? FORGET : (entry ?? ''), inserts.length, puts.length, deletes.length)
    for (const [key, text] of inserts) args.push(key, text)
    for (const [key, text] of puts) args.push(key, text)
    for (const key of deletes) args.push(key)
  }
  return args
}

const verdictsOf = (reply: unknown): Verdict[] => {
  const flat = reply as readonly string[]
  return Array.from({ length: flat.length / 2 }, (_, i) => verdictOf(flat[i * 2] as Verdict['kind'], flat[i * 2 + 1]!))
}

function verdictOf(kind: Verdict['kind'], detail: string): Verdict {
  switch (kind) {
    case 'landed':
    case 'newest':
      return { kind }
    case 'fenced':
      return { kind, token: Number(detail) }
    case 'conflict':
      return { kind, actual: Number(detail) }
    case 'exists':
      return { kind, key: detail }
    default:
      return kind satisfies never
  }
}
