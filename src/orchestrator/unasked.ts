import { denied } from '../ael/failure.ts'
import { type ActionError, ApprovalNeeded } from '../protocol/errors.ts'

/** Nobody is asked on the way back: an inverse that needs approval would be told to wait for an answer that nobody can give. */
export const unasked = (error: ActionError): ActionError =>
  error instanceof ApprovalNeeded
    ? denied(
        `${error.question.tool} needs approval, and nobody is asked on the way back: name an inverse that needs none`,
      )
    : error
