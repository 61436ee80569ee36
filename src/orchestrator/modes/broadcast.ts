import { fits, type Mode, type NextTurn, type ReadyStep, type Seat, turn } from './mode.ts'

/**
 * Everything that could start goes out at once, to everybody whose role fits, and nothing more until all have answered. Where there are fewer steps
 * than participants for them, several answer the same step; where there are more, each answers several.
 */
export const broadcast: Mode = ({ seats, open, ready }) => {
  if (open.length > 0) return []
  const turns: NextTurn[] = []
  for (const { steps, receivers } of byReceivers(ready, seats))
    for (let i = 0; i < Math.max(steps.length, receivers.length); i++)
      turns.push(turn(receivers[i % receivers.length]!, steps[i % steps.length]!))
  return turns
}

/** Steps that the same participants may do, together. */
function byReceivers(ready: readonly ReadyStep[], seats: readonly Seat[]) {
  const groups = new Map<string, { steps: ReadyStep[]; receivers: readonly Seat[] }>()
  for (const step of ready) {
    const receivers = seats.filter((seat) => fits(seat, step))
    if (receivers.length === 0) continue
    const key = receivers.map((seat) => seat.participant_id).join('\n')
    const group = groups.get(key)
    if (group) group.steps.push(step)
    else groups.set(key, { steps: [step], receivers })
  }
  return groups.values()
}
