import type { Clock } from '../protocol/clock.ts'
import { eitherOf } from '../protocol/on-abort.ts'
import { FlowFailure } from './flow.ts'
import { isAway } from './patiently.ts'

/** How long a call of a flow puts up with a store that fails or keeps silent. */
export interface Patience {
  /** Aborted when that was too long; its reason is the flow's failure. From then on nobody asks the store or waits for it. */
  readonly over: AbortSignal
  /** Asks the store. `what` tells questions apart: one that goes on failing is not made good by another that is answered. */
  ask<T>(what: string, question: () => Promise<T> | T): Promise<T>
  /** Throws the flow's failure when patience is over first; by itself it may take as long as it likes. */
  unlessOver<T>(work: Promise<T>): Promise<T>
  /** Everything is to be begun again because a question failed: too often for too long, patience is over, whatever else was answered between. */
  failed(error: Error): void
  end(): void
}

export interface PatienceOptions {
  readonly clock: Clock
  readonly runId: string
  /** 60 s when absent. */
  readonly patienceMs?: number
  /** Whoever has cancelled waits for an answer: from then on there is patience for 5 s at most. */
  readonly signal?: AbortSignal
}

/** Counted in beats: a clock that is set, or a machine that slept, neither ends patience nor prolongs it. */
interface Asked {
  readonly beat: number
  readonly at: number
}

const PATIENCE_MS = 60_000
const CANCELLED_MS = 5_000
const BEATS = 20
/** Whoever asks again does so sooner. */
const ASKED_AGAIN_MS = 5_000
const NEVER: Asked = { beat: Number.POSITIVE_INFINITY, at: Number.POSITIVE_INFINITY }

export function patience({ clock, runId, patienceMs = PATIENCE_MS, signal }: PatienceOptions): Patience {
  const over = new AbortController()
  const ended = new AbortController()
  const waiting = new Map<(reason: unknown) => void, Asked>()
  /** Since when a question has failed each time it was asked, and when it last was. */
  const failing = new Map<string, { readonly first: Asked; readonly last: number }>()
  const forgotten = Math.max(BEATS, (ASKED_AGAIN_MS / patienceMs) * BEATS)
  let beat = 0

  const isTooLong = (asked: Asked) => beat - asked.beat >= BEATS
  const cancelled = eitherOf(ended.signal, signal)
  const rest = () =>
    signal?.aborted
      ? clock.sleep(Math.min(patienceMs, CANCELLED_MS) / BEATS, ended.signal)
      : clock.sleep(patienceMs / BEATS, cancelled.signal)

  async function count(): Promise<void> {
    while (!ended.signal.aborted) {
      await rest().catch(() => undefined) // ended: the loop's condition says so
      beat++
      for (const asked of waiting.values()) if (isTooLong(asked)) return giveUp(asked)
    }
  }

  function giveUp({ at }: Asked, cause?: Error): void {
    const untold = signal?.aborted ? ', and may not know that the run is cancelled' : ''
    const since = `since ${new Date(at).toISOString()}${cause ? `: ${cause.message}` : ''}${untold}`
    const remedy = `see to it, then call again with runId ${runId}, and the run goes on from what is stored`
    over.abort(new FlowFailure('RUNTIME_EXCEPTION', `the store has not answered ${since}; ${remedy}`, {}, { cause }))
    for (const reject of waiting.keys()) reject(over.signal.reason)
  }

  function failedAgain(what: string, asked: Asked, error: Error): void {
    const before = failing.get(what)
    const first = before && asked.beat - before.last <= forgotten ? before.first : asked
    failing.set(what, { first, last: beat })
    if (isTooLong(first)) giveUp(first, error)
  }

  const settled = <T>(work: Promise<T> | T, asked: Asked): Promise<T> =>
    new Promise((resolve, reject) => {
      waiting.set(reject, asked)
      Promise.resolve(work)
        .then(resolve, reject)
        .finally(() => waiting.delete(reject))
      if (over.signal.aborted) reject(over.signal.reason)
    })

  void count()
  return {
    over: over.signal,
    async ask(what, question) {
      over.signal.throwIfAborted()
      const asked = { beat, at: clock.now() }
      try {
        const answer = await settled(question(), asked)
        failing.delete(what)
        return answer
      } catch (error) {
        if (isAway(error)) failedAgain(what, asked, error)
        else failing.delete(what) // a refusal is an answer
        throw error
      }
    },
    unlessOver: (work) => settled(work, NEVER),
    failed: (error) => failedAgain('everything', { beat, at: clock.now() }, error),
    end() {
      ended.abort()
      cancelled.unlink()
    },
  }
}
