import type { Wait } from '../orchestrator/waits.ts'

/** The command by which somebody gives what a run waits for; `undefined` of what nobody has to give. */
export function remedyOf(
  plan: string,
  { decision, signal, child, isPaused, isSentBack, isHeldUp }: Wait,
): string | undefined {
  if (decision) return `${approving(decision.confirm_id, decision.roles)}, or reject`
  const whose = child?.plan_id ?? plan
  if (isPaused) return `mplp resume ${whose}`
  if (isSentBack) return askingAgain(whose)
  if (isHeldUp) return `mplp cancel ${whose} gives it up`
  return signal === undefined ? undefined : `mplp signal ${whose} ${quoted(signal)}`
}

/** What becomes of a plan that was sent back. */
export const askingAgain = (plan: string): string => `mplp propose ${plan} asks again, mplp cancel ${plan} gives it up`

/** The command by which somebody agrees, in a role that may: without one they would do so as `user`, and be refused. */
export const approving = (confirm: string, roles?: readonly string[]): string =>
  `mplp confirm approve ${confirm}${roles?.[0] === undefined ? '' : ` --role ${quoted(roles[0])}`}`

/** As a shell takes it for one word. */
export const quoted = (word: string): string => (/^[\w.:@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)
