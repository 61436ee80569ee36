import type { Action, ActionResult, Inverse } from '../ael/adapter.ts'
import { brief, toActionError } from '../ael/failure.ts'
import type { ActionLayer } from '../ael/layer.ts'
import type { WayBack } from './live.ts'

/** What the adapter says takes an action back. Nothing for what changed nothing. */
export function adaptersWayBack(
  layer: ActionLayer,
  action: Action,
  { output }: Pick<ActionResult, 'output'>,
): WayBack | undefined {
  try {
    const inverse: Inverse = layer.inverse(action, output === undefined ? {} : { output })
    if (inverse === 'none_needed') return undefined
    if (inverse === 'irreversible') return action.action_type === 'function' ? undefined : { inverse }
    const { action_type, executor_kind, params } = inverse
    return { inverse: { action_type, executor_kind, params: JSON.parse(JSON.stringify(params)) } } // a copy that is JSON, as of an output
  } catch (error) {
    return unknownBack(error)
  }
}

/** It was done all the same: a second attempt would do it twice. Who goes back is told that this stays. */
export const unknownBack = (error: unknown): WayBack => ({
  inverse: 'irreversible',
  no_inverse: `nobody can say what takes it back: ${brief(toActionError(error)).message}`,
})
