import type { Clock } from '../protocol/clock.ts'
import { Unavailable } from '../protocol/errors.ts'
import { atMost } from '../protocol/waiting.ts'

/** A store bounds its own calls; one that does not keeps nobody from closing the rest. */
const SILENT_MS = 10_000

/** For work that waits for nothing but the store any more: throws Unavailable when that does not answer. */
export async function unlessSilent(work: Promise<unknown>, clock: Clock): Promise<void> {
  if (await atMost(SILENT_MS, work, clock)) return
  throw new Unavailable('the store', `at the close it did not answer a call in ${SILENT_MS} ms, and is left as it is`)
}
