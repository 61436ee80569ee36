import type { Confirm } from '../protocol/types.ts'
import { inOneLine } from './outputs.ts'

/**
 * What a person is asked, in one line: a plan that gives no reason is known by its title. In several, what a model has put into a reason could be taken for
 * the arguments that are shown behind it, or for another question.
 */
export function asks({ reason: given, target_type }: Confirm, title: string | undefined): string {
  const reason = given?.replaceAll(/\s+/g, ' ').trim()
  if (title === undefined) return reason ?? target_type
  const plan = `plan “${inOneLine(title)}”`
  return reason === undefined ? plan : `${reason} (${plan})`
}
