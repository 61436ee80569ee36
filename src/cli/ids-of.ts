import type { RunHandle } from '../orchestrator/run.ts'

/** By what a program finds a run again. */
export const idsOf = ({ run_id, plan_id, context_id }: RunHandle) => ({ run_id, plan_id, context_id })
