import { InvalidInput, NotFound, Refused } from '../protocol/errors.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import type { Backend, Entry, Puts, ScanFrom } from './backend.ts'
import { certainly } from './certainly.ts'
import { checkBytes, checkDigest, checkForgetting, checkName, checkScan, textOf } from './check-input.ts'
import { checkStores } from './check-options.ts'
import { checkWrite } from './check-write.ts'
import { CLAIM, checkKeys, checkOf, RESERVED } from './encrypted-keys.ts'
import { type EncryptionKey, keyring, noSuchKey, type Place } from './keyring.ts'

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

  const namesOf = (digest: Digest): readonly Name[] =>
    ring.hiddenNames(digest).map(({ id, name }) => ({ id, name: `${BLOBS}${encodeURIComponent(id)}/${name}` }))

  async function innerOf({ name }: Name): Promise<Digest | undefined> {
    const sealed = await store.get(name)
    return sealed === undefined ? undefined : (await open<BlobName>(['blob name', name], sealed)).inner
  }
  const innersOf = async (digest: Digest): Promise<Digest[]> =>
    (await Promise.all(namesOf(digest).map(innerOf))).filter((inner) => inner !== undefined)
  /** The sealed bytes that a name leads to; a name stays when they are taken away. */
  async function sealedBy(name: Name): Promise<Uint8Array | undefined> {
    let before: Digest | undefined
    for (let inner = await innerOf(name); inner !== before; inner = await innerOf(name)) {
      const sealed = inner && (await store.getBlob(inner))
      if (sealed) return sealed
      before = inner // it is not there, unless it moved meanwhile
    }
    return undefined
  }
  async function findBlob(digest: Digest): Promise<Uint8Array | undefined> {
    for (const name of namesOf(digest)) {
      const sealed = await sealedBy(name)
      if (sealed) return sealed
    }
    return undefined
  }
  /** Where a blob is put: while keys are changed it stays with the key that it lies there with, or there would be two of it. */
  async function homeOf(digest: Digest): Promise<Name> {
    const [first, ...others] = namesOf(digest) as [Name, ...Name[]]
    if (others.length > 0 && (await innerOf(first)) === undefined)
      for (const other of others) if (await sealedBy(other)) return other
    return first
  }
  /**
   * Nothing can compare and set a name, so nothing must have to: with the same key a blob is sealed to the same bytes by everybody, and its name, once it
   * leads to them, never changes again. So whoever puts a blob ends with these bytes put in the inner store and its name leading there, whatever others
   * put or take away meanwhile: bytes that were taken away a moment before are put again, and from then on the inner store keeps them as long as it must.
   */
  async function writeBlob(digest: Digest, bytes: Uint8Array): Promise<void> {
    const home = await homeOf(digest)
    const sealed = ring.sealBytes(['blob', digest], bytes, home.id)
    const inner = digestOf(sealed)
    const before = await innerOf(home)
    if (before === undefined) await nameBlob(home, { digest, inner }) // first: bytes that no name leads to could never be taken away
    await store.putBlob(sealed)
    if (before === undefined || before === inner) return
    // An earlier release sealed it differently each time: it moves, and nobody puts those bytes again.
    await nameBlob(home, { digest, inner })
    await store.forgetBlobs([before], 0)
  }
  async function noneIsLeft(inners: readonly Digest[]): Promise<boolean> {
    for (const inner of inners) if (await store.getBlob(inner)) return false
    return true
  }
  async function nameBlob({ id, name }: Name, led: BlobName): Promise<void> {
    await certainly(store.set(name, ring.seal(['blob name', name], JSON.stringify(led), id)))
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
      await writeBlob(digest, copy)
      return digest
    },
    async getBlob(digest) {
      checkDigest(digest)
      const sealed = await findBlob(digest)
      try {
        return sealed && new Uint8Array(ring.openBytes(['blob', digest], sealed))
      } catch (error) {
        return unopened(['blob', digest], error)
      }
    },
    async *blobs() {
      const inners = new Set<Digest>()
      for await (const inner of store.blobs()) inners.add(inner)
      const told = new Set<Digest>() // while keys are changed, two processes may seal the same blob, each with its own
      for await (const [name, sealed] of store.scan(BLOBS, { own: true })) {
        const { digest, inner } = await open<BlobName>(['blob name', name], sealed)
        if (told.has(digest) || !(inners.has(inner) || (await findBlob(digest)))) continue
        told.add(digest)
        yield digest
      }
    },
    async forgetBlobs(digests, unputMs) {
      checkForgetting(digests, unputMs)
      const inners = new Map<Digest, readonly Digest[]>()
      for (const digest of new Set(digests)) inners.set(digest, await innersOf(digest))
      const gone = new Set(await store.forgetBlobs([...inners.values()].flat(), unputMs))
      const taken: Digest[] = []
      for (const [digest, led] of inners)
        if (led.some((inner) => gone.has(inner)) && (await noneIsLeft(led.filter((inner) => !gone.has(inner)))))
          taken.push(digest)
      return taken
    },

    close: () => store.close(),
  }
}

/** The key that was not given, if that is what is wrong. */
const lackedBy = (error: unknown): string | undefined =>
  error instanceof Refused && error.cause instanceof NotFound ? error.cause.id : undefined

function passOver(error: unknown, tell: ScanFrom['passOver']): void {
  const key = lackedBy(error)
  if (!tell || key === undefined) throw error
  tell(key)
}

const BLOBS = `${RESERVED}blob/`

interface BlobName {
  readonly digest: Digest
  readonly inner: Digest
}
/** An own key of the inner store, which tells where a blob lies that this key has sealed. */
interface Name {
  readonly id: string
  readonly name: string
}

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
