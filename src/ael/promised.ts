/** Is it a promise where an answer is needed at once? What becomes of it is nobody's concern then, or a rejection would end the process. */
export function isPromised(said: unknown): boolean {
  if (!(said instanceof Promise)) return false
  said.catch(() => undefined)
  return true
}
