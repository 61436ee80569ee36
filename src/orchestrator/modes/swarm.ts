import { fits, longestIdle, type Mode, type NextTurn, turn } from './mode.ts'

/** Whoever is idle claims the first step that it may do, and nobody waits for anybody. Those who have been idle longest choose first. */
export const swarm: Mode = ({ seats, open, ended, ready }) => {
  const busy = new Set(open.map((turn) => turn.participant_id))
  const idle = seats.filter((seat) => !busy.has(seat.participant_id))
  const left = [...ready]
  const claims: NextTurn[] = []
  for (const seat of longestIdle(idle, ended)) {
    const at = left.findIndex((step) => fits(seat, step))
    if (at >= 0) claims.push(turn(seat, left.splice(at, 1)[0]!))
  }
  return claims
}
