import type { ActionLayer } from '../ael/layer.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { type Field, type Fields, having, method, needed, problemsIn } from '../protocol/fields.ts'
import type { RuntimeOptions } from './runtime.ts'

/** Throws InvalidInput for what no runtime can be made of. */
export const checkRuntimeOptions = (options: unknown): void => refuseIf(problemsIn(options, OPTIONS, ''))

/** What a function gave as a layer. Throws InvalidInput. */
export function checkedLayer(made: ActionLayer): ActionLayer {
  refuseIf(problemsIn({ layer: made }, { layer: needed(madeLayer) }, ''))
  return made
}

const wait: Field = { says: 'a number of at least 0', fits: (value) => typeof value === 'number' && value >= 0 }
const madeLayer = having('an action layer, as actionLayer makes them', 'attempt')

const OPTIONS: { readonly [O in keyof Required<RuntimeOptions>]: Field } & Fields = {
  store: needed(having('a store, as openStore makes them', 'commit', 'getMany', 'acquire')),
  layer: needed({
    says: `${madeLayer.says}, or a function that makes one`,
    fits: (value) => method.fits(value) || madeLayer.fits(value),
  }),
  clock: having('a clock', 'now', 'uuid', 'random', 'sleep'),
  resolve: method,
  leaseTtlMs: { says: 'a number above 0', fits: (value) => typeof value === 'number' && value > 0 },
  patrolMs: wait,
  quietMs: wait,
  drainMs: wait,
  onCommit: method,
  onError: method,
  mine: method,
  switched: having('a set', 'has'),
}

function refuseIf(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new InvalidInput('runtime', problems)
}
