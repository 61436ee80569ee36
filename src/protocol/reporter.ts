import { inWords } from './thrown.ts'

/** Where errors go that are nobody's to catch. */
export type Report = (error: unknown) => void

/** Reports to the owner; an owner that throws, or is not there, is told to the process instead, because nobody else would listen. */
export const reporter =
  (onError: Report | undefined): Report =>
  (error) => {
    if (!onError) return warn(error)
    try {
      onError(error)
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
