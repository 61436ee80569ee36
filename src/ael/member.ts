import type { Clock } from '../protocol/clock.ts'
import type { Adapter } from './adapter.ts'
import { closeInTime } from './in-time.ts'

/** An adapter of a layer, with what is put around it: with retries as a whole, or for one attempt. */
export interface Member {
  readonly adapter: Adapter
  readonly whole: Adapter
  readonly once: Adapter
  running: number
  idle?: () => void
}

/** Closes its adapter, when what is under way has ended. */
export async function closeOne(member: Member, clock: Clock): Promise<void> {
  if (member.running > 0)
    await new Promise<void>((resolve) => {
      member.idle = resolve
    })
  await closeInTime(member.adapter, clock)
}

/** All of them, also when some fail; then throws what the first of these threw. */
export async function closeAll(members: readonly Member[], clock: Clock): Promise<void> {
  const closings = await Promise.allSettled(members.map((member) => closeOne(member, clock)))
  const failed = closings.find((closing) => closing.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
