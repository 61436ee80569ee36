import { inWords } from './thrown.ts'

/** Where errors go that are nobody's to catch. */
export type Report = (error: unknown) => void

/** Tells a listener; what it throws, at once or later, is reported: it fails nobody who tells it, and ends no process. */
export const telling =
  <News extends readonly unknown[]>(listener: (...news: News) => unknown, report: Report) =>
  (...news: News): void => {
    try {
      const hearing = listener(...news)
      if (hearing !== undefined) Promise.resolve(hearing).catch(report) // it may be async, whatever its type says
    } catch (error) {
      report(error)
    }
  }

/** Reports to the owner; what an owner throws, and what has none, is told to the process, because nobody else would listen. */
export const reporter = (onError: Report = warn): Report => telling(onError, warn)

/** How long what is still so is not said again. */
export const TOLD_AGAIN_MS = 60_000

/** Reports what is said again and again only once for so long: rounds that meet the same trouble every second have one thing to say. */
export function sparing(report: Report, forMs: number, clock: { now(): number }): Report {
  const told = new Map<string, number>()
  return (error) => {
    const now = clock.now()
    for (const [text, at] of told) if (at + forMs <= now || at > now) told.delete(text) // also when the clock was set back
    const text = inWords(error)
    if (told.has(text)) return
    told.set(text, now)
    report(error)
  }
}

export function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : inWords(error))
}
