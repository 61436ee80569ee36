import { type Clock, LONGEST_WAIT_MS, systemClock } from '../protocol/clock.ts'
import type { Json } from '../protocol/json.ts'
import { checkRepeatable } from './action.ts'
import type { Adapter, RetryPolicy } from './adapter.ts'
import { decorated, type Passage } from './decorate.ts'
import { aborted, toActionError } from './failure.ts'
import { eitherOf } from './on-abort.ts'

export function nextRetry(
  policy: RetryPolicy | undefined,
  made: number,
  error: { readonly retryable: boolean; readonly retryAfterMs?: number },
  random: number,
): number | undefined {
  if (policy === undefined || policy.strategy === 'none' || !error.retryable || made >= policy.max_attempts)
    return undefined
  const { strategy, delay_ms = 1_000, max_delay_ms = 60_000, jitter = 0 } = policy
  const planned = strategy === 'fixed' ? delay_ms : Math.min(delay_ms * 2 ** (made - 1), max_delay_ms)
  const drawn = Math.round(planned * (1 - jitter * random))
  const { retryAfterMs: wished = 0 } = error
  return wished <= LONGEST_WAIT_MS ? Math.max(drawn, wished) : undefined // the other side's wish outranks our cap
}

export interface RetryOptions {
  /** For actions that name none. */
  readonly policy?: RetryPolicy
  /** Nobody is kept waiting longer than this between two attempts; whoever was told to come back later is told so. */
  readonly longestWaitMs?: number
  readonly clock?: Clock
}

export function withRetry(adapter: Adapter, options: RetryOptions = {}): Adapter {
  const { clock = systemClock, longestWaitMs = 300_000 } = options
  return decorated(adapter, async (action, call) => {
    const policy = action.retry ?? options.policy
    checkRepeatable(action, adapter.readOnly?.(action.params) ?? false, policy)
    let resume = call.resume
    const checkpoint = (state: Json) => {
      resume = state
      return call.checkpoint(state)
    }
    let passage: Passage = { ...call, checkpoint }
    for (let made = 1; ; made++) {
      try {
        return await adapter.execute(action, passage)
      } catch (thrown) {
        const error = toActionError(thrown)
        const wait = nextRetry(policy, made, error, clock.random())
        if (wait === undefined || wait > longestWaitMs) throw error
        await rested(clock, wait, call, action.action_type)
        passage = { ...passage, attempt: call.attempt + made, execution_id: clock.uuid() }
        if (resume !== undefined) passage = { ...passage, resume }
      }
    }
  })
}

async function rested(clock: Clock, ms: number, call: Passage, what: string): Promise<void> {
  const { signal, unlink } = eitherOf(call.signal, call.shutdown)
  try {
    await clock.sleep(ms, signal)
  } catch {
    throw aborted(what, signal) // nothing else wakes a sleeper early
  } finally {
    unlink()
  }
}
