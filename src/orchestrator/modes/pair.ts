import { firstFor, type Mode, turn } from './mode.ts'

/** Two: one drives, the other reviews what was done, then they swap. A step that only one of them may do is driven by that one. */
export const pair: Mode = ({ seats, open, ended, ready }) => {
  const [one, other] = seats
  if (!one || !other || open.length > 0) return []
  const last = ended.findLast((turn) => turn.purpose === 'work')
  const partner = last?.participant_id === one.participant_id ? other : one
  if (last && !last.failed && ended.at(-1) === last) return [turn(partner, last, 'review')]
  for (const driver of [partner, partner === one ? other : one]) {
    const step = firstFor(driver, ready.slice(0, 1))
    if (step) return [turn(driver, step)]
  }
  return []
}
