import type { ErrorCode } from './errors.ts'

/** Why a run, or one of its actions, did not succeed: the code of what was thrown, or one of these. */
export type RunErrorCode =
  | ErrorCode
  | 'step_failed'
  | 'interrupted'
  | 'cancelled'
  | 'deadline'
  | 'approval_expired'
  | 'session_ended'
  | 'step_unbound'
  | 'runtime_exception'

/** `step_id` where a single step was the reason that its run did not succeed. */
export type RunError = { readonly code: RunErrorCode; readonly message: string; readonly step_id?: string }
