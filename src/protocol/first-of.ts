import type { Problem } from './errors.ts'

/** Who got all of a long flow wrong is not answered at its length, and who hides it behind a long name not with that name a hundred times. */
const MOST_TOLD = 100
const MOST_LETTERS = 64 * 1024

/** Of very many the first; a last one, by the rule `more`, says how many there are beside them. */
export function firstOf<T extends Problem>(all: readonly T[]): readonly (T | Problem)[] {
  let letters = 0
  let fit = 0
  for (const { path, message, found = '' } of all) {
    letters += path.length + message.length + found.length
    if (fit === MOST_TOLD || (fit > 0 && letters > MOST_LETTERS)) break
    fit++
  }
  if (fit === all.length) return all
  const told = all.slice(0, Math.min(fit, MOST_TOLD - 1)) // told again under other paths, they are no more than these
  const rest = String(countOf(all) - told.length)
  return [...told, { path: '', rule: MORE, message: `is wrong in ${rest} more places`, found: rest }]
}

/** How many they are, with those that their last one counts. */
export function countOf(told: readonly Problem[]): number {
  const last = told.at(-1)
  return told.length + (last?.rule === MORE ? Number(last.found) - 1 : 0)
}

const MORE = 'more'
