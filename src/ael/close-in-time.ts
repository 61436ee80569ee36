import type { Clock } from '../protocol/clock.ts'
import type { Adapter } from './adapter.ts'
import { inTime } from './in-time.ts'

/** One that takes longer keeps nobody from closing the rest. */
const CLOSE_MS = 10_000

/** Throws what the adapter throws, and an ActionError when it does not come to its end in time. */
export async function closeInTime(adapter: Adapter, clock: Clock): Promise<void> {
  const closing = adapter.close?.()
  if (closing) await inTime(closing, CLOSE_MS, `closing the adapter for actions of type ${adapter.action_type}`, clock)
}
