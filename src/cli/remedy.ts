import type { Wait } from '../orchestrator/waits.ts'
import { approving, quoted } from './approving.ts'

/** The command by which somebody gives what a run waits for; `undefined` of what nobody has to give. */
export function remedyOf(plan: string, { decision, signal }: Wait): string | undefined {
  if (decision) return `${approving(decision.confirm_id, decision.roles)}, or reject`
  return signal === undefined ? undefined : `mplp signal ${plan} ${quoted(signal)}`
}
