import { KeyExists, NotFound, Refused } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import type { Backend, Puts } from './backend.ts'
import { certainly } from './certainly.ts'
import { isEmpty } from './copy.ts'
import type { Keyring, Place } from './keyring.ts'

/** Own keys of the inner store that are ours, not the caller's. */
export const RESERVED = 'mplp-sealed/'
const CHECKS = `${RESERVED}key/`
/** A value, for only these are inserted: who comes second is told so. It is there while a store is opened with a key that it does not know. */
export const CLAIM = `${RESERVED}claim`
const CLAIM_PLACE: Place = ['value', CLAIM]
/** Where what a key has left there lies. */
export const checkOf = (id: string): string => `${CHECKS}${encodeURIComponent(id)}`

/** Has a key ever sealed anything here, or is one about to? Also before there is anything else. */
export async function isSealed(store: Backend): Promise<boolean> {
  if ((await claimIn(store)) !== undefined) return true
  for await (const _ of store.scan(CHECKS, { own: true, limit: 1 })) return true
  return false
}

/** Every key leaves a text in the store by which it is known again: a wrong one must be found out before it seals anything. */
export async function checkKeys(store: Backend, ring: Keyring): Promise<void> {
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
