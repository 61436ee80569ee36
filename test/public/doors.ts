import { InvalidInput, MplpError } from '../../src/protocol/errors.ts'

/** What may come in from a caller without a compiler. */
const ODD = {
  nothing: undefined,
  null: null,
  number: 5,
  text: 'x',
  list: [],
  'list of null': [null],
  object: {},
} as const
type Odd = keyof typeof ODD

/** An argument: one that is right, and which odd ones are right as well; `all` of them are, and are tried nevertheless. */
export interface Argument {
  readonly right: unknown
  readonly legal: readonly Odd[] | 'all'
  /** A name in it that nobody knows is refused: what was meant by it would not be done. */
  readonly closed?: true
}

/** A public function: what it is called with, and the doors of what it gives, or why there are none to look at. */
export interface Door {
  readonly args: readonly Argument[]
  readonly gives?: Doors | string
  /** A call in the right way needs what is not here, and is not made. */
  readonly unreached?: true
}

/** By the name of the function; `Members` by that of the object which has them. Text says why there is nothing to refuse. */
export type Doors = { readonly [name: string]: Door | Members | string }
export interface Members {
  readonly members: Doors
}

export const given = (right: unknown, ...legal: readonly Odd[]): Argument => ({ right, legal })
/** Says how something is to be done or made. */
export const saying = (right: object): Argument => ({ right, legal: [], closed: true })
/** The same, but may be left out, and need say nothing. */
export const options = (right?: object): Argument => ({ right, legal: ['nothing', 'object'], closed: true })
/** Says things to whoever is called in the end: what nobody knows is theirs. */
export const open = (right?: object): Argument => ({ right, legal: ['nothing', 'object'] })
/** Any text may be the name of something. */
export const name = (right: string): Argument => ({ right, legal: ['text'] })
export const json = (right: unknown): Argument =>
  given(right, 'null', 'number', 'text', 'list', 'list of null', 'object')
export const anything = (right: unknown): Argument => ({ right, legal: 'all' })

export const door = (...args: readonly Argument[]): Door => ({ args })
export const making = (gives: Doors | string, ...args: readonly Argument[]): Door => ({ args, gives })
/** Takes no arguments. */
export const bare: Door = { args: [] }
/** What can be had in several ways is tried in one of them. */
export const elsewhere = (doors: Doors): Doors =>
  Object.fromEntries(Object.keys(doors).map((each) => [each, 'is tried where it is made']))

/** Everything that is wrong with how an object's functions take what they should not, and every function that no table knows. */
export async function findings(path: string, object: unknown, doors: Doors): Promise<readonly string[]> {
  const members = membersOf(object)
  const found = [...members.keys()].filter((each) => !(each in doors)).map((each) => `${path}.${each} is in no table`)
  for (const [each, known] of Object.entries(doors)) {
    const at = `${path}.${each}`
    const value = members.get(each)
    if (value === undefined) found.push(`${at} is not there any more`)
    else if (typeof known === 'string') continue
    else if ('members' in known) found.push(...(await findings(at, value, known.members)))
    else found.push(...(await findingsAt(at, called(value as Called, object), known)))
  }
  return found
}

type Called = (...args: unknown[]) => unknown
const called =
  (member: Called, object: unknown): Called =>
  (...args) =>
    isClass(member) ? Reflect.construct(member, args) : Reflect.apply(member, object, args)

/** The functions of an object, and those of its members that have some. */
function membersOf(value: unknown): ReadonlyMap<string, unknown> {
  const found = new Map<string, unknown>()
  if (!isOurs(value)) return found
  const prototype = Object.getPrototypeOf(value)
  const inherited =
    prototype === Object.prototype ? [] : Object.getOwnPropertyNames(prototype).filter((each) => each !== 'constructor')
  for (const each of [...Object.keys(value), ...inherited]) {
    const member = (value as { readonly [name: string]: unknown })[each]
    if (typeof member === 'function' ? !isError(member) : membersOf(member).size > 0) found.set(each, member)
  }
  return found
}

/** Objects of the language have functions, too. */
function isOurs(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || isClass(prototype?.constructor)
}
/** One that refuses to be made would hide what it was made for. */
const isError = (value: { readonly prototype: unknown }): boolean => value.prototype instanceof Error
const isClass = (value: unknown): boolean =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value))

async function findingsAt(at: string, call: Called, { args, gives, unreached }: Door): Promise<readonly string[]> {
  const found: string[] = []
  const right = args.map((arg) => arg.right)
  for (const [i, { legal, ...arg }] of args.entries())
    for (const [odd, value] of Object.entries({ ...ODD, ...unknownIn(arg) })) {
      if (legal.includes(odd as Odd)) continue
      const { threw, gave } = await outcomeOf(() => call(...right.with(i, value)))
      const shown = `${at}(${args.map((_, other) => (other === i ? odd : '…')).join(', ')})`
      if (threw !== undefined && !(threw instanceof MplpError)) found.push(`${shown} threw ${threw}`)
      else if (threw === undefined && legal !== 'all') found.push(`${shown} was taken`)
      await close(gave)
    }
  if (unreached || (args.length === 0 && gives === undefined)) return found
  // Or each of the others could have been refused for what was meant to be right.
  const { threw, gave } = await outcomeOf(() => call(...right))
  if (threw !== undefined) return [...found, `${at} is not called in the right way: ${threw}`]
  if (typeof gives !== 'string') found.push(...(await findings(`${at}()`, gave, gives ?? {})))
  await close(gave)
  return found
}

const unknownIn = ({ right, closed }: Pick<Argument, 'right' | 'closed'>) =>
  closed && { 'with more': { ...(right as object | undefined), wished: true } }

/** What comes of a call. */
async function outcomeOf(call: () => unknown): Promise<{ readonly threw?: unknown; readonly gave?: unknown }> {
  try {
    const gave = await call()
    if (Object(gave).error?.code === 'INVALID_INPUT') return { threw: TOLD }
    if (typeof Object(gave)[Symbol.asyncIterator] === 'function') await begun(gave as AsyncIterable<unknown>)
    return { gave }
  } catch (threw) {
    return { threw: threw ?? 'nothing' }
  }
}

/** A flow never throws: its result says what it was refused for. */
const TOLD = new InvalidInput('flow', [])

/** What refuses does so at once; what does not may wait for its first piece for ever. */
async function begun(pieces: AsyncIterable<unknown>): Promise<void> {
  const reading = pieces[Symbol.asyncIterator]()
  await Promise.race([reading.next(), turns(50)])
  void reading.return?.()
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

async function close(gave: unknown): Promise<void> {
  if (typeof Object(gave).close === 'function') await (gave as { close(): unknown }).close()
}
