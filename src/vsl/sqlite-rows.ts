import { inParts } from '../protocol/each.ts'
import type { Database } from './sqlite-open.ts'

export type Bound = string | number | Buffer
/** A statement over any number of rows; each is answered with one row at most. */
export interface RowStatement {
  all(values: readonly Bound[]): unknown[]
  run(values: readonly Bound[]): void
}

/** Most of a small statement's cost is the way into the driver and back: rows go together, at most this many. */
export const MAX_ROWS = 128

/** `row` is one row's placeholders, `sql` makes the statement from all of them. Prepared once for each number of rows it meets. */
export function rowStatement(db: Database, row: string, sql: (rows: string) => string): RowStatement {
  const perRow = row.split('?').length - 1
  const prepared = new Map<number, ReturnType<Database['prepare']>>()
  const forRows = (count: number) => {
    const known = prepared.get(count)
    if (known) return known
    const statement = db.prepare(sql(Array(count).fill(row).join(', ')))
    if (statement.reader) statement.raw()
    prepared.set(count, statement)
    return statement
  }
  const parts = (values: readonly Bound[]): readonly (readonly Bound[])[] => {
    const size = MAX_ROWS * perRow
    if (values.length > size) return [...inParts(values, size)]
    return values.length === 0 ? [] : [values]
  }

  return {
    all(values) {
      if (values.length !== perRow) return parts(values).flatMap((part) => forRows(part.length / perRow).all(part))
      const row = forRows(1).get(values) // a third of what a list of one costs
      return row === undefined ? [] : [row]
    },
    run(values) {
      for (const part of parts(values)) forRows(part.length / perRow).run(part)
    },
  }
}
