import { denied, toActionError } from '../ael/failure.ts'
import { ActionError, ApprovalNeeded, MplpError } from '../protocol/errors.ts'

/** Why an attempt failed, whatever was thrown: thrown on it would reach nobody, and who waits for its end would wait for ever. */
export const failureOf = (error: unknown): ActionError =>
  error instanceof MplpError && !(error instanceof ActionError)
    ? new ActionError('action_failed', `${error.code}: ${error.message}`, { cause: error })
    : toActionError(error)

/** Nobody is asked on the way back: an inverse that needs approval would be told to wait for an answer that nobody can give. */
export const unasked = (error: ActionError): ActionError =>
  error instanceof ApprovalNeeded
    ? denied(
        `${error.question.tool} needs approval, and nobody is asked on the way back: name an inverse that needs none`,
      )
    : error
