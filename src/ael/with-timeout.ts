import { type Clock, systemClock, timer } from '../protocol/clock.ts'
import { ActionError } from '../protocol/errors.ts'
import { onAbort } from '../protocol/on-abort.ts'
import type { Action, Adapter, Outcome } from './adapter.ts'
import { decorated, onward, type Passage } from './decorate.ts'
import { aborted, timedOut, toActionError, withSpent } from './failure.ts'
import { spentBy } from './outputs.ts'

export interface TimeoutOptions {
  /** When neither action nor adapter says. */
  readonly timeoutMs?: number
  /** How long the work may take to end once it was told to; then its caller is kept waiting no longer, and what it gives is discarded. */
  readonly graceMs?: number
  readonly clock?: Clock
}

export function withTimeout(adapter: Adapter, options: TimeoutOptions = {}): Adapter {
  const { timeoutMs = 30_000, graceMs = 1_000, clock = systemClock } = options
  return decorated(adapter, (action, call) => {
    if (call.signal.aborted) return Promise.reject(aborted(action.action_type, call.signal))
    const limit = action.timeout_ms ?? adapter.timeoutMs ?? timeoutMs
    return bounded(adapter, action, call, limit, graceMs, clock)
  })
}

function bounded(
  adapter: Adapter,
  action: Action,
  call: Passage,
  limitMs: number,
  graceMs: number,
  clock: Clock,
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const work = new AbortController()
    let verdict: ActionError | undefined
    let isOver = false
    let came: (() => void) | undefined
    let open: Set<Promise<unknown>> | undefined
    let keeping: Set<Promise<unknown>> | undefined

    const stop = (why: ActionError) => {
      if (verdict !== undefined) return
      verdict = why
      work.abort(why)
      deadline.stop()
      grace = timer(clock, graceMs, () => end(came ?? (() => reject(why))))
    }
    /**
     * What it has led to and not waited for is told to stop as well, and has as long for that: what is done after its end is on no record. A checkpoint
     * has its time: what it sets apart after the end nobody would settle.
     */
    const ends = (settle: () => void) => {
      came = settle
      if (!open?.size && !keeping?.size) return end(settle)
      if (open?.size) stop(hasEnded(action.action_type))
      void Promise.allSettled([...(open ?? []), ...(keeping ?? [])]).then(() => end(settle))
    }
    const end = (settle: () => void) => {
      isOver = true
      forget()
      forgetShutdown?.()
      deadline.stop()
      grace?.()
      settle()
    }
    const deadline = pausable(clock, limitMs, () => stop(timedOut(action.action_type, limitMs)))
    let grace: (() => void) | undefined
    let isCallers = false
    const stopFor = (signal: AbortSignal) =>
      onAbort(signal, () => {
        if (verdict === undefined) isCallers = signal === call.signal
        stop(aborted(action.action_type, signal))
      })
    const forget = stopFor(call.signal)
    const forgetShutdown = call.shutdown && stopFor(call.shutdown)

    /** What a run that ends, or the action that led to it, has told to stop, and was done all the same, is for the run to take back: called aborted, it would be left. */
    const isDone = () => call.run !== undefined && isCallers

    /** What it had going beside is still there when it has ended: the next attempt may have come further by then. */
    const isHeard = () => verdict === undefined && !isOver

    const passage = onward(call, work, {
      onDelta: (delta, from) => {
        if (isHeard()) call.onDelta(delta, from)
      },
      checkpoint(state, spent) {
        if (!isHeard()) return undefined
        const kept = call.checkpoint(state, spent)
        if (!kept) return undefined
        keeping ??= new Set()
        keeping.add(kept)
        const over = () => void keeping!.delete(kept)
        // Heard here, since the work need not wait for it: a refusal ends the attempt, and not the process.
        kept.then(over, (error) => {
          over()
          if (came === undefined) stop(toActionError(error))
        })
        return kept
      },
      untimed: (wait) => call.untimed(deadline.without(wait)),
      leads(begin) {
        const led = came || isOver ? Promise.reject<never>(hasEnded(action.action_type)) : begin()
        open ??= new Set()
        open.add(led)
        const over = () => void open!.delete(led)
        led.then(over, over) // heard here, since nobody else may wait for it
        return led
      },
    })
    begun(adapter, action, passage).then(
      (outcome) => {
        const late = isDone() ? undefined : verdict
        ends(() => (late ? reject(withSpent(late, spentBy(outcome ?? {}))) : resolve(outcome)))
      },
      (error) => {
        const failure = verdict ? withSpent(verdict, toActionError(error).spent) : error
        ends(() => reject(failure))
      },
    )
  })
}

const hasEnded = (what: string): ActionError =>
  new ActionError('action_aborted', `${what} has ended, and leads to nothing more`)

/** An adapter may throw before it returns its promise. */
function begun(adapter: Adapter, action: Action, call: Passage): Promise<Outcome> {
  try {
    return Promise.resolve(adapter.execute(action, call))
  } catch (error) {
    return Promise.reject(error)
  }
}

/** A deadline that stands still during certain waits. */
function pausable(clock: Clock, limitMs: number, over: () => void) {
  let left = limitMs
  let since = clock.now()
  let waits = 0
  let ended = false
  let cancel = timer(clock, left, over)

  return {
    stop() {
      ended = true
      cancel()
    },
    async without<T>(wait: Promise<T>): Promise<T> {
      if (waits++ === 0) {
        cancel()
        left -= Math.max(0, clock.now() - since) // a clock that was set back gives no time
      }
      try {
        return await wait
      } finally {
        if (--waits === 0 && !ended) {
          since = clock.now()
          cancel = timer(clock, Math.max(left, 0), over)
        }
      }
    },
  }
}
