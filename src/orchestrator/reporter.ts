/** A caller's `onError`, if there is one, that hurts nobody when it throws: then that is a warning of the process. */
export const reporter =
  (onError: ((error: unknown) => void) | undefined) =>
  (error: unknown): void => {
    try {
      onError?.(error)
    } catch (own) {
      process.emitWarning(own instanceof Error ? own : String(own))
    }
  }
