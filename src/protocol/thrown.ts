/** What was thrown, as text: anything may be, and what has no text of its own must not throw once more where it is told. */
export function inWords(thrown: unknown): string {
  try {
    return String(thrown)
  } catch {
    return Object.prototype.toString.call(thrown)
  }
}

/** The message of an error; anything else as text. */
export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : inWords(thrown))
