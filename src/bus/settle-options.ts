import { InvalidInput, type Problem, Refused } from '../protocol/errors.ts'
import { anything, count, type Field, method, oneOf, problemsIn, signal } from '../protocol/fields.ts'
import { keptName } from './check-options.ts'
import { checkAfter, placeOf } from './delivery.ts'
import type { After, Overflow, SubscribeOptions, TransportTraits } from './transport.ts'

/** What a subscription asks for, with the defaults filled in. */
export interface Settled {
  readonly group: string | undefined
  readonly after: After | undefined
  readonly limit: number
  readonly limitBytes: number
  readonly overflow: Overflow
  readonly attempts: number
  readonly onError: ((error: unknown) => void) | undefined
  readonly signal: AbortSignal | undefined
}

const GROUP_ATTEMPTS = 5

/** Throws InvalidInput for what no carrier does, Refused for what this one does not; `carrier` names it. */
export function settleOptions(options: SubscribeOptions, traits: TransportTraits, carrier: string): Settled {
  const problems = optionProblems(options)
  if (problems.length > 0) throw new InvalidInput('subscription', problems)
  const { group, after, onError } = options
  if (after !== undefined && !traits.retains)
    throw new Refused(`${carrier} keeps nothing to go back to`, 'subscribe from now on, or open it with a history')
  if (group !== undefined && !traits.groups)
    throw new Refused(`${carrier} has no groups`, 'use redis or kafka for members that share')
  return {
    group,
    after: after === undefined || typeof after === 'string' ? after : placeOf(after), // a whole delivery is not worth keeping or sending
    limit: options.limit ?? 1000,
    limitBytes: options.limitBytes ?? 16 * 1024 * 1024,
    overflow: options.overflow ?? (traits.retains || group !== undefined ? 'wait' : 'disconnect'),
    attempts: options.attempts ?? (group === undefined ? 1 : GROUP_ATTEMPTS),
    onError,
    signal: options.signal,
  }
}

function optionProblems(options: SubscribeOptions): readonly Problem[] {
  const misfits = problemsIn(options, OPTIONS, '')
  if (misfits.length > 0) return misfits
  const { group, after, overflow } = options
  if (group === undefined || overflow === undefined || overflow === 'wait') return checkAfter(after)
  const message = 'would lose what the group has to handle'
  return [...checkAfter(after), { path: 'overflow', rule: 'group_waits', message, found: overflow }]
}

const OPTIONS: { readonly [O in keyof Required<SubscribeOptions>]: Field } = {
  group: keptName,
  after: anything, // see checkAfter
  limit: count,
  limitBytes: count,
  overflow: oneOf('wait', 'drop_oldest', 'disconnect'),
  attempts: count,
  onError: method,
  signal,
}
