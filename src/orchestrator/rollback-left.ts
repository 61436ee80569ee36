import type { Left, RollbackPlan } from '../drift/rollback.ts'
import type { TakenBack } from '../drift/take-back.ts'
import type { EffectOutcome } from './rollback-effect.ts'

/** What the plan itself says will not be as it was. */
export const leftBy = ({
  conflicts,
  impossible,
  irreversible,
}: Pick<RollbackPlan, 'conflicts' | 'impossible' | 'irreversible'>): readonly Left[] => [
  ...conflicts,
  ...impossible,
  ...irreversible.map(({ action_id, reason = 'it cannot be undone' }) => ({
    what: 'effect' as const,
    name: action_id,
    reason,
  })),
]

/** What was tried in vain. */
export const failed = (effects: readonly EffectOutcome[], files: readonly TakenBack[]): readonly Left[] => [
  ...effects
    .filter(({ status }) => status === 'failed')
    .map(({ action_id, error }) => ({ what: 'effect' as const, name: action_id, reason: String(error?.message) })),
  ...files
    .filter(({ result }) => result !== 'done')
    .map(({ path, result }) => ({
      what: 'file' as const,
      name: path,
      reason: typeof result === 'string' ? result : result.error,
    })),
]

/** Others stood in its way when this one was planned, and do no longer. */
export const untried = (possible: RollbackPlan['effects'], effects: readonly EffectOutcome[]): readonly Left[] => {
  const tried = new Set(effects.map(({ action_id }) => action_id))
  return possible
    .filter(({ action_id }) => !tried.has(action_id))
    .map(({ action_id }) => ({
      what: 'effect',
      name: action_id,
      reason: 'it can be taken back only since: call again',
    }))
}
