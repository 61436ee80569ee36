import { diff3Merge, diffIndices } from 'node-diff3'
import { needed, refuseUnlessFit } from '../protocol/fields.ts'
import { inPieces } from './pieces.ts'
import { type LineEnd, lineEnd, linesOf } from './text.ts'

export type Merged =
  | { readonly clean: true; readonly text: string }
  /** `marked` shows both sides between markers: for people, never for the file. */
  | { readonly clean: false; readonly conflicts: number; readonly marked: string }

/**
 * Both sides' changes to a base in one text. Changes that overlap, or have no unchanged line between them, conflict; so does a merge that depends on
 * which of several equal lines was meant. When one side changed how all lines end, that is one change, not one of every line.
 */
export function mergeText(base: string, graph: string, file: string): Merged {
  refuseUnlessFit('merge', { base, graph, file }, { base: content, graph: content, file: content })
  const unchanged = mergeValue(base, graph, file)
  if (unchanged !== undefined) return { clean: true, text: unchanged }
  const ends = [base, graph, file].map(lineEnd) as [LineEnd, LineEnd, LineEnd]
  if (ends.includes('mixed') || !ends.includes('crlf')) return mergeLines(base, graph, file)
  const end = mergedEnd(ends)
  const merged = mergeLines(withLf(base), withLf(graph), withLf(file))
  if (!merged.clean) return { ...merged, marked: end === 'crlf' ? withCrlf(merged.marked) : merged.marked }
  if (end === undefined) return { clean: false, conflicts: 1, marked: merged.text }
  return { clean: true, text: end === 'crlf' ? withCrlf(merged.text) : merged.text }
}

const content = needed({ says: 'text', fits: (value) => typeof value === 'string' })

/** Of three values, the one that a side changed; `undefined` when both did, and differently. */
export function mergeValue<T>(base: T, graph: T, file: T): T | undefined {
  if (graph === file || file === base) return graph
  return graph === base ? file : undefined
}

/** Where two lists of lines differ: stretches of both, in order. */
export interface Stretch {
  readonly before: readonly [start: number, length: number]
  readonly after: readonly [start: number, length: number]
}

export function stretches(before: readonly string[], after: readonly string[]): readonly Stretch[] {
  return inPieces([before, after]).flatMap(({ parts, at, same, made }) =>
    (same ? [] : diffIndices([...parts[0]!], [...parts[1]!])).map(({ buffer1, buffer2 }) => ({
      before: [at[0]! + buffer1[0], made?.[0] ?? buffer1[1]] as const,
      after: [at[1]! + buffer2[0], made?.[1] ?? buffer2[1]] as const,
    })),
  )
}

function mergeLines(base: string, graph: string, file: string): Merged {
  const [o, a, b] = [linesOf(base), linesOf(graph), linesOf(file)]
  const forward = regions(o, a, b)
  const conflicts = forward.filter(({ conflict }) => conflict).length
  if (conflicts > 0) return { clean: false, conflicts, marked: marked(forward) }
  const text = joined(forward)
  // From the other end, equal lines are paired the other way round: two results mean that there was something to choose.
  const backward = regions(o.toReversed(), a.toReversed(), b.toReversed())
  const certain = backward.every(({ ok }) => ok) && joined(backward, true) === text
  return certain ? { clean: true, text } : { clean: false, conflicts: 1, marked: bothSides(graph, file) }
}

type Region = ReturnType<typeof diff3Merge<string>>[number]

const regions = (o: readonly string[], a: readonly string[], b: readonly string[]): Region[] =>
  inPieces([o, a, b]).flatMap(({ parts, same }) =>
    same
      ? [{ ok: [...parts[0]!] }]
      : diff3Merge<string>([...parts[1]!], [...parts[0]!], [...parts[2]!], { excludeFalseConflicts: true }),
  )

function joined(found: readonly Region[], reversed = false): string {
  const lines = found.flatMap(({ ok }) => ok ?? [])
  return (reversed ? lines.reverse() : lines).join('')
}

const marked = (found: readonly Region[]): string =>
  found
    .map(({ ok, conflict }) => (conflict ? bothSides(conflict.a.join(''), conflict.b.join('')) : (ok ?? []).join('')))
    .join('')

const bothSides = (graph: string, file: string): string =>
  `<<<<<<< graph\n${ended(graph)}=======\n${ended(file)}>>>>>>> file\n`
const ended = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`)

/** A text of one line has no say in how lines end. */
function mergedEnd([base, graph, file]: readonly [LineEnd, LineEnd, LineEnd]): 'lf' | 'crlf' | undefined {
  const [known] = [base, graph, file].filter((end) => end !== 'none') as ('lf' | 'crlf')[]
  const said = (end: LineEnd, otherwise: 'lf' | 'crlf') => (end === 'none' ? otherwise : (end as 'lf' | 'crlf'))
  const start = said(base, known!)
  return mergeValue(start, said(graph, start), said(file, start))
}
const withLf = (text: string): string => text.replaceAll('\r\n', '\n')
const withCrlf = (text: string): string => text.replaceAll('\n', '\r\n')
