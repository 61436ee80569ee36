import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { Corrupt, InvalidInput, NotFound, Refused } from '../protocol/errors.ts'
import { isObject, type Json } from '../protocol/json.ts'
import { isName } from './check-input.ts'

export interface EncryptionKey {
  /** Stands in clear beside what it sealed; not a secret. */
  readonly id: string
  /** 32 bytes, or their base64. */
  readonly key: Uint8Array | string
}

/** Where a sealed text belongs; it opens nowhere else. */
export type Place = readonly (string | number)[]

/** AES-256-GCM with the first of several keys, or the one that is named; opens with any of them. */
export interface Keyring {
  readonly ids: readonly string[]
  seal(place: Place, text: string, id?: string): Json
  /** Throws Refused, with NotFound as its cause, if the key is not in the ring, Corrupt if the text is not what was sealed for this place. */
  open(place: Place, sealed: Json): string
  /** The same bytes in the same place come out the same each time. One place must never have other bytes: it is to be made from their digest. */
  sealBytes(place: Place, bytes: Uint8Array, id?: string): Uint8Array
  openBytes(place: Place, sealed: Uint8Array): Uint8Array
  /** A name that tells nothing to whoever has no key, one for each key, the sealing one's first. */
  hiddenNames(text: string): readonly { readonly id: string; readonly name: string }[]
}

interface Key {
  readonly id: string
  readonly secret: Buffer
  readonly nameSecret: Buffer
  readonly ivSecret: Buffer
}

const IV_BYTES = 12
const TAG_BYTES = 16

export function keyring(given: readonly EncryptionKey[]): Keyring {
  const keys = checked(given)
  const [sealing] = keys as [Key, ...Key[]]

  const encrypt = (key: Key, iv: Buffer, place: Place, bytes: Uint8Array): Buffer => {
    const cipher = createCipheriv('aes-256-gcm', key.secret, iv).setAAD(Buffer.from(JSON.stringify(place)))
    return Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
  }
  const keyOf = (id: string): Key | undefined => keys.find((candidate) => candidate.id === id)
  const decrypt = (place: Place, id: string, iv: Uint8Array, data: Uint8Array): Buffer => {
    const key = keyOf(id)
    if (key === undefined) {
      if (!isKeyId(id)) throw noSuchKey(place)
      const what = `${named(place)} was sealed with key ${id}, which was not given`
      throw new Refused(what, 'add that key to the list', { cause: new NotFound('key', id) })
    }
    try {
      const cipher = createDecipheriv('aes-256-gcm', key.secret, iv, { authTagLength: TAG_BYTES })
      cipher.setAAD(Buffer.from(JSON.stringify(place))).setAuthTag(data.subarray(-TAG_BYTES))
      return Buffer.concat([cipher.update(data.subarray(0, -TAG_BYTES)), cipher.final()])
    } catch (cause) {
      throw new Corrupt(named(place), `give the key that ${id} was when it was sealed, or restore a backup`, { cause })
    }
  }

  return {
    ids: keys.map(({ id }) => id),
    seal(place, text, id = sealing.id) {
      const iv = randomBytes(IV_BYTES)
      const data = encrypt(keyOf(id)!, iv, place, Buffer.from(text))
      return { sealed: 'A256GCM', key: id, iv: iv.toString('base64'), data: data.toString('base64') }
    },
    open(place, sealed) {
      if (!isObject(sealed) || sealed.sealed !== 'A256GCM') throw notSealed(place)
      const { key, iv, data } = sealed as Record<'key' | 'iv' | 'data', string>
      return decrypt(place, key, Buffer.from(String(iv), 'base64'), Buffer.from(String(data), 'base64')).toString()
    },
    sealBytes(place, bytes, id = sealing.id) {
      const key = keyOf(id)!
      const iv = hmac(key.ivSecret, JSON.stringify(place)).subarray(0, IV_BYTES)
      const name = Buffer.from(id)
      return Buffer.concat([MARK, Buffer.from([name.length]), name, iv, encrypt(key, iv, place, bytes)])
    },
    openBytes(place, sealed) {
      const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
      if (!bytes.subarray(0, MARK.length).equals(MARK)) throw notSealed(place)
      const at = MARK.length + 1 + bytes[MARK.length]!
      const id = bytes.toString('utf8', MARK.length + 1, at)
      return decrypt(place, id, bytes.subarray(at, at + IV_BYTES), bytes.subarray(at + IV_BYTES))
    },
    hiddenNames: (text) => keys.map(({ id, nameSecret }) => ({ id, name: hmac(nameSecret, text).toString('hex') })),
  }
}

const hmac = (secret: Buffer, text: string): Buffer => createHmac('sha256', secret).update(text).digest()

const MARK = Buffer.from('mplp sealed 1\n')

const named = (place: Place): string => place.join(' ')
const notSealed = (place: Place) =>
  new Corrupt(named(place), 'it is not sealed, so somebody wrote to the inner store; restore a backup')
/** Of what names a key that never was. */
export const noSuchKey = (place: Place, options?: ErrorOptions) =>
  new Corrupt(named(place), 'it names a key that has sealed nothing here; restore a backup', options)

/** A name for a key that tells nothing of it, and is the same wherever the key is given. */
export const keyId = (key: string): string =>
  Buffer.from(hkdfSync('sha256', Buffer.from(key, 'base64'), '', 'mplp-runtime key id', 8)).toString('hex')

const isKeyId = (id: unknown): id is string => isName(id) && Buffer.byteLength(id) <= 64

function checked(given: readonly EncryptionKey[]): Key[] {
  const refuse = (path: string, message: string) =>
    new InvalidInput('encryption keys', [{ path, rule: 'key', message }])
  if (!Array.isArray(given) || given.length === 0) throw refuse('', 'are none')
  return given.map((one: EncryptionKey, i) => {
    const { id, key } = Object(one) as EncryptionKey
    if (!isKeyId(id)) throw refuse(`[${i}].id`, 'is not text of 1 to 64 bytes')
    if (given.findIndex((other) => other?.id === id) !== i) throw refuse(`[${i}].id`, 'is there twice')
    const secret = secretOf(key)
    if (secret?.length !== 32) throw refuse(`[${i}].key`, 'is not 32 bytes, or their base64')
    // A secret of its own for each use of a key, so that no use can help another's attackers.
    const secretFor = (use: string) => Buffer.from(hkdfSync('sha256', secret, '', `mplp-runtime blob ${use}`, 32))
    return { id, secret, nameSecret: secretFor('names'), ivSecret: secretFor('ivs') }
  })
}

function secretOf(key: EncryptionKey['key']): Buffer | undefined {
  try {
    return typeof key === 'string' ? Buffer.from(key, 'base64') : Buffer.from(key)
  } catch {
    return undefined // neither text nor bytes
  }
}
