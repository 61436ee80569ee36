import type { Change } from '../psg/change.ts'

/** A change for people, as the cells of a row. */
export const changeCells = (change: Change): readonly [string, string] =>
  'id' in change ? [change.kind, `${change.node} ${change.id}`] : [change.kind, `${change.from} -> ${change.to}`]
