import { InvalidInput } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { numberIn } from './number-in.ts'

/** How many are wanted at most. Throws InvalidInput for what is no such number, and for what else is wrong with the call. */
export function limitIn(text: string, problems: InvalidInput['problems'] = []): number {
  const most = numberIn(text)
  const wrong = { path: '--limit', rule: 'type', message: 'must be a whole number of at least 1', found: shown(most) }
  const isWrong = !Number.isSafeInteger(most) || Number(most) < 1
  if (isWrong || problems.length > 0)
    throw new InvalidInput('the command line', [...problems, ...(isWrong ? [wrong] : [])])
  return Number(most)
}
