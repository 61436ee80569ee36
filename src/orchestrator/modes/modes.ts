import type { CollabMode } from '../../protocol/types.ts'
import { broadcast } from './broadcast.ts'
import type { Mode } from './mode.ts'
import { orchestrated } from './orchestrated.ts'
import { pair } from './pair.ts'
import { roundRobin } from './round-robin.ts'
import { swarm } from './swarm.ts'

export const modes: { readonly [M in CollabMode]: Mode } = {
  broadcast,
  round_robin: roundRobin,
  orchestrated,
  swarm,
  pair,
}

/** Those in which a turn needs a token, because only one may write at a time. */
export const NEEDS_TOKEN: ReadonlySet<CollabMode> = new Set(['round_robin', 'orchestrated'])
