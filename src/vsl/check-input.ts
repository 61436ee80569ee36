import { isUint8Array } from 'node:util/types'
import { InvalidInput, type Problem, TooLarge } from '../protocol/errors.ts'
import { type Digest, isObject, isPlain, type Json, roughBytes } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import { shown } from '../protocol/shown.ts'
import {
  type Holder,
  type Lease,
  MAX_BLOB_BYTES,
  MAX_ENTRY_BYTES,
  MAX_KEY_BYTES,
  type Position,
  type ScanFrom,
} from './backend.ts'

/** What a key or a stream may be called. */
export const isName = (text: unknown): text is string =>
  typeof text === 'string' &&
  text.length > 0 &&
  (text.length * 3 <= MAX_KEY_BYTES || Buffer.byteLength(text) <= MAX_KEY_BYTES) &&
  !text.includes('\0') &&
  text.isWellFormed()

export const badName = (path: string, found: unknown): Problem => ({
  path,
  rule: 'key',
  message: `is not well-formed text of 1 to ${MAX_KEY_BYTES} bytes without U+0000`,
  found: told(found),
})

export function checkName(path: string, text: string): void {
  if (!isName(text)) throw new InvalidInput('call', [badName(path, text)])
}

export function checkNames(path: string, texts: readonly string[]): void {
  if (!Array.isArray(texts)) throw new InvalidInput('call', [badList(path, texts)])
  for (const [i, text] of texts.entries()) checkName(`${path}[${i}]`, text)
}

export const badList = (path: string, found: unknown): Problem => problem(path, 'type', 'is not a list', found)

/** A prefix may be empty: it then means every key. */
export function checkScan(prefix: string, from: ScanFrom): void {
  refuseUnlessObject('scan', 'from', from)
  const problems: Problem[] = []
  if (prefix !== '' && !isName(prefix)) problems.push(badName('prefix', prefix))
  if (from.after !== undefined && from.after !== '' && !isName(from.after)) problems.push(badName('after', from.after))
  if (from.limit !== undefined && !isCount(from.limit)) problems.push(badCount('limit', from.limit))
  if (from.passOver !== undefined && typeof from.passOver !== 'function')
    problems.push(problem('passOver', 'type', 'must be a function', from.passOver))
  if (problems.length > 0) throw new InvalidInput('scan', problems)
}

export function checkRead(stream: string, from: Reading & { readonly after?: number }): void {
  checkName('stream', stream)
  checkReading('read', from)
  const { after } = from
  if (after !== undefined && !isCount(after)) throw new InvalidInput('read', [badCount('after', after)])
}

/** What a position looks like is for each member to say, but it is text. */
export function checkFeed(from: Reading & { readonly after?: Position }): void {
  checkReading('feed', from)
  if (from.after !== undefined && typeof from.after !== 'string') throw badPosition(from.after)
}

type Reading = { readonly signal?: AbortSignal }

function checkReading(what: string, from: Reading): void {
  refuseUnlessObject(what, 'from', from)
  const { signal } = from
  if (signal === undefined || typeof Object(signal).addEventListener === 'function') return
  throw new InvalidInput(what, [problem('signal', 'type', 'is not an AbortSignal', signal)])
}

/** A position that this store cannot have made. */
export const badPosition = (found: string): InvalidInput =>
  new InvalidInput('feed', [
    { path: 'after', rule: 'position', message: 'is not a position of this store', found: told(found) },
  ])

/** A position that this store has not come to: who waited behind it would miss all that comes until then. */
export const aheadOfStore = (found: string): InvalidInput =>
  new InvalidInput('feed', [
    {
      path: 'after',
      rule: 'position',
      message: 'is ahead of this store, as after an older backup was put back; begin without it',
      found,
    },
  ])

export function checkAcquire(stream: string, holder: Holder, ttlMs: number): void {
  checkName('stream', stream)
  checkHolder('acquire', holder)
  checkTtl('acquire', ttlMs)
}

/** A lease as `acquire` gave it. A client may not survive what it cannot bind. */
export function checkLease(lease: Lease): void {
  refuseUnlessObject('lease', 'lease', lease)
  checkName('stream', lease.stream)
  checkHolder('lease', lease.holder)
  if (!isCount(lease.token)) throw new InvalidInput('lease', [badCount('token', lease.token)])
  checkTtl('lease', lease.ttlMs)
}

export function checkHolder(what: string, holder: Holder): void {
  refuseUnlessObject(what, 'holder', holder)
  checkName('holder.id', holder.id)
  const problems: Problem[] = (['boot', 'started'] as const)
    .filter((name) => typeof holder[name] !== 'string')
    .map((name) => problem(`holder.${name}`, 'type', 'is not text', holder[name]))
  if (!isCount(holder.pid)) problems.push(badCount('holder.pid', holder.pid))
  if (problems.length > 0) throw new InvalidInput(what, problems)
}

function checkTtl(what: string, ttlMs: number): void {
  if (Number.isFinite(ttlMs) && ttlMs > 0) return
  throw new InvalidInput(what, [problem('ttlMs', 'positive', 'is not a time above 0', ttlMs)])
}

export function checkDigest(digest: Digest): void {
  if (typeof digest !== 'string' || !/^sha256:[0-9a-f]{64}$/.test(digest))
    throw new InvalidInput('blob', [
      { path: 'digest', rule: 'digest', message: 'is not sha256: and 64 lower-case hex digits', found: told(digest) },
    ])
}

export function checkForgetting(digests: readonly Digest[], unputMs: number): void {
  if (!Array.isArray(digests)) throw new InvalidInput('blobs', [badList('digests', digests)])
  for (const digest of digests) checkDigest(digest)
  if (!Number.isFinite(unputMs) || unputMs < 0)
    throw new InvalidInput('blobs', [problem('unputMs', 'amount', 'is not a time of 0 or more', unputMs)])
}

/** Text, or numbers wider than a byte, would be taken for other bytes than were meant, and by each member for different ones. */
export function checkBytes(bytes: Uint8Array): void {
  if (!isUint8Array(bytes))
    throw new InvalidInput('blob', [
      { path: 'bytes', rule: 'bytes', message: 'are not a Uint8Array', found: typeof bytes },
    ])
  if (bytes.byteLength > MAX_BLOB_BYTES)
    throw new TooLarge('a blob', bytes.byteLength, MAX_BLOB_BYTES, 'cut it into parts, or keep it as a file')
}

/**
 * The JSON text of a value; refuses what JSON would silently change or drop. A member that is `undefined` counts as absent, as it does
 * everywhere in JSON.
 */
export function textOf(path: string, value: Json): string {
  return unlessTooMuch(path, value, () => {
    const flaw = flawIn(value)
    if (flaw === undefined) return JSON.stringify(value)
    throw notJson(path + flaw.at, flaw.found)
  })
}

/** The same of a value that was found to be JSON before; that it can be walked does not say that it can be written. */
export const textOfChecked = (path: string, value: Json): string =>
  unlessTooMuch(path, value, () => JSON.stringify(value))

function unlessTooMuch(path: string, value: Json, write: () => string): string {
  const text = unlessTooDeep(path, value, write)
  if (text.length * 3 <= MAX_ENTRY_BYTES) return text // a unit of UTF-16 is at most three bytes of UTF-8
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_ENTRY_BYTES) throw tooLarge(path, bytes)
  return text
}

function unlessTooDeep(path: string, value: Json, write: () => string): string {
  try {
    return write()
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    if (error.message === 'Invalid string length') throw tooLarge(path, roughBytes(value)) // more than a text can be
    throw notJson(path, 'something that contains itself, or is nested too deeply')
  }
}

const tooLarge = (path: string, bytes: number): TooLarge =>
  new TooLarge(path, bytes, MAX_ENTRY_BYTES, 'put what is large into blobs, or split it')

const notJson = (path: string, found: string): InvalidInput =>
  new InvalidInput('write', [{ path, rule: 'json', message: 'is not JSON', found }])

/** The first thing in a value that is not JSON, and where. The path is put together only when there is something to tell. */
function flawIn(value: unknown): { at: string; found: string } | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : { at: '', found: String(value) }
  if (typeof value !== 'object') return { at: '', found: typeof value }
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const flaw = flawIn(value[i])
      if (flaw) return { at: `[${i}]${flaw.at}`, found: flaw.found }
    }
    return undefined
  }
  if (!isPlain(value)) return { at: '', found: `an instance of ${value.constructor?.name ?? 'a class'}` }
  const object = value as Record<string, unknown>
  for (const key of Object.keys(object)) {
    const flaw = object[key] === undefined ? undefined : flawIn(object[key])
    if (flaw) return { at: `.${key}${flaw.at}`, found: flaw.found }
  }
  return undefined
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
const badCount = (path: string, found: unknown): Problem =>
  problem(path, 'count', 'is not a whole number of 0 or more', found)

export function refuseUnlessObject(what: string, path: string, value: unknown): void {
  if (!isObject(value)) throw new InvalidInput(what, [problem(path, 'type', 'is not an object', value)])
}

const told = (found: unknown): string => (typeof found === 'string' ? found.slice(0, 80) : shown(found))
