import type { Entry } from '../../../src/vsl/backend.ts'
import { wakeable } from '../../../src/vsl/wakeable.ts'

/** Somebody who follows in the background. */
export interface Follower {
  readonly entries: readonly Entry[]
  /** Settles when it has come to its end. */
  readonly ended: Promise<void>
  /** Waits until it has seen so many; rejects if it ends before. */
  has(count: number): Promise<void>
  /** Aborts it and waits for its end. */
  stop(): Promise<void>
}

export function follow(open: (signal: AbortSignal) => AsyncIterable<Entry>): Follower {
  const entries: Entry[] = []
  const abort = new AbortController()
  const news = wakeable()
  const ended = (async () => {
    for await (const entry of open(abort.signal)) {
      entries.push(entry)
      news.wake()
    }
  })()
  return {
    entries,
    ended,
    async has(count) {
      const over = ended.then(() => 'over')
      while (entries.length < count) {
        if ((await Promise.race([over, news.wait()])) === 'over' && entries.length < count)
          throw new Error(`the follower ended after ${entries.length} of ${count}`)
      }
    },
    async stop() {
      abort.abort()
      await ended
    },
  }
}
