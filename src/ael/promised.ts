import type { Problem } from '../protocol/errors.ts'

/** Whatever can be awaited: an adapter may have promises of another library, or realm. */
export const isThenable = (said: unknown): said is PromiseLike<unknown> =>
  typeof (said as { readonly then?: unknown } | null | undefined)?.then === 'function'

/** Is it a promise where an answer is needed at once? What becomes of it is nobody's concern then, or a rejection would end the process. */
export function isPromised(said: unknown): boolean {
  if (!isThenable(said)) return false
  said.then(undefined, () => undefined)
  return true
}

export const PROMISED: Problem = { path: '', rule: 'type', message: 'must be said at once, and is a promise' }
