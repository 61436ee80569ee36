import { type Board, fits, longestIdle, type Mode, type ReadyStep, type Seat, turn } from './mode.ts'

/** The coordinator speaks before and after each worker: it briefs, the worker works, it reviews. What only the coordinator may do it does itself. */
export const orchestrated: Mode = (board) => {
  const { coordinator, open, ended, ready } = board
  if (open.length > 0) return []
  const last = ended.at(-1)
  if (last?.purpose === 'work' && !last.failed && last.participant_id !== coordinator.participant_id)
    return [turn(coordinator, last, 'review')]
  const [next] = ready
  if (!next) return []
  const briefed = last?.purpose === 'brief' ? ready.find((step) => step.step_id === last.step_id) : undefined
  const worker = workerFor(briefed ?? next, board)
  if (!worker) return [turn(coordinator, next)]
  return briefed ? [turn(worker, briefed)] : [turn(coordinator, next, 'brief')]
}

/** Of those who may do it, the one whose last turn is longest ago. */
function workerFor(step: ReadyStep, { seats, coordinator, ended }: Board): Seat | undefined {
  const workers = seats.filter((seat) => seat.participant_id !== coordinator.participant_id && fits(seat, step))
  return longestIdle(workers, ended)[0]
}
