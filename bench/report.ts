/** What a benchmark has found: a row per thing measured, a figure per column. */
export interface Table {
  readonly title: string
  readonly rows: { readonly [row: string]: { readonly [column: string]: string | number } }
  /** What the reader must know to read it: how it was measured, what a column means. */
  readonly note?: string
  readonly plot?: Plot
}

/** The same as a picture: longer is more. */
export interface Plot {
  readonly unit: string
  readonly bars: readonly Bar[]
}
export interface Bar {
  readonly label: string
  readonly value: number
  /** The slowest and the fastest round. */
  readonly spread?: readonly [number, number]
  /** Ours is told apart from others, and both from what only marks a limit. */
  readonly kind: 'ours' | 'peer' | 'limit'
}

/** Prints the figures and, below `npm run bench`, hands them over for `results.json` and the README. */
export function tell(title: string, rows: Table['rows'], note?: string, plot?: Plot): void {
  console.log(note === undefined ? title : `${title} (${note})`)
  console.table(rows)
  const table: Table = { title, rows, ...(note !== undefined && { note }), ...(plot && { plot }) }
  process.send?.({ table })
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  if (sorted.length === 0) return Number.NaN
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Three figures that count, and thousands set apart. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return ''
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)))
  return value.toLocaleString('en', { maximumFractionDigits: Math.min(3, digits) })
}
