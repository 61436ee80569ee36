import { firstFor, type Mode, turn } from './mode.ts'

/** One at a time, in strict cyclic order. Who has nothing to do when its turn comes is passed over. */
export const roundRobin: Mode = ({ seats, open, ended, ready }) => {
  if (open.length > 0) return []
  const last = seats.findIndex((seat) => seat.participant_id === ended.at(-1)?.participant_id)
  for (let i = 1; i <= seats.length; i++) {
    const seat = seats[(last + i) % seats.length]!
    const step = firstFor(seat, ready)
    if (step) return [turn(seat, step)]
  }
  return []
}
