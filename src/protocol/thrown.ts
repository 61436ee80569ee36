/** What was thrown, as text: anything may be, and what has no text of its own must not throw once more where it is told. */
export function inWords(thrown: unknown): string {
  try {
    return String(thrown)
  } catch {
    return Object.prototype.toString.call(thrown)
  }
}

/** The message of an error, also where it is one of another realm or no Error, as clients of services throw; anything else as text. */
export const messageOf = (thrown: unknown): string => ownMessage(thrown) ?? inWords(thrown)

export function ownMessage(thrown: unknown): string | undefined {
  if (thrown instanceof Error) return thrown.message
  try {
    const { message } = Object(thrown)
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}
