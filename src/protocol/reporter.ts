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

export const warn: Report = (error) => process.emitWarning(error instanceof Error ? error : String(error))
