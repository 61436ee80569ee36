import type { Confirm } from '../protocol/types.ts'
import { inOneLine } from './outputs.ts'

/** What a person is asked, in one line: a plan that gives no reason is known by its title. */
export function asks({ reason, target_type }: Confirm, title: string | undefined): string {
  if (title === undefined) return reason ?? target_type
  const plan = `plan “${inOneLine(title)}”`
  return reason === undefined ? plan : `${reason} (${plan})`
}
