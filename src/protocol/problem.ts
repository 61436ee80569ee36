import type { Problem } from './errors.ts'
import { shown } from './shown.ts'

/** What is wrong at a place, with what was found there. */
export const problem = (path: string, rule: string, message: string, found: unknown): Problem => ({
  path,
  rule,
  message,
  found: shown(found),
})

/** Adds such a thing to a list. */
export const blaming =
  (problems: Problem[]) =>
  (...said: Parameters<typeof problem>): void =>
    void problems.push(problem(...said))
