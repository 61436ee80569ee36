import { type Clock, timer } from '../protocol/clock.ts'
import type { Adapter } from './adapter.ts'
import { timedOut } from './failure.ts'

/** One that takes longer keeps nobody from closing the rest. */
const CLOSE_MS = 10_000

/** Throws what the adapter throws, and an ActionError when it does not come to its end in time. */
export async function closeInTime(adapter: Adapter, clock: Clock): Promise<void> {
  const closing = adapter.close?.()
  if (!closing) return
  let forget: (() => void) | undefined
  const late = new Promise<never>((_, reject) => {
    const why = timedOut(`closing the adapter for actions of type ${adapter.action_type}`, CLOSE_MS)
    forget = timer(clock, CLOSE_MS, () => reject(why))
  })
  await Promise.race([closing, late]).finally(forget)
}
