import type { Problem } from './errors.ts'
import { shown } from './shown.ts'

/** What is wrong at a place, with what was found there unless that is left out. */
export const problem = (
  path: string,
  rule: string,
  message: string,
  ...found: readonly [found?: unknown]
): Problem => ({
  path,
  rule,
  message,
  ...(found.length > 0 && { found: shown(found[0]) }),
})

/** Adds such a thing to a list. */
export const blaming =
  (problems: Problem[]) =>
  (...said: Parameters<typeof problem>): void =>
    void problems.push(problem(...said))
export type Blame = ReturnType<typeof blaming>
