import type { Clock } from '../protocol/clock.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import { redisAddress } from '../protocol/redis-address.ts'
import type { Backend } from './backend.ts'
import { checkStoreOptions } from './check-options.ts'
import { withEncryption } from './encrypted.ts'
import type { EncryptionKey } from './keyring.ts'
import { liftedBackend } from './lifted.ts'
import type { BareStore } from './lifted-cells.ts'
import type { PostgresOptions } from './postgres.ts'
import type { RedisBackendOptions } from './redis.ts'
import type { SqliteOptions } from './sqlite.ts'

export {
  type Acquired,
  type Backend,
  type Entry,
  type Facts,
  type Head,
  type Holder,
  type Lease,
  MAX_BLOB_BYTES,
  MAX_ENTRY_BYTES,
  MAX_KEY_BYTES,
  POSITIONS,
  type Position,
  type Puts,
  type ScanFrom,
  type Traits,
  type ValueStateLayer,
  type Write,
} from './backend.ts'
export { type CopyCounts, type CopyOptions, copyStore, type Source } from './copy.ts'
export { holderIsGone } from './doors.ts'
export { withEncryption } from './encrypted.ts'
export { thisHolder } from './holder.ts'
export type { EncryptionKey } from './keyring.ts'
export { type LiftedOptions, liftedBackend as fromBare } from './lifted.ts'
export type { BareStore } from './lifted-cells.ts'
export { commitOnce, type SettleOptions } from './settle.ts'
export { withChecks } from './with-checks.ts'

/** One that the store does not know is refused, not ignored. */
export interface StoreOptions {
  /** All but memory: made if it is not there, which is the default; with false NotFound is thrown instead, and nothing is left behind. */
  readonly create?: boolean
  /** Redis: all keys begin with it. */
  readonly prefix?: string
  /** Postgres: holds the store's tables. */
  readonly schema?: string
  /** Postgres: connections at most. */
  readonly poolSize?: number
  /** SQLite, Redis, Postgres: how long a call may take. */
  readonly timeoutMs?: number
  /** SQLite: FULL unless told. */
  readonly synchronous?: NonNullable<SqliteOptions['synchronous']>
  /** SQLite: from how many milliseconds on a commit is made on another thread. Default 0.5. */
  readonly blockingMs?: number
  /** Redis: a client whose settings are used. Postgres: a pool. The URL then only says which of the two. */
  readonly client?: NonNullable<RedisBackendOptions['client']> | NonNullable<PostgresOptions['pool']>
  /** Redis: the largest blob that is taken. Default 1 MiB. */
  readonly maxBlobBytes?: number
  /** Redis: for servers whose settings cannot be read, you vouch that nothing is evicted and every write synced. */
  readonly trustConfig?: boolean
  /** Redis, Postgres: told once when the server may forget what it has acknowledged. */
  readonly onWarning?: (message: string) => void
  /** File: told when the file of a single value cannot be written. Nothing is lost by it. Default: a warning of the process. */
  readonly onError?: (error: unknown) => void
  /** A bare store: does it survive the loss of power? */
  readonly durable?: boolean
  readonly clock?: Clock
  /** The first key seals, all of them open; see withEncryption. */
  readonly encryption?: readonly EncryptionKey[]
}

/**
 * Opens the store that a URL names: `memory:`, `file:./folder`, `sqlite:./file.db`, `redis://…`, `rediss://…`, `postgres://…`. A Backend is taken as
 * it is, and any object with `get` and `set` is made whole. Nobody who uses one loads the clients of the others.
 */
export async function openStore(store: string | Backend | BareStore, options: StoreOptions = {}): Promise<Backend> {
  checkStoreOptions(options)
  const { encryption, ...rest } = options
  const opened = typeof store === 'string' ? await openUrl(store, rest) : await openObject(store, rest)
  if (encryption === undefined) return opened
  try {
    return await withEncryption(opened, encryption)
  } catch (error) {
    if (opened !== store) await opened.close()
    throw error
  }
}

/** Throws InvalidInput for a URL that is no store's; nothing is opened for it. */
export const checkStoreUrl = (url: string): void => memberOf(url).check(url)

/** Where a store lies that is made of files; `undefined` for any other. */
export function storePath(url: string): string | undefined {
  refuseUnlessFit('store', { url }, { url: needed(text) })
  return /^(file|sqlite):/.test(url) ? pathIn(url) : undefined
}

type MemberOptions = Omit<StoreOptions, 'encryption'>
type Member = Readonly<{
  knows: readonly (keyof MemberOptions)[]
  check(url: string): void
  open(url: string, options: MemberOptions): Promise<Backend>
}>

const REDIS: Member = {
  knows: ['create', 'prefix', 'timeoutMs', 'client', 'maxBlobBytes', 'trustConfig', 'onWarning'],
  check: (url) => void redisAddress(url, 'store'),
  async open(url, { client, ...rest }) {
    const { redisBackend } = await import('./redis.ts')
    const target = client === undefined ? { url } : { client: client as NonNullable<RedisBackendOptions['client']> }
    return redisBackend({ ...target, ...given(rest) })
  },
}
const POSTGRES: Member = {
  knows: ['create', 'schema', 'poolSize', 'timeoutMs', 'client', 'onWarning', 'clock'],
  check(url) {
    if (!URL.canParse(url)) throw badUrl('is not postgres://user:password@host:port/database') // not shown: it may hold a password
  },
  async open(url, { client, ...rest }) {
    const { postgresBackend } = await import('./postgres.ts')
    const target = client === undefined ? { url } : { pool: client as NonNullable<PostgresOptions['pool']> }
    return postgresBackend({ ...target, ...given(rest) })
  },
}
const MEMBERS: Readonly<Record<string, Member>> = {
  memory: {
    knows: ['clock'],
    check(url) {
      if (!/^memory:(\/\/)?$/.test(url)) throw badUrl('has something after memory:')
    },
    async open(_, { clock }) {
      return (await import('./memory.ts')).memoryBackend(given({ clock }))
    },
  },
  file: {
    knows: ['create', 'clock', 'onError'],
    check: (url) => void pathIn(url),
    async open(url, options) {
      return (await import('./file.ts')).fileBackend({ path: pathIn(url), ...given(options) })
    },
  },
  sqlite: {
    knows: ['create', 'synchronous', 'timeoutMs', 'blockingMs', 'clock'],
    check: (url) => void pathIn(url),
    async open(url, options) {
      return (await import('./sqlite.ts')).sqliteBackend({ path: pathIn(url), ...given(options) })
    },
  },
  redis: REDIS,
  rediss: REDIS,
  postgres: POSTGRES,
  postgresql: POSTGRES,
}

async function openUrl(url: string, options: MemberOptions): Promise<Backend> {
  const member = memberOf(url)
  checkKnown(`${schemeOf(url)}:`, member.knows, options)
  if (options.client === undefined) member.check(url)
  return member.open(url, options)
}

const schemeOf = (url: string): string => /^([a-z]+):/.exec(url)?.[1] ?? ''

function memberOf(url: string): Member {
  const scheme = schemeOf(url)
  if (Object.hasOwn(MEMBERS, scheme)) return MEMBERS[scheme]!
  const known = Object.keys(MEMBERS).map((name) => `${name}:`)
  const message = `begins with none of ${known.join(', ')}`
  throw new InvalidInput('store', [{ path: 'url', rule: 'scheme', message, found: scheme }]) // the rest may hold a password
}

async function openObject(store: Backend | BareStore, options: MemberOptions): Promise<Backend> {
  if (isBackend(store)) {
    checkKnown('a store that is open', [], options)
    return store
  }
  checkKnown('a bare store', ['durable', 'clock'], options)
  const { durable, clock } = options
  return liftedBackend(store, given({ durable, clock }))
}

const isBackend = (store: Backend | BareStore): store is Backend =>
  typeof store === 'object' && store !== null && 'commit' in store && 'feed' in store && 'traits' in store

function checkKnown(what: string, known: readonly string[], options: MemberOptions): void {
  const problems = Object.entries(options)
    .filter(([name, value]) => value !== undefined && !known.includes(name))
    .map(([name]) => ({ path: name, rule: 'option', message: `means nothing to ${what}` }))
  if (problems.length > 0) throw new InvalidInput('store options', problems)
}

/** `file:./a`, `file:/a` and `file:///a`; what stands between two slashes and the next would be a host. */
function pathIn(url: string): string {
  const path = url.slice(url.indexOf(':') + 1).replace(/^\/\/(?=\/)/, '')
  if (path === '') throw badUrl('names no path')
  if (path.startsWith('//')) throw badUrl('names a host; write a path as ./state or /var/state after the colon')
  if (path.includes('?')) throw badUrl('has parameters, which are options here')
  return path
}

const badUrl = (message: string) => new InvalidInput('store', [{ path: 'url', rule: 'url', message }])
