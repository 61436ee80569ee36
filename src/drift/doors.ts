import {
  anything,
  type Field,
  guarded,
  having,
  list,
  method,
  needed,
  objects,
  refuseUnlessFit,
  text,
} from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import * as comparing from './compare.ts'
import * as compensating from './compensate.ts'
import * as diffs from './diff.ts'
import * as rollbacks from './rollback.ts'

// For callers whom nobody has checked. Inside, where every look at a file asks, these functions are called as they are.

const mapOf = (says: string, fits: (value: unknown) => boolean): Field =>
  needed({ says, fits: (value) => value instanceof Map && [...value.values()].every(fits) })
const isRecord = (value: unknown): boolean => isObject(value) && text.fits(value.path)
const isRestoration = (value: unknown): boolean =>
  isObject(value) && objects.fits(value.changes) && objects.fits(value.conflicts)
const isDone = (value: unknown): boolean => isObject(value) && isObject(value.action) && Number.isFinite(value.ended)
const done: Field = {
  says: 'a list of actions with their ends',
  fits: (value) => Array.isArray(value) && value.every(isDone),
}
const side = { path: needed(text), text: needed({ says: 'text', fits: (value) => typeof value === 'string' }) }

/**
 * Everything that differs, by path. A file that is missing in one place and has appeared in another with the content that the disk last had there
 * was renamed; an empty file tells nothing about where it came from.
 */
export const compare = guarded(
  'comparison',
  { believed: mapOf('a Map of files by path', isRecord), observed: mapOf('a Map of files by path', isObject) },
  comparing.compare,
)

/**
 * Pure: the inverse actions of what a run did, last done first. What was taken back already is left out, and so is what `isRestored` says is brought
 * back in another way.
 */
export const compensation = guarded(
  'compensation',
  { done: needed(done), isRestored: needed(method) },
  compensating.compensation,
)

/** How one text became another, in the unified form that people and `patch` read. `undefined` on a side: there was no file. */
export const unifiedDiff = guarded('diff', { before: side, after: side }, diffs.unifiedDiff)

/** Pure: what will be restored, what cannot be undone, what somebody else changed since. */
export const rollbackPlan: typeof rollbacks.rollbackPlan = (facts) => {
  refuseUnlessFit('facts of a run', facts, {
    restoration: needed({ says: 'a way back: changes, conflicts', fits: isRestoration }),
    actions: needed(done),
    believed: needed(method),
    wrote: having('a Map', 'get'),
    changed: having('a Set', 'has'),
    below: method,
    observed: needed(having('a Map', 'get', 'has')),
    untracked: having('a Map', 'get', 'has'),
  })
  return rollbacks.rollbackPlan(facts)
}

/** Is there nothing to be done at all? */
export const isEmpty: typeof rollbacks.isEmpty = (plan) => {
  refuseUnlessFit('way back', plan, {
    files: needed(list),
    changes: needed(list),
    effects: needed(list),
    '*': anything,
  })
  return rollbacks.isEmpty(plan)
}
