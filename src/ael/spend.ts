import { isObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { Spend } from './adapter.ts'
import { finalFailure } from './failure.ts'
import { refuseUnlessAmounts } from './outputs.ts'
import { isPromised } from './promised.ts'

/** What a budget cannot count would count as nothing, and no limit hold. */
export function refuseUnlessSpend(said: Spend, what: string): void {
  if (!isObject(said) || isPromised(said)) {
    const found = isPromised(said) ? 'a promise: it is needed at once' : shown(said)
    throw finalFailure(`what ${what} takes must be an object with ${UNITS.join(', ')}, not ${found}`)
  }
  for (const unit in said)
    if (!UNITS.includes(unit))
      throw finalFailure(`the ${unit} of ${what} is not counted: a budget knows ${UNITS.join(', ')}`)
  refuseUnlessAmounts(said, what)
}

const UNITS: readonly string[] = ['actions', 'tokens', 'cost'] satisfies (keyof Spend)[]

/** An amount as people write it: 0.1 three times is 0.3, and not a little more than a budget of 0.3. */
export const exact = (amount: number): number => (Number.isInteger(amount) ? amount : Number(amount.toPrecision(15)))
