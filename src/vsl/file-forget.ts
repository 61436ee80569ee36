import type { Journal } from './file-journal.ts'
import type { CommitLine, Line } from './file-lines.ts'

type Streams = ReadonlyMap<string, { readonly forgotten: number }>
type NumberedCommit = Line & CommitLine

/** Was the stream forgotten after this line? */
export const isForgotten = (streams: Streams, { seq, stream }: NumberedCommit): boolean =>
  seq < (streams.get(stream)?.forgotten ?? 0)

interface Sweeping {
  readonly journal: Journal
  /** The files, by their first lines, that hold forgotten entries. Each is taken from it once it is swept. */
  readonly unswept: Set<number>
  readonly streams: Streams
  /** Which line wrote each key last. */
  readonly current: ReadonlyMap<string, number>
  /** Throws unless the folder is still ours. */
  readonly check: () => Promise<void>
}

/** Takes what was forgotten out of the journal's files, all but the one that grows. Every line keeps its number. */
export async function sweep({ journal, unswept, streams, current, check }: Sweeping): Promise<void> {
  for (const file of [...unswept]) {
    if (file >= journal.growing) continue
    unswept.delete(file) // not afterwards: what is forgotten meanwhile may stand where it has been already
    try {
      await check()
      await journal.rewrite(file, (text) => {
        const line: Line = JSON.parse(text)
        return line.kind === 'commit' && isForgotten(streams, line) ? JSON.stringify(leftOf(line, current)) : text
      })
    } catch (error) {
      unswept.add(file)
      throw error
    }
  }
}

/** No entry, and only what reading the journal from the beginning needs: an older line may still tell a key that was deleted here. */
function leftOf(line: NumberedCommit, current: ReadonlyMap<string, number>): NumberedCommit {
  const { entry, revision, previous, fence, ...rest } = line
  const isCurrent = ([key]: readonly [string, unknown]) => current.get(key) === line.seq
  return {
    ...rest,
    inserts: line.inserts.filter(isCurrent),
    puts: line.puts.filter(isCurrent),
    deletes: line.deletes.filter((key) => !current.has(key)),
  }
}
