/** A stretch of each list, and where in it the stretch begins. */
export interface Piece {
  readonly parts: Lists
  readonly at: readonly number[]
  /** The same in all: nothing to compare. */
  readonly same?: true
  /** Too much to compare: each part comes as one long line, made of this many. */
  readonly made?: readonly number[]
}
export type Lists = readonly (readonly string[])[]

/** About a tenth of a second. */
const MOST_STEPS = 20_000_000

/**
 * Cuts lists of lines where they certainly belong together, so that comparing them piece by piece stays affordable: at their common ends and, where
 * too much is left, at lines that occur once in each and in the same order in all. What is still too much comes as one long line: it is the same or
 * it is not.
 */
export function inPieces(lists: Lists): readonly Piece[] {
  const head = commonHead(lists)
  const tail = commonTail(lists, head)
  const starts = lists.map(() => head)
  const ends = lists.map((lines) => lines.length - tail)
  const middle = piece(lists, starts, ends)
  return [
    piece(
      lists,
      lists.map(() => 0),
      starts,
    ),
    ...(isAffordable(middle) ? [middle] : cutUp(lists, starts, ends)),
    piece(
      lists,
      ends,
      lists.map((lines) => lines.length),
    ),
  ].filter(({ parts }) => parts.some((lines) => lines.length > 0))
}

function piece(lists: Lists, from: readonly number[], to: readonly number[]): Piece {
  const parts = lists.map((lines, i) => lines.slice(from[i], to[i]))
  const [first, ...others] = parts
  const same = others.every((lines) => lines.length === first!.length && lines.every((line, i) => line === first![i]))
  return { parts, at: from, ...(same && { same }) }
}

/** Comparing goes, for each pair of equal lines, along the longest common sequence found so far. */
function isAffordable({ parts, same }: Piece): boolean {
  if (same) return true
  const [first, ...others] = parts
  const counts = new Map<string, number>()
  for (const line of first!) counts.set(line, (counts.get(line) ?? 0) + 1)
  return others.every((lines) => {
    let pairs = 0
    for (const line of lines) pairs += counts.get(line) ?? 0
    return pairs * Math.min(first!.length, lines.length) <= MOST_STEPS
  })
}

function commonHead([first, ...others]: Lists): number {
  let head = 0
  while (head < first!.length && others.every((lines) => lines[head] === first![head])) head++
  return head
}

function commonTail([first, ...others]: Lists, head: number): number {
  const most = Math.min(first!.length, ...others.map((lines) => lines.length)) - head
  let tail = 0
  while (tail < most && others.every((lines) => lines.at(-1 - tail) === first!.at(-1 - tail))) tail++
  return tail
}

function cutUp(lists: Lists, starts: readonly number[], ends: readonly number[]): readonly Piece[] {
  const pieces: Piece[] = []
  let from = starts
  for (const cut of [...anchors(lists, starts, ends), ends]) {
    const next = piece(lists, from, cut)
    const last = pieces.at(-1)
    if (last?.same && next.same) pieces[pieces.length - 1] = joined(last, next)
    else pieces.push(isAffordable(next) ? next : sealed(next))
    from = cut
  }
  return pieces
}

const joined = (a: Piece, b: Piece): Piece => {
  const lines = a.parts[0] as string[]
  for (const line of b.parts[0]!) lines.push(line) // one list stands for all of them, and grows instead of being copied for each line
  return { parts: a.parts.map(() => lines), at: a.at, same: true }
}

/** Places of lines that occur once in every list, as many as stand in the same order in all. */
function anchors(lists: Lists, starts: readonly number[], ends: readonly number[]): readonly (readonly number[])[] {
  const places = lists.map((lines, i) => onceIn(lines, starts[i]!, ends[i]!))
  const common: (readonly number[])[] = []
  for (const [line, first] of places[0]!) {
    const others = places.slice(1).map((place) => place.get(line))
    if (others.every((place) => place !== undefined)) common.push([first, ...(others as number[])])
  }
  common.sort((a, b) => a[0]! - b[0]!)
  return places.slice(1).reduce((left, _, i) => rising(left, i + 1), common)
}

function onceIn(lines: readonly string[], start: number, end: number): Map<string, number> {
  const found = new Map<string, number>()
  const again = new Set<string>()
  for (let i = start; i < end; i++) {
    const line = lines[i]!
    if (found.has(line)) again.add(line)
    else found.set(line, i)
  }
  for (const line of again) found.delete(line)
  return found
}

/** The longest choice of rows in which column `by` only rises. */
function rising(rows: readonly (readonly number[])[], by: number): (readonly number[])[] {
  const ends: number[] = [] // of the best choice of each length, the row it ends with
  const before: number[] = []
  for (const [i, row] of rows.entries()) {
    let [low, high] = [0, ends.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (rows[ends[middle]!]![by]! < row[by]!) low = middle + 1
      else high = middle
    }
    before[i] = low > 0 ? ends[low - 1]! : -1
    ends[low] = i
  }
  const chosen: (readonly number[])[] = []
  for (let i = ends.at(-1) ?? -1; i >= 0; i = before[i]!) chosen.push(rows[i]!)
  return chosen.reverse()
}

function sealed({ parts, at }: Piece): Piece {
  const made = parts.map((lines) => lines.length)
  return { parts: parts.map((lines) => (lines.length === 0 ? [] : [lines.join('')])), at, made }
}
