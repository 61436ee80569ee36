import { telling } from '../protocol/reporter.ts'
import type { Call, DeltaSource } from './adapter.ts'
import type { Passage } from './decorate.ts'
import type { CallOptions } from './layer.ts'

/** Deltas are live and lossy: what a listener throws is lost, like what nobody listens to. Each has its source by the time it comes here. */
export const listening = (onDelta: NonNullable<CallOptions['onDelta']>): Call['onDelta'] =>
  telling(onDelta as Call['onDelta'], () => undefined)

/** Whose a delta is that its adapter gives without saying so. */
export const sourceOf = (action_id: string, { execution_id, run }: Passage): DeltaSource => ({
  action_id,
  execution_id,
  ...(run && { run }),
})
