import type { Approvers } from './approvers.ts'
import { LONGEST_WAIT_MS } from './clock.ts'
import type { Problem } from './errors.ts'
import { type Fields, problemsIn, text, texts, wholeFrom, within } from './fields.ts'

const APPROVERS: Fields = {
  needed: wholeFrom(1),
  roles: texts,
  expires_ms: within(1, LONGEST_WAIT_MS),
}
const ASK_PEOPLE: Fields = {
  ...APPROVERS,
  requested_by_role: text,
  reason: { says: 'text', fits: (value) => typeof value === 'string' },
}

export const approversProblems = (given: unknown, at: string): readonly Problem[] => problemsOf(given, APPROVERS, at)
export const askPeopleProblems = (given: unknown, at: string): readonly Problem[] => problemsOf(given, ASK_PEOPLE, at)

function problemsOf(given: unknown, fields: Fields, at: string): readonly Problem[] {
  const problems = problemsIn(given, fields, at)
  const { needed = 1, roles } = Object(given) as Approvers
  if (problems.length > 0 || isReachable(needed, roles)) return problems
  return [{ path: `${at}.needed`, rule: 'reachable', message: 'cannot be reached with these roles' }]
}

/** Can as many decide as are needed, where only these roles may? Each counts once. */
export const isReachable = (needed: number, roles?: readonly string[]): boolean =>
  roles === undefined || new Set(roles).size >= needed
