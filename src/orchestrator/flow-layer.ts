import { actionLayer } from '../ael/ael.ts'
import { fromLayer } from '../ael/from-layer.ts'
import type { ActionLayer, Hands } from '../ael/layer.ts'
import { isPromised, PROMISED } from '../ael/promised.ts'
import type { Clock } from '../protocol/clock.ts'
import { InvalidInput, NotFound } from '../protocol/errors.ts'
import { problem } from '../protocol/problem.ts'
import type { Resolver } from './bind.ts'
import type { FlowOptions } from './flow.ts'
import { InMemoryAEL } from './in-memory.ts'
import { madeLayer } from './runtime-check.ts'

/** How a flow's steps reach the world. */
export interface FlowLayer {
  /** The caller's layer, or one made for this call. */
  make(hands: Hands): ActionLayer
  /** A step that no binding names is one action, where the layer can do such actions. */
  readonly resolve: Resolver
  /** Closes what was made for this call. */
  close(): Promise<void>
}

export function flowLayer({ ael }: FlowOptions, clock: Clock): FlowLayer {
  let layer: ActionLayer | undefined
  return {
    make(hands) {
      if (ael && 'attempt' in ael) layer = ael
      else if (typeof ael === 'function') layer = checked(ael(hands))
      else layer = actionLayer({ ...hands, adapters: [fromLayer('*', ael ?? new InMemoryAEL(), 'agent')], clock })
      return layer
    },
    resolve({ step_id, description, agent_role }) {
      const params = { step_id, description, ...(agent_role !== undefined && { agent_role }) }
      const spec = { action_type: 'step_execution', executor_kind: 'agent', params } as const
      try {
        layer?.readOnly({ ...spec, action_id: step_id, idempotency_key: step_id })
        return spec
      } catch (error) {
        if (error instanceof NotFound) return undefined // submitting names the step
        throw error
      }
    },
    close: async () => (layer === ael ? undefined : layer?.close()),
  }
}

/** What the caller's function gave, by the name that he knows it under. */
function checked(made: ActionLayer): ActionLayer {
  if (isPromised(made)) throw new InvalidInput('flow', [{ ...PROMISED, path: 'ael' }])
  if (madeLayer.fits(made)) return made
  throw new InvalidInput('flow', [problem('ael', 'type', `must give ${madeLayer.says}`, made)])
}
