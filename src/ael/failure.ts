import { ActionError, type ActionErrorOptions, ApprovalNeeded, MplpError } from '../protocol/errors.ts'
import { given } from '../protocol/given.ts'
import { onAbort } from '../protocol/on-abort.ts'
import { ownMessage } from '../protocol/thrown.ts'

/** Another attempt would fail the same way. */
export const finalFailure = (message: string, options: ActionErrorOptions = {}): ActionError =>
  new ActionError('action_failed', message, { ...options, retryable: false })

/** The same, where an error of ours says why. */
export const finalFrom = (cause: MplpError): ActionError => finalFailure(cause.message, { cause })

/** Another attempt has a chance. */
export const passingFailure = (message: string, options: ActionErrorOptions = {}): ActionError =>
  new ActionError('action_failed', message, { ...options, retryable: true })

export const denied = (message: string): ActionError => new ActionError('action_denied', message)
export const overBudget = (message: string): ActionError => new ActionError('budget_exceeded', message)

export const timedOut = (what: string, ms: number): ActionError =>
  new ActionError('action_timed_out', `${what} ${within(ms)}`)
/** Did an action take all the time that it was given, and not something that it asked or waited for? Told by what of an error is stored. */
export const tookAll = (
  ms: number,
  { code, message }: { readonly code?: unknown; readonly message?: unknown },
): boolean => code === 'action_timed_out' && String(message).endsWith(` ${within(ms)}`)
const within = (ms: number): string => `did not end within ${ms} ms`

export const aborted = (what: string, signal: AbortSignal): ActionError =>
  signal.reason instanceof ActionError && signal.reason.code !== 'action_failed'
    ? signal.reason
    : new ActionError('action_aborted', `${what} was aborted`)

/** Whatever was thrown, as an ActionError. What nobody knows may pass: who asks for another attempt gets it. */
export function toActionError(thrown: unknown): ActionError {
  if (thrown instanceof ActionError) return thrown
  const message = thrown instanceof Error ? saidBy(thrown) : saidWithoutClass(thrown)
  const retryable = thrown instanceof MplpError ? thrown.retryable : true
  return new ActionError('action_failed', message, { retryable, cause: thrown })
}

/** Its message; where that is empty, as when several addresses of a host refused, or is no text at all, what else it is known by. */
export function saidBy(error: Error): string {
  const { code, message, name } = error as NodeJS.ErrnoException
  return String([message, code, name].find((said) => typeof said === 'string' && said !== ''))
}

/** What was thrown and is no Error of this realm. */
export const saidWithoutClass = (thrown: unknown): string =>
  ownMessage(thrown) || `threw ${typeof thrown === 'string' ? thrown : typeof thrown}`

/** The same error, with what was used up on the way to it. */
export const withSpent = (error: ActionError, spent: ActionError['spent']): ActionError =>
  spent === undefined ? error : remade(error, { spent })

/** The same error, with no more of its message than a journal can keep several times over: tools may say as much as they like. */
export function brief(error: ActionError): ActionError {
  const { message } = error
  if (message.length <= MOST_SAID || error instanceof ApprovalNeeded) return error
  return remade(error, { cause: error }, `${message.slice(0, MOST_SAID)}… (${message.length} characters)`)
}
const MOST_SAID = 65_536

/** A copy of the same class with everything that the error says, but for what is given. A question says itself. */
function remade(error: ActionError, changed: ActionErrorOptions, message = error.message): ActionError {
  const options = { ...optionsOf(error), ...given({ cause: error.cause }), ...changed }
  return error instanceof ApprovalNeeded
    ? new ApprovalNeeded(error.question, options)
    : new ActionError(error.code, message, options)
}

/** What the error says beside its message and its cause. */
export const optionsOf = ({ retryable, retryAfterMs, spent, resume }: ActionError): ActionErrorOptions => ({
  retryable,
  ...given({ retryAfterMs, spent, resume }),
})

/** The promise, unless the signal is aborted first; what the promise does later is nobody's concern. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal, what: string): Promise<T> {
  if (signal.aborted) {
    promise.catch(() => undefined)
    return Promise.reject(aborted(what, signal))
  }
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(aborted(what, signal)))
    promise.then(resolve, reject).finally(forget)
  })
}
