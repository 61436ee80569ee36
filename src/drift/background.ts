import type { Clock } from '../protocol/clock.ts'
import { MplpError } from '../protocol/errors.ts'
import { slept } from '../protocol/waiting.ts'

/** Work that nobody waits for, and nobody asks for a second time: when the store is away, it is done once that is back. */
export interface Background {
  begin(task: () => Promise<unknown>): void
  /** Is anything under way that does not wait for the store? */
  readonly isBusy: boolean
  /** Resolves when what is under way has been tried once. */
  tried(): Promise<void>
  /** Resolves when nothing is left; after the signal, nothing waits for the store any more. */
  ended(): Promise<void>
}

export interface Backing {
  /** What is not done by then is for the next start. */
  readonly signal: AbortSignal
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

export function background({ signal, clock, onError }: Backing): Background {
  const underWay = new Set<Promise<void>>()
  const postponed = new Set<Promise<void>>()
  const among = (tasks: Set<Promise<void>>, done: Promise<void>): void => {
    const ended = done.finally(() => tasks.delete(ended))
    tasks.add(ended)
  }
  const untilDone = async (task: () => Promise<unknown>): Promise<void> => {
    for (let failures = 0; ; failures++) {
      if (!(await slept(clock, Math.min(100 * 2 ** failures, 10_000), signal))) return
      try {
        await task()
        return
      } catch (error) {
        if (!isPassing(error)) return onError(error)
      }
    }
  }
  const all = async (tasks: Iterable<Promise<void>>) => void (await Promise.all(tasks))

  return {
    begin(task) {
      const failed = (error: unknown) => {
        onError(error)
        if (isPassing(error)) among(postponed, untilDone(task))
      }
      const tried = task().then(() => undefined, failed)
      among(underWay, tried)
    },
    get isBusy() {
      return underWay.size > 0
    },
    tried: () => all(underWay),
    async ended() {
      await all(underWay)
      await all(postponed)
    },
  }
}

/** Would the same have a chance later? */
const isPassing = (error: unknown): boolean => error instanceof MplpError && error.retryable
