import { InvalidInput } from '../protocol/errors.ts'
import {
  amount,
  anything,
  clock,
  type Field,
  type Fields,
  flag,
  having,
  method,
  needed,
  refuseUnlessFit,
  signal,
} from '../protocol/fields.ts'

/** Throws InvalidInput for options that are none or not the member's own: those that several have in common by name, the rest by what they must be. */
export function checkOpening(what: string, options: unknown, ...own: readonly (keyof typeof OPENING | Fields)[]): void {
  const fields = own.map((one) => (typeof one === 'string' ? { [one]: OPENING[one] } : one))
  refuseUnlessFit(what, options, Object.assign({}, ...fields))
}

/** A path of the file system. */
export const path: Field = {
  says: 'the path of a file or folder',
  fits: (value) => typeof value === 'string' && value !== '' && !value.includes('\0'),
}

/** Throws InvalidInput unless exactly one of the two is given. */
export function checkEither(what: string, options: object, one: string, other: string): void {
  const [first, second] = [one, other].map((name) => (options as { readonly [name: string]: unknown })[name])
  if ((first === undefined) !== (second === undefined)) return
  throw new InvalidInput(what, [{ path: one, rule: 'option', message: `or a ${other} is needed, one of them` }])
}

/** The same where it is not known yet which member they are for. */
export const checkStoreOptions = (options: unknown): void =>
  refuseUnlessFit('store options', options, { ...OPENING, '*': anything })

/** Throws InvalidInput for what nothing can be copied from or to, and for options of a copy that are none. */
export const checkCopy = ({ from, to }: Stores, options: unknown): void => {
  checkSource({ from })
  checkStores({ to })
  refuseUnlessFit('copy options', options, { verify: flag, onProgress: method, signal })
}

/** Throws InvalidInput unless each of these is a store. */
export const checkStores = (stores: Stores): void => refuseUnlessAll(STORE, stores)

/** Throws InvalidInput unless this is what a copy can be made from. */
export const checkSource = (source: Stores): void => refuseUnlessAll(SOURCE, source)

const refuseUnlessAll = (field: Field, given: Stores): void =>
  refuseUnlessFit('store', given, Object.fromEntries(Object.keys(given).map((name) => [name, field])))

/** Throws InvalidInput for a wait that nothing measures, ends or bounds. */
export const checkSettling = (options: unknown): void =>
  refuseUnlessFit('settling', options, { clock: needed(clock), signal, patienceMs: amount })

type Stores = { readonly [name: string]: unknown }

/** A store, by what everybody asks of it. */
export const store = having(
  'a store, as openStore makes them',
  ...['commit', 'getMany', 'scan', 'read', 'feed', 'acquire', 'blobs', 'forgetBlobs', 'close'],
)
const STORE = needed(store)
const SOURCE = needed(
  having('a store, or what withoutEnded makes of one', 'getMany', 'scan', 'feed', 'blobs', 'getBlob'),
)
const OPENING = {
  clock,
  onWarning: method,
  onError: method,
  create: flag,
  durable: flag,
  trustConfig: flag,
} satisfies Fields
