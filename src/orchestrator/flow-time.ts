import { type Clock, isoNow } from '../protocol/clock.ts'
import { FlowFailure, inCapitals } from './flow.ts'
import type { RunOptions } from './live.ts'
import { isDue, latestEnd } from './timers.ts'

/** How long a call may take until its plan is submitted. */
export interface FlowTime {
  /** Aborted when that is over; its reason is the flow's failure. */
  readonly over: AbortSignal
  end(): void
}

/** As long as the run that follows, but not past its deadline: neither a module that never answers nor another call with the same runId holds this one. */
export function flowTime(options: RunOptions, clock: Clock): FlowTime {
  const [over, ended] = [new AbortController(), new AbortController()]
  const latest = latestEnd({ options, started_at: isoNow(clock) })
  async function count({ ending: { error }, ...wait }: NonNullable<typeof latest>): Promise<void> {
    while (!isDue(wait, clock.now())) await clock.sleep(wait.due - clock.now(), ended.signal)
    over.abort(new FlowFailure(inCapitals(error.code), error.message))
  }
  if (latest) count(latest).catch(() => undefined) // ended in time
  return { over: over.signal, end: () => ended.abort() }
}
