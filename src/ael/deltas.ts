import type { Call, DeltaSource } from './adapter.ts'
import type { Passage } from './decorate.ts'
import type { CallOptions } from './layer.ts'

/** Deltas are live and lossy: that a listener throws is no failure of the work. Each has its source by the time it comes here. */
export const listening =
  (onDelta: NonNullable<CallOptions['onDelta']>): Call['onDelta'] =>
  (delta, from) => {
    try {
      const hearing: unknown = onDelta(delta, from as DeltaSource)
      if (hearing instanceof Promise) hearing.catch(() => undefined) // or an async listener would end the process
    } catch {
      // lost, like what nobody listens to
    }
  }

/** Whose a delta is that its adapter gives without saying so. */
export const sourceOf = (action_id: string, { execution_id, run }: Passage): DeltaSource => ({
  action_id,
  execution_id,
  ...(run && { run }),
})
