import type { Holder } from './backend.ts'
import { checkHolder } from './check-input.ts'
import { holderIsGone as isGone } from './holder.ts'

/** Has the process ended that held a lease? True only when it is certain: same machine, same boot, and no such process any more. */
export function holderIsGone(holder: Holder): boolean {
  checkHolder('holder', holder)
  return isGone(holder)
}
