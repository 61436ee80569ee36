import { kindOfFamily as kindOf, stageStatus as stageOf } from './events.ts'
import { FAMILIES } from './families.ts'
import { anything, flag, guarded, needed, oneOf } from './fields.ts'
import { mayMove, moveRule as ruleOf } from './lifecycle.ts'

// For callers whom nobody has checked. Inside, where every status change asks them, these functions are called as they are.

/** The schema an observability event of this family has to fit. */
export const kindOfFamily = guarded('event family', { family: needed(oneOf(...FAMILIES)) }, kindOf)

/**
 * How a pipeline_stage event names a status of a plan or step: the protocol has fewer words there. What was cancelled
 * is failed if it had started, and skipped if it had not; the true status belongs into the payload.
 */
export const stageStatus = guarded('status', { status: anything, started: flag }, stageOf)

/** The id of one arrow, as it stands in a refusal: `lifecycle.plan.draft->proposed`. */
export const moveRule: typeof ruleOf = (kind, from, to) => {
  mayMove(kind, from, to) // throws for a kind or a status that is none
  return ruleOf(kind, from, to)
}
