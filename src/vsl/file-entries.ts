import type { Entry, Position } from './backend.ts'
import { aheadOfStore } from './check-input.ts'
import { damaged } from './file-errors.ts'
import { isForgotten } from './file-forget.ts'
import type { Journal } from './file-journal.ts'
import type { Line, RawLine } from './file-lines.ts'
import { sequenceOf, sequencePosition } from './position.ts'

/** Where a stream's entries stand in the journal. */
export interface StreamLines {
  readonly revision: number
  /** The lines of its latest entries. */
  readonly recent: readonly number[]
  /** The line of the entry before those; each line names the one before it. */
  readonly before: number
  /** The line by which it was last forgotten; 0 if it never was. */
  readonly forgotten: number
}

/** So many lines are read at once in the hope of meeting the next entry of the same stream. */
const NEIGHBOURS = 64

/** Ways through the journal, page by page; each answers with no entries when there are no more for now. */
export function entryPages(journal: Journal, streams: ReadonlyMap<string, StreamLines>) {
  function entriesIn(raw: RawLine): Entry[] {
    const line: Line = JSON.parse(raw.text)
    if (line.kind !== 'commit' || line.revision === undefined || isForgotten(streams, line)) return []
    return [{ stream: line.stream, revision: line.revision, position: sequencePosition(line.seq), body: line.entry! }]
  }

  return {
    ofAll(after: Position | undefined): () => Promise<readonly Entry[]> {
      let at = after === undefined ? 0 : sequenceOf(after)
      if (at > journal.last) throw aheadOfStore(after!)
      return async () => {
        while (at < journal.last) {
          const lines = await journal.page(at + 1)
          at += lines.length
          const entries = lines.flatMap(entriesIn)
          if (entries.length > 0) return entries
        }
        return []
      }
    },

    ofStream(name: string, after: number): () => Promise<readonly Entry[]> {
      let at = after
      /** The lines of the next entries, where they are not recent. */
      let older: readonly number[] = []
      let next = 0
      const nextEntries = async () => {
        const stream = streams.get(name)
        if (stream === undefined || at >= stream.revision) return []
        const newer = stream.revision - stream.recent.length
        if (next === older.length && at < newer) {
          older = await linesBack(journal, stream.before, newer - at)
          next = 0
        }
        const [wanted, first] = next < older.length ? [older, next] : [stream.recent, at - newer]
        let end = first + 1
        while (end < wanted.length && wanted[end]! - wanted[first]! < NEIGHBOURS) end++
        const span = new Set(wanted.slice(first, end))
        const lines = await journal.page(wanted[first]!, wanted[end - 1]! - wanted[first]! + 1)
        const entries = lines.filter((line) => span.has(line.seq)).flatMap(entriesIn)
        if (entries[0]?.revision !== at + 1)
          throw damaged(`the journal's line ${wanted[first]}, which is not the next entry of ${name},`)
        if (wanted === older) next += entries.length
        at += entries.length
        return entries
      }
      let forgotten: number | undefined
      const isForgottenAgain = () => forgotten !== streams.get(name)?.forgotten
      return async () => {
        for (;;) {
          if (isForgottenAgain()) {
            forgotten = streams.get(name)?.forgotten
            older = []
            next = 0
          }
          try {
            return await nextEntries()
          } catch (error) {
            if (!isForgottenAgain()) throw error // else it looked for what is no longer there
          }
        }
      }
    },
  }
}

/** The lines of a stream's last `count` entries up to the one at `seq`, oldest first: each names the one before it. */
async function linesBack(journal: Journal, seq: number, count: number): Promise<number[]> {
  const found: number[] = []
  let block: readonly RawLine[] = []
  for (let at = seq; found.length < count; ) {
    const inBlock = () => block[at - (block[0]?.seq ?? Number.POSITIVE_INFINITY)]
    if (inBlock() === undefined) block = await journal.page(Math.max(journal.first, at - NEIGHBOURS), NEIGHBOURS + 1)
    if (inBlock() === undefined) block = await journal.page(at, 1) // the lines before it are in another file, or long
    const raw = inBlock()
    const line: Line | undefined = raw && JSON.parse(raw.text)
    if (line?.kind !== 'commit' || line.previous === undefined)
      throw damaged(`the journal's line ${at}, which is not an entry,`)
    found.push(at)
    at = line.previous
  }
  return found.reverse()
}
