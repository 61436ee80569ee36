import { InvalidInput, KeyExists, NotFound, Refused } from '../protocol/errors.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import type { Backend, Entry, Puts, ScanFrom } from './backend.ts'
import { certainly } from './certainly.ts'
import { checkBytes, checkDigest, checkName, checkScan, textOf } from './check-input.ts'
import { checkStores } from './check-options.ts'
import { checkWrite } from './check-write.ts'
import { isEmpty } from './copy.ts'
import { type EncryptionKey, type Keyring, keyring, noSuchKey, type Place } from './keyring.ts'

/**
 * A store whose values, own values, entries and blobs are sealed with AES-256-GCM before they reach the inner one. The first key seals, all of them
 * open: to change keys, put the new one first and leave the old one in the list. A sealed text belongs to its place (the key of a value, the stream
 * and revision of an entry, the digest of a blob) and is refused anywhere else. Throws Refused when the keys are not those of the store.
 *
 * Not hidden: keys, stream names, revisions, leases, and sizes. Blobs keep their plain digest outside; inside they lie under the digest of what was
 * sealed, found by a keyed hash, so that nobody without the key can test whether a known file is in the store. Sealing adds a third to the size of
 * texts, so the largest entry is some 24 MiB.
 */
export async function withEncryption(store: Backend, keys: readonly EncryptionKey[]): Promise<Backend> {
  checkStores({ store })
  const ring = keyring(keys)
  await checkKeys(store, ring)
  const writing = new Map<Digest, Promise<void>>()

  /** Every key leaves its check before it seals anything: the name of one without is damage, and not a key to be given. */
  async function unopened(place: Place, error: unknown): Promise<never> {
    const missing = lackedBy(error)
    if (missing === undefined || (await store.get(checkOf(missing))) !== undefined) throw error
    throw noSuchKey(place, { cause: error })
  }
  async function open<T = Json>(place: Place, sealed: Json): Promise<T> {
    try {
      return JSON.parse(ring.open(place, sealed))
    } catch (error) {
      return unopened(place, error)
    }
  }
  const opened = async ({ body, ...entry }: Entry): Promise<Entry> => ({
    ...entry,
    body: await open(['entry', entry.stream, entry.revision], body),
  })
  const seal = (texts: readonly (readonly [string, string])[]): Puts =>
    texts.map(([key, text]) => [key, ring.seal(['value', key], text)])

  const namesOf = (digest: Digest): readonly string[] => ring.hiddenNames(digest).map(blobName)

  async function findBlob(digest: Digest): Promise<Digest | undefined> {
    for (const name of namesOf(digest)) {
      const sealed = await store.get(name)
      if (sealed !== undefined) return (await open<BlobName>(['blob name', name], sealed)).inner
    }
    return undefined
  }
  /** While keys are changed, two processes may have sealed the same blob, each with its own: it is told of by the name that it is found by. */
  async function isFoundBy(name: string, digest: Digest): Promise<boolean> {
    for (const other of namesOf(digest)) {
      if (other === name) break
      if ((await store.get(other)) !== undefined) return false
    }
    return true
  }
  async function writeBlob(digest: Digest, bytes: Uint8Array): Promise<void> {
    if ((await findBlob(digest)) !== undefined) return
    const inner = await store.putBlob(ring.sealBytes(['blob', digest], bytes))
    const name = namesOf(digest)[0]!
    const sealed = ring.seal(['blob name', name], JSON.stringify({ digest, inner } satisfies BlobName))
    await certainly(store.set(name, sealed))
  }

  return {
    traits: { ...store.traits, legible: false },
    ...(store.facts && { facts: () => store.facts!() }),

    async get(key) {
      checkOwn(key)
      const sealed = await store.get(key)
      return sealed === undefined ? undefined : open(['own', key], sealed)
    },
    async set(key, value) {
      checkOwn(key)
      await store.set(key, ring.seal(['own', key], textOf('value', value)))
    },
    async delete(key) {
      checkOwn(key)
      await store.delete(key)
    },

    async commit(write) {
      const { entry, inserts, puts } = checkWrite(write)
      const { entry: _, ...rest } = write
      const sealed = entry && { entry: ring.seal(['entry', write.stream, write.expected + 1], entry) }
      await store.commit({ ...rest, ...sealed, inserts: seal(inserts), puts: seal(puts) })
    },
    async getMany(keys) {
      const found = new Map<string, Json>()
      for (const [key, sealed] of await store.getMany(keys)) found.set(key, await open(['value', key], sealed))
      return found
    },
    async *scan(prefix, from = {}) {
      checkScan(prefix, from)
      const kind = from.own ? 'own' : 'value'
      let left = from.limit ?? Number.POSITIVE_INFINITY
      const found = from.own ? ownKeys(store, prefix, from.after) : values(store, prefix, from)
      for await (const [key, sealed] of found) {
        if (left-- <= 0) return
        let value: Json
        try {
          value = await open([kind, key], sealed)
        } catch (error) {
          passOver(error, from.passOver)
          continue
        }
        yield [key, value]
      }
    },

    head: (stream) => store.head(stream),
    async *read(stream, from) {
      for await (const entry of store.read(stream, from)) yield await opened(entry)
    },
    async *feed(from) {
      for await (const entry of store.feed(from)) yield await opened(entry)
    },

    acquire: (stream, holder, ttlMs) => store.acquire(stream, holder, ttlMs),
    renew: (lease) => store.renew(lease),
    release: (lease) => store.release(lease),

    async putBlob(bytes) {
      checkBytes(bytes)
      const copy = new Uint8Array(bytes)
      const digest = digestOf(copy)
      const work = writing.get(digest) ?? writeBlob(digest, copy).finally(() => writing.delete(digest))
      writing.set(digest, work)
      await work
      return digest
    },
    async getBlob(digest) {
      checkDigest(digest)
      const inner = await findBlob(digest)
      const sealed = inner && (await store.getBlob(inner))
      try {
        return sealed && new Uint8Array(ring.openBytes(['blob', digest], sealed))
      } catch (error) {
        return unopened(['blob', digest], error)
      }
    },
    async *blobs() {
      for await (const [name, sealed] of store.scan(BLOBS, { own: true })) {
        const { digest } = await open<BlobName>(['blob name', name], sealed)
        if (await isFoundBy(name, digest)) yield digest
      }
    },

    close: () => store.close(),
  }
}

/** Has a key ever sealed anything here, or is one about to? Also before there is anything else. */
export async function isSealed(store: Backend): Promise<boolean> {
  if ((await claimIn(store)) !== undefined) return true
  for await (const _ of store.scan(CHECKS, { own: true, limit: 1 })) return true
  return false
}

/** The key that was not given, if that is what is wrong. */
const lackedBy = (error: unknown): string | undefined =>
  error instanceof Refused && error.cause instanceof NotFound ? error.cause.id : undefined

function passOver(error: unknown, tell: ScanFrom['passOver']): void {
  const key = lackedBy(error)
  if (!tell || key === undefined) throw error
  tell(key)
}

/** Own keys of the inner store that are ours, not the caller's. */
const RESERVED = 'mplp-sealed/'
const BLOBS = `${RESERVED}blob/`
const CHECKS = `${RESERVED}key/`
/** A value, for only these are inserted: who comes second is told so. It is there while a store is opened with a key that it does not know. */
const CLAIM = `${RESERVED}claim`
const CLAIM_PLACE: Place = ['value', CLAIM]
const checkOf = (id: string): string => `${CHECKS}${encodeURIComponent(id)}`

interface BlobName {
  readonly digest: Digest
  readonly inner: Digest
}
const blobName = ({ id, name }: { id: string; name: string }): string => `${BLOBS}${encodeURIComponent(id)}/${name}`

function checkOwn(key: string): void {
  checkName('key', key)
  if (key.startsWith(RESERVED))
    throw new InvalidInput('call', [
      { path: 'key', rule: 'reserved', message: `begins with ${RESERVED}, which is kept for encryption`, found: key },
    ])
}

/** The caller's, without a walk through ours. */
async function* ownKeys(
  store: Backend,
  prefix: string,
  after: string | undefined,
): AsyncIterable<readonly [string, Json]> {
  for await (const pair of store.scan(prefix, { own: true, ...(after !== undefined && { after }) })) {
    if (pair[0].startsWith(RESERVED)) return yield* ownKeys(store, prefix, `${RESERVED}\u{10ffff}`)
    yield pair
  }
}

/** The same for values: a claim is there while others open the store, and stays when they are cut off. */
async function* values(store: Backend, prefix: string, from: ScanFrom): AsyncIterable<readonly [string, Json]> {
  const isAmong = CLAIM.startsWith(prefix) && from.limit !== undefined
  for await (const pair of store.scan(prefix, isAmong ? { ...from, limit: from.limit + 1 } : from))
    if (pair[0] !== CLAIM) yield pair
}

/** Every key leaves a text in the store by which it is known again: a wrong one must be found out before it seals anything. */
async function checkKeys(store: Backend, ring: Keyring): Promise<void> {
  const [sealing] = ring.ids as [string]
  const known = await knownIn(store, ring)
  if (known.includes(checkOf(sealing))) return
  // Another process may be opening the new store too: its claim, and then its check, come before all else.
  if (known.length === 0 && !(await isEmpty(store)) && !(await isSealed(store)))
    throw new Refused(
      'the store holds what is not encrypted',
      'copy it into a new, encrypted one: mplp store copy <to> --key-env <variable> without MPLP_ENCRYPTION_KEY, or copyStore',
    )
  const isOurs = await claim(store, ring)
  try {
    await knownIn(store, ring) // another key may have come first
  } catch (error) {
    if (isOurs) await unclaim(store)
    throw error
  }
  await certainly(store.set(checkOf(sealing), ring.seal(['key', sealing], 'known')))
  await unclaim(store)
}

/**
 * Only one of several that open the store at once, each with a key that it does not know yet, may leave the first check: who comes second must know the
 * other's key. A claim that was left behind keeps nobody out who has its key. Is it ours?
 */
async function claim(store: Backend, ring: Keyring): Promise<boolean> {
  const [sealing] = ring.ids as [string]
  const inserts: Puts = [[CLAIM, ring.seal(CLAIM_PLACE, sealing)]]
  for (;;)
    try {
      await certainly(store.commit({ stream: CLAIM, expected: 0, inserts, puts: [], deletes: [] }))
      return true
    } catch (error) {
      if (!(error instanceof KeyExists)) throw error
      const theirs = await claimIn(store)
      if (theirs === undefined) continue // it went, and its check has come
      openedWith(ring, sealing, CLAIM_PLACE, theirs)
      return false
    }
}

const unclaim = (store: Backend): Promise<void> =>
  certainly(store.commit({ stream: CLAIM, expected: 0, inserts: [], puts: [], deletes: [CLAIM] }))

const claimIn = async (store: Backend): Promise<Json | undefined> => (await store.getMany([CLAIM])).get(CLAIM)

/** The names of the keys that have sealed here. Throws Refused unless all of them are in the ring, and are the same. */
async function knownIn(store: Backend, ring: Keyring): Promise<readonly string[]> {
  const known = await checksIn(store)
  const names = new Map(ring.ids.map((id) => [checkOf(id), id]))
  const missing = known.find((name) => !names.has(name))
  if (missing !== undefined) {
    const id = decodeURIComponent(missing.slice(CHECKS.length))
    const cause = new NotFound('key', id)
    throw new Refused(`the store was sealed with key ${id} too`, 'add that key to the list', { cause })
  }
  for (const name of known) {
    const id = names.get(name)!
    const check = await store.get(name)
    if (check !== undefined) openedWith(ring, id, ['key', id], check)
  }
  return known
}

function openedWith(ring: Keyring, id: string, place: Place, sealed: Json): void {
  try {
    ring.open(place, sealed)
  } catch (cause) {
    if (cause instanceof Refused) throw cause
    throw new Refused(`key ${id} is not the one the store was sealed with`, 'give the right one', { cause })
  }
}

async function checksIn(store: Backend): Promise<string[]> {
  const names: string[] = []
  for await (const [name] of store.scan(CHECKS, { own: true })) names.push(name)
  return names
}
