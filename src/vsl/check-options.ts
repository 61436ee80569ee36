import {
  amount,
  anything,
  clock,
  type Fields,
  flag,
  having,
  method,
  needed,
  refuseUnlessFit,
  signal,
  wholeFrom,
} from '../protocol/fields.ts'

/**
 * Throws InvalidInput for options that are none, are not among the member's own, or hold what several members have in common and cannot work with.
 */
export function checkOpening(what: string, options: unknown, ...own: readonly string[]): void {
  const known = own.map((name) => [name, OPENING[name] ?? anything] as const) // the rest is for the member to look at
  refuseUnlessFit(what, options, Object.fromEntries(known))
}

/** The same where it is not known yet which member they are for. */
export const checkStoreOptions = (options: unknown): void =>
  refuseUnlessFit('store options', options, { ...OPENING, '*': anything })

/** Throws InvalidInput for options of a copy that are none. */
export const checkCopy = (stores: Stores, options: unknown): void => {
  checkStores(stores)
  refuseUnlessFit('copy options', options, { verify: flag, onProgress: method, signal })
}

/** Throws InvalidInput unless each of these is a store. */
export const checkStores = (stores: Stores): void =>
  refuseUnlessFit('store', stores, Object.fromEntries(Object.keys(stores).map((name) => [name, needed(store)])))

/** Throws InvalidInput for a wait that nothing measures, ends or bounds. */
export const checkSettling = (options: unknown): void =>
  refuseUnlessFit('settling', options, { clock: needed(clock), signal, patienceMs: amount })

type Stores = { readonly [name: string]: unknown }

/** A store, by what everybody asks of it. */
export const store = having(
  'a store, as openStore makes them',
  ...['commit', 'getMany', 'scan', 'read', 'feed', 'acquire', 'blobs', 'close'],
)
const OPENING: Fields = {
  clock,
  onWarning: method,
  trustConfig: flag,
  create: flag,
  durable: flag,
  pageKeys: wholeFrom(1),
}
