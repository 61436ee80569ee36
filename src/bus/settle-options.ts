import { InvalidInput, type Problem, Refused } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
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

const KNOWN = ['group', 'after', 'limit', 'limitBytes', 'overflow', 'attempts', 'onError', 'signal']
const POLICIES: readonly unknown[] = ['wait', 'drop_oldest', 'disconnect'] satisfies Overflow[]
const GROUP_ATTEMPTS = 5

/** Throws InvalidInput for what no carrier does, Refused for what this one does not; `carrier` names it. */
export function settleOptions(options: SubscribeOptions, traits: TransportTraits, carrier: string): Settled {
  const problems = optionProblems(options)
  if (problems.length > 0) throw new InvalidInput('subscription', problems)
  const { group, after, onError, signal } = options
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
    signal,
  }
}

function optionProblems(options: SubscribeOptions): Problem[] {
  if (!isObject(options)) return [problem('', 'options', 'is not an object', options)]
  const problems = Object.keys(options)
    .filter((name) => !KNOWN.includes(name))
    .map((name) => problem(name, 'unknown_option', `is not one of ${KNOWN.join(', ')}`, options[name]))
  const { group, after, overflow, onError, signal } = options as SubscribeOptions
  if (onError !== undefined && typeof onError !== 'function')
    problems.push(problem('onError', 'function', 'is not a function', onError))
  if (signal !== undefined && !(signal instanceof AbortSignal))
    problems.push(problem('signal', 'signal', 'is not an AbortSignal', signal))
  if (group !== undefined && !(typeof group === 'string' && /^[\w.:-]{1,200}$/.test(group)))
    problems.push(problem('group', 'name', 'is not 1 to 200 letters, digits, or any of _ . : -', group))
  if (after !== undefined) problems.push(...checkAfter(after))
  for (const name of ['limit', 'limitBytes', 'attempts'] as const) {
    const found = options[name]
    if (found !== undefined && (!Number.isSafeInteger(found) || (found as number) < 1))
      problems.push(problem(name, 'count', 'is not a whole number above 0', found))
  }
  if (overflow !== undefined && !POLICIES.includes(overflow))
    problems.push(problem('overflow', 'policy', `is not one of ${POLICIES.join(', ')}`, overflow))
  if (group !== undefined && overflow !== undefined && overflow !== 'wait')
    problems.push(problem('overflow', 'group_waits', 'would lose what the group has to handle', overflow))
  return problems
}

const problem = (path: string, rule: string, message: string, found: unknown): Problem => ({
  path,
  rule,
  message,
  found: String(found).slice(0, 80),
})
