import { type Stretch, stretches } from './merge.ts'
import { linesOf } from './text.ts'

export interface Diff {
  readonly text: string
  readonly added: number
  readonly removed: number
}

const CONTEXT = 3

export function unifiedDiff(
  before: { readonly path: string; readonly text: string } | undefined,
  after: { readonly path: string; readonly text: string } | undefined,
): Diff {
  const [old, now] = [linesOf(before?.text ?? ''), linesOf(after?.text ?? '')]
  const found = stretches(old, now)
  const head = [
    `--- ${before === undefined ? '/dev/null' : `a/${before.path}`}\n`,
    `+++ ${after === undefined ? '/dev/null' : `b/${after.path}`}\n`,
  ]
  const text =
    found.length === 0 ? '' : [...head, ...hunks(found).flatMap((hunk) => shownHunk(hunk, old, now))].join('')
  const sum = (side: 'before' | 'after') => found.reduce((total, stretch) => total + stretch[side][1], 0)
  return { text, added: sum('after'), removed: sum('before') }
}

/** Stretches that share context are shown together. */
function hunks(found: readonly Stretch[]): readonly (readonly Stretch[])[] {
  const grouped: Stretch[][] = []
  for (const stretch of found) {
    const last = grouped.at(-1)?.at(-1)
    const near = last && stretch.before[0] - endOf(last.before) <= 2 * CONTEXT
    if (near) grouped.at(-1)!.push(stretch)
    else grouped.push([stretch])
  }
  return grouped
}

function shownHunk(hunk: readonly Stretch[], old: readonly string[], now: readonly string[]): readonly string[] {
  const [first, last] = [hunk[0]!, hunk.at(-1)!]
  const lead = Math.min(CONTEXT, first.before[0])
  const trail = Math.min(CONTEXT, old.length - endOf(last.before))
  const from = [first.before[0] - lead, first.after[0] - lead] as const
  const to = [endOf(last.before) + trail, endOf(last.after) + trail] as const
  const unchanged = [from[0], ...hunk.map(({ before }) => endOf(before))] // where they begin: before each stretch, and after the last
  return [
    `@@ -${range(from[0], to[0] - from[0])} +${range(from[1], to[1] - from[1])} @@\n`,
    ...hunk.flatMap(({ before, after }, i) => [
      ...shownLines(' ', old.slice(unchanged[i], before[0])),
      ...shownLines('-', old.slice(before[0], endOf(before))),
      ...shownLines('+', now.slice(after[0], endOf(after))),
    ]),
    ...shownLines(' ', old.slice(unchanged.at(-1), to[0])),
  ]
}

const endOf = ([start, length]: Stretch['before']): number => start + length

/** A range without lines is named by the line before it. */
const range = (start: number, length: number): string => {
  const shown = length === 0 ? start : start + 1
  return length === 1 ? `${shown}` : `${shown},${length}`
}

const shownLines = (mark: string, lines: readonly string[]): readonly string[] =>
  lines.map((line) => (line.endsWith('\n') ? mark + line : `${mark}${line}\n\\ No newline at end of file\n`))
