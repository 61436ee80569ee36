import { inWords } from './thrown.ts'

/** Where errors go that are nobody's to catch. */
export type Report = (error: unknown) => void

/** Reports to the owner; what an owner throws, at once or later, and what has none, is told to the process, because nobody else would listen. */
export const reporter =
  (onError: Report = warn): Report =>
  (error) => {
    try {
      Promise.resolve(onError(error) as unknown).catch(warn) // it may be async, and its rejection would end the process
    } catch (second) {
      warn(second)
    }
  }

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

export const warn: Report = (error) => process.emitWarning(error instanceof Error ? error : inWords(error))
