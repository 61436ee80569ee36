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

/** Throws InvalidInput for options that are none, or hold what several members have in common and cannot work with. */
export function checkOpening(what: string, options: unknown): void {
  refuseUnlessFit(what, options, OPENING)
}

/** Throws InvalidInput for options of a copy that are none. */
export const checkCopy = (stores: Stores, options: unknown): void => {
  checkStores(stores)
  refuseUnlessFit('copy options', options, { verify: flag, onProgress: method, signal })
}

/** Throws InvalidInput unless each of these is a store. */
export const checkStores = (stores: Stores): void =>
  refuseUnlessFit('store', stores, Object.fromEntries(Object.keys(stores).map((name) => [name, store])))

/** Throws InvalidInput for a wait that nothing measures, ends or bounds. */
export const checkSettling = (options: unknown): void =>
  refuseUnlessFit('settling', options, { clock: needed(clock), signal, patienceMs: amount })

type Stores = { readonly [name: string]: unknown }

const store = needed(having('a store, as openStore makes them', 'commit', 'scan', 'feed', 'blobs'))
const OPENING: Fields = {
  clock,
  onWarning: method,
  trustConfig: flag,
  create: flag,
  durable: flag,
  pageKeys: wholeFrom(1),
  '*': anything, // for the member to look at
}
