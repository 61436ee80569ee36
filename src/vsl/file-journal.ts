import { statSync } from 'node:fs'
import { type FileHandle, open, readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { OutcomeUnknown, Refused, Unavailable } from '../protocol/errors.ts'
import { damaged, fileError } from './file-errors.ts'
import { type Line, type LineText, type RawLine, sealed, sealedLine, unsealed } from './file-lines.ts'
import { makeFolderDurably, replaceDurably, syncPath } from './file-sync.ts'

/** The lines of a store, in files of some megabytes each; the last file grows, the others may be rewritten. */
export interface Journal {
  /** The last line that is on the disk; 0 before the first. */
  readonly last: number
  /** The first line there is. */
  readonly first: number
  /**
   * Throws Unavailable once a write has failed halfway: what is on the disk is not known before it is read again. Throws Refused while the file that
   * grows is not the one that was opened.
   */
  check(): void
  /** All of these lines or none; on the disk when it returns. Not to be called before the last call has settled. */
  append(texts: readonly LineText[]): Promise<void>
  /** Begins a new file if the present one is large enough; true if it did. */
  roll(): Promise<boolean>
  /** Lines from this one on, as many as make a page; none if there are none yet. */
  page(from: number, limit?: number): Promise<readonly RawLine[]>
  /** The first line of the file that grows. */
  readonly growing: number
  /** The files that hold lines from one to the other, each by its first line. */
  filesOf(from: number, to: number): readonly number[]
  /**
   * Puts the text that `change` makes of each line of a file in its place; the file must not be the one that grows. Durable when it returns; after a
   * crash either the old or the new file is there. One call at a time.
   */
  rewrite(first: number, change: (text: string) => string): Promise<void>
  close(): Promise<void>
}

interface Segment {
  readonly path: string
  readonly first: number
  /** Where each line starts, and at the end where the next one will. Found when first needed. */
  starts: number[] | undefined
}

const PAGE_BYTES = 1024 * 1024
const PAGE_LINES = 256

/**
 * Lines up to `certain` are known to have been on the disk: a damaged one among them is an error, while after them an unfinished end, which nobody
 * was told of, is cut off.
 */
export async function openJournal(folder: string, certain: number, segmentBytes: number): Promise<Journal> {
  await makeFolderDurably(folder)
  const segments = await segmentsIn(folder)
  if (segments.length === 0 && certain > 0) throw damaged(`${folder}, which has no file left,`)
  const fresh = segments.length === 0 ? await newSegment(folder, 1) : undefined
  if (fresh) segments.push(fresh.segment)
  let active = segments.at(-1) as Segment
  let file = fresh?.file ?? (await open(active.path, 'r+'))
  let inode: bigint
  let broken: unknown
  /** Settles when the file that is being replaced is. */
  let replacing: Promise<void> | undefined
  try {
    if (fresh) await syncPath(folder)
    inode = await inodeOf(file)
    active.starts = await mended(file, active, certain)
    if (active.starts.length === 1) await checkEnd(segments.at(-2), active.first)
  } catch (error) {
    await file.close()
    throw error
  }
  let last = active.first + active.starts.length - 2
  const startsOf = async (segment: Segment): Promise<readonly number[]> => {
    segment.starts ??= await lineStarts(segment)
    return segment.starts
  }
  const holding = (seq: number): Segment | undefined =>
    seq < 1 || seq > last ? undefined : segments.findLast((segment) => segment.first <= seq)

  async function bytesOf(segment: Segment, from: number, to: number): Promise<Buffer> {
    const bytes = Buffer.alloc(to - from)
    const lent = segment === active ? file : undefined
    const source = lent ?? (await open(segment.path, 'r'))
    try {
      const { bytesRead } = await source.read(bytes, 0, bytes.length, from)
      if (bytesRead < bytes.length) throw damaged(segment.path)
      return bytes
    } finally {
      if (lent === undefined) await source.close()
    }
  }

  /** A file may be replaced under whoever reads it, so that its lines are not where they were looked for: then they are looked for again. */
  async function page(from: number, limit = PAGE_LINES): Promise<readonly RawLine[]> {
    for (;;) {
      const segment = holding(from)
      if (segment === undefined) return []
      try {
        return await pageIn(segment, from, limit)
      } catch (error) {
        await replacing
        if (segments.includes(segment)) throw error
      }
    }
  }
  async function pageIn(segment: Segment, from: number, limit: number): Promise<readonly RawLine[]> {
    const starts = await startsOf(segment)
    const index = from - segment.first
    const there = starts.length - 1 - index
    if (there < 1) throw damaged(`${segment.path}, which has no line ${from},`)
    const base = starts[index]!
    let count = 1
    while (count < Math.min(there, limit) && starts[index + count]! - base < PAGE_BYTES) count++
    const bytes = await bytesOf(segment, base, starts[index + count]!)
    return Array.from({ length: count }, (_, i) => {
      const line = unsealed(bytes.subarray(starts[index + i]! - base, starts[index + i + 1]! - base - 1))
      if (line?.seq !== from + i) throw damaged(`line ${from + i}, in ${segment.path},`)
      return line
    })
  }

  const check = () => {
    if (broken !== undefined)
      throw new Unavailable(folder, 'an earlier write failed halfway, open the store again', { cause: broken })
    // As git does that checks out another commit: what went on into the old file would be kept by nobody.
    if (inodeAt(active.path) !== inode)
      throw new Refused(`${active.path} was removed or replaced while it was open`, 'open the store again')
  }

  return {
    get last() {
      return last
    },
    first: segments[0]!.first,
    check,

    async append(texts) {
      check()
      const starts = active.starts as number[]
      const size = starts.at(-1) as number
      const lines = texts.map((text, i) => Buffer.from(sealed(last + 1 + i, last, text)))
      try {
        await writeAll(file, Buffer.concat(lines), size)
      } catch (error) {
        // What landed of it must go, or it would stand in front of the next line.
        await file.truncate(size).catch((reason) => {
          broken = reason
          throw new OutcomeUnknown(folder, { cause: fileError(folder, error, true) }) // whole lines of it may be found at the next opening
        })
        throw fileError(folder, error, true)
      }
      try {
        await file.datasync()
      } catch (error) {
        broken = error // the system may have dropped what it could not write: only reading it again tells
        throw new OutcomeUnknown(folder, { cause: fileError(folder, error, true) })
      }
      for (const line of lines) starts.push(starts.at(-1)! + line.length)
      last += lines.length
    },

    async roll() {
      if (active.starts!.at(-1)! < segmentBytes) return false
      const next = await newSegment(folder, last + 1).catch((error) => {
        if (error.code === 'EEXIST') broken = error // as below; else there is none, and the present one serves a while longer
        throw error
      })
      try {
        await syncPath(folder)
        inode = await inodeOf(next.file)
        const full = file
        file = next.file
        active = next.segment
        segments.push(active)
        await full.close() // not before: whoever reads meanwhile would be lent it
        return true
      } catch (error) {
        broken = error // a file that was begun but is not used would hide the lines that follow in this one
        if (file !== next.file) await next.file.close()
        throw error
      }
    },

    page,
    get growing() {
      return active.first
    },
    filesOf: (from, to) =>
      segments
        .filter(({ first }, i) => first <= to && (segments[i + 1]?.first ?? Number.POSITIVE_INFINITY) > from)
        .map(({ first }) => first),

    async rewrite(first, change) {
      const index = segments.findIndex((segment) => segment.first === first)
      const { path } = segments[index]!
      const end = segments[index + 1]!.first
      const lines: string[] = []
      let isChanged = false
      for (let at = first; at < end; at = first + lines.length)
        for (const { text } of await page(at)) {
          const changed = change(text)
          isChanged ||= changed !== text
          lines.push(sealedLine(changed))
        }
      if (!isChanged) return
      const writing = replaceDurably(path, lines.join('')).finally(() => {
        segments[index] = { path, first, starts: undefined } // also when it failed: the new file may be there already
      })
      replacing = writing.catch(() => {})
      await writing
    },

    close: () => file.close(),
  }
}

const EXTENSION = '.jsonl'

async function segmentsIn(folder: string): Promise<Segment[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(EXTENSION)).sort()
  return names.map((name) => {
    const first = Number(basename(name, EXTENSION))
    if (!Number.isSafeInteger(first)) throw damaged(`${join(folder, name)}, whose name is not a line's number,`)
    return { path: join(folder, name), first, starts: undefined }
  })
}

async function newSegment(folder: string, first: number): Promise<{ segment: Segment; file: FileHandle }> {
  const path = join(folder, `${String(first).padStart(12, '0')}${EXTENSION}`)
  return { segment: { path, first, starts: [0] }, file: await open(path, 'wx+') }
}

/** Where the lines of the growing file start, after its unfinished end was cut off. */
async function mended(file: FileHandle, segment: Segment, certain: number): Promise<number[]> {
  const bytes = await file.readFile()
  const starts = wholeLines(bytes, segment, certain)
  const isTorn = bytes.length > starts.at(-1)!
  if (isTorn) await file.truncate(starts.at(-1)!)
  const last = segment.first + starts.length - 2
  if (isTorn || last > certain) await file.sync() // who wrote them may have died before they were on the disk
  return starts
}

/** A file that was just begun says where the one before must end. */
async function checkEnd(segment: Segment | undefined, next: number): Promise<void> {
  if (segment === undefined) return
  segment.starts = await lineStarts(segment)
  if (segment.first + segment.starts.length - 1 !== next)
    throw damaged(`${segment.path}, which must end before line ${next},`)
}

/** Up to the first line that was not finished. */
function wholeLines(bytes: Buffer, segment: Segment, certain: number): number[] {
  const starts = [0]
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, at)
    const seq = segment.first + starts.length - 1
    if (end === -1 || unsealed(bytes.subarray(at, end))?.seq !== seq) {
      if (seq <= certain || isKnownLater(bytes, at, seq)) throw damaged(`line ${seq}, in ${segment.path},`)
      return starts
    }
    at = end + 1
    starts.push(at)
  }
  return starts
}

/** Does a line further on say that this one was on the disk? */
function isKnownLater(bytes: Buffer, from: number, seq: number): boolean {
  for (let at = bytes.indexOf(NEWLINE, from) + 1; at > 0 && at < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, at)
    const line = end === -1 ? undefined : unsealed(bytes.subarray(at, end))
    if (line && (JSON.parse(line.text) as Line).durable >= seq) return true
    at = end + 1
  }
  return false
}

/** The lines of a finished file, found by their ends alone: each is checked when it is read. */
async function lineStarts(segment: Segment): Promise<number[]> {
  const starts = [0]
  const file = await open(segment.path, 'r')
  try {
    let base = 0
    for await (const chunk of file.createReadStream({ highWaterMark: PAGE_BYTES, autoClose: false })) {
      const bytes = chunk as Buffer
      for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, end + 1))
        starts.push(base + end + 1)
      base += bytes.length
    }
  } finally {
    await file.close()
  }
  return starts
}

const NEWLINE = 10

const inodeOf = async (file: FileHandle): Promise<bigint> => (await file.stat({ bigint: true })).ino

function inodeAt(path: string): bigint | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino
  } catch (error) {
    throw fileError(path, error, true)
  }
}

async function writeAll(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done)
    done += bytesWritten
  }
}
