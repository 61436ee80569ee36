import type { FlowContract, FlowOptions, FlowResult } from './flow.ts'
import { FlowFailure } from './flow.ts'
import { FLOW_KEYS } from './flow-check.ts'
import { mapBreaches } from './profiles/map.ts'
import { saBreaches } from './profiles/sa.ts'
import { type Profile, runFlow } from './run-flow.ts'
import type { SessionAsked } from './session.ts'

/** A flow whose steps are turns of a session: what the Collab does not say of it. */
export interface MultiAgentFlow extends FlowContract {
  readonly session?: Omit<SessionAsked, 'collab_id'>
}

/**
 * Lets the modules make a context, roles, a plan and a Collab, and runs the plan's steps as turns of that session: the Collab's mode decides whose turn
 * it is, and the steps run by the same tick as everything else. In all other things like `runSingleAgentFlow`.
 */
export const runMultiAgentFlow = (options: FlowOptions<MultiAgentFlow>): Promise<FlowResult> =>
  runFlow(options, MULTI_AGENT)

const MULTI_AGENT: Profile<MultiAgentFlow> = {
  name: 'map',
  order: ['context', 'role', 'core', 'network', 'extension', 'dialog', 'collab', 'plan', 'confirm', 'trace'],
  flowKeys: [...FLOW_KEYS, 'session'],
  breaches: ({ collab, ...others }) => [...saBreaches(others), ...(collab ? mapBreaches({ collab }) : [])],
  runOptions({ collab }, { session }) {
    if (!collab)
      throw new FlowFailure('INVALID_OUTPUT', 'no module gave a Collab: a flow of several agents needs a session', {
        problems: [{ path: 'collab', rule: 'required', message: 'is missing' }],
      })
    return { session: { ...session, collab_id: collab.collab_id as string } }
  },
}
