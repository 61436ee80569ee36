import { approversProblems } from '../protocol/check-approvers.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { anything, type Fields, flag, needed, oneOf, problemsIn, text } from '../protocol/fields.ts'
import type { Approval } from './adapter.ts'
import { finalFrom } from './failure.ts'
import type { Admission } from './layer.ts'

/** What an adapter said about who must agree. Throws where it cannot be understood: to go on would be to ask nobody. */
export function approvalIn(said: Approval, action_type: string): Approval {
  const problems = [...problemsIn(said, APPROVAL, ''), ...approversIn(said)]
  if (problems.length === 0) return said
  throw finalFrom(new InvalidInput(`the approval of ${action_type}`, problems))
}

/** What whoever admits actions said. Throws where it cannot be understood, as above. */
export function admissionIn(said: Admission, tool: string): Admission {
  const problems = problemsIn(said, ADMISSION, '')
  if (problems.length === 0) return said
  throw finalFrom(new InvalidInput(`the admission of ${tool}`, problems))
}

const approversIn = (said: Approval | undefined): readonly Problem[] =>
  said?.approvers === undefined ? [] : approversProblems(said.approvers, 'approvers')

export const POLICY = oneOf('always_allow', 'ask', 'blocked')
const ADMISSION: Fields = { allowed: needed(flag), policy: POLICY, '*': anything }
const APPROVAL: Fields = {
  policy: needed(POLICY),
  tool: needed(text),
  arguments: needed(anything),
  description: needed({ says: 'text', fits: (value) => typeof value === 'string' }),
  '*': anything,
}
