import { InvalidInput } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import { jsonCopy } from '../protocol/json-copy.ts'
import type { Spend } from './adapter.ts'
import { refuseUnlessSpend } from './spend.ts'

/** A later attempt must find what this one left, and nothing that JSON made of it. */
export function stateOf(state: unknown, action_type: string): Json {
  const subject = subjectOf(action_type)
  const copy = jsonCopy(state, subject, 'state')
  if (copy !== undefined) return copy
  throw new InvalidInput(subject, [
    { path: 'state', rule: 'required', message: 'is missing; give what a later attempt goes on from' },
  ])
}

export function spentOf(spent: Spend | undefined, action_type: string): Spend | undefined {
  if (spent !== undefined) refuseUnlessSpend(spent, subjectOf(action_type))
  return spent
}

const subjectOf = (action_type: string): string => `the checkpoint of ${action_type}`
