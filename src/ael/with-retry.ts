import { type Clock, systemClock } from '../protocol/clock.ts'
import type { ActionError } from '../protocol/errors.ts'
import { eitherOf } from '../protocol/on-abort.ts'
import { checkRepeatable } from './action.ts'
import type { Adapter, Call, RetryPolicy } from './adapter.ts'
import { decorated, type Passage } from './decorate.ts'
import { aborted, toActionError } from './failure.ts'
import { isReadOnly } from './read-only.ts'

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
  return wished <= longestWish(policy) ? Math.max(drawn, wished) : undefined // the other side's wish outranks our cap, up to a day
}

/** A quota that is renewed every day is worth waiting for; a server that asks for years has not thought of us. */
const longestWish = ({ max_delay_ms = 0 }: RetryPolicy): number => Math.max(A_DAY_MS, max_delay_ms)
const A_DAY_MS = 24 * 60 * 60 * 1000

/** What of an error keeps it from being tried again that neither its policy nor its message tells; empty when nothing does. */
export function unheeded(policy: RetryPolicy | undefined, { retryable, retryAfterMs = 0 }: ActionError): string {
  if (!policy || policy.strategy === 'none' || !retryable || retryAfterMs <= longestWish(policy)) return ''
  return `; it asks to be tried again after ${Math.ceil(retryAfterMs / 1000)} s: that is not waited for, unless max_delay_ms of the retry allows for it`
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
    checkRepeatable(action, isReadOnly(adapter, action.params), policy)
    let resume = call.resume
    const checkpoint: Call['checkpoint'] = (state, spent) => {
      resume = state
      return call.checkpoint(state, spent)
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
