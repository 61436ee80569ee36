import { Corrupt } from '../protocol/errors.ts'
import { objects, text, time } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { KINDS } from './kinds.ts'
import { placeOf } from './node.ts'

/** What keeps something in a graph's journal from being an entry of it, if anything does. Whoever can write to the store may have left it there. */
export function entryFault(graph: string, body: unknown): string | undefined {
  if (!isObject(body)) return 'is no object'
  const { commit_id, at, changes, events } = body
  if (!text.fits(commit_id)) return 'has no commit_id'
  if (!time.fits(at)) return 'does not say when it was'
  if (!objects.fits(changes)) return 'has no list of changes'
  if (!objects.fits(events)) return 'has no list of events'
  const odd = (changes as readonly unknown[]).findIndex((change) => !isChange(graph, change))
  return odd < 0 ? undefined : `has a change [${odd}] that says of no node what became of it`
}

function isChange(graph: string, change: unknown): boolean {
  if (!isObject(change) || !isNodeKey(graph, change.key)) return false
  const { before, after, was, now, grew = {} } = change
  if (was !== undefined || now !== undefined)
    return isObject(was) && isObject(now) && isObject(grew) && Object.values(grew).every(isGrowth)
  return isStored(after) && (before === undefined || isStored(before))
}

const isGrowth = (value: unknown): boolean =>
  isObject(value) && Number.isSafeInteger(value.from) && Array.isArray(value.items)

/** Nothing is to be made of it, and nothing to be done by it. */
export const damaged = (what: string, fault: string): Corrupt =>
  new Corrupt(
    what,
    `it ${fault}: \`verify\` tells what else is wrong, and the store has to be brought back from a backup`,
  )

/** Is that how a node lies in the store? */
export const isStored = (value: unknown): boolean =>
  isObject(value) && Number.isSafeInteger(value.born) && isObject(value.data)

/** Is it the key of a node of this graph? */
export function isNodeKey(graph: string, key: unknown): boolean {
  if (typeof key !== 'string' || !key.startsWith(`${graph}/`)) return false
  const { group, kind, id } = placeOf(key)
  return group !== '' && id !== '' && Object.hasOwn(KINDS, kind)
}
