import { constants, lstatSync, renameSync, type Stats, unlinkSync } from 'node:fs'
import { open, unlink } from 'node:fs/promises'
import type { Clock } from '../protocol/clock.ts'
import { type ActionError, StaleFile, TooLarge } from '../protocol/errors.ts'
import { type Digest, digestOf, type JsonObject } from '../protocol/json.ts'
import { moveFile } from '../protocol/move-file.ts'
import type { Asker, Call, Found } from './adapter.ts'
import { aborted, denied, finalFailure, finalFrom } from './failure.ts'
import type { FileOptions } from './file.ts'
import { type FileRoot, type Place, unlessMissing } from './file-root.ts'
import { REDACTED } from './redact.ts'

/** What the operations work with. */
export interface Desk extends Pick<FileOptions, 'blobs' | 'staleCheck' | 'mayWrite' | 'mayRead'> {
  readonly root: FileRoot
  readonly maxBytes: number
  readonly clock: Clock
}

export function read(desk: Desk, { path }: JsonObject, call: Call): Promise<JsonObject> {
  return desk.root.at(String(path), { follow: true }, async (place) => {
    if (desk.mayRead && !(await desk.mayRead(place.path)))
      throw denied(`${place.path} is off limits, or the runtime’s own`)
    const file = await contentOf(place, desk, call.signal)
    if (file === undefined) throw finalFailure(`there is no file ${place.path}`)
    const { bytes } = file
    const text = bytes.toString()
    const content = Buffer.from(text).equals(bytes) ? { content: text } : { content_base64: bytes.toString('base64') }
    return { path: place.path, ...content, digest: digestOf(bytes), size: bytes.length, mode: file.mode }
  })
}

/** What an operation would find at a path; nothing where folders on the way are missing too. Throws what would keep it from looking there. */
export async function found(desk: Desk, path: string, follow: boolean): Promise<Found | undefined> {
  const looked = desk.root.at(path, { follow }, async (place) => {
    await refuseIfKeptOut(desk, place)
    return contentOf(place, desk, NEVER)
  })
  const file = await looked.catch(unlessMissing)
  return file && { digest: file.digest, mode: file.mode }
}
const NEVER = new AbortController().signal

export async function write(desk: Desk, params: JsonObject, call: Call): Promise<JsonObject> {
  const bytes = await wantedContent(desk, params, call.signal)
  const digest = digestOf(bytes)
  const create = async (place: Named) => {
    await refuseIfKeptOut(desk, place)
    await refuseIfStale(desk, place, undefined, params, call)
    refuseRedacted(place, bytes, undefined)
  }
  return desk.root.at(String(params.path), { create, follow: true }, async (place) => {
    await refuseIfKeptOut(desk, place)
    const before = await contentOf(place, desk, call.signal)
    const mode = Number(params.mode ?? before?.mode ?? 0o644)
    const done = { path: place.path, digest, size: bytes.length }
    if (before?.digest === digest && before.mode === mode) return { ...done, mode, ...asFound(call) }
    await refuseIfStale(desk, place, before, params, call)
    refuseRedacted(place, bytes, before?.bytes)
    const previous = before === undefined ? null : await kept(desk, before, call.signal)
    refuseIfAborted(call.signal)
    return { ...done, mode: await replaced(place, bytes, mode, before, desk, call.signal), previous }
  })
}

export function remove(desk: Desk, params: JsonObject, call: Call): Promise<JsonObject> {
  return desk.root.at(String(params.path), {}, async (place) => {
    await refuseIfKeptOut(desk, place)
    const before = await contentOf(place, desk, call.signal)
    if (before === undefined)
      return repeated(call, { path: place.path, previous: null }, `there is no file ${place.path}`)
    await refuseIfStale(desk, place, before, params, call)
    const previous = await kept(desk, before, call.signal)
    refuseIfAborted(call.signal)
    refuseIfTouched(place, before)
    unlinkSync(place.real)
    await place.sync()
    return { path: place.path, previous }
  })
}

export function move(desk: Desk, params: JsonObject, call: Call): Promise<JsonObject> {
  return desk.root.at(String(params.path), {}, (from) => {
    const create = async (to: Named) => {
      for (const place of [from, to]) await refuseIfKeptOut(desk, place)
      const file = await contentOf(from, desk, call.signal)
      if (file === undefined) throw finalFailure(`there is no file ${from.path}`)
      await refuseIfStale(desk, from, file, params, call)
    }
    return desk.root.at(String(params.to), { create }, async (to) => {
      for (const place of [from, to]) await refuseIfKeptOut(desk, place)
      const paths = { path: from.path, to: to.path }
      const file = await contentOf(from, desk, call.signal)
      const there = await contentOf(to, desk, call.signal)
      if (file === undefined)
        return repeated(
          call,
          there === undefined ? undefined : { ...paths, digest: there.digest },
          `there is no file ${from.path}`,
        )
      await refuseIfStale(desk, from, file, params, call)
      // An earlier attempt was cut off between the two halves of moving: the second one is still to be done.
      const isHalfMoved = call.attempt > 1 && there !== undefined && isOneFile(file.stats, there.stats)
      if (there !== undefined && !isHalfMoved) throw finalFailure(`${to.path} exists already`)
      refuseIfAborted(call.signal)
      refuseIfTouched(from, file)
      if (isHalfMoved) unlinkSync(from.real)
      else moved(from, to)
      await to.sync()
      await from.sync()
      return { ...paths, digest: file.digest }
    })
  })
}

type Named = Pick<Place, 'path'>

/** A further attempt finds what the first has done, and that is success; the first one that finds it was asked for the wrong thing. */
function repeated(call: Call, done: JsonObject | undefined, message: string): JsonObject {
  if (call.attempt > 1 && done !== undefined) return { ...done, ...asFound(call) }
  throw finalFailure(message)
}

/** What a further attempt finds done may be an earlier one's doing, and what was there before that is not known any more. */
const asFound = ({ attempt }: Call): JsonObject => ({ unchanged: true, ...(attempt > 1 && { repeated: true }) })

function moved(from: Place, to: Place): void {
  try {
    moveFile(from.real, to.real)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') throw finalFailure(`${to.path} exists already`, { cause })
    throw cause
  }
}

const isOneFile = (a: Stats, b: Stats): boolean => a.ino === b.ino && a.dev === b.dev

interface Content {
  readonly bytes: Buffer
  readonly digest: Digest
  readonly mode: number
  readonly stats: Stats
}

async function contentOf(place: Place, { maxBytes }: Desk, signal: AbortSignal): Promise<Content | undefined> {
  // Without O_NONBLOCK, opening a pipe waits for somebody to write.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(place.real, flags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ELOOP') throw finalFailure(`${place.path} is a link`)
    if (error.code === 'ENXIO') throw finalFailure(`${place.path} is not a file`) // a socket
    return unlessMissing(error)
  })
  if (handle === undefined) return undefined
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw finalFailure(`${place.path} is not a file`)
    if (stats.size > maxBytes) throw tooLarge(place.path, stats.size, maxBytes)
    const bytes = await handle.readFile({ signal })
    if (bytes.length > maxBytes) throw tooLarge(place.path, bytes.length, maxBytes)
    return { bytes, digest: digestOf(bytes), mode: modeOf(stats), stats }
  } finally {
    await handle.close()
  }
}

const modeOf = ({ mode }: Stats): number => mode & 0o777

async function wantedContent({ blobs, maxBytes }: Desk, params: JsonObject, signal: AbortSignal): Promise<Uint8Array> {
  const { content, content_base64, content_digest } = params
  const bytes =
    typeof content === 'string'
      ? Buffer.from(content)
      : typeof content_base64 === 'string'
        ? Buffer.from(content_base64, 'base64')
        : await blobs?.get(content_digest as Digest, signal)
  if (bytes === undefined) throw finalFailure(`the blob store has nothing under ${String(content_digest)}`)
  if (bytes.length > maxBytes) throw tooLarge(String(params.path), bytes.length, maxBytes)
  return bytes
}

/** Asked of the place and not of the name: links may lead from one to the other. */
async function refuseIfKeptOut({ mayWrite }: Desk, { path }: Named): Promise<void> {
  if (mayWrite && !(await mayWrite(path)))
    throw denied(`${path} is off limits, kept out by the ignore rules, or the runtime’s own`)
}

async function refuseIfStale(
  { staleCheck }: Desk,
  place: Named,
  before: Content | undefined,
  { expected_digest, expected_mode }: JsonObject,
  { role, run }: Call,
): Promise<void> {
  const asker: Asker = { ...(role === undefined ? {} : { role }), ...(run === undefined ? {} : { run }) }
  const isOther = expected_digest !== undefined && expected_digest !== (before?.digest ?? null)
  const isOtherMode = expected_mode !== undefined && expected_mode !== before?.mode
  if (isOther || isOtherMode || (await staleCheck?.(place.path, before?.digest, asker))) throw new StaleFile(place.path)
}

/** What was read came with its secrets taken out: written back, the mark would replace them. */
function refuseRedacted(place: Named, bytes: Uint8Array, before: Buffer | undefined): void {
  if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(REDACTED) && !before?.includes(REDACTED))
    throw finalFailure(
      `the content for ${place.path} holds ${REDACTED} where a secret was; change the file without that part`,
    )
}

/** The last moment before something changes: whoever gave up must not find it changed afterwards. */
function refuseIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw aborted('the file operation', signal)
}

async function kept({ blobs }: Desk, { bytes, digest, mode }: Content, signal: AbortSignal): Promise<JsonObject> {
  if (blobs === undefined) return { digest, mode, size: bytes.length, kept: false }
  return { digest: await blobs.put(bytes, signal), mode, size: bytes.length, kept: true }
}

/**
 * Into a file of its own, made durable, then under the name: a reader sees the old or the new, and so does a crash. Answers with the mode that it has
 * then: not every file system knows all of them.
 */
async function replaced(
  place: Place,
  bytes: Uint8Array,
  mode: number,
  before: Content | undefined,
  { clock }: Desk,
  signal: AbortSignal,
): Promise<number> {
  const temporary = place.beside(`.mplp-${clock.uuid()}.tmp`)
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const handle = await open(temporary, flags, 0o600)
  let given: number
  try {
    try {
      await handle.writeFile(bytes, { signal })
      await handle.chmod(mode)
      given = modeOf(await handle.stat())
      await handle.sync()
    } finally {
      await handle.close()
    }
    refuseIfAborted(signal)
    refuseIfTouched(place, before)
    renameSync(temporary, place.real)
  } catch (error) {
    await unlink(temporary).catch(unlessMissing)
    throw error
  }
  await place.sync()
  return given
}

/** In the same breath as the change itself: what somebody saves while a request to the disk or the store waits would be lost. */
function refuseIfTouched(place: Place, before: Content | undefined): void {
  const now = lstatSync(place.real, { throwIfNoEntry: false })
  const same = before === undefined ? now === undefined : now !== undefined && isSame(now, before.stats)
  if (!same) throw new StaleFile(place.path)
}

const isSame = (a: Stats, b: Stats): boolean =>
  a.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs

const tooLarge = (path: string, bytes: number, limit: number): ActionError =>
  finalFrom(new TooLarge(path, bytes, limit, 'raise maxBytes'))
