import type { FlowContract, FlowOptions, FlowResult } from './flow.ts'
import { FLOW_KEYS } from './flow-check.ts'
import { saBreaches } from './profiles/sa.ts'
import { type Profile, runFlow } from './run-flow.ts'

/**
 * Lets the modules make a context and a plan, runs the plan's steps, and gives back what became of it. A second call with the same runId goes on
 * where the first one was, whatever became of it, and repeats nothing that was completed; with another flow it is told that they differ. Never throws: a
 * failure is in `error`, with a code.
 */
export const runSingleAgentFlow = (options: FlowOptions): Promise<FlowResult> => runFlow(options, SINGLE_AGENT)

const SINGLE_AGENT: Profile<FlowContract> = {
  name: 'sa',
  order: ['context', 'role', 'core', 'extension', 'plan', 'confirm', 'trace'],
  flowKeys: FLOW_KEYS,
  breaches: saBreaches,
  runOptions: () => ({}),
}
