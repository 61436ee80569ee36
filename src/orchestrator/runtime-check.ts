import type { ActionLayer } from '../ael/layer.ts'
import {
  amount,
  clock,
  type Field,
  type Fields,
  having,
  method,
  needed,
  positive,
  refuseUnlessFit,
} from '../protocol/fields.ts'
import { store } from '../vsl/check-options.ts'
import type { RuntimeOptions } from './runtime.ts'

/** Throws InvalidInput for what no runtime can be made of. */
export const checkRuntimeOptions = (options: unknown): void => refuseUnlessFit('runtime', options, OPTIONS)

/** What a function gave as a layer. Throws InvalidInput. */
export function checkedLayer(made: ActionLayer): ActionLayer {
  refuseUnlessFit('runtime', { layer: made }, { layer: needed(madeLayer) })
  return made
}

const wait: Field = { says: 'a number of at least 0', fits: (value) => typeof value === 'number' && value >= 0 }
export const madeLayer = having(
  'an action layer, as actionLayer makes them',
  'attempt',
  'executorOf',
  'lacks',
  'unread',
  'unfit',
  'label',
)

const OPTIONS: { readonly [O in keyof Required<RuntimeOptions>]: Field } & Fields = {
  store: needed(store),
  layer: needed({
    says: `${madeLayer.says}, or a function that makes one`,
    fits: (value) => method.fits(value) || madeLayer.fits(value),
  }),
  clock,
  resolve: method,
  leaseTtlMs: positive,
  keepEndedMs: amount,
  patrolMs: wait,
  quietMs: wait,
  drainMs: wait,
  onCommit: method,
  onError: method,
  onAway: method,
  mine: having('a set of plans', 'has', 'values'),
  switched: having('a set', 'has'),
}
